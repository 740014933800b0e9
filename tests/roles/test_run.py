"""`headwise.roles`: names or objects, run folders, resuming, and mistakes."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwise
from headwise import HeadwiseError, open_dataset, open_treebank
from headwise.data.dataset import Dataset
from headwise.data.examples import TextExample
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
    assert done == [12, 17, 22, 24, 24]  # both languages from before, two rounds that were missing, and the end
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


def test_pairs_of_languages_are_in_the_same_table_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "ROUND", 5)
    given: dict[str, Any] = {"languages": "de", "pairs": ["en-de", "sw-zh"], "limit": 8}
    whole = small(**given)
    assert list(whole) == ["de", "en-de", "sw-zh"]
    assert whole["en-de"].place("alignment:link:forward") is not None
    assert whole["de"].place("alignment:link:forward") is None
    assert repr(whole).splitlines()[2].split()[-1] == "8"

    class StopError(Exception):
        pass

    def stop(done: int, _all: int, _status: str) -> None:
        if done > 8:
            raise StopError

    with pytest.raises(StopError):
        small(out=tmp_path / "run", progress=stop, **given)
    resumed = small(out=tmp_path / "run", **given)
    for key in whole:
        np.testing.assert_array_equal(resumed[key].value, whole[key].value)
        np.testing.assert_array_equal(resumed[key].stderr, whole[key].stderr)
    assert list(small(languages=None, pairs="en-de", limit=2)) == ["en-de"]
    with pytest.raises(HeadwiseError, match="contains a run with 'pairs'"):
        small(out=tmp_path / "run", languages="de", pairs="en-de", limit=8)


def test_rare_words_by_general_frequencies() -> None:
    pytest.importorskip("wordfreq")
    by_word, by_token = small(languages="de", frequencies="wordfreq"), small(languages="de")
    assert by_word.about["frequencies"] == "wordfreq"
    assert (by_word["de"]["rare:1"] != by_token["de"]["rare:1"]).any()
    with pytest.raises(HeadwiseError, match="frequencies: wordfreq has no frequencies of 'sw': use 'data'"):
        small(languages="de,sw", frequencies="wordfreq")
    with pytest.raises(HeadwiseError, match="frequencies: wordfreq needs data with words"):
        roles(bert(), e5_tokenizer(), open_dataset("commands", task="intents"), languages="de", limit=2,
              frequencies="wordfreq", progress=False)  # fmt: skip


def test_a_missing_package_of_frequencies_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordfreq", None)
    with pytest.raises(HeadwiseError, match=r"needs the package wordfreq: pip install 'headwise\[wordfreq\]'"):
        small(frequencies="wordfreq")


def test_mistakes_are_one_sentence() -> None:
    for pairs in ("en-xx", "ende", "de-de"):
        with pytest.raises(HeadwiseError, match=f"pairs: '{pairs}' is not a pair of languages of phrasebook"):
            small(pairs=pairs)
    texts = Dataset("texts", ("de", "en"), ("dev",), lambda language, _split: (TextExample("hello", language),))
    with pytest.raises(HeadwiseError, match="pairs: texts has no words to align"):
        roles(bert(), e5_tokenizer(), texts, pairs="de-en", progress=False)
    with pytest.raises(HeadwiseError, match="frequencies: one of data, wordfreq, not 'web'"):
        small(frequencies="web")
    with pytest.raises(HeadwiseError, match="tokenizer: give the tokenizer of the model"):
        roles(bert(), languages="de", progress=False)
    with pytest.raises(
        HeadwiseError, match=r"data: commands: no such treebank.*for data without trees, also give the task"
    ):
        roles(bert(), e5_tokenizer(), "commands", progress=False)
    with pytest.raises(HeadwiseError, match="phrasebook has no language 'xx'"):
        small(languages="xx")
