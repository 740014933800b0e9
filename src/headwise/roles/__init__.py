"""Roles: what heads attend to, in every language. `headwise.roles(...)` measures them."""

import sys
from types import ModuleType
from typing import Any

from headwise.roles.corpus import Corpus, read_corpus
from headwise.roles.joins import SeparatorTest, SharedHead, separator_test, shared_heads
from headwise.roles.labels import ROLES, Role, RoleLabel, heads_by_role, label_heads
from headwise.roles.measure import measure_language
from headwise.roles.run import roles
from headwise.roles.statistics import STATISTICS
from headwise.roles.summaries import (
    BestHead,
    RoleStability,
    SurvivingRole,
    best_heads,
    role_stability,
    statistic_stability,
    surviving_roles,
)
from headwise.roles.table import HeadRoles, LanguageRoles

__all__ = [
    "ROLES",
    "STATISTICS",
    "BestHead",
    "Corpus",
    "HeadRoles",
    "LanguageRoles",
    "Role",
    "RoleLabel",
    "RoleStability",
    "SeparatorTest",
    "SharedHead",
    "SurvivingRole",
    "best_heads",
    "heads_by_role",
    "label_heads",
    "measure_language",
    "read_corpus",
    "role_stability",
    "roles",
    "separator_test",
    "shared_heads",
    "statistic_stability",
    "surviving_roles",
]


class _CallableModule(ModuleType):
    """Python binds `headwise.roles` to this package as soon as it is imported, so the package is the function too."""

    def __call__(self, *args: Any, **options: Any) -> HeadRoles:
        return roles(*args, **options)


sys.modules[__name__].__class__ = _CallableModule
