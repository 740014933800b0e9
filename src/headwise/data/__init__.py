"""Data: readers of published formats, the hub, and the two sets that every machine has."""
