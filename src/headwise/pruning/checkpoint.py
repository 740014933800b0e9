"""Save a shrunk model in a folder and load it again, exactly."""

import copy
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, GenerationConfig

from headwise.architectures import check_layer_counts
from headwise.errors import CheckpointError, HeadwiseError
from headwise.files import is_folder, read_json, write_json
from headwise.heads import PRUNED_ATTRIBUTE, HeadMap, base_model, find_heads
from headwise.masks import HeadMask
from headwise.outputs import output_folder
from headwise.pooling import find_class
from headwise.pruning.biases import add_biases
from headwise.pruning.card import base_name, write_card
from headwise.pruning.cutting import removed_heads, shrink

MANIFEST = "headwise.json"
#: Not `model.safetensors`: transformers would load it and, with `ignore_mismatched_sizes`, use random weights.
WEIGHTS = "pruned.safetensors"

#: What the folder of a pruned model is called.
PRUNED = "pruned model"
#: Types of weights.
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_FORMAT = "headwise-pruned"
_VERSION = 1


def save_pruned(
    model: nn.Module,
    folder: str | os.PathLike[str],
    tokenizer: Any = None,
    languages: str | Sequence[str] = (),
    overwrite: bool = False,
    changes: Sequence[str] = (),
    kind: str = PRUNED,
    facts: Sequence[str] = (),
) -> None:
    """Save a shrunk model: weights, config, manifest, model card and, if given, its tokenizer.

    The folder is written atomically. `load_pruned` reads it. LoRA adapters are merged into the weights.

    Args:
        model: A model returned by `shrink`.
        folder: The folder to write; must be empty or new unless `overwrite` is set.
        tokenizer: Any object with `save_pretrained`.
        languages: Languages that the model was pruned for, for the card.
        overwrite: Replace an output of the same kind.
        changes: Other changes to the weights, a sentence each, for the card.
        kind: What the folder is, as `overwrite` checks it.
        facts: Sentences about how the heads were chosen, for the card.
    """
    base = base_model(_merged(model))
    languages = (languages,) if isinstance(languages, str) else tuple(languages)
    if find_class(type(base).__name__) is not type(base):
        raise HeadwiseError(f"{type(base).__name__} is not a class of transformers, so it cannot be loaded again")
    heads = find_heads(base)
    with output_folder(folder, kind, overwrite) as draft:
        config = copy.deepcopy(base.config)
        config.architectures = [type(base).__name__]
        layers = layer_shapes(heads)
        if len({stack for stack, _ in layers}) == 1:  # other programs read one list for the only stack
            config.num_attention_heads_per_layer = [each["num_attention_heads"] for each in layers.values()]
        config.save_pretrained(draft)
        _save_generation_config(base, draft)
        if tokenizer is not None:
            tokenizer.save_pretrained(draft)
        tensors, tied = _untied(base.state_dict())
        try:
            save_file(tensors, draft / WEIGHTS, metadata={"format": "pt"})
        except (OSError, SafetensorError) as error:  # a full disk, most often
            raise HeadwiseError(f"{folder}: the weights cannot be written: {error}") from None
        manifest = {
            "format": _FORMAT,
            "version": _VERSION,
            "class": type(base).__name__,
            "base_model": base_name(base.config),
            "languages": list(languages),
            "fingerprint": heads.fingerprint,
            "heads_kept": len(heads.players()),
            "per_layer_config": _by_stack(layers),
            "tied": tied,
            "sha256": _sha256(draft / WEIGHTS),
        }
        write_json(draft / MANIFEST, manifest)
        write_card(draft, config, heads, removed_heads(base.config), languages, tuple(changes), tuple(facts))


def layer_shapes(heads: HeadMap) -> dict[tuple[str, int], dict[str, int]]:
    """The number of heads and of key-value heads by stack and layer, named as in the configs of transformers.

    Example:
        >>> from transformers import LlamaConfig, LlamaModel
        >>> config = LlamaConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=4,
        ...                      num_key_value_heads=2, intermediate_size=8)
        >>> layer_shapes(find_heads(LlamaModel(config)))
        {('decoder', 0): {'num_attention_heads': 4, 'num_key_value_heads': 2}}
    """
    return {
        (site.stack, site.layer): {"num_attention_heads": len(site.heads), "num_key_value_heads": len(set(site.kv_of))}
        for site in heads.sites
    }


