"""Runs: begun, cut short, resumed, extended, merged, read."""

from headwise.runs.folder import Run, merge_runs, open_run, read_run
from headwise.runs.journal import Journal, Round

__all__ = ["Journal", "Round", "Run", "merge_runs", "open_run", "read_run"]
