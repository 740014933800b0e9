"""Benchmarks; each has an option --quick and prints its results as JSON on the last line."""