def _by_stack(layers: dict[tuple[str, int], dict[str, int]]) -> dict[str, dict[str, dict[str, int]]]:
    found: dict[str, dict[str, dict[str, int]]] = {}
    for (stack, layer), shape in layers.items():
        found.setdefault(stack, {})[str(layer)] = shape
    return found


def load_pruned(
    name_or_path: str | os.PathLike[str],
    *,
    dtype: torch.dtype | str | None = None,
    device: str | torch.device | None = None,
    attn_implementation: str | None = None,
    verify: bool = True,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    local_files_only: bool = False,
) -> Any:
    """Load a model saved by `save_pruned`.

    Args:
        name_or_path: The folder, or the name of a model on the hub.
        dtype: Type of the weights, such as `torch.bfloat16` or `"bfloat16"`; the saved type by default or for `"auto"`.
        device: Device of the model; the CPU by default.
        attn_implementation: As in `from_pretrained`.
        verify: Check the weights against the manifest's checksum.
        revision: Branch, tag or commit on the hub.
        token: Token for the hub.
        cache_dir: Cache folder for files of the hub.
        local_files_only: Do not connect to the hub.

    Returns:
        The model, of the class that was saved, in evaluation mode.

    Raises:
        CheckpointError: The folder is not a pruned checkpoint, or is damaged.
    """
    hub = {"revision": revision, "token": token, "cache_dir": cache_dir, "local_files_only": local_files_only}
    folder = _fetch(name_or_path, hub)
    manifest = _read_manifest(folder)
    wanted = _dtype(dtype)
    if verify and _sha256(folder / WEIGHTS) != manifest.get("sha256"):
        raise CheckpointError(f"{folder / WEIGHTS}: damaged: its checksum is not the one in {MANIFEST}")
    state = _read_weights(folder, manifest)
    saved = next((tensor.dtype for tensor in state.values() if tensor.is_floating_point()), torch.float32)
    model = _build(folder, manifest, attn_implementation, wanted or saved)
    add_biases(model, state)
    if not any(name.startswith("pooler.") for name in state) and getattr(model, "pooler", None) is not None:
        model.pooler = None  # as with add_pooling_layer=False, which a config does not record
    _load_weights(model, folder, manifest, _cast(state, model, wanted))
    if model.can_generate() and (folder / "generation_config.json").exists():
        model.generation_config = _read_generation_config(folder)
    model.eval()
    return model if device is None else model.to(device)


def is_pruned(folder: str | os.PathLike[str]) -> bool:
    """Whether a local folder was written by `save_pruned`."""
    return (Path(folder) / MANIFEST).is_file()


def _merged(model: nn.Module) -> nn.Module:
    """The model with its adapters merged into its weights; raises an error for adapters that cannot be merged."""
    wrappers: list[Any] = [module for module in model.modules() if hasattr(module, "base_layer")]
    if any(getattr(wrapper, "disable_adapters", False) for wrapper in wrappers):
        raise HeadwiseError("the model's adapters are switched off: leave disable_adapter() before saving")
    if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
        raise HeadwiseError("a learned prompt is not part of the weights and would be lost: save it with PEFT")
    if hasattr(model, "merge_and_unload"):
        merged: nn.Module = copy.deepcopy(model).merge_and_unload()  # type: ignore[operator]
        return merged
    if wrappers:
        raise HeadwiseError("the model has adapters that are not merged: save the PEFT model around it, or merge them")
    return model


def _save_generation_config(base: Any, folder: Path) -> None:
    if not base.can_generate() or base.generation_config is None:
        return
    try:
        base.generation_config.save_pretrained(folder)
    except ValueError as error:
        raise HeadwiseError(f"the model's generation config is not valid: {str(error).splitlines()[0]}") from None


def _dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    if dtype is None or dtype == "auto":
        return None
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype):
        raise HeadwiseError(f"there is no dtype {dtype!r}: use float32, bfloat16, float16 or auto")
    return found


