"""The simulated scheduler: efficiency in cases that can be computed by hand."""

import pytest
from benchmarks.scheduler import Driver, Service, most_workers, simulate

#: One batch for each base: batches of 1 s, and 37 rows of 28 tokens each.
SERVICE = Service("test", (1.0,), 37 * 28, 0.0, measured=False)


def test_a_round_that_fills_all_workers_keeps_them_busy() -> None:
    found = simulate(SERVICE, Driver(0.0, 0.0), workers=8, languages=1, bases=64)
    # Rounds of 4·64 / 37 = 7 and 64 batches on 8 workers: 1 s and 8 s, with 71 s of work.
    assert found.batches == 64
    assert found.busy == pytest.approx(71 / 72, abs=1e-3)
    assert found.bottleneck == "none"


def test_rounds_smaller_than_the_number_of_workers_are_the_bottleneck() -> None:
    alone = simulate(SERVICE, Driver(0.0, 0.0), workers=64, languages=1, bases=16)
    together = simulate(SERVICE, Driver(0.0, 0.0), workers=64, languages=15, bases=16)
    assert alone.busy == pytest.approx(18 / 2 / 64, abs=1e-3)
    assert alone.bottleneck == "size of rounds"
    assert together.busy > 4 * alone.busy, "rounds of other languages fill the gaps"


def test_a_slow_driver_is_the_bottleneck() -> None:
    # 0.1 s for each batch: the driver can feed ten workers.
    found = simulate(SERVICE, Driver(0.1, 0.0), workers=40, languages=15, bases=64)
    assert found.busy == pytest.approx(10 / 40, abs=0.03)
    assert found.bottleneck == "driver"
    assert most_workers(SERVICE, Driver(0.1, 0.0), languages=15, bases=64) == 8
