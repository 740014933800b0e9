"""The engine on a cluster returns the bits of the engine in this process, whatever happens to its workers."""

import logging
import pickle
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.simulated_workers import Fault
from numpy.typing import NDArray
from torch import nn

from headwise import gated
from headwise.data.examples import ChoiceExample
from headwise.engine import EngineCost, EngineSettings, LocalEngine, encode_examples
from headwise.engine.cluster import Cluster, ClusterSettings
from headwise.engine.dispatch import Failure
from headwise.engine.jobs import PackJob
from headwise.engine.shipping import ship_model, unship_model
from headwise.engine.worker import WorkerJob
from headwise.errors import HeadwiseError
from headwise.games import LikelihoodGame, ProbabilityGame
from headwise.heads import find_heads
from headwise.masks import HeadMask
from headwise.methods import Budget, find_method, run_method
from headwise.runs import open_run, read_run
from headwise.scoring import RefinementPlan, refine_mask
from headwise.tasks.choices import MultipleChoice
from tests.engine.clusters import FakeCluster
from tests.engine.worlds import make_examples, random_rows
from tests.families import BY_NAME
from tests.methods.worlds import tiny_problem
from tests.pieces import one_token_a_word

SETTINGS = EngineSettings(token_budget=48)  # many batches


def make_local(family: str = "xlm-roberta", model: Any = None) -> LocalEngine:
    case = BY_NAME[family]
    model = case.build() if model is None else model
    return LocalEngine(model, None, ProbabilityGame(), make_examples(case, model, 12), None, SETTINGS)


def on_cluster(cluster: FakeCluster, local: LocalEngine) -> LocalEngine:
    return cluster.make_engine(
        local.model, local.heads, local.game, local.examples, local.players, local.settings, local.baseline
    )


def same_cost(one: EngineCost, other: EngineCost) -> bool:
    return replace(one, seconds=0.0) == replace(other, seconds=0.0)


def rows_of(job: WorkerJob) -> set[int]:
    return set(job.content.examples.tolist())


@pytest.mark.parametrize("family", ["xlm-roberta", "gpt2", "marian"])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_any_number_of_workers_returns_the_bits_of_the_engine_in_this_process(family: str, workers: int) -> None:
    local = make_local(family)
    on, index = random_rows(local, 60)
    values, gradients = local.values(on, index), local.gradients(on[:20], index[:20])
    flipped = local.flips(on[:5], index[:5], np.tile(np.arange(4), (5, 1)))
    with FakeCluster(workers) as cluster:
        engine = on_cluster(cluster, local)
        found, slopes = engine.values(on, index), engine.gradients(on[:20], index[:20])
        flips = engine.flips(on[:5], index[:5], np.tile(np.arange(4), (5, 1)))
        assert cluster.simulated.time > 0, "the workers computed"
    assert torch.equal(found.values, values.values)
    assert same_cost(found.cost, values.cost)
    assert torch.equal(slopes.gradients, gradients.gradients)
    assert torch.equal(slopes.values, gradients.values)
    assert torch.equal(flips.flipped, flipped.flipped)


def test_choices_are_computed_by_workers_too() -> None:
    task, words = MultipleChoice("bytes", window=40), one_token_a_word()
    examples = [ChoiceExample(str(n), f"w{n} w{n + 3}", (f"w{n + 9} w4", f"w{n + 2}"), n % 2) for n in range(2, 7)]
    model = BY_NAME["llama"].build()
    local = LocalEngine(model, None, ProbabilityGame(), encode_examples(task, examples, words))
    on, index = random_rows(local, 12)
    with FakeCluster(2) as cluster:
        engine = on_cluster(cluster, local)
        assert torch.equal(engine.values(on, index).values, local.values(on, index).values)
        assert torch.equal(engine.gradients(on, index).gradients, local.gradients(on, index).gradients)
        assert cluster.simulated.time > 0, "the workers computed"


def test_heads_that_are_always_off_are_left_out_by_workers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwise.engine.local.WORTH_A_COPY", -1.0)
    local = make_local()
    on, index = random_rows(local, 40)
    on[:, [0, 3]] = False
    values = local.values(on, index)
    with FakeCluster(2) as cluster:
        found = on_cluster(cluster, local).values(on, index)
    assert torch.equal(found.values, values.values)
    assert same_cost(found.cost, values.cost)


