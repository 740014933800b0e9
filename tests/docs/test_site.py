"""The documentation site has every page, and its reference of the command line has every command and option."""

import importlib.util
import re
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main
import yaml  # type: ignore[import-untyped]

from headwise.cli.commands import app
from tests.docs.pages import ROOT

COMMANDS: Any = typer.main.get_command(app).commands  # type: ignore[attr-defined]


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads mkdocs.yml, whose tags name functions of extensions."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
SITE: Any = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader)


def pages_of(nav: Any) -> list[str]:
    """The files in the navigation."""
    if isinstance(nav, str):
        return [nav]
    return [page for each in (nav.values() if isinstance(nav, dict) else nav) for page in pages_of(each)]


def built_commands() -> str:
    """The page on the command line, as the site has it: through the hook that mkdocs.yml names."""
    [hook] = SITE["hooks"]
    spec = importlib.util.spec_from_file_location("hook", ROOT / hook)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = SimpleNamespace(file=SimpleNamespace(src_uri="commands.md"))
    text: str = module.on_page_markdown((ROOT / "docs" / "commands.md").read_text(encoding="utf-8"), page=page)
    return text


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    """The section of each command."""
    _, *parts = re.split(r"^## headwise ", built_commands(), flags=re.MULTILINE)
    return {name: text for name, _, text in (part.partition("\n") for part in parts)}


def test_every_page_is_in_the_navigation_once() -> None:
    files = [each for ending in ("md", "ipynb") for each in (ROOT / "docs").rglob(f"*.{ending}")]
    assert sorted(pages_of(SITE["nav"])) == sorted(each.relative_to(ROOT / "docs").as_posix() for each in files)


def test_the_page_on_commands_has_every_command(sections: dict[str, str]) -> None:
    assert list(sections) == list(COMMANDS)
    assert "<!-- commands -->" not in built_commands()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_every_argument_and_option_with_its_help(sections: dict[str, str], name: str) -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", sections[name], re.MULTILINE)
    in_order = sorted(COMMANDS[name].params, key=lambda each: each.param_type_name)  # arguments, then options
    assert len(rows) == len(in_order)
    for parameter, (shown, meaning) in zip(in_order, rows, strict=True):
        if parameter.param_type_name == "option":
            assert parameter.opts[0] in re.split(r"[ ,]+", shown)
        assert meaning.replace("\\", "").startswith(parameter.help), shown


def test_the_page_on_commands_has_no_markup_from_help_texts(sections: dict[str, str]) -> None:
    assert r"truncated(SHARE)'.  \[default: full\]" in sections["score"]
    assert re.search(r"RUN\|FILE", sections["report"])
