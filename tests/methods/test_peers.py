"""Peers: shapiq and captum solve our problems as we do."""

import importlib
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.games import find_game
from headwise.methods import Budget, score
from headwise.methods.exact import Exact
from headwise.methods.peers import (
    Approximator,
    Captum,
    PeerRounds,
    Shapiq,
)
from headwise.runs import open_run
from tests.methods.worlds import failing, simulate, tiny_problem

Peer = Shapiq | Captum


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


with_shapiq = pytest.mark.skipif(not installed("shapiq"), reason="shapiq is not installed: headwise[peers]")
with_captum = pytest.mark.skipif(not installed("captum"), reason="captum is not installed: headwise[peers]")
PEERS = [
    *(
        pytest.param(Shapiq(approximator=each, examples_per_coalition=8), id=each, marks=with_shapiq)
        for each in get_args(Approximator)
    ),
    pytest.param(Captum(examples_per_coalition=8), id="captum", marks=with_captum),
]


def change(peer: Peer, **options: Any) -> Peer:
    return type(peer)(**{**vars(peer), **options})


@pytest.mark.parametrize("peer", PEERS)
def test_peers_agree_with_the_truth(peer: Peer) -> None:
    problem = simulate(players=6, examples=8)
    found = score(change(peer, units=8 * 1000), problem, Budget(), seed=1)
    assert found.values() == pytest.approx(problem.exact, abs=0.006)
    assert found.provenance.method == peer.name
    assert found.provenance.confidence == "none"
    assert np.isnan(found.stderr).all()
    assert set(found.decision) == {"undecided"}


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("case", ["xlm-roberta", "llama", "marian"])
def test_peers_agree_with_enumeration_on_real_models(peer: Peer, case: str) -> None:
    problem = tiny_problem(case, players=5, examples=3)
    truth = score(Exact(), problem, Budget()).values()
    found = score(change(peer, units=3 * 150), problem, Budget(), seed=2)
    assert found.values() == pytest.approx(truth, abs=0.25 * np.abs(truth).max())
    assert found.values().sum() == pytest.approx(truth.sum(), abs=1e-5)


@pytest.mark.parametrize("peer", PEERS)
def test_fresh_examples_add_noise_and_no_bias(peer: Peer) -> None:
    problem = simulate(players=5, examples=40, noise=0.5)
    runs = [
        score(change(peer, units=4 * 24, examples_per_coalition=4, fresh=True), problem, Budget(), seed)
        for seed in range(60)
    ]
    values = np.array([each.values() for each in runs])
    error = values.std(0, ddof=1) / np.sqrt(len(values))
    # shapiq's estimators that value no coalition twice have a small bias of their own at such a budget.
    assert (np.abs(values.mean(0) - problem.exact) < 4 * error + 0.02).all()


def one_by_one(peer: Peer, estimates: int = 100) -> Peer:
    """Estimates of 24 coalitions on an example each."""
    return change(peer, units=24 * estimates, examples_per_coalition=1, coalitions=24)


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS)
def test_estimates_on_an_example_each_are_averaged(peer: Peer) -> None:
    problem = simulate(players=5, examples=40, noise=0.5)
    runs = [score(one_by_one(peer), problem, Budget(), seed) for seed in range(30)]
    values = np.array([each.values() for each in runs])
    assert len({each.value for each in runs}) == 30
    error = values.std(0, ddof=1) / np.sqrt(len(values))
    # shapiq's estimators that value no coalition twice have a small bias of their own with so few.
    assert (np.abs(values.mean(0) - problem.exact) < 4 * error + 0.01).all()
    assert all(24 * 99 < each.provenance.units <= 24 * 100 for each in runs)
    z = (values - problem.exact) / np.array([each.stderr for each in runs])
    unbiased = isinstance(peer, Captum) or peer.approximator == "PermutationSamplingSV"
    assert 0.7 < (z**2).mean() < 1.4 if unbiased else np.isnan(z).all()


