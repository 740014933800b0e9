"""Every Python example of the documentation runs, and every command and name in it exists."""

import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

import headwise
from headwise.cli.commands import app
from headwise.studies import find_plan
from tests.docs.pages import ROOT, load_tiny_default, python_blocks, run_blocks

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: The pages that begin with the main job; it runs with the real model.
FIRST = (ROOT / "README.md", ROOT / "docs" / "index.md")
WITH_PYTHON = [path for path in PAGES if python_blocks(path) and path not in FIRST]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", WITH_PYTHON, ids=name_of)
def test_the_examples_of_a_page_run_in_order(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("headwise.models.loading.load_default", load_tiny_default)
    run_blocks(python_blocks(path))


def test_the_first_example_runs_with_the_real_model(capsys: pytest.CaptureFixture[str]) -> None:
    (readme,), (index,) = (python_blocks(path) for path in FIRST)
    assert readme.code == index.code
    names = run_blocks([readme])
    assert len(names["scores"]["tr"].players) == 144
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[:2] == ["language", "accuracy"]
    assert table[1].startswith("zh")


def commands_of(path: Path) -> list[str]:
    """The lines of shell blocks that call headwise, without variables before the command."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"```(?:ba)?sh\n(.*?)```", text, re.DOTALL)
    lines = (line.strip() for block in blocks for line in block.splitlines())
    return [found[1] for line in lines if (found := re.match(r"(?:\w+=\S+ )*headwise (.*)", line))]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_the_commands_of_a_page_exist_with_their_options(path: Path) -> None:
    group: Any = typer.main.get_command(app)
    for line in commands_of(path):
        name, *arguments = shlex.split(line, comments=True)
        assert name in group.commands, line
        command = group.commands[name]
        command.make_context(name, arguments)  # raises an error on an unknown option, value or missing argument


def plans_of(path: Path) -> list[str]:
    """The plans of studies that a page shows."""
    text = path.read_text(encoding="utf-8")
    return [block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if block.startswith("study:")]


@pytest.mark.parametrize("path", [path for path in PAGES if plans_of(path)], ids=name_of)
def test_the_plans_of_a_page_have_known_fields(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWISE_DATA", str(tmp_path))
    for place, text in enumerate(plans_of(path)):
        plan = tmp_path / f"{place}.yaml"
        plan.write_text(text, encoding="utf-8")
        find_plan(str(plan))  # raises an error on an unknown or missing field, or a wrong type


def test_the_page_on_python_shows_every_public_name() -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert [name for name in headwise.__all__ if not re.search(rf"\b{name}\b", text)] == []


def test_the_reference_lists_names_that_exist_and_every_public_one() -> None:
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    listed = {}
    for module, members in re.findall(r"^::: (\S+)\n.*?members:\n((?: +- \w+\n?)+)", text, re.DOTALL | re.MULTILINE):
        listed[module] = re.findall(r"- (\w+)", members)
        missing = [name for name in listed[module] if not hasattr(importlib.import_module(module), name)]
        assert missing == [], module
    assert text.count("\n::: ") == len(listed)
    assert set(listed["headwise"]) == set(headwise.__all__)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_to_files(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[\w-]*)?\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target
