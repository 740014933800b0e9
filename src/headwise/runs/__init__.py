"""Run folders: start, resume, extend, merge and read runs."""

from headwise.runs.folder import Run, merge_runs, open_run, read_run
from headwise.runs.journal import Journal, Round

__all__ = ["Journal", "Round", "Run", "merge_runs", "open_run", "read_run"]
