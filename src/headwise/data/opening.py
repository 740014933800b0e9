"""Any data set by one word: the phrasebook, a folder, or a set on the hub."""

from pathlib import Path
from typing import Literal, cast

from headwise.data.dataset import Dataset
from headwise.data.folders import open_folder
from headwise.data.hub import open_hub
from headwise.data.phrasebook import open_phrasebook
from headwise.errors import HeadwiseError

PHRASEBOOK = "phrasebook"


def open_dataset(name: str, task: str) -> Dataset:
    """Open a data set.

    Args:
        name: `phrasebook`, which every machine has; the path of a folder; `hub:NAME` for a declared set on the hub, or
            the path of a YAML file that declares one.
        task: The task whose examples are wanted.

    Raises:
        HeadwiseError: There is no such set, or it has nothing for the task.
    """
    if name == PHRASEBOOK:
        return open_phrasebook(cast(Literal["pos", "ner"], task))
    if name.startswith("hub:") or name.endswith((".yaml", ".yml")):
        return open_hub(name, task)
    if not Path(name).is_dir():
        raise HeadwiseError(f"{name}: no such folder: --data takes a folder, '{PHRASEBOOK}', 'hub:NAME' or a YAML file")
    return open_folder(name, task)
