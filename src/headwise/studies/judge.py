"""Judging masks: the metric of measured statistics, and the comparison of a mask with no mask."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from headwise.errors import FieldError
from headwise.scoring import ScoringPlan
from headwise.stats import PairedTest, bootstrap_bands, paired_bootstrap
from headwise.tasks.metrics import Metric

Array = NDArray[np.float64]
#: The split that contains all of the data.
_WHOLE = "all"


@dataclass(frozen=True)
class Judge:
    """A metric with its bootstrap tests.

    Attributes:
        metric: The metric.
        resamples: Number of bootstrap resamples.
    """

    metric: Metric
    resamples: int

    def value(self, statistics: Array) -> float:
        """The metric of some examples, in percent; statistics are (examples, statistics)."""
        return float(self.metric.value(statistics.sum(0)))

    def compare(self, base: Array, other: Array) -> PairedTest:
        """Compare a mask with no mask on the same examples by the paired bootstrap."""
        [found] = paired_bootstrap(base, [other], self._of_totals, self.resamples)
        return found

    def bands(self, measured: Sequence[Array]) -> tuple[Array, Array]:
        """The ends of the 95% interval of the metric under each of several masks, (masks,) each."""
        return bootstrap_bands(measured, self._of_totals, self.resamples)

    @property
    def _of_totals(self) -> Callable[[Array], Array]:
        return cast(Callable[[Array], Array], self.metric.value)


def check_split(scoring: ScoringPlan, test_split: str) -> None:
    """Raise an error if masks would be judged on the data they are chosen on.

    The split `all` contains every other split.

    Raises:
        HeadwiseError: The splits overlap.
    """
    if test_split == scoring.split:
        raise FieldError("test_split", f"heads are also scored on {test_split!r}: judge them on another split")
    for name, split, other in (("test_split", test_split, scoring.split), ("split", scoring.split, test_split)):
        if split == _WHOLE:
            raise FieldError(name, f"{_WHOLE!r} also contains {other!r}: score and judge on splits that do not overlap")
