"""Numbers and memory at their limits: a right number, or one sentence that says which example is to blame."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from headwise import HeadwiseError
from headwise.engine import ExampleSet, LocalEngine
from headwise.engine.cluster import Cluster, ClusterSettings
from headwise.engine.jobs import NotFiniteError, PackAnswer, PackJob
from headwise.games import AccuracyGame, Answers, LikelihoodGame, ProbabilityGame
from headwise.methods import METHODS, Budget, find_method, method_class, run_method
from headwise.tasks.encoding import Encoded
from headwise.tasks.metrics import Accuracy, EntityF1
from headwise.tuning import TrainingSet, TuningSettings, train_encoded
from tests.engine.worlds import make_engine, make_examples, plain_values, random_rows
from tests.families import BY_NAME
from tests.methods.worlds import tiny_problem

KINDS = ("xlm-roberta", "llama", "mt5")


class SmallMemory(LocalEngine):
    """An engine that has memory for a few rows at a time.

    Attributes:
        rows: The largest batch that fits.
        error: What is raised for a larger one.
    """

    rows = 2
    error: BaseException = MemoryError()

    def compute(self, job: PackJob) -> PackAnswer:
        if len(job.examples) > self.rows:
            raise self.error
        return super().compute(job)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), torch.OutOfMemoryError("out"), RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes")],
    ids=lambda error: type(error).__name__,
)
def test_a_batch_that_does_not_fit_into_memory_is_split(error: BaseException) -> None:
    whole = make_engine(BY_NAME["xlm-roberta"])
    small = SmallMemory(whole.model, whole.heads, whole.game, whole.examples)
    small.error = error
    gates, index = random_rows(whole, 13)
    assert_allclose(small.values(gates, index).values, whole.values(gates, index).values, atol=1e-6)
    one, other = small.gradients(gates, index), whole.gradients(gates, index)
    assert_allclose(one.gradients, other.gradients, atol=1e-6)
    assert one.cost.rows == other.cost.rows == 13, "every row once"


def test_a_row_that_does_not_fit_into_memory_is_named_and_other_errors_are_not_taken_for_it() -> None:
    whole = make_engine(BY_NAME["xlm-roberta"])
    small = SmallMemory(whole.model, whole.heads, whole.game, whole.examples)
    small.rows = 0
    gates = np.ones((2, len(small.players)), dtype=bool)
    with pytest.raises(HeadwiseError, match="example 3, numbered from 0, does not fit into memory"):
        small.values(gates, np.array([3, 3]))
    small.error = RuntimeError("shapes do not match")
    with pytest.raises(RuntimeError, match="shapes do not match"):
        small.values(gates, np.array([3, 3]))


def test_a_full_object_store_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    cluster = Cluster(ClusterSettings(workers=1))
    monkeypatch.setattr(cluster, "_ray", ray, raising=False)
    for error in (ray.exceptions.ObjectStoreFullError(), ray.exceptions.OutOfDiskError()):

        def fail(thing: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(ray, "put", fail)
        with pytest.raises(HeadwiseError, match="the object store of Ray is full: start Ray with a larger"):
            cluster.put("weights")


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("worth", [0.0, np.inf], ids=["heads are cut out", "heads are gated"])
def test_a_model_with_all_heads_off_has_the_values_of_plain_passes(
    name: str, worth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.engine.local.WORTH_A_COPY", worth)
    engine = make_engine(BY_NAME[name])
    gates, index = np.zeros((5, len(engine.players)), dtype=bool), np.arange(5)
    found = engine.values(gates, index).values
    assert found.isfinite().all()
    assert_allclose(found, plain_values(engine, gates, index), atol=1e-5)
    assert engine.gradients(gates, index).gradients.isfinite().all()


def test_no_examples_are_an_error() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])
    with pytest.raises(HeadwiseError, match="there are no examples: give at least one"):
        LocalEngine(engine.model, None, LikelihoodGame(), ExampleSet(engine.examples.task, (), 0))


def test_a_token_that_the_model_does_not_have_is_an_error() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])
    wrong = ExampleSet(engine.examples.task, (Encoded((5, 50), (0, 1), (0, 1)),), 0)
    with pytest.raises(HeadwiseError, match="has a token 50, but the model has 50 tokens from 0: use its tokenizer"):
        LocalEngine(engine.model, None, LikelihoodGame(), wrong)
    with pytest.raises(HeadwiseError, match="has a token 50, but the model has 50 tokens"):
        train_encoded(engine.model, TrainingSet(wrong.encoded, engine.examples), TuningSettings(epochs=1))


@pytest.mark.parametrize("method", METHODS)
def test_a_budget_below_one_round_spends_nothing(method: str) -> None:
    problem = tiny_problem("xlm-roberta")
    options = {"units": 1.0} if method_class(method).needs_units else {}
    try:
        found = run_method(find_method(method, **options), problem, Budget(0.25), seed=1)
    except HeadwiseError:  # some methods need whole heads as players, or say that the budget is too small
        return
    assert found.units <= 0.25
    assert len(found.scores.players) == len(problem.players)
    assert not found.scores.decided("harmful")


LIMITS = (0, 2**32 - 1, 2**63, -1, 10**30)


def test_any_whole_number_is_a_seed() -> None:
    problem, method = tiny_problem("xlm-roberta"), find_method("permutation", walks=1)
    found = [run_method(method, problem, Budget(20), seed).scores for seed in LIMITS]
    again = [run_method(method, problem, Budget(20), seed).scores for seed in LIMITS]
    assert found == again
    assert len({each.value for each in found}) == len(LIMITS), "every seed has draws of its own"


def answers(logits: torch.Tensor, gold: torch.Tensor) -> Answers:
    """One label for each row."""
    rows = torch.arange(len(gold))
    return Answers(logits, rows, torch.zeros_like(rows), torch.ones_like(rows), gold)


def test_a_single_label_is_always_right() -> None:
    found = answers(torch.randn(4, 1), torch.zeros(4, dtype=torch.long))
    assert ProbabilityGame().measure(found).tolist() == [[1.0]] * 4
    assert LikelihoodGame().measure(found).tolist() == [[0.0]] * 4
    assert AccuracyGame().measure(found).tolist() == [[1.0]] * 4
    assert Accuracy().value(Accuracy().statistics(found).double().numpy().sum(0)) == 100
    without_entities = EntityF1(("O",))
    assert without_entities.value(without_entities.statistics(found).double().numpy().sum(0)) == 0


@pytest.mark.parametrize("method", ["stars", "permutation", "leave-one-out", "michel"])
def test_heads_of_a_task_with_one_label_are_worth_nothing(method: str) -> None:
    model = BY_NAME["xlm-roberta"].build(num_labels=1)
    examples = make_examples(BY_NAME["xlm-roberta"], model)
    encoded = tuple(replace(each, gold=(0,) * len(each.gold)) for each in examples.encoded)
    problem = tiny_problem("xlm-roberta")
    problem = replace(problem, model=model, examples=replace(examples, encoded=encoded))
    found = run_method(find_method(method), problem, Budget(600)).scores
    assert np.nan_to_num(found.values()).tolist() == [0.0] * len(problem.players)
    assert not found.decided("harmful")
    assert "0 harmful" in repr(found)


def build_half(scale: float) -> Any:
    """A tagger in half precision whose classifier is scaled."""
    model = BY_NAME["xlm-roberta"].build()
    with torch.no_grad():
        for weight in model.classifier.parameters():
            weight.mul_(scale)
    return model.half()


def test_half_precision_gives_nearly_the_same_numbers() -> None:
    case = BY_NAME["xlm-roberta"]
    half, whole = make_engine(case, model=build_half(1)), make_engine(case, model=build_half(1).float())
    gates, index = random_rows(whole, 6)
    assert_allclose(half.values(gates, index).values, whole.values(gates, index).values, atol=0.02)


@pytest.mark.parametrize("game", [LikelihoodGame(), ProbabilityGame(), AccuracyGame()], ids=lambda game: game.name)
def test_half_precision_that_overflows_is_named(game: Any) -> None:
    engine = make_engine(BY_NAME["xlm-roberta"], game, model=build_half(1e9))
    with pytest.raises(NotFiniteError, match="returns NaN or infinity on example 2, numbered from 0"):
        engine.values(np.ones((1, len(engine.players)), dtype=bool), np.array([2]))


def test_infinite_logits_are_named_also_where_they_would_be_right() -> None:
    """Infinity is the largest number, so it would count as the right answer of accuracy."""
    case = BY_NAME["xlm-roberta"]
    model = case.build()
    with torch.no_grad():
        list(model.classifier.parameters())[-1][0] = float("inf")
    engine = make_engine(case, AccuracyGame(), model=model)
    with pytest.raises(NotFiniteError, match="returns NaN or infinity on example 1"):
        engine.values(np.ones((1, len(engine.players)), dtype=bool), np.array([1]))
