"""Running the command line in the process of the test."""

import sys

import pytest

from headwise.cli.main import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["headwise", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stop:
        main()
    if isinstance(stop.value.code, str):
        print(stop.value.code, file=sys.stderr)
        return 1
    return stop.value.code or 0