def _untied(state: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor once, and the other names of tied tensors with the name of the first."""
    first: dict[tuple[int, int], str] = {}
    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    for name, tensor in state.items():
        key = (tensor.data_ptr(), tensor.numel())
        if tensor.numel() and key in first:
            tied[name] = first[key]
        else:
            first[key] = name
            tensors[name] = tensor.detach().cpu().contiguous()
    return tensors, tied


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None


def _fetch(name_or_path: str | os.PathLike[str], hub: dict[str, Any]) -> Path:
    if is_folder(name_or_path):
        return Path(name_or_path)
    try:
        return Path(snapshot_download(str(name_or_path), **hub))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{name_or_path}: neither a folder nor a model on the hub: {reason}") from None


def _read_manifest(folder: Path) -> dict[str, Any]:
    if not is_pruned(folder):
        raise CheckpointError(
            f"{folder}: not a checkpoint of save_pruned: it has no {MANIFEST}; load other models with from_pretrained"
        )
    try:
        return read_json(folder / MANIFEST, _FORMAT, _VERSION)
    except HeadwiseError as error:
        raise CheckpointError(str(error)) from None


def _build(folder: Path, manifest: dict[str, Any], attn_implementation: str | None, dtype: torch.dtype) -> Any:
    """The model in its pruned shape, with uninitialised weights."""
    cls = find_class(str(manifest.get("class")))
    if cls is None:
        raise CheckpointError(f"{folder / MANIFEST}: 'class' {manifest.get('class')!r} is not a model of transformers")
    try:
        config = AutoConfig.from_pretrained(folder)
        check_layer_counts(config)
        removed = removed_heads(config)
        setattr(config, PRUNED_ATTRIBUTE, None)
        config.name_or_path = str(manifest.get("base_model") or folder)
        with _no_init_weights():
            model = cls._from_config(config, attn_implementation=attn_implementation, dtype=dtype)
        return shrink(model, HeadMask.without(find_heads(model), removed), inplace=True)
    except Exception as error:  # a damaged config can fail anywhere in transformers
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{folder}: no model can be built from its config.json: {reason}") from None


def _no_init_weights() -> Any:
    """Context manager that skips random initialisation; its module differs between transformers 4 and 5."""
    try:
        from transformers.initialization import no_init_weights
    except ImportError:
        from transformers.modeling_utils import no_init_weights
    return no_init_weights()


def _read_generation_config(folder: Path) -> Any:
    try:
        return GenerationConfig.from_pretrained(folder)
    except Exception as error:  # a damaged file can fail anywhere in transformers
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{folder / 'generation_config.json'}: cannot be read: {reason}") from None


def _read_weights(folder: Path, manifest: dict[str, Any]) -> dict[str, Tensor]:
    try:
        state = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{folder / WEIGHTS}: cannot be read: {error}") from None
    tied = manifest.get("tied")
    if not isinstance(tied, dict) or not all(isinstance(name, str) and name in state for name in tied.values()):
        raise CheckpointError(f"{folder / MANIFEST}: 'tied' does not fit {WEIGHTS}")
    return state | {name: state[first] for name, first in tied.items()}


def _cast(state: dict[str, Tensor], model: Any, dtype: torch.dtype | None) -> dict[str, Tensor]:
    """The weights in another type, except those that a model keeps in float32 when it is loaded in float16."""
    if dtype is None:
        return state
    kept = tuple(getattr(model, "_keep_in_fp32_modules", None) or ()) if dtype == torch.float16 else ()

    def cast_one(name: str, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        return tensor.float() if any(part in name.split(".") for part in kept) else tensor.to(dtype)

    return {name: cast_one(name, tensor) for name, tensor in state.items()}


def _load_weights(model: Any, folder: Path, manifest: dict[str, Any], state: dict[str, Tensor]) -> None:
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    found = {name: tensor.shape for name, tensor in state.items()}
    if expected != found:
        wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        raise CheckpointError(
            f"{folder / WEIGHTS}: {len(wrong)} tensors do not fit config.json, the first is {wrong[0]}"
        )
    kinds = {name: tensor.is_floating_point() for name, tensor in model.state_dict().items()}
    types = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()} - set(_TYPES)
    if types or any(tensor.is_floating_point() != kinds[name] for name, tensor in state.items()):
        found_type = str(next(iter(types), "whole numbers")).removeprefix("torch.")
        raise CheckpointError(
            f"{folder / WEIGHTS}: weights of the type {found_type}, which save_pruned does not write: prune again"
        )
    model.load_state_dict(state, assign=True)
    for name, first in manifest["tied"].items():  # only tensors that were tied: a config may list others
        parent, _, attribute = name.rpartition(".")
        if name in dict(model.named_parameters(remove_duplicate=False)):
            setattr(model.get_submodule(parent), attribute, model.get_parameter(first))
