"""YAML text from outside: parsed with limits, and every error is one sentence."""

import importlib
import re
from functools import lru_cache
from typing import Any

from headwise.errors import HeadwiseError

#: Maximum number of characters. Plans and configs have a few thousand.
_LARGEST = 1_000_000
#: Maximum number of characters of a number. Numbers with colons (`1:30`) take quadratic time.
_LONGEST_NUMBER = 100
#: Numbers such as 1e-3, which PyYAML reads as text, because YAML 1.1 wants a point in them.
_EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$")


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
        problem = str(getattr(error, "problem", None) or error).splitlines()[0]
        raise HeadwiseError(f"{where}{line}: not YAML: {problem}") from None
    except Exception:  # PyYAML fails in many ways: a date that does not exist, an empty number, deep nesting
        raise HeadwiseError(
            f"{where}: not YAML: a date or number is not valid, or the nesting is too deep: correct it"
        ) from None


@lru_cache(maxsize=1)
def _loader() -> Any:
    """PyYAML's safe loader with numbers such as 1e-3, without aliases, long numbers and halves of characters."""
    yaml = importlib.import_module("yaml")

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                event = self.peek_event()
                problem = f"the alias *{event.anchor} is not allowed: write the value itself"
                raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
            return super().compose_node(parent, index)

        def construct_yaml_str(self, node: Any) -> Any:
            try:
                node.value.encode()
            except UnicodeEncodeError:
                problem = "a \\u escape that is half a character"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None
            return super().construct_yaml_str(node)

        def construct_yaml_int(self, node: Any) -> Any:
            return super().construct_yaml_int(_short(node))

        def construct_yaml_float(self, node: Any) -> Any:
            return super().construct_yaml_float(_short(node))

    def _short(node: Any) -> Any:
        if len(str(node.value)) > _LONGEST_NUMBER:
            problem = f"a number of more than {_LONGEST_NUMBER} characters: shorten it, or put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return node

    Loader.add_constructor("tag:yaml.org,2002:str", Loader.construct_yaml_str)
    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)
    Loader.add_constructor("tag:yaml.org,2002:float", Loader.construct_yaml_float)
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))
    return Loader
