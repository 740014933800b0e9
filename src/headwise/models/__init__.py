"""Loading models: the hub, local folders, pruned checkpoints."""

from headwise.models.loading import load_model, load_skeleton, load_tokenizer

__all__ = ["load_model", "load_skeleton", "load_tokenizer"]
