"""The state of a tuning run on disk: what identifies the run, and all that its next epoch depends on."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from headwise.errors import HeadwiseError
from headwise.files import hash_json, new_folder, write_json
from headwise.soft_masks import AnyMask, SoftMask
from headwise.tuning.training_set import TrainingSet

#: What a task's examples and its measure depend on, where it has it.
_TASK_PARTS = ("name", "kind", "labels", "piece", "window", "max_length", "first_token")
_ABOUT, _TENSORS = "state.json", "state.safetensors"


def identify_run(model: Any, data: TrainingSet, mask: AnyMask | None) -> dict[str, str]:
    """Hashes of all that a run starts from; their names say to people what differs between two runs.

    Args:
        model: The model, not yet tuned.
        data: The examples.
        mask: The mask that the model is gated by.
    """
    task = data.task
    parts = [getattr(task, part, None) for part in _TASK_PARTS]
    metric = getattr(getattr(task, "metric", None), "name", None)
    gates: tuple[object, ...] = ()
    if isinstance(mask, SoftMask):
        gates = (mask.kind, *mask.gates)
    elif mask is not None and mask.off:  # all on is as good as no mask
        gates = (mask.kind, *mask.off)
    return {
        "model": _hash_weights(model),
        "task": hash_json([*parts, metric]),
        "mask": hash_json(gates),
        **data.hashes,
    }


def write_state(folder: Path, run: dict[str, Any], about: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Replace the state in a folder.

    Args:
        folder: The folder.
        run: What identifies the run.
        about: How far it is, as JSON.
        tensors: Its weights and the optimizer's.

    Raises:
        HeadwiseError: It cannot be written.
    """
    with new_folder(folder, overwrite=True) as draft:
        try:
            save_file({key: value.contiguous() for key, value in tensors.items()}, draft / _TENSORS)
        except (OSError, SafetensorError) as error:  # a full disk, most often
            raise HeadwiseError(f"{folder}: the state of the run cannot be written: {error}") from None
        write_json(draft / _ABOUT, {"run": run, **about})


def read_state(folder: Path, run: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """The state that `write_state` left in a folder, None if there is none.

    Raises:
        HeadwiseError: It is damaged, or that of another run.
    """
    if not (folder / _ABOUT).is_file():
        return None
    try:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        saved = dict(about["run"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(folder, error) from None
    if differing := [name for name in run if saved.get(name) != run[name]]:
        raise HeadwiseError(
            f"{folder}: the run that was stopped there had other {' and '.join(differing)}: delete that folder to "
            "start anew, or tune to another one"
        )
    try:
        return about, load_file(folder / _TENSORS)
    except (OSError, SafetensorError) as error:
        raise damaged(folder, error) from None


def damaged(folder: Path, error: Exception) -> HeadwiseError:
    """What to tell of a state that cannot be gone on from."""
    cause = f"{error} is missing" if isinstance(error, KeyError) else " ".join(str(error).split())
    return HeadwiseError(
        f"{folder}: the state of the stopped run is damaged ({cause}): delete that folder to start anew"
    )


def _hash_weights(model: Any) -> str:
    digest = hashlib.sha256()
    for name, weight in (*model.named_parameters(), *model.named_buffers()):
        digest.update(f"{name}:{weight.dtype}:{tuple(weight.shape)}".encode())
        # As bytes, since numpy knows no bfloat16; flat, since a single number has no bytes of its own.
        digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]
