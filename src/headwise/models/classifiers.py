"""Task heads on an encoder: the classes of transformers, and mean pooling for the adapters in the package."""

from typing import Any

from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

from headwise.models.quiet import quiet
from headwise.models.weights import load_weights
from headwise.pooling import MeanPooledBertForSequenceClassification


def add_head(name_or_path: Any, kind: str, labels: tuple[str, ...], mean_pooling: bool = False, **kwargs: Any) -> Any:
    """Load an encoder with a new classifier.

    Args:
        name_or_path: The encoder.
        kind: `sequence` or `words`.
        labels: The classifier's labels.
        mean_pooling: Pool a BERT encoder by its mean instead of its first token. Plain transformers cannot load the
            result; it is for the adapters in the package.
        kwargs: Passed to `from_pretrained`.

    Raises:
        HeadwiseError: The encoder cannot be loaded, or weights are missing.
    """
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    cls: Any = AutoModelForTokenClassification
    if kind == "sequence":
        cls = MeanPooledBertForSequenceClassification if mean_pooling else AutoModelForSequenceClassification
    with quiet():
        return load_weights(cls, name_or_path, new_head=True, num_labels=len(labels), **names, **kwargs)
