"""The paired bootstrap, against a loop that says what it means."""

import numpy as np
import pytest
from numpy.typing import NDArray

from headwise.errors import HeadwiseError
from headwise.stats import bootstrap
from headwise.stats.bootstrap import bootstrap_bands, bootstrap_interval, bootstrap_values, paired_bootstrap
from headwise.stats.ranks import permutation_p_value
from headwise.stats.sign_flips import sign_flip_p_value

Array = NDArray[np.float64]


def ratio(totals: Array) -> Array:
    return 100 * totals[..., 0] / totals[..., 1]


def f1(totals: Array) -> Array:
    return 200 * totals[..., 0] / (totals[..., 1] + totals[..., 2])


def entities(generator: np.random.Generator, examples: int, share: float) -> Array:
    gold = generator.integers(1, 6, examples)
    found = generator.integers(1, 6, examples)
    return np.stack([generator.binomial(np.minimum(gold, found), share), found, gold], axis=1).astype(float)


def naive(base: Array, system: Array, resamples: int, seed: int) -> tuple[float, float, float, float]:
    generator, n = np.random.default_rng(seed), len(base)
    difference = float(f1(system.sum(0)) - f1(base.sum(0)))
    drawn, flips = [], 0
    for _ in range(resamples):
        rows = generator.integers(n, size=n)
        drawn.append(float(f1(system[rows].sum(0)) - f1(base[rows].sum(0))))
        flips += drawn[-1] <= 0 if difference > 0 else drawn[-1] >= 0
    low, high = np.percentile(drawn, [2.5, 97.5])
    return difference, float(low), float(high), min(1.0, 2 * (1 + flips) / (1 + resamples))


@pytest.mark.parametrize("seed", [2**32 - 1, 2**63 - 1, -1, -(2**63)])
def test_any_whole_number_is_a_seed(seed: int) -> None:
    systems = [np.arange(8.0)[:, None], np.arange(8.0)[::-1, None]]
    one, other = (bootstrap_values(systems, lambda totals: totals[..., 0], 20, seed) for _ in range(2))
    assert np.array_equal(one, other)
    assert sign_flip_p_value([0.1] * 30, 50, seed) > 0
    assert permutation_p_value(range(9), [1, 0, *range(2, 9)], 50, seed) > 0


def test_it_is_the_naive_loop_whatever_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    base = entities(generator, 83, 0.7)
    systems = [entities(generator, 83, share) for share in (0.6, 0.7, 0.75)]
    whole = paired_bootstrap(base, systems, f1, resamples=501, seed=4)
    monkeypatch.setattr(bootstrap, "_CHUNK", 1000)
    assert paired_bootstrap(base, systems, f1, resamples=501, seed=4) == whole
    for system, test in zip(systems, whole, strict=True):
        assert (test.difference, test.low, test.high, test.p_value) == pytest.approx(naive(base, system, 501, 4))
        assert test.resamples == 501


def test_a_system_is_tested_alike_alone_and_among_others() -> None:
    generator = np.random.default_rng(1)
    base, first, second = (entities(generator, 50, 0.7) for _ in range(3))
    both = paired_bootstrap(base, [first, second], f1, resamples=200)
    assert both[1] == paired_bootstrap(base, [second], f1, resamples=200)[0]
    turned = paired_bootstrap(second, [base], f1, resamples=200)[0]
    assert (turned.difference, turned.p_value) == pytest.approx((-both[1].difference, both[1].p_value))
    assert paired_bootstrap(base, [], f1, resamples=10) == ()


def test_the_same_system_does_not_differ() -> None:
    base = entities(np.random.default_rng(2), 40, 0.7)
    [test] = paired_bootstrap(base, [base], f1, resamples=100)
    assert (test.difference, test.low, test.high, test.p_value) == (0, 0, 0, 1)


def test_a_difference_everywhere_has_the_smallest_p_value() -> None:
    base = np.tile([0.0, 1.0], (30, 1))
    [test] = paired_bootstrap(base, [base + np.array([1.0, 0.0])], ratio)
    assert (test.difference, test.low, test.high) == (100, 100, 100)
    assert test.p_value == pytest.approx(2 / 10_001)


def test_systems_that_are_alike_are_told_apart_at_the_stated_rate() -> None:
    generator, trials = np.random.default_rng(3), 400
    found = 0
    for trial in range(trials):
        base, system = ((generator.random((200, 1)) < 0.7) * [1.0, 0.0] + [0.0, 1.0] for _ in range(2))
        [test] = paired_bootstrap(base, [system], ratio, resamples=500, seed=trial)
        found += test.p_value < 0.05
    print(f"{found / trials:.1%} of pairs that are alike have P < 0.05")
    assert 0.01 < found / trials < 0.09


def test_mistakes_are_named() -> None:
    base = np.ones((5, 2))
    with pytest.raises(HeadwiseError, match=r"same examples: shapes \(5, 2\) and \(4, 2\)"):
        paired_bootstrap(base, [np.ones((4, 2))], ratio)
    with pytest.raises(HeadwiseError, match="at least one example"):
        paired_bootstrap(np.ones((0, 2)), [], ratio)
    with pytest.raises(HeadwiseError, match="at least one resample"):
        paired_bootstrap(base, [base], ratio, resamples=0)


def test_bands_are_quantiles_of_one_set_of_resamples_whatever_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    systems = [entities(generator, 40, share) for share in (0.3, 0.6, 0.9)]
    rows = np.random.default_rng(1).integers(40, size=(150, 40))
    drawn = np.array([[f1(system[each].sum(0)) for system in systems] for each in rows])  # (resamples, systems)
    monkeypatch.setattr(bootstrap, "_CHUNK", 40 * 7)
    low, high = bootstrap_bands(systems, f1, resamples=150, confidence=0.9, seed=1)
    assert low == pytest.approx(np.quantile(drawn, 0.05, axis=0))
    assert high == pytest.approx(np.quantile(drawn, 0.95, axis=0))


def test_bands_need_systems_of_the_same_examples() -> None:
    with pytest.raises(HeadwiseError, match="at least one system"):
        bootstrap_bands([], ratio)
    with pytest.raises(HeadwiseError, match="the same examples"):
        bootstrap_bands([np.ones((4, 2)), np.ones((5, 2))], ratio)


def test_the_bootstrap_interval_covers_at_its_rate() -> None:
    generator = np.random.default_rng(0)
    hits = 0
    for trial in range(300):
        right = generator.random(200) < 0.7
        statistics = np.stack([right, np.ones(200)], axis=1).astype(float)
        low, high = bootstrap_interval(statistics, ratio, resamples=400, seed=trial)
        hits += low <= 70 <= high
    assert 0.90 <= hits / 300 <= 0.985


def test_an_interval_is_a_band_of_one_system() -> None:
    statistics = entities(np.random.default_rng(5), 60, 0.7)
    low, high = bootstrap_bands([statistics, statistics], f1, resamples=300, seed=2)
    assert bootstrap_interval(statistics, f1, resamples=300, seed=2) == (low[1], high[1])
