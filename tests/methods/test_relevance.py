"""Relevance of heads: against formulas in plain loops, against captured neurons, and as a method among others."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise import HeadwiseError, find_heads
from headwise.engine import EngineSettings, ExampleSet, LocalEngine, PlayerSet, players_of
from headwise.engine.players import kv_groups, players_of_kinds
from headwise.games import ProbabilityGame, TopLogitGame
from headwise.methods import Budget, Problem, score
from headwise.methods.relevance import Relevance
from headwise.propagation import RuleName, propagating
from headwise.runs import open_run
from tests.engine.worlds import make_examples, plain_statistics
from tests.families import BY_NAME, no_trace_left
from tests.methods.relevance_by_hand import heads_by_hand

NAMES: tuple[RuleName, ...] = ("voita", "attnlrp", "cp")
Array = NDArray[np.float64]


def problem_of(case: str, players: PlayerSet | None = None, **changes: Any) -> Problem:
    """A problem on a tiny model with every head as a player."""
    model: Any = BY_NAME[case].build(**changes)
    heads = find_heads(model)
    examples = make_examples(BY_NAME[case], model)
    return Problem(model, heads, examples, players or players_of(heads), ProbabilityGame())


def shares(relevance: Array, names: tuple[str, ...]) -> Array:
    """The share of each player in the sizes of its site, in plain loops."""
    found = np.zeros_like(relevance)
    for row, each in enumerate(relevance):
        for player, name in enumerate(names):
            site = name.rpartition(".")[0]
            total = sum(abs(r) for r, other in zip(each, names, strict=True) if other.rpartition(".")[0] == site)
            found[row, player] = each[player] / total
    return found


def captured_relevance(problem: Problem, rule: RuleName, example: int) -> Array:
    """Neurons times their gradients, summed over each head, for one example in a batch of its own, (heads,)."""
    model, contexts = problem.model, {}
    engine = LocalEngine(model, problem.heads, TopLogitGame(), problem.examples, players_of(problem.heads))

    def keep(site: str) -> Any:
        def hook(_module: Any, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            contexts[site] = args[0].clone() if args[0].requires_grad else args[0].detach().clone().requires_grad_()
            return contexts[site], *args[1:]

        return hook

    handles = [
        model.get_submodule(site.output).register_forward_pre_hook(keep(site.name)) for site in problem.heads.sites
    ]
    with propagating(model, rule):
        (value,) = plain_statistics(engine, torch.ones(len(engine.players)), example)
    for handle in handles:
        handle.remove()
    found: list[float] = []
    for site in problem.heads.sites:
        (gradient,) = torch.autograd.grad(value, contexts[site.name], retain_graph=True)
        found.extend((contexts[site.name] * gradient).unflatten(-1, (-1, site.head_width)).sum((0, 1, 3)).tolist())
    return np.array(found)


@pytest.mark.parametrize("rule", NAMES)
def test_relevance_follows_the_formulas_of_the_rules(rule: RuleName) -> None:
    problem = problem_of("xlm-roberta", num_hidden_layers=2)
    model: Any = problem.model.double()
    by_hand = []
    for example in problem.examples.encoded:
        with torch.no_grad():
            embedded = model.base_model.embeddings(torch.tensor([example.ids]))[0]
        by_hand.append(heads_by_hand(model, embedded.numpy(), rule).ravel())
    found = score(Relevance(rule=rule, epsilon=1e-12), problem, Budget())
    np.testing.assert_allclose(found.values(), shares(np.array(by_hand), found.players).mean(0), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("rule", NAMES)
@pytest.mark.parametrize("case", ["distilbert", "m2m_100", "mbart", "mt5", "qwen3", "gemma2", "gpt2"])
def test_a_head_has_the_relevance_of_its_neurons(case: str, rule: RuleName) -> None:
    problem = problem_of(case)
    problem.model.double()
    each = np.array([captured_relevance(problem, rule, example) for example in range(len(problem.examples))])
    found = score(Relevance(rule=rule), problem, Budget())
    expected = shares(each, found.players)
    np.testing.assert_allclose(found.values(), expected.mean(0), atol=2e-4)
    np.testing.assert_allclose(found.stderr, expected.std(0, ddof=1) / np.sqrt(len(each)), atol=2e-4)
    assert {name.partition(".")[0] for name in found.players} == {site.stack for site in problem.heads.sites}


def test_scores_describe_themselves() -> None:
    problem = problem_of("marian")
    found = score(Relevance(examples=2), problem, Budget())
    assert found.provenance.units == pytest.approx(2 * len(problem.examples))
    assert found.provenance.estimand == "relevance (cp)"
    assert not found.provenance.signed
    assert set(found.decision) == {"undecided"}
    assert np.abs(found.values()).max() <= 1


def test_batches_and_order_do_not_matter() -> None:
    problem = problem_of("xlm-roberta")
    expected = score(Relevance(), problem, Budget()).values()
    small = replace(problem, settings=EngineSettings(token_budget=1))
    backwards = replace(
        problem, examples=ExampleSet(problem.examples.task, problem.examples.encoded[::-1], problem.examples.pad_id)
    )
    for each in (score(Relevance(examples=2), small, Budget()), score(Relevance(examples=3), backwards, Budget())):
        np.testing.assert_allclose(each.values(), expected, atol=1e-5)


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    problem, method = problem_of("xlm-roberta"), Relevance(examples=2)
    whole = score(method, problem, Budget())
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        part = score(method, problem, Budget(5), journal=run.journal, stream="x")
        assert part.provenance.units == pytest.approx(4)
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        assert score(method, problem, Budget(), journal=run.journal, stream="x") == whole


def test_groups_of_heads_have_the_sum_of_their_heads() -> None:
    problem = problem_of("llama")
    groups = kv_groups(problem.heads)
    each = np.array([captured_relevance(problem, "cp", example) for example in range(len(problem.examples))])
    sums = each.reshape(len(each), -1, 2).sum(2)  # two heads share a key-value head
    found = score(Relevance(), replace(problem, players=groups), Budget())
    assert found.players[:2] == ("decoder.0.kv0", "decoder.0.kv1")
    np.testing.assert_allclose(found.values(), shares(sums, groups.names).mean(0), atol=1e-4)


def test_feed_forward_blocks_are_compared_within_their_stack() -> None:
    problem = problem_of("mt5")
    found = score(Relevance(), replace(problem, players=players_of(problem.heads, "ffn")), Budget(), seed=0)
    assert np.abs(found.values()).max() < 1
    by_stack = np.abs(found.values()).reshape(2, 3).sum(1)
    assert (by_stack <= 1 + 1e-6).all()


@pytest.mark.parametrize("rule", NAMES)
def test_other_players_do_not_change_relevance(rule: RuleName) -> None:
    problem = problem_of("mt5")
    found = []
    for players in (players_of(problem.heads, "ffn"), players_of_kinds(problem.heads, ("heads", "ffn"))):
        engine = replace(problem, players=players).engine(TopLogitGame())
        with propagating(problem.model, rule):
            gradients = engine.gradients(np.ones((3, len(players)), dtype=bool), np.arange(3)).gradients
        found.append(gradients[:, [name.split(".")[1] == "ffn" for name in players.names]])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3)


def test_layers_are_refused() -> None:
    problem = problem_of("llama")
    with pytest.raises(HeadwiseError, match="no values for layers, because every layer passes on the same sum"):
        score(Relevance(), replace(problem, players=players_of(problem.heads, "layers")), Budget())


def test_other_families_are_refused() -> None:
    with pytest.raises(HeadwiseError, match="not tested on BLOOM"):
        score(Relevance(), problem_of("bloom"), Budget())


def test_nothing_remains_on_the_model_after_an_error() -> None:
    problem = problem_of("xlm-roberta")
    with torch.no_grad():
        problem.model.classifier.weight.fill_(torch.nan)  # type: ignore[union-attr, operator]
    with (
        no_trace_left(problem.model),
        pytest.raises(HeadwiseError, match=r"NaN or infinity.*use a larger epsilon or the"),
    ):
        score(Relevance(rule="voita"), problem, Budget())
    assert all(weight.requires_grad for weight in problem.model.parameters())
