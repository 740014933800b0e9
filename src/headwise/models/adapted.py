"""PEFT folders: an adapter and the name of its base model, loaded together and merged."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers
from safetensors import SafetensorError, safe_open
from transformers import AutoTokenizer

from headwise.errors import HeadwiseError
from headwise.models.quiet import quiet
from headwise.models.sources import NameOrPath, build_skeleton, class_of, find_file, first_line, load_config
from headwise.models.weights import missing_weights
from headwise.pooling import find_class

_CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model.safetensors"
_PICKLE = "adapter_model.bin"
#: Prefix that PEFT adds to the names of the base model's weights.
_PREFIX = "base_model.model."
#: Names of the last layer of a classifier in transformers.
_OUTPUTS = ("classifier.weight", "classifier.out_proj.weight", "score.weight")
#: For each task type of PEFT: the auto class, and the suffix of classes that already have the task head.
_KINDS = {
    "SEQ_CLS": ("AutoModelForSequenceClassification", "ForSequenceClassification"),
    "TOKEN_CLS": ("AutoModelForTokenClassification", "ForTokenClassification"),
    "SEQ_2_SEQ_LM": ("AutoModelForSeq2SeqLM", "ForConditionalGeneration"),
    "CAUSAL_LM": ("AutoModelForCausalLM", "ForCausalLM"),
    "QUESTION_ANS": ("AutoModelForQuestionAnswering", "ForQuestionAnswering"),
    "FEATURE_EXTRACTION": ("AutoModel", "EncoderModel"),
}


@dataclass(frozen=True)
class Adapter:
    """A PEFT adapter on disk.

    Attributes:
        name: The name or path given by the user.
        folder: The folder of its files.
        base: The model that it belongs to.
        settings: Its `adapter_config.json`.
        labels: Names of the labels, if there is a `config.json` with them in the same folder.
        shapes: The shapes of its weights, by their names in the base model.
    """

    name: str
    folder: Path
    base: str
    settings: dict[str, Any]
    labels: dict[int, str]
    shapes: dict[str, tuple[int, ...]]

    @property
    def revision(self) -> dict[str, str]:
        """The revision of the base model as an argument of `from_pretrained`; empty if none is given."""
        return {"revision": self.settings["revision"]} if self.settings.get("revision") else {}


def find_adapter(name_or_path: NameOrPath) -> Adapter | None:
    """The adapter in a folder or on the hub; None if there is none.

    Raises:
        HeadwiseError: The adapter cannot be read, is a pickle, or names no base model.
    """
    path = find_file(name_or_path, _CONFIG)
    if path is None:
        return None
    settings = _read_json(path)
    base = settings.get("base_model_name_or_path")
    if not base:
        raise HeadwiseError(f"{path}: no base model: set base_model_name_or_path to the model it was trained on")
    weights = find_file(name_or_path, _WEIGHTS)
    if weights is None and find_file(name_or_path, _PICKLE) is not None:
        raise HeadwiseError(
            f"{name_or_path}: {_PICKLE} is a pickle, which can run arbitrary code: save the adapter again as {_WEIGHTS}"
        )
    if weights is None:
        raise HeadwiseError(f"{name_or_path}: the adapter has no weights: {_WEIGHTS} is missing")
    beside = find_file(name_or_path, "config.json")
    labels = _read_labels(beside) if beside is not None else {}
    return Adapter(str(name_or_path), path.parent, str(base), settings, labels, _read_shapes(weights))


def _read_labels(path: Path) -> dict[int, str]:
    """The names of labels by their numbers, from a model's config; empty if it has none."""
    named = _read_json(path).get("id2label") or {}
    try:
        return {int(number): str(label) for number, label in named.items()}
    except (AttributeError, ValueError):
        raise HeadwiseError(f"{path}: 'id2label' must map whole numbers to labels: restore it") from None


def load_adapted(adapter: Adapter, trust_remote_code: bool, merge: bool, **kwargs: Any) -> Any:
    """The base model with its adapter.

    Args:
        adapter: The adapter.
        trust_remote_code: Run code that comes with the base model.
        merge: Merge the adapter into the base model's weights and return a plain model; otherwise a `PeftModel`.
        kwargs: Passed to the base model's `from_pretrained`.

    Raises:
        HeadwiseError: The base model or the package peft is missing, or the two do not fit together.
    """
    try:
        from peft import PeftModel
    except ModuleNotFoundError:
        raise HeadwiseError(f"{adapter.name}: adapters need the package peft: pip install 'headwise[peft]'") from None
    cls, config = _class_and_config(adapter, trust_remote_code)
    base = _load_base(adapter, cls, config, trust_remote_code, kwargs)
    try:
        with quiet():
            model = PeftModel.from_pretrained(base, adapter.folder)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise HeadwiseError(
            f"{adapter.name}: the adapter does not fit its base {adapter.base}: {first_line(error)}"
        ) from None
    if merge:
        model = _merged(adapter, model)
    return model.eval()