@pytest.mark.parametrize("seed", range(5))
def test_lost_and_hanging_workers_change_no_bit(seed: int) -> None:
    draw, local = random.Random(seed), make_local()
    on, index = random_rows(local, 200)

    def fault(worker: int, job: WorkerJob) -> Fault:
        del worker, job
        faults: list[Fault] = ["dies", "hangs", None]
        return draw.choices(faults, [0.1, 0.03, 0.87])[0]

    values = local.values(on, index)
    with FakeCluster(3, fault) as cluster:
        found = on_cluster(cluster, local).values(on, index)
        assert cluster.replaced > 0
    assert torch.equal(found.values, values.values)
    assert same_cost(found.cost, values.cost), "no row is counted twice"


def test_a_batch_that_does_not_fit_is_split(caplog: pytest.LogCaptureFixture) -> None:
    local = make_local()
    on, index = random_rows(local, 60)

    def fault(worker: int, job: WorkerJob) -> Fault:
        del worker
        return Failure("memory", "a worker has too little memory") if len(job.content.examples) > 2 else None

    with FakeCluster(2, fault) as cluster, caplog.at_level(logging.WARNING, "headwise.cluster"):
        found = on_cluster(cluster, local).values(on, index)
    torch.testing.assert_close(found.values, local.values(on, index).values)
    assert found.cost.rows == 60
    assert "is split, so the last bits of its values may differ: a worker has too little memory" in caplog.text


@pytest.mark.parametrize(("fault", "said"), [("dies", "the worker died"), ("hangs", "did not answer for 60 s")])
def test_a_row_that_no_worker_survives_is_named(fault: Fault, said: str) -> None:
    local = make_local()
    on, index = np.ones((12, len(local.players)), dtype=bool), np.arange(12)
    on[7, 2] = False
    expected = rf"example 7, numbered from 0, without {local.players.names[2]}, fails on several workers: .*{said}"
    with FakeCluster(2, lambda _, job: fault if 7 in rows_of(job) else None) as cluster:
        engine = on_cluster(cluster, local)
        with pytest.raises(HeadwiseError, match=expected):
            engine.values(on, index)
        # The cluster can still be used.
        assert torch.equal(engine.values(on[:3], index[:3]).values, local.values(on[:3], index[:3]).values)


def test_nan_is_tried_on_another_worker_and_then_reported_as_in_this_process() -> None:
    local = make_local()
    on, index = random_rows(local, 30)
    values = local.values(on, index)
    broken = Failure("not finite", "the model returns NaN or infinity")
    with FakeCluster(2, lambda worker, _: broken if worker == 0 else None) as cluster:
        assert torch.equal(on_cluster(cluster, local).values(on, index).values, values.values)
    with torch.no_grad():
        local.model.get_input_embeddings().weight[local.examples.encoded[4].ids[1]] = torch.nan
    with pytest.raises(HeadwiseError) as expected:
        local.values(on, index)
    with FakeCluster(2) as cluster, pytest.raises(HeadwiseError) as found:
        on_cluster(cluster, local).values(on, index)
    assert "NaN or infinity on example" in str(found.value)
    assert str(found.value) == str(expected.value)


def test_errors_of_the_code_are_reported_at_once() -> None:
    local, tried = make_local(), []

    def fault(worker: int, job: WorkerJob) -> Fault:
        del worker
        tried.append(job)
        return Failure("error", "a worker raised KeyError: 'x'")

    with FakeCluster(1, fault) as cluster, pytest.raises(HeadwiseError, match="a worker raised KeyError: 'x'"):
        on_cluster(cluster, local).values(*random_rows(local, 1))
    assert len(tried) == 1


def test_a_model_is_sent_once_and_again_when_its_weights_change() -> None:
    local = make_local()
    on, index = random_rows(local, 10)
    with FakeCluster(1) as cluster:
        on_cluster(cluster, local).values(on, index)
        other = replace_game(local)
        on_cluster(cluster, other).values(on, index)
        assert cluster.stored == 3, "one model, two engines"
        with torch.no_grad():
            next(local.model.parameters()).mul_(1.001)
        found = on_cluster(cluster, local).values(on, index)
        assert cluster.stored == 5
    assert torch.equal(found.values, local.values(on, index).values)


def replace_game(local: LocalEngine) -> LocalEngine:
    return LocalEngine(local.model, local.heads, LikelihoodGame(), local.examples, local.players, local.settings)


def test_a_gated_model_is_not_sent() -> None:
    local = make_local()
    mask = HeadMask.full(find_heads(local.model))
    with FakeCluster(1) as cluster, gated(local.model, mask), pytest.raises(HeadwiseError, match="inside gated"):
        on_cluster(cluster, local)