@pytest.mark.parametrize("peer", PEERS)
def test_estimates_one_after_the_other_can_be_stopped_and_resumed(peer: Peer, tmp_path: Path) -> None:
    problem = simulate(players=5, examples=40, layers=3)
    whole = score(one_by_one(peer), problem, Budget(), seed=3)
    for budget in (500, 1100, 2400):
        with open_run(tmp_path / "run", {"seed": 3, "budget": budget}) as run:
            parts = score(one_by_one(peer), problem, Budget(budget), 3, run.journal)
            assert parts.provenance.units <= budget
    assert repr(parts) == repr(whole)


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("units", [8 * 7, 8 * 31 + 5, 8 * 1000])
def test_the_budget_is_never_overspent(peer: Peer, units: float) -> None:
    problem = simulate(players=6, examples=20, layers=1)
    found = score(change(peer, units=units), problem, Budget(units), seed=0)
    assert 0 < found.provenance.units <= units
    assert found.count[0] <= units // 8


@pytest.mark.parametrize("peer", PEERS)
def test_one_seed_one_result_and_a_run_that_has_ended_is_only_read(peer: Peer, tmp_path: Path) -> None:
    problem = simulate(players=6, examples=20, layers=3)
    small = change(peer, units=400)
    whole = score(small, problem, Budget(), seed=-3)
    with open_run(tmp_path / "run", {"seed": -3}) as run:
        begun = score(small, problem, Budget(), -3, run.journal)
        read = score(small, failing(problem, calls=0), Budget(), -3, run.journal)
    # By their text, which has every digit: a standard error that is not known equals nothing, not even itself.
    assert repr(begun) == repr(read) == repr(whole)
    assert score(small, problem, Budget(), seed=4).value != whole.value


@pytest.mark.parametrize("peer", PEERS)
def test_what_a_peer_cannot_do_is_said_in_a_sentence(peer: Peer) -> None:
    with pytest.raises(HeadwiseError, match=r"only the full value, not truncated\(0.5\)"):
        peer.start(simulate(share=0.5), 0)
    with pytest.raises(HeadwiseError, match=r"allow 5 coalitions of 8 examples, but .* needs 9 for 8 players"):
        change(peer, units=40).start(simulate(), 0)
    with pytest.raises(HeadwiseError, match=r"allow 12 coalitions of 8 examples, but .* needs 20 for 8 players"):
        change(peer, units=96, coalitions=20).start(simulate(), 0)
    with pytest.raises(HeadwiseError, match=r"coalitions of .* must be 0, or at least 9 for 8 players, not 5"):
        change(peer, units=960, coalitions=5).start(simulate(), 0)
    with pytest.raises(HeadwiseError, match=r"examples_per_coalition of .* must be at least 1, not 0"):
        change(peer, examples_per_coalition=0)
    with pytest.raises(HeadwiseError, match=r"coalitions of .* must be at least 0, not -1"):
        change(peer, coalitions=-1)
    with pytest.raises(HeadwiseError, match="'f1' is not a mean over examples"):
        change(peer, coalitions=20).start(tiny_problem("electra", find_game("f1", ("O", "B-X")), players=4), 0)


@pytest.mark.parametrize("peer", PEERS)
def test_without_the_budget_nothing_is_spent(peer: Peer) -> None:
    found = score(peer, simulate(), Budget(100))
    assert found.provenance.units == 0
    assert np.isnan(found.values()).all()


@with_shapiq
def test_an_unknown_approximator_is_named() -> None:
    with pytest.raises(HeadwiseError, match="not 'Owen'"):
        Shapiq(approximator="Owen").start(simulate(), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("peer", [Shapiq(), Captum()], ids=["shapiq", "captum"])
def test_a_missing_package_is_named(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("headwise.methods.peers.importlib.import_module", missing)
    with pytest.raises(HeadwiseError, match=rf"{peer.name} is not installed: pip install 'headwise\[peers\]'"):
        peer.start(simulate(), 0)


def test_peers_share_their_rounds() -> None:
    rounds = PeerRounds(Captum(units=500, examples_per_coalition=100), simulate(examples=20), 0)
    assert rounds.next_units == 500  # 25 coalitions of all 20 examples
    assert rounds.status == "nothing yet"
