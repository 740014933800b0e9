"""One mask for all languages: the error of a mean over languages that share their draws."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from transformers import BertConfig, BertModel

from headwise import HeadScores, HeadwiseError, Provenance, find_heads
from headwise.heads import HeadMap
from headwise.methods import Problem
from headwise.methods.head_scores import UNDECIDED
from headwise.runs import Journal, Run, open_run
from headwise.scoring.pool import PooledScores, error_correlation, pool_languages, pooled_mask

LANGUAGES, PLAYERS, ROUNDS = ("en", "sw", "zh"), 32, 15


@pytest.fixture(scope="module")
def heads() -> HeadMap:
    return find_heads(BertModel(BertConfig(vocab_size=9, hidden_size=32, num_hidden_layers=4, num_attention_heads=8)))


class MeanOfRounds:
    """A method that takes the mean of what its rounds found."""

    name = "mean"

    def start(self, problem: Problem, seed: int) -> "MeanOfRounds":
        begun = MeanOfRounds()
        begun.found = []
        return begun

    def absorb(self, arrays: Mapping[str, Any]) -> None:
        self.found.append(arrays["value"])

    def scores(self, units: float, seed: int) -> HeadScores:
        return scores_of(np.array(self.found))

    found: list[np.ndarray]


def scores_of(found: np.ndarray) -> HeadScores:
    """The scores of rounds, (rounds, players)."""
    names = tuple(f"encoder.{layer}.{head}" for layer in range(4) for head in range(8))
    errors = found.std(0, ddof=1) / np.sqrt(len(found))
    return HeadScores(
        names, tuple(found.mean(0)), tuple(errors), (1,) * PLAYERS, UNDECIDED * PLAYERS, Provenance("mean", "full")
    )


def make_rounds(truth: np.ndarray, shared: float, seed: int, rounds: int = ROUNDS) -> dict[str, np.ndarray]:
    """What the rounds of each language found, (rounds, players): errors of variance 1, a share of it in common."""
    generator = np.random.default_rng(seed)
    common = generator.normal(0, np.sqrt(shared), (rounds, PLAYERS))
    own = generator.normal(0, np.sqrt(1 - shared), (len(LANGUAGES), rounds, PLAYERS))
    return {language: truth + common + each for language, each in zip(LANGUAGES, own, strict=True)}


def pool(journal: Journal, found: Mapping[str, np.ndarray]) -> PooledScores:
    for language, values in found.items():
        for number, value in enumerate(values):
            journal.record(language, number, {"value": value}, number, 1)
    problems = dict.fromkeys(found, cast(Problem, None))
    scores = {language: scores_of(values) for language, values in found.items()}
    return pool_languages(scores, cast(Any, MeanOfRounds()), problems, journal)


@pytest.fixture
def run(tmp_path: Path) -> Any:
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        yield run


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_errors_that_languages_share_do_not_average_out(run: Run, shared: float) -> None:
    found = make_rounds(np.zeros(PLAYERS), shared, seed=1)
    pooled = pool(run.journal, found)
    mean = np.mean(list(found.values()), axis=0)  # (rounds, players)
    assert pooled.value == pytest.approx(mean.mean(0))
    assert pooled.stderr == pytest.approx(mean.std(0, ddof=1) / np.sqrt(ROUNDS))
    assert pooled.degrees == ROUNDS - 1
    expected = np.sqrt((shared + (1 - shared) / len(LANGUAGES)) / ROUNDS)
    assert np.sqrt((pooled.stderr**2).mean()) == pytest.approx(expected, rel=0.15)


def test_many_rounds_are_left_out_in_groups(run: Run) -> None:
    pooled = pool(run.journal, make_rounds(np.zeros(PLAYERS), 0.5, seed=2, rounds=90))
    assert pooled.degrees == 19
    assert np.sqrt((pooled.stderr**2).mean()) == pytest.approx(np.sqrt((0.5 + 0.5 / 3) / 90), rel=0.15)


def test_of_few_rounds_errors_are_taken_to_go_together(run: Run) -> None:
    found = make_rounds(np.zeros(PLAYERS), 0.0, seed=3, rounds=4)
    pooled = pool(run.journal, found)
    assert pooled.degrees is None
    assert pooled.stderr == pytest.approx(np.mean([scores_of(each).stderr for each in found.values()], axis=0))


def test_few_of_those_that_go_do_no_harm(tmp_path: Path, heads: HeadMap) -> None:
    truth = np.where(np.arange(PLAYERS) < 8, -0.8, 0.0)
    false, gone = [], 0
    for seed in range(120):
        with open_run(tmp_path / str(seed), {"seed": 0}) as run:
            run.journal.connection.execute("PRAGMA synchronous = OFF")  # thousands of rounds wait for no disk
            found = make_rounds(truth, 0.5, seed)
            off = pooled_mask(pool(run.journal, found), scores_of(found["en"])).off
        wrong = [name for name in off if not name.startswith("encoder.0.")]
        false.append(len(wrong) / max(len(off), 1))
        gone += len(off) - len(wrong)
    assert np.mean(false) < 0.1
    assert gone > 120 * 8 * 0.8  # and most of the harm is found


def test_a_pooled_mask_belongs_to_no_language(heads: HeadMap) -> None:
    values = np.where(np.arange(PLAYERS) == 2, -0.5, 0.5)
    like = scores_of(np.stack([values, values]))
    for error, off in ((0.01, (like.players[2],)), (1.0, ())):
        mask = pooled_mask(PooledScores(values, np.full(PLAYERS, error), 9), like)
        assert (mask.off, mask.language) == (off, None)


@pytest.mark.parametrize("shared", [0.0, 0.5, 0.9])
def test_the_correlation_of_errors_is_found_in_the_rounds(run: Run, shared: float) -> None:
    found = make_rounds(np.zeros(PLAYERS), shared, seed=5)
    pool(run.journal, found)
    scores = {language: scores_of(values) for language, values in found.items()}
    problems = dict.fromkeys(found, cast(Problem, None))
    assert error_correlation(scores, cast(Any, MeanOfRounds()), problems, run.journal) == pytest.approx(shared, abs=0.1)


def test_few_rounds_do_not_tell_how_errors_go_together(run: Run) -> None:
    found = make_rounds(np.zeros(PLAYERS), 0.5, seed=5, rounds=4)
    pool(run.journal, found)
    scores = {language: scores_of(values) for language, values in found.items()}
    with pytest.raises(HeadwiseError, match="at least 5 rounds, not 4"):
        error_correlation(scores, cast(Any, MeanOfRounds()), dict.fromkeys(found, cast(Problem, None)), run.journal)
