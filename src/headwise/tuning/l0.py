"""L0 gates trained together with the weights of a model, and the same heads trained from scratch (Voita, section 6)."""

import copy
import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headwise.data.examples import Example
from headwise.engine.evaluation import MaskJudge
from headwise.errors import HeadwiseError
from headwise.gates import gated
from headwise.heads import PRUNED_ATTRIBUTE, HeadMap, base_model, find_heads
from headwise.masks import HeadMask
from headwise.methods.l0 import Sites
from headwise.scoring.l0_path import L0Point, PathProgress, check_lams, describe, judge_once, path_journal, path_stream
from headwise.tasks.protocol import AnyTask
from headwise.tuning.gates import Part, TrainedGates, mask_of_gates, training_only
from headwise.tuning.loop import TuningResult, train_model
from headwise.tuning.plan import TuningSettings


@dataclass(frozen=True)
class L0Tuning:
    """What is trained together.

    Attributes:
        sites: The gates that are trained: `all`, or those of `encoder`, `decoder` or `cross`; the others stay 1.
        train: The weights that are trained: `all`, or those of the layers of the `encoder` or the `decoder`. The paper
            trains encoder gates with the decoder frozen, so that no function moves from the encoder to the decoder.
        learning_rate: Peak learning rate of the gates.
        log_alpha: `ln α` of all gates at the start of the path.
    """

    sites: Sites = "all"
    train: Part = "all"
    learning_rate: float = 0.1
    log_alpha: float = 2.0


@dataclass(frozen=True)
class TuningData:
    """The task and the examples of a path.

    Attributes:
        task: The task.
        tokenizer: The tokenizer of the model.
        train: Examples that weights and gates are trained on.
        dev: Examples whose metric is recorded after each epoch.
        test: Examples that every mask of the path is measured on.
        language: Language of the test examples, or pair of languages.
    """

    task: AnyTask
    tokenizer: Any
    train: Sequence[Example]
    dev: Sequence[Example]
    test: Sequence[Example]
    language: str = ""


def tune_l0_path(
    model: Any,
    data: TuningData,
    lams: Sequence[float],
    settings: TuningSettings,
    gates: L0Tuning | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    progress: PathProgress | None = None,
) -> tuple[L0Point, ...]:
    """Train gates and weights together for growing penalties, and measure the mask of each.

    The model is trained in place: each penalty continues from the weights and the gates of the one before, for
    `settings.epochs` epochs. At the end the model has the weights of the last penalty.

    Args:
        model: A model with a head for the task.
        data: The task and the examples.
        lams: Weights of the penalty, in ascending order.
        settings: Settings of the training loop, for each penalty.
        gates: What is trained together.
        out: Run folder. It keeps the weights after every penalty, and the same call with the same model continues an
            interrupted path. By default nothing is written.
        progress: Called after each penalty.

    Raises:
        HeadwiseError: The penalties are not in ascending order, the model has no such sites or part, or the folder
            contains another run.
    """
    gates = gates or L0Tuning()
    check_lams(lams)
    heads = find_heads(model)
    log_alpha = _start(heads, gates)
    chosen = asdict(settings)
    del chosen["biases_only"]  # it cannot be on, and is missing in runs of earlier versions
    config = {"l0 tuning": asdict(gates), "settings": chosen, "seed": settings.seed}
    config |= {"model": heads.fingerprint}
    points: list[L0Point] = []
    with path_journal(out, config) as journal, training_only(model, heads, gates.train):
        for done, lam in enumerate(lams, 1):
            trained = TrainedGates(model, float(lam), log_alpha, gates.learning_rate)
            state = None if out is None else Path(out) / "states" / f"{done}-{float(lam)!r}"
            train_model(
                model, data.task, data.train, data.dev, data.tokenizer, settings, state, gates=trained
            )  # fmt: skip
            log_alpha, now = trained.log_alpha(), find_heads(model)
            mask = mask_of_gates(now, log_alpha)
            judge = MaskJudge(model, now, data.task, data.test, data.tokenizer, data.language)
            found = judge_once(judge, mask, journal, path_stream(lams[:done]))
            points.append(L0Point(float(lam), mask, tuple(log_alpha.tolist()), found))
            if progress is not None:
                progress(done, len(lams), describe(points[-1]))
    return tuple(points)


def train_from_scratch(
    model: Any,
    mask: HeadMask,
    data: TuningData,
    settings: TuningSettings,
    state_folder: Path | None = None,
) -> tuple[Any, TuningResult]:
    """The control of a path: a model of the same shape with new random weights, trained with the same heads off.

    All weights are trained, also the embeddings, because the new ones are random.

    Args:
        model: The model that the mask belongs to; it is not changed.
        mask: The heads that are off.
        data: The task and the examples.
        settings: Settings of the training loop; `freeze_embeddings` is not used.
        state_folder: Folder for the state after each epoch, to continue an interrupted run.

    Returns:
        The new model, which needs `gated(model, mask.moved_to(find_heads(model)))`, and what was measured.

    Raises:
        HeadwiseError: The model is a PEFT model or has lost heads, so its shape does not come from its config alone.
    """
    mask.check(find_heads(model))
    if base_model(model) is not model or getattr(model.config, PRUNED_ATTRIBUTE, None):
        raise HeadwiseError("a model can be trained from scratch only if it is whole: give the model without adapters")
    torch.manual_seed(settings.seed)
    new = type(model)(copy.deepcopy(model.config)).to(device=model.device, dtype=model.dtype)
    chosen = TuningSettings(**(asdict(settings) | {"freeze_embeddings": False}))
    moved = mask.moved_to(find_heads(new))
    with gated(new, moved) if moved.off else nullcontext():
        result = train_model(
            new, data.task, data.train, data.dev, data.tokenizer, chosen, state_folder, mask=moved
        )  # fmt: skip
    return new, result


def _start(heads: HeadMap, gates: L0Tuning) -> Any:
    """`ln α` of each head's gate at the start, (heads,); NaN for gates that stay 1."""
    chosen = np.array([gates.sites in ("all", name.partition(".")[0]) for name in heads.players()])
    if not chosen.any():
        raise HeadwiseError(f"sites: {heads.model} has no head in {gates.sites!r}: choose 'all' or another kind")
    return np.where(chosen, gates.log_alpha, np.nan)
