"""Write a pruned model: its mask only, a checkpoint with zeroed weights, or a smaller checkpoint."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from headwise.errors import HeadwiseError
from headwise.means import MeanOutputs
from headwise.outputs import output_folder
from headwise.pruning.checkpoint import PRUNED, save_pruned
from headwise.pruning.cutting import fold, shrink
from headwise.pruning.kinds import ExportKind
from headwise.pruning.sizes import count_parameters
from headwise.soft_masks import AnyMask, SoftMask


@dataclass(frozen=True)
class Exported:
    """The result of `export`.

    Attributes:
        folder: The folder.
        kind: What is in it.
        mask: The mask, hard or soft; the heads that are off were removed.
        parameters: Number of parameters of the model before and after.
    """

    folder: Path
    kind: ExportKind
    mask: AnyMask
    parameters: tuple[int, int]


def export(
    model: nn.Module,
    mask: AnyMask,
    tokenizer: Any,
    out: str | os.PathLike[str],
    kind: ExportKind | str = ExportKind.shrunk,
    overwrite: bool = False,
    baseline: MeanOutputs | None = None,
    repair: Callable[[nn.Module], bool] | None = None,
) -> Exported:
    """Remove heads from a model and write the result to a folder. The model itself is changed, unless it is repaired.

    Args:
        model: A transformers model, or a PEFT (LoRA) model around one.
        mask: The heads to keep, or a soft mask.
        tokenizer: The tokenizer of the model, saved with it; None to save no tokenizer.
        out: The folder, new or empty.
        kind: `mask` writes only the mask, `folded` a checkpoint of the same shape with output weights multiplied
            by the gates of the mask (0 for removed heads), `shrunk` a smaller checkpoint for `load_pruned`.
        overwrite: Replace a pruned model.
        baseline: Mean outputs that replace the removed heads; `mask` writes them to `means.safetensors`.
        repair: Called with the pruned model before it is written; returns whether it changed the weights. The model
            itself is then not changed.

    Raises:
        HeadwiseError: The folder is not empty or cannot be written, or the heads cannot be removed in this way.

    Example:
        >>> import tempfile
        >>> from transformers import BertConfig, BertModel
        >>> from headwise import HeadMask, find_heads
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> model = BertModel(config)
        >>> mask = HeadMask.without(find_heads(model), ["encoder.0.1"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     before, after = export(model, mask, None, folder).parameters
        >>> before - after  # rows of the query, key and value projections with their biases, columns of the output
        140
    """
    kind, folder, before, repaired = ExportKind(kind), Path(out), count_parameters(model), False
    if kind is ExportKind.mask and repair is not None:
        raise HeadwiseError("a mask has no weights to repair: export a shrunk or folded model")
    if kind is not ExportKind.mask:
        prune = shrink if kind is ExportKind.shrunk else fold
        model = prune(model, mask, inplace=repair is None, baseline=baseline)
        if repair is not None:
            repaired = repair(model)
    match kind:
        case ExportKind.shrunk:
            languages = (mask.language,) if mask.language else ()
            changes = _changes(mask, baseline is not None, repaired)
            save_pruned(model, folder, tokenizer, languages, overwrite, changes)
        case ExportKind.folded:
            _save_folded(model, tokenizer, folder, overwrite)
        case ExportKind.mask:
            with output_folder(folder, PRUNED, overwrite) as draft:
                mask.save(draft / "mask.json")
                if baseline is not None:
                    baseline.save(draft / "means.safetensors")
    return Exported(folder, kind, mask, (before, count_parameters(model)))


def _changes(mask: AnyMask, means: bool, repaired: bool) -> list[str]:
    """What was done to the weights besides removing heads, for the model card."""
    changes = []
    if isinstance(mask, SoftMask):
        gates = [gate for gate in mask.gates if gate != 0]
        changes.append(
            f"The outputs of the other {mask.kind} are scaled by learned gates from {min(gates, default=1):.3g} "
            f"to {max(gates, default=1):.3g}."
        )
    if means:
        changes.append("The removed heads are replaced by their mean outputs, which are part of the output biases.")
    if repaired:
        changes.append("The output projections were then refit by least squares.")
    return changes


def _save_folded(model: Any, tokenizer: Any, out: Path, overwrite: bool) -> None:
    with output_folder(out, PRUNED, overwrite) as draft:
        try:
            model.save_pretrained(draft)
        except OSError as error:
            raise HeadwiseError(f"{out}: cannot be written: {error.strerror}") from None
        if tokenizer is not None:
            tokenizer.save_pretrained(draft)
