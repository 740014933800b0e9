"""The task of a name for a model at hand, and measuring the model by whatever its task is measured by."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headwise.data.columns import is_iob
from headwise.data.examples import Example
from headwise.errors import HeadwiseError
from headwise.heads import find_heads
from headwise.tasks.causal import LanguageTask, perplexity, texts_of
from headwise.tasks.encoding import usable_positions
from headwise.tasks.evaluation import Evaluation, evaluate
from headwise.tasks.protocol import AnyTask
from headwise.tasks.task import Piece, Task, check_piece, find_task
from headwise.tasks.text_metrics import metrics_for
from headwise.tasks.translation import TranslationTask, evaluate_translation

#: Tasks whose model is used as it is: its own output layer answers.
TEXT_TASKS = ("translation", "lm")
#: Most tokens that a model is given unless told otherwise.
USUAL_WINDOW = 512


@dataclass(frozen=True)
class Measurement:
    """What a model was measured by in one language.

    Attributes:
        results: One result a metric, the main one first.
        signatures: How metrics were computed, where that needs saying, by their names.
    """

    results: tuple[Evaluation, ...]
    signatures: dict[str, str] = field(default_factory=dict)


def task_of(model: Any, name: str, piece: Piece = "text", beams: int = 1, window: int | None = None) -> AnyTask:
    """The task of a name, as a model can do it.

    Args:
        model: A model with a head for the task.
        name: The task.
        piece: Which piece of a word carries its label.
        beams: Beams of the search, for translation.
        window: Most tokens read at a time, for language modelling; 512 or as many as the model takes unless told.

    Raises:
        HeadwiseError: There is no such task, or the model is not of the right kind for it.

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
    match name:
        case "translation":
            if not writes or not config.is_encoder_decoder:
                raise _wrong_kind(model, name, "a sequence-to-sequence model such as Marian or mT5")
            return TranslationTask(beams=beams, max_length=longest)
        case "lm":
            if not writes or config.is_encoder_decoder or find_heads(model).sites[0].stack != "decoder":
                raise _wrong_kind(model, name, "a causal language model such as GPT-2 or Llama")
            return LanguageTask(window=longest if window is None else window)
    return _classification(model, name, piece)


def fit_to(task: Task, model: Any) -> Task:
    """The task with examples cut to what the model can read.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8, max_position_embeddings=100)
        >>> fit_to(find_task("pos"), BertModel(config)).max_length
        100
    """
    return replace(task, max_length=_longest(model))


def check_tokenizer(task: AnyTask, tokenizer: Any) -> None:
    """See that the tokenizer needs to be told nothing more for the task.

    Raises:
        HeadwiseError: It is one of many languages, and would take every source for its first.
    """
    if isinstance(task, TranslationTask) and task.first_token is None and hasattr(tokenizer, "src_lang"):
        raise HeadwiseError(
            "the model translates between many languages and must be told which: use evaluate_translation or tune from "
            "Python, with tokenizer.src_lang and TranslationTask(first_token=...) set"
        )


def measure(model: Any, task: AnyTask, examples: Sequence[Example], tokenizer: Any, language: str = "") -> Measurement:
    """Measure a model by the metrics of its task.

    Args:
        model: The model.
        task: A task of `task_of`.
        examples: The examples.
        tokenizer: The model's tokenizer.
        language: Their language, or pair of languages (`en-zh`): BLEU splits some languages in a way of their own.
    """
    match task:
        case TranslationTask():
            task = replace(task, metrics=metrics_for(language.partition("_")[0].rpartition("-")[2]))
            found = evaluate_translation(model, task, examples, tokenizer)
            return Measurement(tuple(found.results.values()), found.signatures)
        case LanguageTask():
            return Measurement((perplexity(model, texts_of(examples), tokenizer, task.window),))
        case Task():
            return Measurement((evaluate(model, task, examples, tokenizer),))
    raise HeadwiseError(f"there is no way to measure the task {task.name!r}")


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
    return fit_to(replace(found, labels=labels), model)


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
    return HeadwiseError(f"{name}: a {type(model).__name__} cannot do the task {task}: take {wanted}")
