"""The command line starts without torch: help, lists and wrong arguments need none of the large libraries."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from headwise.cli.commands import Listing, app
from headwise.games import GAMES, find_game
from headwise.methods import METHODS, find_method

LARGE = ("torch", "transformers", "pyarrow", "datasets", "scipy", "sacrebleu", "peft")
#: Runs lines of the command line in turn. Its last line has the exit code and the large libraries so far of each.
PROGRAM = f"""
import json, sys
from headwise.cli.main import main

found = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["headwise", *arguments]
    try:
        main()
    except SystemExit as end:
        found.append([end.code, [name for name in {LARGE} if name in sys.modules]])
print(json.dumps(found))
"""
HELP = [["--help"], *([name, "--help"] for name in get_command(app).commands)]  # type: ignore[attr-defined]
LISTS = [["ls", each.value, *form] for each in Listing for form in ((), ("--json",))]
MISTAKES = [["score"], ["ls", "planets"], ["eval", "m", "--task", "pos", "--data", "d", "--beams", "0"], ["nosuch"]]


def start(lines: list[list[str]], folder: Path) -> list[Any]:
    """The exit code of each line, and the large libraries that have been imported by then."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(lines)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == len(lines)
    return found


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `start` finds for each line that needs no large library."""
    lines = [*HELP, *LISTS, *MISTAKES]
    found = start(lines, tmp_path_factory.mktemp("empty"))
    return {" ".join(line): each for line, each in zip(lines, found, strict=True)}


@pytest.mark.parametrize("arguments", [*HELP, *LISTS], ids=" ".join)
def test_help_and_lists_import_no_large_library(started: dict[str, Any], arguments: list[str]) -> None:
    assert started[" ".join(arguments)] == [0, []]


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_wrong_arguments_import_no_large_library(started: dict[str, Any], arguments: list[str]) -> None:
    assert started[" ".join(arguments)] == [2, []]


def test_a_command_that_needs_torch_imports_it(tmp_path: Path) -> None:
    """Checks that the tests above would detect an import."""
    [(code, imported)] = start([["heads", "./nowhere"]], tmp_path)
    assert "no such folder" in code
    assert "torch" in imported


def test_all_listed_names_exist() -> None:
    for name in METHODS:
        assert find_method(name).name == name
    for name in GAMES:
        assert find_game(name, ("O",)).name == name
