"""The training loop: batches of similar length, frozen embeddings, early stopping, and a state to resume from."""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import get_linear_schedule_with_warmup

from headwise.data.examples import Example
from headwise.errors import FieldError, HeadwiseError
from headwise.heads import base_model
from headwise.soft_masks import AnyMask
from headwise.support.progress import Advance
from headwise.tasks.encoding import check_vocabulary, pack_by_length
from headwise.tasks.protocol import AnyTask, gold_log_probabilities
from headwise.tasks.task import Task
from headwise.tuning.biases import only_biases
from headwise.tuning.gates import TrainedGates
from headwise.tuning.lora import lora_adapters
from headwise.tuning.plan import TuningSettings
from headwise.tuning.state import damaged, identify_run, read_state, write_state
from headwise.tuning.training_set import TrainingSet, encode_training_set


class EpochResult(NamedTuple):
    """What was measured in one epoch: the mean training loss, and the dev value after the epoch."""

    loss: float
    value: float


@dataclass(frozen=True)
class TuningResult:
    """What was measured during tuning.

    Attributes:
        metric: Name of the dev value: the metric of the task, or the mean log-likelihood per token for translation and
            language modelling. Higher is better.
        best_epoch: The epoch whose weights the model has now, counted from 1.
        best_value: Dev value of that epoch.
        history: Training loss and dev value of each epoch.
        steps: Number of optimizer steps.
        tokens: Number of tokens read, without padding (for translation, tokens of the source).
        seconds: Time of all epochs, also of those before an interruption. Results with other times are equal.
    """

    metric: str
    best_epoch: int
    best_value: float
    history: tuple[EpochResult, ...]
    steps: int
    tokens: int
    seconds: float = field(default=0.0, compare=False)


def train_model(
    model: Any,
    task: AnyTask,
    train: Sequence[Example],
    dev: Sequence[Example],
    tokenizer: Any,
    settings: TuningSettings,
    state_folder: Path | None = None,
    progress: Advance | None = None,
    mask: AnyMask | None = None,
    gates: TrainedGates | None = None,
) -> TuningResult:
    """Train a model in place; at the end it has the weights of its best epoch on dev.

    Works on whole, shrunk and PEFT models, and inside `gated(...)`. The loss is the negative log-likelihood of the gold
    labels: classes, or the tokens of a translation or a text.

    Args:
        model: A model with a head for the task.
        task: The task.
        train: Examples to train on.
        dev: Examples that the best epoch is chosen by.
        tokenizer: The tokenizer of the model.
        settings: Settings of the loop.
        state_folder: Folder for the state after each epoch. A run that finds the state of an interrupted run there
            continues it, and ends with the same weights as a run that was not interrupted.
        progress: Called with the number of steps done, the number of steps in total and a status text.
        mask: The mask that the model is gated by, if any; it identifies the run, together with the model and the data.
        gates: Gates that are trained together with the weights. Dev values are then measured with gates of 0 and 1,
            and the last epoch counts as the best one: the gates that the penalty asks for are those at the end.

    Raises:
        HeadwiseError: There is no weight to train or no example to train on, the state is damaged or belongs to another
            run, or the loss or the weights are no longer finite.
    """
    data = encode_training_set(task, train, dev, tokenizer)
    return train_encoded(model, data, settings, state_folder, progress, mask, gates)


def train_encoded(
    model: Any,
    data: TrainingSet,
    settings: TuningSettings,
    state_folder: Path | None = None,
    progress: Advance | None = None,
    mask: AnyMask | None = None,
    gates: TrainedGates | None = None,
    identity: str | None = None,
    after_epoch: Callable[[int], None] | None = None,
) -> TuningResult:
    """Train a model in place on examples that are encoded already; otherwise like `train_model`.

    Args:
        model: A model with a head for the task.
        data: The encoded examples, which are not changed: many runs can share them.
        settings: Settings of the loop.
        state_folder: Folder for the state after each epoch.
        progress: Called with the number of steps done, the number of steps in total and a status text.
        mask: The mask that the model is gated by, if any.
        gates: Gates that are trained together with the weights.
        identity: A hash of the model, the examples and the mask; by default it is computed here.
        after_epoch: Called with the number of each finished epoch, counted from 1, before its state is saved. The model
            has the weights of that epoch then. A resumed run does not call it for the epochs before.

    Raises:
        HeadwiseError: As `train_model`.
    """
    check_vocabulary(model, [*data.train, *data.dev.encoded])
    if settings.freeze_embeddings:
        base_model(model).get_input_embeddings().requires_grad_(False)
    if not any(weight.requires_grad for weight in model.parameters()):
        raise HeadwiseError("every weight of the model is frozen: there is nothing to tune")
    with _trained_part(model, settings, isinstance(data.task, Task), gates):
        return _train(_Run(model, data, settings, progress, gates), data, state_folder, mask, identity, after_epoch)


