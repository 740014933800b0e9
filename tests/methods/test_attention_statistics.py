"""Confidence, entropy and HIES: against plain loops over the weights that transformers returns."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headwise import HeadwiseError
from headwise.engine import EngineSettings, kv_groups, players_of
from headwise.methods import Budget, find_method, score
from headwise.methods.base import Problem
from headwise.methods.michel import Michel
from headwise.runs import open_run
from tests.families import BY_NAME
from tests.methods.worlds import tiny_problem

Array = NDArray[np.float64]
METHODS = ("confidence", "entropy", "hies")
CASES = ["xlm-roberta", "modernbert", "llama", "gemma3", "gpt2", "bloom", "marian", "t5"]


def world(case: str, kind: str = "heads", examples: int = 5) -> Problem:
    """A tiny model with every head a player, and examples in which some of the tokens are special."""
    problem = tiny_problem(case, examples=examples)
    players = kv_groups(problem.heads) if kind == "kv" else players_of(problem.heads, kind)  # type: ignore[arg-type]
    ids = [each for pair in problem.examples.encoded for each in pair.ids]
    special = tuple(sorted({0, 1, 2, ids[0], ids[-1]}))
    return replace(problem, players=players, examples=replace(problem.examples, special_ids=special))


def maps_of(problem: Problem, case: str, example: int) -> list[tuple[Array, list[int], list[int]]]:
    """The weights (queries, keys) of each head on one example, unpadded, with the tokens of queries and of keys."""
    eager = BY_NAME[case].build(attn_implementation="eager")
    examples = problem.examples
    batch = examples.task.make_batch(eager, examples.encoded, [example], examples.pad_id)
    inputs = batch.inputs(torch.device("cpu"))
    with torch.no_grad():
        output = eager(**inputs, output_attentions=True)
    source = inputs["input_ids"][0].tolist()
    target = inputs["decoder_input_ids"][0].tolist() if "decoder_input_ids" in inputs else source
    found = []
    for site in problem.heads.sites:
        seq2seq = "decoder_input_ids" in inputs
        weights = (output[f"{site.stack}_attentions"] if seq2seq else output.attentions)[site.layer][0]
        queries = source if site.stack == "encoder" else target
        keys = target if site.stack == "decoder" else source
        found += [(each.double().numpy(), queries, keys) for each in weights]
    return found


def plain_confidence(problem: Problem, case: str) -> Array:
    special = set(problem.examples.special_ids)
    sums, counts = np.zeros((2, len(problem.heads.players())))
    for example in range(len(problem.examples)):
        for head, (weights, queries, keys) in enumerate(maps_of(problem, case, example)):
            for place, query in enumerate(queries):
                if query not in special:
                    counts[head] += 1
                    sums[head] += max((w for w, key in zip(weights[place], keys, strict=True) if key not in special))
    return np.asarray(sums / counts)


def entropy_of(weights: Array) -> float:
    return float(-sum(w * math.log(w) for w in weights.tolist() if w > 0))


def plain_entropy(problem: Problem, case: str) -> Array:
    sums, counts = np.zeros((2, len(problem.heads.players())))
    for example in range(len(problem.examples)):
        for head, (weights, queries, _) in enumerate(maps_of(problem, case, example)):
            sums[head] += sum(entropy_of(row) for row in weights)
            counts[head] += len(queries)
    return np.asarray(sums / counts)


@pytest.mark.parametrize("case", CASES)
def test_confidence_is_the_mean_largest_weight_of_text_on_text(case: str) -> None:
    problem = world(case)
    found = score(find_method("confidence", examples=2), problem, Budget())
    np.testing.assert_allclose(found.values(), plain_confidence(problem, case), atol=1e-5)
    assert found.provenance.units == len(problem.examples)
    assert set(found.decision) == {"undecided"}


@pytest.mark.parametrize("case", CASES)
def test_entropy_is_the_mean_over_tokens_and_diffuse_heads_are_lowest(case: str) -> None:
    problem = world(case)
    found = score(find_method("entropy", examples=2), problem, Budget())
    np.testing.assert_allclose(found.values(), -plain_entropy(problem, case), atol=1e-5)
    assert found.provenance.units == len(problem.examples)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("case", ["xlm-roberta", "llama", "marian"])
def test_hies_is_the_formula_of_the_paper(case: str, alpha: float) -> None:
    problem = world(case)
    importance = score(Michel(), problem, Budget()).values()
    entropy = np.mean(
        [
            [
                np.mean([entropy_of(row) for row in weights]) / math.log(len(keys))
                for weights, _, keys in maps_of(problem, case, example)
            ]
            for example in range(len(problem.examples))
        ],
        axis=0,
    )
    high, low = ((each - each.min()) / (each.max() - each.min()) for each in (importance, entropy))
    found = score(find_method("hies", alpha=alpha, examples=2), problem, Budget())
    np.testing.assert_allclose(found.values(), alpha * high + (1 - alpha) * (1 - low), atol=1e-4)
    assert found.provenance.units == pytest.approx(3 * len(problem.examples))
    assert found.provenance.estimand == f"hies({alpha:g})"


@pytest.mark.parametrize("method", ["confidence", "entropy"])
def test_a_group_of_heads_has_the_mean_of_its_heads(method: str) -> None:
    single, grouped = (score(find_method(method), world("llama", kind), Budget()) for kind in ("heads", "kv"))
    np.testing.assert_allclose(grouped.values(), single.values().reshape(-1, 2).mean(1), rtol=1e-6)
    assert grouped.players[0] == "decoder.0.kv0"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", ["xlm-roberta", "marian"])
def test_batches_and_rounds_change_nothing(case: str, method: str) -> None:
    problem = world(case, examples=9)
    expected = score(find_method(method), problem, Budget())
    for options, settings in [({"examples": 2}, EngineSettings()), ({}, EngineSettings(memory_limit=1))]:
        found = score(find_method(method, **options), replace(problem, settings=settings), Budget())
        np.testing.assert_allclose(found.values(), expected.values(), atol=2e-5)


def test_the_order_of_examples_changes_nothing() -> None:
    problem = world("xlm-roberta", examples=9)
    turned = replace(problem, examples=replace(problem.examples, encoded=problem.examples.encoded[::-1]))
    first, second = (score(find_method("confidence", examples=4), each, Budget()) for each in (problem, turned))
    np.testing.assert_allclose(first.values(), second.values(), rtol=1e-6)
    np.testing.assert_allclose(first.stderr, second.stderr, rtol=1e-4)


def test_standard_errors_are_those_of_repeated_samples_of_examples() -> None:
    """Against the bootstrap over examples."""
    problem = world("xlm-roberta", examples=60)
    found = score(find_method("entropy"), problem, Budget())
    rounds: Any = find_method("entropy", examples=1).start(problem, 0)
    each = [rounds.draw(example)[0] for example in range(60)]
    sums, tokens = (np.array([one[name] for one in each]) for name in ("s", "n"))
    index = np.random.default_rng(0).integers(0, 60, (2000, 60))
    repeated = (sums[index].sum(1) / tokens[index].sum(1)).std(0)
    np.testing.assert_allclose(found.stderr, repeated, rtol=0.1)


@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_run_has_the_same_bits(tmp_path: Path, method: str) -> None:
    problem, chosen = world("xlm-roberta"), find_method(method, examples=1)
    with open_run(tmp_path / "run", {"seed": 3}) as run:
        score(chosen, problem, Budget(7), 3, run.journal, "zh")
        assert 0 < run.journal.count("zh") <= 5
        resumed = score(chosen, problem, Budget(), 3, run.journal, "zh")
    # Without standard errors, HIES has NaN there, which is not equal to itself.
    np.testing.assert_array_equal(resumed.values(), score(chosen, problem, Budget(), 3).values())
    np.testing.assert_array_equal(resumed.stderr, score(chosen, problem, Budget(), 3).stderr)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["ffn", "layers"])
def test_players_without_attention_weights_are_refused(method: str, kind: str) -> None:
    with pytest.raises(HeadwiseError, match=f"'{method}' needs heads, which have attention weights, not {kind}"):
        find_method(method).start(world("xlm-roberta", kind), 0)


@pytest.mark.parametrize("method", METHODS)
def test_unfit_options_are_refused(method: str) -> None:
    with pytest.raises(HeadwiseError, match="at least one example, not 0"):
        find_method(method, examples=0)


def test_alpha_is_a_share() -> None:
    with pytest.raises(HeadwiseError, match=r"alpha must be between 0 and 1, not 1\.5"):
        find_method("hies", alpha=1.5)
