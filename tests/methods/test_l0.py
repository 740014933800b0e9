"""Hard Concrete gates with frozen weights: planted heads, chosen sites, one step by autograd, and resuming."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headwise import HeadwiseError
from headwise.draws import Draws
from headwise.engine import kv_groups, players_of
from headwise.games import LikelihoodGame
from headwise.hard_concrete import HardConcrete
from headwise.methods import Budget, find_method, run_method, score
from headwise.methods.l0 import L0, l0_mask
from headwise.runs import open_run
from tests.engine.worlds import make_engine, plain_statistics
from tests.families import BY_NAME
from tests.methods.worlds import planted, tiny_problem


def test_gates_of_harmful_and_idle_players_close_and_those_of_helpful_players_stay_open() -> None:
    problem = planted(helpful=4, harmful=3, idle=3)
    found = score(L0(lam=0.02, epochs=40, batch=8), problem, Budget())
    assert l0_mask(found).on == (True,) * 4 + (False,) * 6
    assert not found.provenance.signed
    assert set(found.decision) == {"undecided"}


def test_a_larger_penalty_keeps_fewer_players() -> None:
    problem = planted(helpful=6, harmful=2, idle=2)
    kept = [l0_mask(score(L0(lam=lam, epochs=30, batch=8), problem, Budget())).count for lam in (0.0, 0.02, 10.0)]
    assert kept[0] >= kept[1] >= kept[2]
    assert kept[1] == 6
    assert kept[2] == 0


def test_the_first_step_follows_autograd_through_the_samples() -> None:
    problem = tiny_problem("xlm-roberta", players=5, examples=3)
    method = L0(lam=0.3, batch=3, log_alpha=0.5)
    arrays, draws = method.start(problem, 7).draw(0)
    assert draws == 3
    engine = make_engine(BY_NAME["xlm-roberta"], LikelihoodGame(), problem.players, model=problem.model)
    rounds = method.start(problem, 7)
    module = HardConcrete(5, log_alpha=0.5)
    uniform = torch.from_numpy(Draws(7, "l0 gates").uniform(0, 3, 5)).float()
    s = torch.sigmoid((uniform.log() - (1 - uniform).log() + module.log_alpha) / 0.33)
    gates = (s * 1.2 - 0.1).clamp(0, 1)
    values = [
        plain_statistics(engine, row, int(example))[0]
        for row, example in zip(gates, rounds.trainer.minibatch, strict=True)
    ]
    loss = -torch.stack(values).mean() + 0.3 * module.penalty()
    loss.backward()
    assert module.log_alpha.grad is not None
    np.testing.assert_allclose(arrays["mean"] / 0.1, module.log_alpha.grad.numpy(), atol=1e-5)


@pytest.mark.parametrize("sites", ["encoder", "decoder", "cross"])
def test_gates_outside_the_chosen_sites_stay_open(sites: str) -> None:
    problem = tiny_problem("marian", examples=4)
    problem = replace(problem, players=players_of(problem.heads))
    found = score(find_method("l0", sites=sites, lam=5.0, epochs=30, batch=2), problem, Budget())
    inside = np.array([name.startswith(sites) for name in found.players])
    assert np.isnan(found.values()).tolist() == (~inside).tolist()
    assert l0_mask(found).on == tuple((~inside).tolist())


@pytest.mark.parametrize("kind", ["ffn", "layers", "kv"])
def test_other_players_have_gates_too(kind: str) -> None:
    problem = tiny_problem("llama", examples=3)
    players = kv_groups(problem.heads) if kind == "kv" else players_of(problem.heads, kind)  # type: ignore[arg-type]
    found = score(
        find_method("l0", lam=9.0, epochs=30, batch=3, sites="decoder"), replace(problem, players=players), Budget()
    )
    assert l0_mask(found).count == 0


def test_a_run_that_was_interrupted_ends_with_the_same_bits(tmp_path: Path) -> None:
    problem, method = tiny_problem("xlm-roberta", examples=5), L0(epochs=3, batch=2)
    whole = run_method(method, problem, Budget(), 3).scores
    with open_run(tmp_path / "run", {"seed": 3}) as run:
        assert not run_method(method, problem, Budget(11), 3, run.journal, "x").rounds.done
    with open_run(tmp_path / "run", {"seed": 3}) as run:
        assert run_method(method, problem, Budget(), 3, run.journal, "x").scores.to_dict() == whole.to_dict()


def test_mistakes_are_named() -> None:
    with pytest.raises(HeadwiseError, match="has no player in 'cross'"):
        score(find_method("l0", sites="cross"), tiny_problem("bert"), Budget())
    with pytest.raises(HeadwiseError, match="must be one of all, encoder, decoder, cross, not 'left'"):
        find_method("l0", sites="left")
    with pytest.raises(HeadwiseError, match="lam must be a number of at least 0"):
        find_method("l0", lam=-1.0)
    with pytest.raises(HeadwiseError, match="needs scores of the method 'l0', not of 'random'"):
        l0_mask(score(find_method("random"), tiny_problem("bert"), Budget()))
