"""Statistics of attention. To add one, write its file and add a row to `STATISTICS`."""

from headwise.roles.statistics.alignment import Alignment
from headwise.roles.statistics.base import SELF, Column, SingleColumn, Statistic, StatisticFactory
from headwise.roles.statistics.diffuseness import alignment_entropy, broad, confidence, entropy
from headwise.roles.statistics.positions import Offsets, first_weight, next_weight, previous_weight, self_weight
from headwise.roles.statistics.rare import rare_statistic
from headwise.roles.statistics.repeats import duplicate_weight, induction_weight, retrieval
from headwise.roles.statistics.separators import end_weight, separator_all, separator_top, separator_weight
from headwise.roles.statistics.syntax import Syntax
from headwise.roles.statistics.transition import Transition

#: Changes when the definition of a statistic changes; a run never mixes versions.
VERSION = 1

STATISTICS: tuple[StatisticFactory, ...] = (
    SingleColumn("confidence", confidence),
    SingleColumn("entropy", entropy, share=False),
    SingleColumn("broad", broad),
    SingleColumn("self", self_weight, SELF),
    SingleColumn("first", first_weight),
    SingleColumn("previous", previous_weight, SELF),
    SingleColumn("next", next_weight, SELF),
    SingleColumn("separator_weight", separator_weight),
    SingleColumn("separator_top", separator_top),
    SingleColumn("separator_all", separator_all),
    SingleColumn("duplicate", duplicate_weight, SELF),
    SingleColumn("induction", induction_weight, SELF),
    SingleColumn("retrieval", retrieval, ("decoder", "cross")),
    SingleColumn("end_weight", end_weight, ("decoder", "cross")),
    SingleColumn("alignment_entropy", alignment_entropy, ("cross",), share=False),
    Transition.of,
    rare_statistic,
    Offsets.of,
    Syntax.of,
)
#: Statistics of sentences that are read together with their translations.
PAIR_STATISTICS: tuple[StatisticFactory, ...] = (Alignment.of,)

__all__ = [
    "PAIR_STATISTICS",
    "STATISTICS",
    "VERSION",
    "Column",
    "SingleColumn",
    "Statistic",
    "StatisticFactory",
]
