"""Statistics: confidence sequences for means and signs, multiple testing, the bootstrap, rank correlation."""

from headwise.stats.bernstein import EmpiricalBernstein
from headwise.stats.betting import SignTest
from headwise.stats.bootstrap import PairedTest, bootstrap_bands, bootstrap_interval, bootstrap_values, paired_bootstrap
from headwise.stats.multiple import Decision, bh, chance_below, decide
from headwise.stats.ranks import (
    Correlation,
    clear,
    jaccard,
    permutation_p_value,
    sign_agreement,
    spearman,
    spearman_matrix,
)
from headwise.stats.shrinkage import Shrunk, shrink_to_zero

__all__ = [
    "Correlation",
    "Decision",
    "EmpiricalBernstein",
    "PairedTest",
    "Shrunk",
    "SignTest",
    "bh",
    "bootstrap_bands",
    "bootstrap_interval",
    "bootstrap_values",
    "chance_below",
    "clear",
    "decide",
    "jaccard",
    "paired_bootstrap",
    "permutation_p_value",
    "shrink_to_zero",
    "sign_agreement",
    "spearman",
    "spearman_matrix",
]