def _trained_part(
    model: Any, settings: TuningSettings, train_head: bool, gates: TrainedGates | None
) -> AbstractContextManager[None]:
    """Chooses what is trained: all weights, LoRA adapters or biases."""
    if not (settings.lora_rank or settings.biases_only):
        return nullcontext()
    if gates is not None:
        field = "lora_rank" if settings.lora_rank else "biases_only"
        raise FieldError(field, "must be off if gates are trained together with the weights")
    if settings.lora_rank:
        return lora_adapters(model, settings.lora_rank, settings.seed, train_head)
    return only_biases(model, train_head)


def _train(
    run: "_Run",
    data: TrainingSet,
    state_folder: Path | None,
    mask: AnyMask | None,
    identity: str | None,
    after_epoch: Callable[[int], None] | None,
) -> TuningResult:
    """The epochs of a run, from its last saved state."""
    model, settings, gates, start = run.model, run.settings, run.gates, 0
    if state_folder is not None:
        run.identity |= identify_run(model, data, mask) if identity is None else {"identity": identity}
        run.identity |= {} if gates is None else gates.identity()
        start = run.restore(state_folder)
    for epoch in range(start, settings.stop_after or settings.epochs):
        if settings.patience and epoch - run.best_epoch >= settings.patience > 0 and run.history:
            break
        began = time.monotonic()
        loss = run.train_epoch(epoch)
        run.check_weights(epoch)
        with nullcontext() if gates is None else gates.decided():
            value = data.dev_value(model, settings.bfloat16)
        run.note(epoch, loss, value, time.monotonic() - began)
        if after_epoch is not None:
            after_epoch(epoch + 1)
        if state_folder is not None:
            run.save(state_folder, epoch + 1)
    run.load_best()
    return TuningResult(
        data.metric, run.best_epoch, run.best_value, tuple(run.history), run.step, run.tokens, run.seconds
    )


def epoch_batches(lengths: Sequence[int], batch_tokens: int, seed: int, epoch: int) -> Iterator[list[int]]:
    """The batches of an epoch, as numbers of examples: like lengths together, whole batches in random order."""
    generator = np.random.default_rng([seed, epoch])
    noisy = np.array(lengths) * generator.uniform(0.9, 1.1, len(lengths))
    order = np.argsort(noisy)  # a little noise, so that batches differ from epoch to epoch
    groups = list(pack_by_length([lengths[i] for i in order], batch_tokens))
    for index in generator.permutation(len(groups)):
        yield [int(order[i]) for i in groups[index]]


