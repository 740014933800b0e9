"""YAML text from outside: parsed with limits, and every error is one sentence."""

import importlib
from functools import lru_cache
from typing import Any

from headwise.errors import HeadwiseError

#: Maximum number of characters. Plans and configs have a few thousand.
_LARGEST = 1_000_000


def parse_yaml(text: str, where: str) -> Any:
    r"""Plain data from YAML text.

    Aliases (`*name`) are refused, because a few lines of them can expand to more data than fit into memory.

    Args:
        text: The text.
        where: What to name in messages, such as the file.

    Raises:
        HeadwiseError: The text is not YAML, too long, too deeply nested, or has aliases.

    Example:
        >>> parse_yaml("languages: [zh, tr]", "plan.yaml")
        {'languages': ['zh', 'tr']}
        >>> parse_yaml("a: &x [1]\nb: *x", "plan.yaml")
        Traceback (most recent call last):
        headwise.errors.HeadwiseError: plan.yaml, line 2: not YAML: the alias *x is not allowed: write the value itself
    """
    if len(text) > _LARGEST:
        raise HeadwiseError(f"{where}: not YAML: it has {len(text):,} characters, at most {_LARGEST:,} are read")
    yaml = importlib.import_module("yaml")  # untyped, and late because most commands read no YAML
    try:
        return yaml.load(text, Loader=_loader())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise HeadwiseError(f"{where}{line}: not YAML: {getattr(error, 'problem', error)}") from None
    except (ValueError, RecursionError):  # a date that does not exist, a number of thousands of digits, deep nesting
        raise HeadwiseError(
            f"{where}: not YAML: a date or number is not valid, or the nesting is too deep: correct it"
        ) from None


@lru_cache(maxsize=1)
def _loader() -> Any:
    """PyYAML's safe loader without aliases."""
    yaml = importlib.import_module("yaml")

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                event = self.peek_event()
                problem = f"the alias *{event.anchor} is not allowed: write the value itself"
                raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
            return super().compose_node(parent, index)

    return Loader
