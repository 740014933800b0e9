"""Colours for light and dark screens: a diverging scale that is safe for colour-blind readers, and line colours."""

import math
from collections.abc import Sequence

import numpy as np

#: Number of steps of the scale on each side of zero.
STEPS = 16

#: Orange below zero, blue above, based on ColorBrewer's Oranges and Blues; on dark screens zero is dark.
SCALE_COLOURS = ("#7f2704", "#d94801", "#fd8d3c", "#fdd0a2", "#f4f4f2", "#c6dbef", "#6baed6", "#2171b5", "#08306b")
_DARK = ("#ffc48a", "#f58f35", "#c9610f", "#6e370e", "#2c3036", "#1b436d", "#2c74b3", "#5aa5e6", "#a3d3ff")

#: Colours of lines, based on the palette of Okabe and Ito, which is safe for colour-blind readers.
LINE_COLOURS = ("#0072b2", "#d55e00", "#5c5c5c", "#009e73", "#a8528a", "#8a6d00", "#3a9bd6")
_LINES_DARK = ("#56b4e9", "#ff8c42", "#b5b5b5", "#2fc79a", "#dd94c0", "#e0c341", "#0e86d4")
LINES = len(LINE_COLOURS)


def level(value: float, limit: float) -> int | None:
    """The step of a value on the scale from −`limit` to `limit`; None for a missing value.

    Example:
        >>> level(0.5, 1.0), level(-3.0, 1.0), level(0.0, 0.0), level(float("nan"), 1.0)
        (8, -16, 0, None)
    """
    if math.isnan(value):
        return None
    share = value / limit if limit > 0 and math.isfinite(value) else math.copysign(1.0, value) if value else 0.0
    return round(STEPS * min(max(share, -1.0), 1.0))


def limit_of(values: Sequence[float]) -> float:
    """The limit of a colour scale for these values: the 98% quantile of their absolute values.

    Example:
        >>> limit_of([0.1, -0.4, 0.2])
        0.4
    """
    sizes = np.abs(np.array(values, dtype=np.float64))
    sizes = sizes[np.isfinite(sizes)]
    return float(np.quantile(sizes, 0.98, method="higher")) if len(sizes) else 0.0


def colour_rules() -> str:
    """Style rules for the classes `s-16` to `s16` (steps of the scale) and `l0`… (lines)."""
    steps = range(-STEPS, STEPS + 1)
    rules = [f".s{step}{{fill:var(--c{step})}}" for step in steps]
    rules += [f".l{line}{{--line:var(--l{line})}}" for line in range(LINES)]
    return f":root{{{_variables()}}}{''.join(rules)}"


def _variables() -> str:
    """CSS variables with a colour for light and one for dark screens."""
    steps, shares = range(-STEPS, STEPS + 1), np.linspace(0, 1, 2 * STEPS + 1).tolist()
    found = [
        f"--c{step}:light-dark({_between(SCALE_COLOURS, share)},{_between(_DARK, share)})"
        for step, share in zip(steps, shares, strict=True)
    ]
    lines = zip(LINE_COLOURS, _LINES_DARK, strict=True)
    return ";".join([*found, *(f"--l{place}:light-dark({one},{other})" for place, (one, other) in enumerate(lines))])


def _between(stops: Sequence[str], share: float) -> str:
    """The colour at a share of the way along the stops, by linear interpolation."""
    channels = np.array([[int(stop[place : place + 2], 16) for place in (1, 3, 5)] for stop in stops])  # (stops, 3)
    at = np.linspace(0, 1, len(stops))
    return "#" + "".join(f"{round(float(np.interp(share, at, channels[:, channel]))):02x}" for channel in range(3))
