"""Tools for those who work on headwise; not part of the package."""
