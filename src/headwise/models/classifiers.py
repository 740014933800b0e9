"""Task heads on an encoder: the family's own classes, and mean pooling for sentence encoders such as e5."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, BertModel
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.models.bert.modeling_bert import BertPreTrainedModel


class MeanPooledBertForSequenceClassification(BertPreTrainedModel):  # type: ignore[misc]
    """BERT with a classifier on the mean of its last hidden states, as sentence encoders are pooled.

    transformers has no such class: it reads the first token, which e5 was not trained to fill.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = BertModel(config, add_pooling_layer=False)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Logits of each row, (rows, labels)."""
        hidden = self.bert(input_ids, attention_mask=attention_mask, **kwargs).last_hidden_state
        weights = (
            torch.ones_like(hidden[..., :1]) if attention_mask is None else attention_mask[..., None].to(hidden.dtype)
        )
        pooled = (hidden * weights).sum(1) / weights.sum(1)
        logits = self.classifier(self.dropout(pooled))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


def add_head(name_or_path: Any, kind: str, labels: tuple[str, ...], mean_pooling: bool = False, **kwargs: Any) -> Any:
    """Load an encoder with a new classifier.

    Args:
        name_or_path: The encoder.
        kind: `sequence` or `words`.
        labels: The classifier's labels.
        mean_pooling: Pool BERT-like encoders by their mean rather than by their first token.
        kwargs: Passed to `from_pretrained`.
    """
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    if kind == "words":
        return AutoModelForTokenClassification.from_pretrained(name_or_path, num_labels=len(labels), **names, **kwargs)
    cls = MeanPooledBertForSequenceClassification if mean_pooling else AutoModelForSequenceClassification
    return cls.from_pretrained(name_or_path, num_labels=len(labels), **names, **kwargs)
