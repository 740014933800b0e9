"""Files of roles that are not complete."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.roles.statistics.base import Column
from headwise.roles.table import HeadRoles, LanguageRoles


@pytest.fixture
def path(tmp_path: Path) -> Path:
    arrays = np.array([[0.5], [0.25]]), np.array([[0.05], [0.1]]), np.array([[400], [300]])
    one = LanguageRoles(("encoder.0.0", "encoder.0.1"), (Column("previous"),), *arrays, 100, 0, 100.0)
    HeadRoles({"de": one}, {"model": "tiny"}).save(tmp_path / "roles.json")
    return tmp_path / "roles.json"


def test_roles_come_back_as_they_were(path: Path) -> None:
    found = HeadRoles.load(path)
    assert [(row["head"], row["value"], row["count"]) for row in found.rows()] == [
        ("encoder.0.0", 0.5, 400),
        ("encoder.0.1", 0.25, 300),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"languages": None},
        {"languages": {"de": 3}},
        {"heads": 7},
        {"heads": [[], []]},
        {"about": []},
        {"value": []},
        {"value": [[0.5]]},
        {"value": [["x"], [1]]},
        {"count": [[None], [1]]},
        {"columns": [["previous"]]},
        {"columns": [[3, False, None]]},
        {"units": "many"},
        {"examples": None},
    ],
    ids=str,
)
def test_an_incomplete_file_is_named(path: Path, change: dict[str, Any]) -> None:
    data = json.loads(path.read_text())
    inside = data["languages"]["de"]
    (inside if change.keys() <= inside.keys() else data).update(change)
    path.write_text(json.dumps(data))
    with pytest.raises(HeadwiseError, match=r"roles\.json: not a complete table of roles"):
        HeadRoles.load(path)
