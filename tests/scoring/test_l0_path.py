"""A path of penalties with frozen weights: fewer heads at each, measured as any mask is, and resumed bit for bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertForTokenClassification

from headwise import HeadMask, HeadwiseError, find_heads, gated
from headwise.data.examples import WordExample
from headwise.engine import encode_examples, players_of
from headwise.engine.evaluation import MaskJudge, evaluate
from headwise.games import LikelihoodGame
from headwise.methods import Problem
from headwise.methods.l0 import L0, L0Rounds
from headwise.scoring.l0_path import heads_kept, l0_path
from headwise.tasks import find_task
from tests.families import BY_NAME, enliven
from tests.pieces import xlmr_like

TASK, TOKENIZER = find_task("pos"), xlmr_like()
WORDS = {"the": "DET", "cat": "NOUN", "sat": "VERB"}
EXAMPLES = [
    WordExample(str(n), each, tuple(WORDS[word] for word in each))
    for n, each in enumerate([("the", "cat"), ("cat", "sat"), ("sat", "the", "cat"), ("the",)])
]
LAMS, METHOD = (0.0, 0.05, 5.0), L0(epochs=12, batch=2, learning_rate=0.3)


def world() -> tuple[Problem, MaskJudge]:
    torch.manual_seed(0)
    config = BY_NAME["bert"].build().config
    config.num_labels = 17
    model: Any = BertForTokenClassification(config)
    enliven(model)
    model.eval()
    heads = find_heads(model)
    encoded = encode_examples(TASK, EXAMPLES, TOKENIZER)
    problem = Problem(model, heads, encoded, players_of(heads), LikelihoodGame())
    return problem, MaskJudge(model, heads, TASK, EXAMPLES[::-1], TOKENIZER)


def test_a_path_removes_heads_and_measures_each_mask() -> None:
    problem, judge = world()
    seen: list[str] = []
    points = l0_path(problem, LAMS, judge, METHOD, progress=lambda done, total, how: seen.append(how))
    counts = [point.mask.count for point in points]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0
    assert [each.split(":")[0] for each in seen] == ["lam 0", "lam 0.05", "lam 5"]
    for point in points:
        with gated(problem.model, point.mask):
            expected = evaluate(problem.model, TASK, EXAMPLES, TOKENIZER)
        assert point.evaluation.value == pytest.approx(expected.value)
        assert point.units == 2 * 12 * len(EXAMPLES)
        assert point.kept_by_type == {"encoder": point.mask.count}
        assert sum(point.kept.values()) == point.mask.count
        assert list(point.kept) == ["encoder.0", "encoder.1", "encoder.2"]


def test_each_penalty_continues_from_the_gates_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []
    real = L0Rounds.__init__

    def watched(self: L0Rounds, method: L0, problem: Problem, seed: int, log_alpha: Any) -> None:
        starts.append(tuple(log_alpha))
        real(self, method, problem, seed, log_alpha)

    monkeypatch.setattr(L0Rounds, "__init__", watched)
    points = l0_path(*world()[:1], LAMS, world()[1], METHOD)
    assert starts[0] == (2.0,) * 12
    assert starts[1:] == [point.log_alpha for point in points[:-1]]


def test_an_interrupted_path_ends_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, judge = world()
    whole = l0_path(problem, LAMS, judge, METHOD)
    real, calls = L0Rounds.draw, 0

    def killed(self: L0Rounds, first_draw: int) -> Any:
        nonlocal calls
        calls += 1
        if calls > 31:  # in the middle of the second penalty
            raise KeyboardInterrupt
        return real(self, first_draw)

    with monkeypatch.context() as patch:
        patch.setattr(L0Rounds, "draw", killed)
        with pytest.raises(KeyboardInterrupt):
            l0_path(problem, LAMS, judge, METHOD, out=tmp_path / "run")
    resumed = l0_path(problem, LAMS, judge, METHOD, out=tmp_path / "run")
    for one, other in zip(whole, resumed, strict=True):
        assert (one.log_alpha, one.mask, one.units) == (other.log_alpha, other.mask, other.units)
        np.testing.assert_array_equal(one.evaluation.statistics, other.evaluation.statistics)
    longer = l0_path(problem, (*LAMS, 9.0), judge, METHOD, out=tmp_path / "run")
    assert [point.mask for point in longer[:3]] == [point.mask for point in whole]


def test_mistakes_are_named(tmp_path: Path) -> None:
    problem, judge = world()
    with pytest.raises(HeadwiseError, match=r"in ascending order, not \[0.2, 0.1\]"):
        l0_path(problem, (0.2, 0.1), judge)
    with pytest.raises(HeadwiseError, match="at least one penalty"):
        l0_path(problem, (), judge)
    l0_path(problem, (0.1,), judge, L0(epochs=1), out=tmp_path / "run")
    with pytest.raises(HeadwiseError, match="run"):
        l0_path(problem, (0.1,), judge, L0(epochs=2), out=tmp_path / "run")


def test_heads_kept_are_counted_in_every_site() -> None:
    heads = find_heads(BY_NAME["marian"].build())
    kept = heads_kept(HeadMask.without(heads, ["cross.0.1", "cross.0.2", "decoder.2.3"]))
    assert len(kept) == 9
    assert (kept["cross.0"], kept["decoder.2"], kept["encoder.0"]) == (2, 3, 4)
