"""`headwise.roles`: names or objects, run folders, resuming, and mistakes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwise
from headwise import HeadwiseError, open_dataset, open_treebank
from headwise.roles import HeadRoles, measure
from headwise.roles import roles as measure_roles
from headwise.roles.run import roles
from tests.families import BY_NAME
from tests.roles.worlds import bert, e5_tokenizer, word_tokenizer


def small(**options: Any) -> HeadRoles:
    given = {"languages": "de,zh", "limit": 12, "progress": False, **options}
    return roles(bert(), e5_tokenizer(), "phrasebook", **given)


def test_the_package_and_the_function_are_both_callable_as_roles() -> None:
    assert measure_roles is roles
    assert callable(headwise.roles)
    found = headwise.roles(bert(), e5_tokenizer(), languages=["de"], limit=2, progress=False)
    assert found["de"].examples == 2


def test_languages_are_aligned_and_the_table_says_where_it_comes_from() -> None:
    found = small()
    assert list(found) == ["de", "zh"]
    assert found.about["data"] == "phrasebook"
    assert "aligned" in found.about["notes"][0]
    assert repr(found).splitlines()[0].startswith("language  positional  syntactic")
    rows = list(found.rows())
    assert {row["language"] for row in rows} == {"de", "zh"}
    assert all(row["low"] - 1e-9 <= row["value"] <= row["high"] + 1e-9 for row in rows)


def test_a_run_folder_keeps_the_table_and_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "ROUND", 5)
    whole = small()

    class StopError(Exception):
        pass

    def stop(done: int, _all: int, _status: str) -> None:
        if done > 12:
            raise StopError

    with pytest.raises(StopError):
        small(out=tmp_path / "run", progress=stop)
    assert not (tmp_path / "run" / "roles.json").exists()
    done: list[int] = []
    resumed = small(out=tmp_path / "run", progress=lambda now, _all, _status: done.append(now))
    assert done[0] > 17  # earlier rounds are not measured again
    for language in whole:
        np.testing.assert_array_equal(resumed[language].value, whole[language].value)
        np.testing.assert_array_equal(resumed[language].stderr, whole[language].stderr)
    kept = HeadRoles.load(tmp_path / "run" / "roles.json")
    np.testing.assert_array_equal(kept["zh"].value, whole["zh"].value)
    assert (tmp_path / "run" / "roles.csv").read_text().count("\n") == len(list(whole.rows())) + 1
    with pytest.raises(HeadwiseError, match="contains a run with 'languages'"):
        small(out=tmp_path / "run", languages="de,fr")


def test_other_data_than_trees(tmp_path: Path) -> None:
    found = roles(bert(), e5_tokenizer(), open_dataset("commands", task="intents"), languages="de", limit=4,
                  progress=False)  # fmt: skip
    assert not any(column.name.startswith("syntax") for column in found["de"].columns)
    rows = [{"source": "w1 w2", "target": "w3 w1", "language": "en-de", "split": "dev"}] * 2
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = roles(BY_NAME["marian"].build(), word_tokenizer(), str(tmp_path / "own.jsonl"), task="translation",
                  progress=False)  # fmt: skip
    assert {head.split(".")[0] for head in found.heads} == {"encoder", "decoder", "cross"}


def test_a_base_model_without_a_head_for_a_task_works() -> None:
    base = bert().bert
    found = roles(base, e5_tokenizer(), open_treebank("phrasebook"), languages="sw", limit=3, progress=False)
    assert found["sw"].units == 3


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(HeadwiseError, match="tokenizer: give the tokenizer of the model"):
        roles(bert(), languages="de", progress=False)
    with pytest.raises(HeadwiseError, match=r"task: commands: no such treebank.*for data without trees give the task"):
        roles(bert(), e5_tokenizer(), "commands", progress=False)
    with pytest.raises(HeadwiseError, match="phrasebook has no language 'xx'"):
        small(languages="xx")