def load_adapted_skeleton(adapter: Adapter, trust_remote_code: bool) -> Any:
    """The modules of the merged model without weights."""
    cls, config = _class_and_config(adapter, trust_remote_code)
    return build_skeleton(cls, config, trust_remote_code)


def _class_and_config(adapter: Adapter, trust_remote_code: bool) -> tuple[Any, Any]:
    """The base model's config with the adapter's labels, and the class that the adapter was trained on."""
    try:
        config = load_config(adapter.base, trust_remote_code, **adapter.revision)
    except HeadwiseError as error:
        raise HeadwiseError(
            f"{adapter.name}: the adapter's base model is missing ({error}): "
            f"add it or correct base_model_name_or_path in {_CONFIG}"
        ) from None
    if adapter.labels:
        config.id2label = adapter.labels
        config.label2id = {label: number for number, label in adapter.labels.items()}
    else:
        outputs = (shape[0] for name, shape in adapter.shapes.items() if name.endswith(_OUTPUTS))
        count = next(outputs, config.num_labels)
        if count != config.num_labels:
            config.num_labels = count  # sets the names LABEL_0, LABEL_1 …, because PEFT stores none
    return _class_for(adapter, config), config


def _class_for(adapter: Adapter, config: Any) -> Any:
    own = class_of(config)
    kind = adapter.settings.get("task_type")
    if kind in _KINDS:
        auto, ending = _KINDS[kind]
        return own if own.__name__.endswith(ending) else getattr(transformers, auto)
    mapping = adapter.settings.get("auto_mapping") or {}
    return find_class(str(mapping.get("base_model_class"))) or own


def _load_base(adapter: Adapter, cls: Any, config: Any, trust_remote_code: bool, kwargs: dict[str, Any]) -> Any:
    """The base model; raises an error if a weight is neither in its files nor in the adapter's."""
    try:
        with quiet():
            model, found = cls.from_pretrained(
                adapter.base,
                config=config,
                trust_remote_code=trust_remote_code,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # a classifier with other labels, which the adapter replaces
                **adapter.revision,
                **kwargs,
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise HeadwiseError(
            f"{adapter.name}: its base model {adapter.base} cannot be loaded: {first_line(error)}"
        ) from None
    if missing := set(missing_weights(model, found)) - adapter.shapes.keys():
        raise HeadwiseError(
            f"{adapter.name}: {min(missing)} is neither in the adapter nor in its base {adapter.base}, so it would be "
            "random: save it with the adapter (PEFT's modules_to_save)"
        )
    _add_tokens(adapter, model)
    return model


def _add_tokens(adapter: Adapter, model: Any) -> None:
    """Resize the embeddings as PEFT does if the adapter's tokenizer has tokens that were added in training."""
    if find_file(adapter.name, "tokenizer_config.json") is None:
        return
    count = len(AutoTokenizer.from_pretrained(adapter.name))
    if count > model.get_input_embeddings().weight.shape[0]:
        model.resize_token_embeddings(count, mean_resizing=False)


def _merged(adapter: Adapter, model: Any) -> Any:
    kind = str(adapter.settings.get("peft_type"))
    try:
        merged = model.merge_and_unload()
    except (AttributeError, NotImplementedError, ValueError):
        raise HeadwiseError(
            f"{adapter.name}: a {kind} adapter cannot be merged into the weights: use load_model(..., merge=False)"
        ) from None
    merged.config.name_or_path = adapter.name
    return merged.requires_grad_(True)  # PEFT froze the weights, but the merged model may be tuned further


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise HeadwiseError(f"{path}: cannot be read: {first_line(error)}") from None
    if not isinstance(found, dict):
        raise HeadwiseError(f"{path}: not a JSON object")
    return found


def _read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    try:
        with safe_open(path, framework="pt") as file:
            return {key.removeprefix(_PREFIX): tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise HeadwiseError(f"{path}: cannot be read: {first_line(error)}") from None
