"""A scoring run killed at any moment goes on and ends with the bits of one that was never disturbed."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headwise import HeadScores
from headwise.runs import read_run

KILLS = 20
WORKER = """
import sys
from headwise.methods import Budget, score
from headwise.methods.stars import Stars
from headwise.runs import open_run
from tests.methods.worlds import tiny_problem

problem = tiny_problem("xlm-roberta")
with open_run(sys.argv[1], {"seed": 3, "budget": 40_000}) as run:
    print("ready", flush=True)
    # Nothing is ever decided at such an error rate, so that there is work to do until the budget is spent.
    found = score(Stars(bases=4, flips=4, error_rate=1e-300), problem, Budget(40_000), 3, run.journal, "zh")
found.save(sys.argv[2])
"""


def start(folder: Path, out: Path) -> subprocess.Popen[str]:
    """A worker that has begun to score."""
    command = [sys.executable, "-c", WORKER, str(folder), str(out)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    return worker


@pytest.mark.slow
def test_twenty_kills_change_nothing(tmp_path: Path) -> None:
    undisturbed = start(tmp_path / "whole", tmp_path / "whole.json")
    assert undisturbed.wait() == 0
    moments, kills, rounds = random.Random(0), 0, []
    while kills < KILLS:
        worker = start(tmp_path / "killed", tmp_path / "killed.json")
        time.sleep(moments.uniform(0.0, 0.5))
        worker.send_signal(signal.SIGKILL)
        assert worker.wait() == -signal.SIGKILL, "the run was over before it was killed: give it more to do"
        kills += 1
        with read_run(tmp_path / "killed") as run:
            rounds.append(run.journal.count("zh"))
    assert start(tmp_path / "killed", tmp_path / "killed.json").wait() == 0
    with read_run(tmp_path / "whole") as run:
        assert rounds[-1] < run.journal.count("zh"), "the last kills came after all was done: give it more to do"
    assert HeadScores.load(tmp_path / "killed.json") == HeadScores.load(tmp_path / "whole.json")
    print(f"killed {KILLS} times after {rounds} rounds")
