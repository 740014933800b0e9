"""Asymptotic confidence sequences for means: they need no range, but have no guarantee for few observations.

After Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas, "Time-uniform central limit theory and asymptotic confidence
sequences" (Annals of Statistics, 2024), theorem 2.2.
"""

import numpy as np
from numpy.typing import ArrayLike

from headwise.stats.streams import Array

#: The number of observations for which the width of the interval is optimised.
_TIGHT_AT = 500.0
#: A variance estimated from fewer observations than this is not reliable.
FEWEST = 64


def asymptotic_radius(count: ArrayLike, variance: ArrayLike, error_rate: float) -> Array:
    """Half the width of an interval around a mean; infinite for fewer than 64 observations.

    Args:
        count: Number of observations so far, (players,).
        variance: Their variance, (players,).
        error_rate: Asymptotic probability that the mean is ever outside. For n players together, pass α/n.

    Example:
        >>> asymptotic_radius([10, 1000], [1.0, 1.0], error_rate=0.05).round(3)
        array([  inf, 0.097])
    """
    t, spread = np.asarray(count, dtype=np.float64), np.sqrt(np.asarray(variance, dtype=np.float64))
    odds = -2 * np.log(error_rate)
    tuned = (odds + np.log1p(odds)) / _TIGHT_AT  # ρ² of the paper
    grown = t * tuned + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = spread * np.sqrt(2 * grown / (t**2 * tuned) * (0.5 * np.log(grown) - np.log(error_rate)))
    return np.where(t >= FEWEST, radius, np.inf)
