"""A targeted study of two languages from end to end: this revision against an older one, interleaved.

Both revisions run the same plan in processes of their own, one after the other, several times. The older revision is
taken from git. What they find must be the same, except for the random masks, which are drawn in another way. The
processor time of `headwise --help` is measured too.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

#: The last revision before studies became grids of cells. Values are those of `permutation`, which has not changed.
OLD = "d691fa9"
QUICK = {"languages": "zh,tr", "budget": 500, "limit": 40, "refine": 1, "refine_examples": 16, "randoms": 10}
FULL = {"languages": "zh,tr", "budget": 3000, "limit": None, "refine": 6, "refine_examples": 130, "randoms": 10}

_RUN = """
import json, sys, time
start = time.perf_counter()
import torch
torch.set_num_threads(int(sys.argv[3]))
from headwise.scoring import ScoringPlan
from headwise.studies import TargetedPlan
import headwise.studies as studies
asked = json.loads(sys.argv[1])
scoring = ScoringPlan("e5-small-pos", "pos", "phrasebook", asked["languages"], budget=asked["budget"],
                      estimand="truncated", limit=asked["limit"], method="permutation",
                      options={"walks": 2})
plan = TargetedPlan(scoring, refine=asked["refine"], refine_examples=asked["refine_examples"],
                    randoms=asked["randoms"], resamples=1000)
run = getattr(studies, "run_targeted", None) or studies.run_study
study = run(plan, sys.argv[2])
found = {language: {"none": each.base, **{name: mask.value for name, mask in each.masks.items()}}
         for language, each in study.languages.items()}
print(json.dumps({"seconds": time.perf_counter() - start, "values": found}))
"""


def extract(revision: str, folder: Path) -> Path:
    """The sources of a revision."""
    done = subprocess.run(["git", "archive", revision, "src"], capture_output=True, check=True)
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def run_study(source: Path, plan: Mapping[str, Any], threads: int) -> dict[str, Any]:
    """Run the study with the sources of a folder, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-c", _RUN, json.dumps(plan), str(Path(out) / "run"), str(threads)]
        shown = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    found: dict[str, Any] = json.loads(shown.splitlines()[-1])
    return found


def help_cpu_seconds(rounds: int = 5) -> float:
    """Processor time of `headwise --help`, the lowest of several runs."""
    times = []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "headwise", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small study, once: under 2 minutes")
    parser.add_argument("--base", default=OLD, help="the older revision")
    parser.add_argument("--rounds", type=int, default=3, help="how often each revision runs (not with --quick)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each run")
    arguments = parser.parse_args()
    plan, rounds = (QUICK, 1) if arguments.quick else (FULL, arguments.rounds)
    here = Path(__file__).parents[1] / "src"
    ratios, same = [], True
    with tempfile.TemporaryDirectory() as folder:
        sources = {"old": extract(arguments.base, Path(folder)), "new": here}
        for turn in range(rounds):
            names = ["old", "new"] if turn % 2 == 0 else ["new", "old"]
            found = {name: run_study(sources[name], plan, arguments.threads) for name in names}
            ratios.append(found["old"]["seconds"] / found["new"]["seconds"])
            shared = [found[name]["values"] for name in ("old", "new")]
            same = same and shared[0] == shared[1]
            print(f"old {found['old']['seconds']:.1f} s, new {found['new']['seconds']:.1f} s: {ratios[-1]:.2f} times")
            print(f"values: {json.dumps(shared[1])}" if same else f"values differ: {json.dumps(shared)}")
    speedup, helped = statistics.median(ratios), help_cpu_seconds()
    print(f"study: {speedup:.2f} times faster; --help: {helped:.2f} s of processor time")
    print(json.dumps({"study_speedup": round(speedup, 2), "same_values": same, "help_cpu_seconds": round(helped, 2)}))


if __name__ == "__main__":
    main()