@pytest.mark.parametrize("family", ["bert", "gpt2", "marian"])
def test_a_shipped_model_has_the_same_weights_ties_and_outputs(family: str) -> None:
    model = BY_NAME[family].build()
    model.register_buffer("bfloat_numbers", torch.arange(3).bfloat16())
    again = unship_model(ship_model(model))
    for (name, one), (other_name, other) in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
        assert name == other_name
        assert torch.equal(one, other)
        assert one.dtype == other.dtype
    assert len(list(again.parameters())) == len(list(model.parameters())), "tied weights are still one"
    assert [each.requires_grad for each in again.parameters()] == [each.requires_grad for each in model.parameters()]


def test_a_skeleton_is_small() -> None:
    model = nn.Sequential(nn.Linear(500, 500), nn.Linear(500, 500))
    skeleton, arrays = ship_model(model)
    assert len(skeleton) < 5_000
    assert sum(array.nbytes for array in arrays) == 4 * sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("kind", [bool, np.float32])
@pytest.mark.parametrize(("rows", "players"), [(50, 384), (3, 7), (0, 5)])
def test_a_batch_is_sent_in_few_bytes_and_unchanged(kind: Any, rows: int, players: int) -> None:
    draw = np.random.default_rng(0)
    job = PackJob((draw.random((rows, players)) < 0.5).astype(kind), draw.integers(0, 9, rows), ("encoder.0.1",), True)
    sent = pickle.dumps(job, protocol=5)
    again = pickle.loads(sent)  # noqa: S301 - written here
    for one, other in ((job.gates, again.gates), (job.examples, again.examples)):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
        assert other.flags.c_contiguous
    assert (again.absent, again.gradients) == (job.absent, job.gradients)
    if kind is bool:
        assert len(sent) < 700 + rows * (players / 8 + 4)


@pytest.mark.parametrize("method", ["stars", "permutation", "michel"])
def test_a_method_on_a_cluster_records_the_same_rounds(tmp_path: Path, method: str) -> None:
    problem = replace(tiny_problem("xlm-roberta"), settings=SETTINGS)
    budget = Budget(300)

    def rounds(name: str, problem: Any) -> list[dict[str, NDArray[Any]]]:
        with open_run(tmp_path / name, {"seed": 1}) as run:
            run_method(find_method(method), problem, budget, 1, run.journal, "zh")
        with read_run(tmp_path / name) as run:
            return [
                {key: array for key, array in each.arrays.items() if key != "seconds"}
                for each in run.journal.rounds("zh")
            ]

    with FakeCluster(3, lambda worker, _: "dies" if worker == 1 else None) as cluster:
        found = rounds("cluster", replace(problem, make_engine=cluster.make_engine))
    expected = rounds("local", problem)
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[key], other[key]) for key in one)


def test_refining_on_a_cluster_gives_the_same_mask() -> None:
    problem = replace(tiny_problem("xlm-roberta"), settings=SETTINGS)
    start, plan = HeadMask.full(problem.heads), RefinementPlan(rounds=3)
    with FakeCluster(2) as cluster:
        found = refine_mask(replace(problem, make_engine=cluster.make_engine), start, plan)
    assert found == refine_mask(problem, start, plan)


@pytest.mark.parametrize("method", ["relevance", "entropy"])
def test_methods_that_need_the_model_here_refuse_a_cluster(method: str) -> None:
    problem = tiny_problem("xlm-roberta")
    with FakeCluster(1) as cluster, pytest.raises(HeadwiseError, match="cannot use a cluster: omit --workers"):
        run_method(find_method(method), replace(problem, make_engine=cluster.make_engine), Budget(100))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "workers: a number of workers is needed"),
        ({"workers": 0}, "workers: a whole number of at least 1"),
        ({"workers": 1, "threads": 0}, "threads: a whole number"),
        ({"workers": 1, "timeout": 0}, "timeout: must be above 0"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(HeadwiseError, match=said):
        ClusterSettings(**wrong)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", "at '127.0.0.1:1': .*Connection refused"),
        ("somewhere", "at 'somewhere': an address is HOST:PORT or auto"),
        ("127.0.0.1:many", "at '127.0.0.1:many': an address is HOST:PORT or auto"),
    ],
)
def test_a_wrong_address_is_named_at_once(address: str, said: str) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'headwise[cluster]'")
    with pytest.raises(HeadwiseError, match=f"cluster: no Ray cluster can be used {said}"):
        Cluster(ClusterSettings(address=address)).__enter__()
