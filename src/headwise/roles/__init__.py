"""Roles: what heads attend to, in every language. `headwise.roles(...)` measures them."""

import sys
from types import ModuleType
from typing import Any

from headwise.roles.corpus import Corpus, read_corpus
from headwise.roles.labels import ROLES, Role, RoleLabel, heads_by_role, label_heads
from headwise.roles.measure import measure_language
from headwise.roles.run import roles
from headwise.roles.statistics import STATISTICS
from headwise.roles.table import HeadRoles, LanguageRoles

__all__ = [
    "ROLES",
    "STATISTICS",
    "Corpus",
    "HeadRoles",
    "LanguageRoles",
    "Role",
    "RoleLabel",
    "heads_by_role",
    "label_heads",
    "measure_language",
    "read_corpus",
    "roles",
]


class _CallableModule(ModuleType):
    """Python binds `headwise.roles` to this package as soon as it is imported, so the package is the function too."""

    def __call__(self, *args: Any, **options: Any) -> HeadRoles:
        return roles(*args, **options)


sys.modules[__name__].__class__ = _CallableModule
