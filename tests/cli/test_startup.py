"""The command line starts without torch: help, lists and wrong arguments need none of the large libraries."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from headwise.cli.commands import Listing, app
from headwise.games import GAMES, find_game
from headwise.methods import METHODS, find_method

LARGE = ("torch", "transformers", "pyarrow", "datasets", "scipy", "sacrebleu", "peft")
#: Runs the command line and prints on the last line which of the large libraries it has imported.
PROGRAM = f"""
import sys
from headwise.cli.main import main
try:
    main()
finally:
    sys.stdout.flush()
    print("imported:", *[name for name in {LARGE} if name in sys.modules])
"""
HELP = [["--help"], *([name, "--help"] for name in get_command(app).commands)]  # type: ignore[attr-defined]
LISTS = [["ls", each.value, *form] for each in Listing for form in ((), ("--json",))]
MISTAKES = [["score"], ["ls", "planets"], ["eval", "m", "--task", "pos", "--data", "d", "--beams", "0"], ["nosuch"]]


def start(arguments: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, cwd=folder, timeout=300
    )


@pytest.mark.parametrize("arguments", [*HELP, *LISTS], ids=" ".join)
def test_help_and_lists_import_no_large_library(arguments: list[str], tmp_path: Path) -> None:
    done = start(arguments, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "imported:"


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_wrong_arguments_import_no_large_library(arguments: list[str], tmp_path: Path) -> None:
    done = start(arguments, tmp_path)
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1] == "imported:"


def test_a_command_that_needs_torch_imports_it(tmp_path: Path) -> None:
    """Checks that the tests above would detect an import."""
    done = start(["heads", "./nowhere"], tmp_path)
    assert "torch" in done.stdout.splitlines()[-1]
    assert "no such folder" in done.stderr


def test_all_listed_names_exist() -> None:
    for name in METHODS:
        assert find_method(name).name == name
    for name in GAMES:
        assert find_game(name, ("O",)).name == name
