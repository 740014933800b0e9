"""All statistics in one pass: against a plain loop that keeps every map, on every kind of model."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.data.phrasebook import phrasebook_sentences
from headwise.engine import EngineSettings
from headwise.heads import find_heads
from headwise.roles import measure
from headwise.roles.corpus import read_corpus
from headwise.roles.measure import measure_language
from headwise.roles.table import LanguageRoles
from headwise.runs import open_run
from tests.roles.plain import all_maps, plain_statistics
from tests.roles.worlds import bert, e5_tokenizer, trees, world

KINDS = ["trees-en", "trees-zh", "llama", "gpt2", "marian", "t5"]


def check(found: LanguageRoles, model: Any, corpus: Any) -> set[str]:
    """Compare with the plain loop; return the statistics that some head has."""
    plain = plain_statistics(all_maps(model, corpus), corpus)
    assert {name for name, _ in plain.sums} <= {column.name for column in found.columns}
    for place, column in enumerate(found.columns):
        for number, head in enumerate(found.heads):
            expected = plain.value(column.name, head)
            assert found.count[number, place] == plain.counts.get((column.name, head), 0), (column.name, head)
            if math.isnan(expected):
                assert math.isnan(found.value[number, place])
            else:
                assert found.value[number, place] == pytest.approx(expected, abs=1e-6), (column.name, head)
    return {name for (name, _), count in plain.counts.items() if count}


@pytest.mark.parametrize("kind", KINDS)
def test_every_statistic_is_that_of_a_plain_loop(kind: str) -> None:
    model, corpus = world(kind, attn_implementation="eager")
    model.double()  # so that no rounding decides which of two weights is larger
    found = measure_language(model, find_heads(model), corpus)
    defined = check(found, model, corpus)
    expected = {"confidence", "entropy", "broad", "first", "rare:1", "rare:2"}
    if kind in ("marian", "t5"):
        expected |= {
            "alignment_entropy",
            "end_weight",
            "retrieval",
            "transition",
            "separator_all",
            "previous",
            "induction",
        }
    elif kind.startswith("trees"):
        expected |= {"syntax:nsubj:head", "syntax:obj:dependent", "separator_top", "offset:-1", "next", "self"}
    else:
        expected |= {"retrieval", "duplicate", "induction", "offset:-1"}
    assert expected <= defined
    assert found.examples == len(corpus.examples) == found.units


def test_the_real_model_agrees_with_the_plain_loop() -> None:
    from headwise.models import load_model

    model = load_model("e5-small-pos", attn_implementation="eager").double()
    corpus = read_corpus(model, find_heads(model), e5_tokenizer(), trees("de", 3))
    check(measure_language(model, find_heads(model), corpus), model, corpus)


def test_batches_change_nothing() -> None:
    model, corpus = world("trees-en")
    whole = measure_language(model, find_heads(model), corpus)
    single = measure_language(model, find_heads(model), corpus, settings=EngineSettings(memory_limit=1))
    np.testing.assert_allclose(single.value, whole.value, atol=2e-3)  # float32: ties may be broken otherwise
    assert np.nanmedian(np.abs(single.value - whole.value)) < 1e-6
    np.testing.assert_array_equal(single.count, whole.count)


def test_standard_errors_are_those_of_a_mean_over_sentences() -> None:
    model, corpus = world("trees-en")
    found = measure_language(model, find_heads(model), corpus)
    place = next(i for i, column in enumerate(found.columns) if column.name == "separator_all")
    share = found.value[:, place]
    n = found.examples
    np.testing.assert_allclose(found.stderr[:, place], np.sqrt(share * (1 - share) / (n - 1)), atol=1e-12)


def test_a_stopped_pass_resumes_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "ROUND", 5)
    model, corpus = world("trees-en")
    heads = find_heads(model)
    whole = measure_language(model, heads, corpus)

    class StopError(Exception):
        pass

    def stop(done: int) -> None:
        if done >= 10:
            raise StopError

    with open_run(tmp_path / "run", {"seed": 0}) as run, pytest.raises(StopError):
        measure_language(model, heads, corpus, run.journal, "en", stop)
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        assert run.journal.count("en") == 2
        resumed = measure_language(model, heads, corpus, run.journal, "en")
        assert run.journal.count("en") == 3
    for name in ("value", "stderr", "count"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))
    assert resumed.units == whole.units == 12


def test_sentences_of_500_tokens_work_in_little_memory() -> None:
    model = bert(positions=512)
    first = phrasebook_sentences("en")[0]  # 7 words, each of one piece
    heads = tuple(head and head + copy * len(first.words) for copy in range(71) for head in first.heads)
    long = replace(first, words=first.words * 71, heads=heads, relations=first.relations * 71)
    corpus = read_corpus(model, find_heads(model), e5_tokenizer(), (long, long, first))
    assert corpus.examples.lengths.tolist() == [499, 499, 9]
    found = measure_language(model, find_heads(model), corpus, settings=EngineSettings(memory_limit=2**26))
    assert not np.isnan(found["syntax:nsubj:head"]).any()
    assert found.cut == 0
