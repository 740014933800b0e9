"""Load all weights of a model, and raise an error if one is missing, because it would be random."""

from collections.abc import Iterable, Mapping
from typing import Any

from headwise.errors import HeadwiseError
from headwise.models.sources import NameOrPath, find_file, first_line

_FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_NAMED = 3


def load_weights(cls: Any, name_or_path: NameOrPath, new_head: bool = False, **kwargs: Any) -> Any:
    """A model with the weights from its files.

    Args:
        cls: Its class, or an auto class.
        name_or_path: The model.
        new_head: Allow missing weights outside the encoder, for a new task head that will be tuned.
        kwargs: Passed to `from_pretrained`.

    Raises:
        HeadwiseError: The model cannot be loaded, or weights are missing.
    """
    try:
        model, found = cls.from_pretrained(name_or_path, output_loading_info=True, **kwargs)
    except Exception as error:  # a damaged config or file can fail anywhere in transformers
        raise HeadwiseError(f"{name_or_path}: cannot be loaded: {first_line(error)}") from error
    if missing := missing_weights(model, found, new_head):
        files = (find_file(name_or_path, name) for name in _FILES)
        place = next((path for path in files if path is not None), name_or_path)
        raise HeadwiseError(
            f"{place}: {_listed(missing)} missing and would be random: "
            f"add all weights of a {type(model).__name__}, or set the class that was saved in config.json"
        )
    return model


def missing_weights(model: Any, found: Mapping[str, Any], new_head: bool = False) -> list[str]:
    """The names of required weights that were not loaded, from the loading info of `from_pretrained`.

    A weight that is tied to a loaded one is not missing. The pooler of a bare encoder is not required.
    """
    absent = {*found["missing_keys"], *(key for key, *_ in found["mismatched_keys"])}
    weights = dict(model.named_parameters(remove_duplicate=False))
    loaded = {id(weight) for name, weight in weights.items() if name not in absent}
    missing = sorted(name for name in absent & weights.keys() if id(weights[name]) not in loaded)
    inside = "" if model.base_model is model else f"{model.base_model_prefix}."
    if new_head:
        missing = [name for name in missing if name.startswith(inside)]
    if new_head or not inside:
        missing = [name for name in missing if not name.startswith(f"{inside}pooler.")]
    return missing


def _listed(names: Iterable[str]) -> str:
    first, *others = names
    named = ", ".join([first, *others[: _NAMED - 1]])
    more = len(others) + 1 - _NAMED
    return f"{named} and {more} more are" if more > 0 else f"{named} {'are' if others else 'is'}"
