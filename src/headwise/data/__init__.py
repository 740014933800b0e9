"""Data: readers of published formats, own files, the hub, and the two sets that come with headwise."""
