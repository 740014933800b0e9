"""Counted and interleaved comparisons; each takes --quick, prints what it compares and ends with one line of JSON."""