class _Run:
    """The moving parts of one tuning run."""

    def __init__(
        self,
        model: Any,
        data: TrainingSet,
        settings: TuningSettings,
        progress: Advance | None,
        gates: TrainedGates | None,
    ) -> None:
        self.model, self.task, self.encoded, self.pad_id = model, data.task, data.train, data.pad_id
        self.settings, self.progress, self.gates = settings, progress, gates
        # Settings that are off are left out, as in states that were saved before there were such settings.
        added = ("lora_rank", "biases_only")
        used = {name: value for name, value in asdict(settings).items() if name not in added or value}
        self.identity: dict[str, Any] = {"settings": used}
        self.weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.clipped = list(self.weights.values())  # gates have a learning rate of their own, and are not clipped
        groups = _decay_groups(self.weights, settings.weight_decay)
        if gates is not None:
            self.weights |= gates.parameters()
            own = {"params": list(gates.parameters().values()), "weight_decay": 0.0, "lr": gates.learning_rate}
            groups.append(own)
        self.optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)
        self.epoch_batches = len(list(self.batches(0)))
        self.total = self.epoch_batches * settings.epochs
        self.schedule = get_linear_schedule_with_warmup(
            self.optimizer, math.ceil(settings.warmup * self.total), self.total
        )
        self.step, self.tokens, self.best_epoch, self.best_value = 0, 0, 0, -math.inf
        self.seconds = 0.0
        self.history: list[EpochResult] = []
        self.best: dict[str, Tensor] = {}

    def batches(self, epoch: int) -> Iterator[list[int]]:
        """The batches of an epoch."""
        lengths = [item.length for item in self.encoded]
        return epoch_batches(lengths, self.settings.batch_tokens, self.settings.seed, epoch)

    def train_epoch(self, epoch: int) -> float:
        """One pass; returns the mean loss."""
        self.model.train()
        total, count = 0.0, 0
        device = next(iter(self.weights.values())).device
        for index in self.batches(epoch):
            torch.manual_seed(self.settings.seed * 1_000_003 + self.step)  # dropout, the same after a restart
            batch = self.task.make_batch(self.model, self.encoded, index, self.pad_id)
            with nullcontext() if self.gates is None else self.gates.sampled():
                with torch.autocast(device.type, torch.bfloat16, enabled=self.settings.bfloat16):
                    logits = self.model(**batch.inputs(device)).logits
                loss = -gold_log_probabilities(self.task, logits, batch).mean()
                self.require_finite("loss", float(loss.detach()), epoch)
                (loss if self.gates is None else loss + self.gates.penalty().to(device)).backward()
            nn.utils.clip_grad_norm_(self.clipped, 1.0)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()
            total, count = total + float(loss.detach()) * len(batch.gold), count + len(batch.gold)
            self.step, self.tokens = self.step + 1, self.tokens + int(batch.attention_mask.sum())
            if self.progress is not None:
                self.progress(self.step, self.total, f"epoch {epoch + 1}, loss {total / count:.3f}")
        return total / count

    def require_finite(self, name: str, value: float, epoch: int) -> None:
        """Stop a run whose weights are lost: no later step brings them back."""
        if not math.isfinite(value):
            raise HeadwiseError(
                f"the {name} became {value} in epoch {epoch + 1}, so the weights are lost: "
                f"take a lower learning rate than {self.settings.learning_rate:g}"
            )

    def check_weights(self, epoch: int) -> None:
        """Stop a run whose last step broke the weights: no loss of the epoch shows it."""
        total = sum(float(weight.detach().sum()) for weight in self.weights.values())
        self.require_finite("sum of the weights", total, epoch)

    def note(self, epoch: int, loss: float, value: float, seconds: float) -> None:
        """Remember how an epoch went, and its weights if it is the best so far; with gates, the last is the best."""
        self.require_finite("dev value", value, epoch)
        self.history.append(EpochResult(loss, value))
        self.seconds += seconds
        if value > self.best_value or self.gates is not None:
            self.best_epoch, self.best_value = epoch + 1, value
            self.best = {name: weight.detach().clone() for name, weight in self.weights.items()}

    def load_best(self) -> None:
        """Give the model the weights of the best epoch."""
        with torch.no_grad():
            for name, weight in self.best.items():
                self.weights[name].copy_(weight)

    def save(self, folder: Path, epochs: int) -> None:
        """Write everything that the next epoch depends on."""
        state = {f"weights.{name}": weight.detach() for name, weight in self.weights.items()}
        state |= {f"best.{name}": weight for name, weight in self.best.items()}
        names = {id(weight): name for name, weight in self.weights.items()}
        for weight, moments in self.optimizer.state.items():
            state |= {f"adam.{key}.{names[id(weight)]}": value for key, value in moments.items()}
        about = {
            "epochs": epochs,
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "best": [self.best_epoch, self.best_value],
            "history": self.history,
        }
        write_state(folder, self.identity, about, state)

    def restore(self, folder: Path) -> int:
        """Go on from a saved state; returns how many epochs are done."""
        found = read_state(folder, self.identity)
        if found is None:
            return 0
        about, state = found
        try:
            self._take_weights(state)
            self.step, self.tokens = int(about["step"]), int(about["tokens"])
            self.best_epoch, self.best_value = about["best"]
            self.history = [EpochResult(loss, value) for loss, value in about["history"]]
            self.seconds = float(about["seconds"])
            done = int(about["epochs"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise damaged(folder, error) from None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step", UserWarning)
            for _ in range(self.step):  # wound forward: the optimizer made these steps before the restart
                self.schedule.step()
        return done

    def _take_weights(self, state: dict[str, Tensor]) -> None:
        """The weights, the optimizer's moments, and the weights of the best epoch."""
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(_of_shape(state, f"weights.{name}", weight))
                if (steps := state.get(f"adam.step.{name}")) is not None:  # what no loss depends on has no moments
                    moments = {key: _of_shape(state, f"adam.{key}.{name}", weight) for key in ("exp_avg", "exp_avg_sq")}
                    moments = {key: value.to(weight.device) for key, value in moments.items()}
                    self.optimizer.state[weight] = {"step": steps, **moments}
        self.best = {name: _of_shape(state, f"best.{name}", weight) for name, weight in self.weights.items()}


def _of_shape(state: dict[str, Tensor], key: str, weight: Tensor) -> Tensor:
    """A tensor of a state, of the shape of the weight that it belongs to."""
    found = state[key]
    if found.shape != weight.shape:
        raise ValueError(f"{key} is of shape {tuple(found.shape)}, not {tuple(weight.shape)}")
    return found


def _decay_groups(weights: dict[str, nn.Parameter], decay: float) -> list[dict[str, Any]]:
    """Biases and norms are not decayed."""
    return [
        {"params": [weight for weight in weights.values() if weight.dim() > 1], "weight_decay": decay},
        {"params": [weight for weight in weights.values() if weight.dim() <= 1], "weight_decay": 0.0},
    ]
