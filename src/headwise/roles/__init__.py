"""Roles: what heads attend to, in every language. `headwise.roles(...)` measures them."""

import sys
from types import ModuleType
from typing import Any

from headwise.roles.compare import RoleAgreement, RoleComparison, compare_roles
from headwise.roles.corpus import Corpus, read_corpus
from headwise.roles.joins import RoleValue, SeparatorTest, SharedHead, role_values, separator_test, shared_heads
from headwise.roles.labels import ROLES, Role, RoleLabel, heads_by_role, label_heads
from headwise.roles.measure import measure_language
from headwise.roles.page import Joined, relation_table, retained_table, write_page
from headwise.roles.pairs import ParallelSentences, parallel_sentences, read_pairs
from headwise.roles.plots import plot_layers, plot_relations, plot_retained, plot_separators
from headwise.roles.run import roles
from headwise.roles.statistics import STATISTICS
from headwise.roles.summaries import (
    AlignmentHead,
    BestHead,
    RetainedRoles,
    RoleStability,
    SurvivingRole,
    alignment_heads,
    best_heads,
    retained_roles,
    role_stability,
    roles_by_layer,
    statistic_stability,
    surviving_roles,
)
from headwise.roles.table import HeadRoles, LanguageRoles

__all__ = [
    "ROLES",
    "STATISTICS",
    "AlignmentHead",
    "BestHead",
    "Corpus",
    "HeadRoles",
    "Joined",
    "LanguageRoles",
    "ParallelSentences",
    "RetainedRoles",
    "Role",
    "RoleAgreement",
    "RoleComparison",
    "RoleLabel",
    "RoleStability",
    "RoleValue",
    "SeparatorTest",
    "SharedHead",
    "SurvivingRole",
    "alignment_heads",
    "best_heads",
    "compare_roles",
    "heads_by_role",
    "label_heads",
    "measure_language",
    "parallel_sentences",
    "plot_layers",
    "plot_relations",
    "plot_retained",
    "plot_separators",
    "read_corpus",
    "read_pairs",
    "relation_table",
    "retained_roles",
    "retained_table",
    "role_stability",
    "role_values",
    "roles",
    "roles_by_layer",
    "separator_test",
    "shared_heads",
    "statistic_stability",
    "surviving_roles",
    "write_page",
]


class _CallableModule(ModuleType):
    """Python binds `headwise.roles` to this package as soon as it is imported, so the package is the function too."""

    def __call__(self, *args: Any, **options: Any) -> HeadRoles:
        return roles(*args, **options)


sys.modules[__name__].__class__ = _CallableModule
