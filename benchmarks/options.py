"""Options that the benchmarks of masks of e5-small-pos have in common."""

import argparse
from pathlib import Path


def mask_parser(doc: str | None, name: str, languages: str, budget: int) -> argparse.ArgumentParser:
    """A parser with the common options; a benchmark may add its own.

    Args:
        doc: The docstring of the benchmark.
        name: Its name, from which the run folder gets its default.
        languages: The default languages.
        budget: The default budget.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one language, few units and examples: under 2 minutes")
    parser.add_argument("--data", default="phrasebook")
    parser.add_argument("--languages", default=languages)
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--budget", type=float, default=budget, help="maximum number of units of a ranking")
    parser.add_argument("--limit", type=int, help="maximum number of dev sentences per language")
    parser.add_argument("--limit-test", type=int, help="maximum number of test sentences per language")
    parser.add_argument("--out", type=Path, help=f"run folder (default: runs/{name}, or runs/{name}-quick)")
    parser.set_defaults(bfloat16=False)
    return parser


def default_out(options: argparse.Namespace, name: str) -> Path:
    """The run folder that was given, or the default one."""
    return Path(options.out or f"runs/{name}{'-quick' if options.quick else ''}")
