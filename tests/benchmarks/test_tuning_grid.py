"""The benchmark of the grid runs and prints its figures."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_last_line_has_the_figures() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "benchmarks.tuning_grid", "--quick"], capture_output=True, text=True, check=True
    )
    figures = json.loads(found.stdout.splitlines()[-1])
    assert figures["resumed_equal"] == 1
    assert figures["grid_speedup"] > 1
    assert "same result: False" not in found.stdout
