"""Reading the CSV tables of a study."""

import csv
from pathlib import Path


def read_rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))
