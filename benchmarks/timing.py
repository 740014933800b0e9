"""Timing on a noisy machine: calls are interleaved in rounds and compared by the ratios within each round."""

import statistics
import time
from collections.abc import Callable, Mapping

import torch
from torch.utils.flop_counter import FlopCounterMode


def interleave(
    calls: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each call in each round; the order rotates every round, and the first round is a warm-up.

    Args:
        calls: The calls by name.
        rounds: Number of rounds after the warm-up.
        clock: The clock; `time.process_time` does not count what other processes take.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = clock()
            calls[name]()
            if turn:
                seconds[name].append(clock() - start)
    return seconds


def median_ratio(over: list[float], under: list[float]) -> float:
    """The median, over rounds, of one call's time divided by another's."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def count_flops(call: Callable[[], object]) -> int:
    """Floating-point operations of matrix products and attention, as PyTorch counts them."""
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())
