"""LoRA adapters of the tuned defaults, made by `make defaults`."""
