"""Model classes that transformers does not have, and lookup of a class by its name."""

from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import BertModel, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.models.bert.modeling_bert import BertPreTrainedModel

from headwise.errors import HeadwiseError


class MeanPooledBertForSequenceClassification(BertPreTrainedModel):  # type: ignore[misc]
    """BERT with a classifier on the mean of its last hidden states, the pooling of sentence encoders.

    The adapters `e5-small-nli` and `e5-small-intents` were trained with it. transformers has no such class, so it
    cannot be saved as an ordinary checkpoint. `save_pruned` saves it, and folders of earlier versions still load.
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
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Logits of each row, (rows, labels)."""
        output = self.bert(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids, **kwargs)
        hidden = output.last_hidden_state
        weights = (
            torch.ones_like(hidden[..., :1]) if attention_mask is None else attention_mask[..., None].to(hidden.dtype)
        )
        pooled = (hidden * weights).sum(1) / weights.sum(1)
        logits = self.classifier(self.dropout(pooled))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def save_pretrained(self, *_args: Any, **_kwargs: Any) -> None:
        """Raise an error: plain transformers would load the checkpoint with a new, random pooler."""
        raise HeadwiseError(
            "this classifier uses mean pooling, which plain transformers cannot load, so it cannot be saved as an "
            "ordinary or folded checkpoint: use --export shrunk (save_pruned) or --export mask, or tune e5-small"
        )


#: Model classes that transformers does not have.
OWN_CLASSES = {cls.__name__: cls for cls in (MeanPooledBertForSequenceClassification,)}


def find_class(name: str) -> Any:
    """The model class with this name, from headwise or transformers; None if there is none."""
    found = OWN_CLASSES.get(name) or getattr(transformers, name, None)
    return found if isinstance(found, type) and issubclass(found, PreTrainedModel) else None
