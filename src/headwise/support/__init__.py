"""What every other package may use: lazy imports, optional packages, typed YAML, progress, notebook displays."""
