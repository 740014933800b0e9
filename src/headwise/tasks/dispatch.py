"""Find a task by its name and fit it to a model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from headwise.data.columns import is_iob
from headwise.data.task_names import CAUSAL_TASKS, CHOICE_TASKS
from headwise.errors import HeadwiseError
from headwise.heads import base_model, find_heads
from headwise.tasks.causal import LanguageTask
from headwise.tasks.choices import MultipleChoice, Normalise
from headwise.tasks.continuation import ContinuationTask
from headwise.tasks.encoding import usable_positions
from headwise.tasks.masked import MaskedTask
from headwise.tasks.protocol import AnyTask
from headwise.tasks.task import Piece, Task, check_piece, find_task
from headwise.tasks.translation import TranslationTask

#: Most tokens that a model is given by default.
USUAL_WINDOW = 512
#: Most tokens of a prompt and its continuation, if the model's config sets no limit.
PROMPT_WINDOW = 2048


def task_of(model: Any, name: str, piece: Piece = "text", beams: int = 1, window: int | None = None) -> AnyTask:
    """The task with this name, fitted to a model.

    Args:
        model: A model with a head for the task.
        name: The task.
        piece: Which piece of a word carries its label.
        beams: Number of beams, for translation.
        window: Maximum number of tokens that a causal language model reads at a time; by default the model's maximum,
            but at most 512 for `lm`.

    Raises:
        HeadwiseError: The task is unknown, or the model is of the wrong kind for it.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=2, n_positions=100))
        >>> task_of(model, "lm")
        LanguageTask(name='lm', window=100)
    """
    check_piece(name, piece)
    config = model.config.get_text_config()
    longest = _longest(model)
    writes = hasattr(model, "can_generate") and model.can_generate()
    if name == "translation":
        if not writes or not config.is_encoder_decoder:
            raise _wrong_kind(model, name, "a sequence-to-sequence model such as Marian or mT5")
        return TranslationTask(beams=beams, max_length=longest)
    if name == "masked-lm":
        if not type(base_model(model)).__name__.endswith("ForMaskedLM"):
            raise _wrong_kind(model, name, "a masked language model such as XLM-R with its own output layer")
        return MaskedTask(window=longest)
    if name not in CAUSAL_TASKS:
        return _classification(model, name, piece)
    if not writes or config.is_encoder_decoder or find_heads(model).sites[0].stack != "decoder":
        raise _wrong_kind(model, name, "a causal language model such as GPT-2 or Llama")
    if name == "lm":
        return LanguageTask(window=longest if window is None else window)
    window = window or usable_positions(model) or PROMPT_WINDOW
    if name == "continuation":
        return ContinuationTask(window=window)
    return MultipleChoice(cast(Normalise, CHOICE_TASKS.get(name, "bytes")), window, name)


def fit_to(task: Task, model: Any) -> Task:
    """The task with its maximum length set to at most the model's.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8, max_position_embeddings=100)
        >>> fit_to(find_task("pos"), BertModel(config)).max_length
        100
    """
    return replace(task, max_length=_longest(model))


def _classification(model: Any, name: str, piece: Piece) -> Task:
    """The task with the labels of the model's classifier."""
    names = getattr(model.config, "id2label", None) or {}
    labels = tuple(names[index] for index in sorted(names))
    found = find_task(name, labels, piece)
    if set(found.labels) != set(labels) or not _fit(name, labels):
        raise HeadwiseError(
            f"the model's classifier has {len(labels)} labels ({', '.join(labels[:4])} …), not those of {name}: "
            f"tune it first (headwise tune … --task {name})"
        )
    bare = base_model(model)
    if getattr(bare, "base_model", None) is bare:  # transformers: a model without a head is its own base model
        raise _wrong_kind(model, name, f"a model with a classifier: tune it first (headwise tune … --task {name})")
    return fit_to(found.with_labels(labels), model)


def _fit(name: str, labels: Sequence[str]) -> bool:
    """Return whether a classifier's labels can be those of the task.

    Entities are IOB labels. Parts of speech may be any tags, but neither IOB labels nor LABEL_0 and so on, which are
    the labels of an untuned model. Whether they are the tags of the data is checked when examples are encoded.
    """
    if name == "ner":
        return all(map(is_iob, labels))
    return name != "pos" or not (all(map(is_iob, labels)) or all(label.startswith("LABEL_") for label in labels))


def _longest(model: Any) -> int:
    return min(USUAL_WINDOW, usable_positions(model) or USUAL_WINDOW)


def _wrong_kind(model: Any, task: str, wanted: str) -> HeadwiseError:
    name = getattr(model.config, "name_or_path", "") or "the model"
    return HeadwiseError(f"{name}: a {type(model).__name__} cannot do the task {task}: use {wanted}")
