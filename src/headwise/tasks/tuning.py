"""Fine-tuning: batches of like length, frozen embeddings, early stopping, and a state to go on from."""

import json
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import get_linear_schedule_with_warmup

from headwise.data.examples import Example
from headwise.errors import HeadwiseError
from headwise.files import new_folder, write_json
from headwise.heads import base_model
from headwise.tasks.encoding import Encoded, pack_by_length
from headwise.tasks.evaluation import evaluate
from headwise.tasks.likelihood import mean_log_likelihood
from headwise.tasks.protocol import AnyTask, gold_log_probabilities
from headwise.tasks.task import Task


@dataclass(frozen=True)
class TuneSettings:
    """How to tune.

    Attributes:
        epochs: Passes over the training examples.
        learning_rate: Peak rate of AdamW.
        batch_tokens: Padded tokens in one step; of pairs, on the longer side.
        warmup: Share of the steps in which the rate rises.
        weight_decay: AdamW's decay.
        freeze_embeddings: Leave the embeddings alone, and an output layer that shares them: with 250,000 pieces they
            are most of the cost.
        patience: Stop after so many epochs without a better dev value; 0 never stops.
        bfloat16: Compute in bfloat16 where that is safe (autocast).
        seed: Seed of everything that is drawn.
    """

    epochs: int = 3
    learning_rate: float = 2e-5
    batch_tokens: int = 1024
    warmup: float = 0.1
    weight_decay: float = 0.01
    freeze_embeddings: bool = True
    patience: int = 0
    bfloat16: bool = False
    seed: int = 0


@dataclass(frozen=True)
class TuneResult:
    """What tuning came to.

    Attributes:
        metric: What dev values are: the task's metric, or for translation and language modelling the mean
            log-likelihood per token. The higher the better, always.
        best_epoch: The epoch, counted from 1, whose weights were kept.
        best_value: Its dev value.
        history: Mean training loss and dev value of each epoch.
        steps: Steps taken.
        tokens: Useful tokens read (of pairs, the source's).
    """

    metric: str
    best_epoch: int
    best_value: float
    history: tuple[tuple[float, float], ...]
    steps: int
    tokens: int


def tune(
    model: Any,
    task: AnyTask,
    train: Sequence[Example],
    dev: Sequence[Example],
    tokenizer: Any,
    settings: TuneSettings,
    state_folder: Path | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> TuneResult:
    """Tune a model in place and leave it with the weights of its best epoch.

    Works on whole, shrunk and PEFT models alike, and under `gated(...)`. The loss is that of the gold labels: classes,
    or the tokens of a translation or a text.

    Args:
        model: A model with a head for the task.
        task: The task.
        train: Examples to learn from.
        dev: Examples that the best epoch is chosen on.
        tokenizer: The model's tokenizer.
        settings: How to tune.
        state_folder: Where to keep the state after each epoch; a run that finds one there goes on from it and
            ends with the same weights as one that was never stopped.
        progress: Called with steps done, steps in all and a word on how it goes.
    """
    if settings.freeze_embeddings:
        base_model(model).get_input_embeddings().requires_grad_(False)
    if not any(weight.requires_grad for weight in model.parameters()):
        raise HeadwiseError("every weight of the model is frozen: there is nothing to tune")
    run = _Run(model, task, task.encode(train, tokenizer)[0], tokenizer.pad_token_id or 0, settings, progress)
    start = run.restore(state_folder) if state_folder is not None else 0
    for epoch in range(start, settings.epochs):
        if settings.patience and epoch - run.best_epoch >= settings.patience > 0 and run.history:
            break
        loss = run.train_epoch(epoch)
        run.note(epoch, loss, _dev_value(model, task, dev, tokenizer))
        if state_folder is not None:
            run.save(state_folder, epoch + 1)
    run.load_best()
    metric = task.metric.name if isinstance(task, Task) else "log-likelihood per token"
    return TuneResult(metric, run.best_epoch, run.best_value, tuple(run.history), run.step, run.tokens)


def epoch_batches(lengths: Sequence[int], batch_tokens: int, seed: int, epoch: int) -> Iterator[list[int]]:
    """The batches of an epoch, as numbers of examples: like lengths together, whole batches in random order."""
    generator = np.random.default_rng([seed, epoch])
    noisy = np.array(lengths) * generator.uniform(0.9, 1.1, len(lengths))
    order = np.argsort(noisy)  # a little noise, so that batches differ from epoch to epoch
    groups = list(pack_by_length([lengths[i] for i in order], batch_tokens))
    for index in generator.permutation(len(groups)):
        yield [int(order[i]) for i in groups[index]]


def _dev_value(model: Any, task: AnyTask, dev: Sequence[Example], tokenizer: Any) -> float:
    """How good the model is on dev; the higher the better."""
    if isinstance(task, Task):
        return evaluate(model, task, dev, tokenizer).value
    return mean_log_likelihood(model, task, dev, tokenizer)


class _Run:
    """The moving parts of one tuning run."""

    def __init__(
        self,
        model: Any,
        task: AnyTask,
        encoded: Sequence[Encoded],
        pad_id: int,
        settings: TuneSettings,
        progress: Callable[[int, int, str], None] | None,
    ) -> None:
        self.model, self.task, self.encoded, self.pad_id = model, task, encoded, pad_id
        self.settings, self.progress = settings, progress
        self.weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.optimizer = torch.optim.AdamW(
            _decay_groups(self.weights, settings.weight_decay), lr=settings.learning_rate
        )
        self.epoch_batches = len(list(self.batches(0)))
        self.total = self.epoch_batches * settings.epochs
        self.schedule = get_linear_schedule_with_warmup(
            self.optimizer, math.ceil(settings.warmup * self.total), self.total
        )
        self.step, self.tokens, self.best_epoch, self.best_value = 0, 0, 0, -math.inf
        self.history: list[tuple[float, float]] = []
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
            with torch.autocast(device.type, torch.bfloat16, enabled=self.settings.bfloat16):
                logits = self.model(**batch.inputs(device)).logits
            loss = -gold_log_probabilities(self.task, logits, batch).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(self.weights.values(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()
            total, count = total + float(loss.detach()) * len(batch.gold), count + len(batch.gold)
            self.step, self.tokens = self.step + 1, self.tokens + int(batch.attention_mask.sum())
            if self.progress is not None:
                self.progress(self.step, self.total, f"epoch {epoch + 1}, loss {total / count:.3f}")
        return total / count

    def note(self, epoch: int, loss: float, value: float) -> None:
        """Remember how an epoch went, and its weights if it is the best so far."""
        self.history.append((loss, value))
        if value > self.best_value:
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
        with new_folder(folder, overwrite=True) as draft:
            save_file({key: value.contiguous() for key, value in state.items()}, draft / "state.safetensors")
            write_json(
                draft / "state.json",
                {
                    "settings": asdict(self.settings),
                    "epochs": epochs,
                    "step": self.step,
                    "tokens": self.tokens,
                    "best": [self.best_epoch, self.best_value],
                    "history": self.history,
                },
            )

    def restore(self, folder: Path) -> int:
        """Go on from a saved state; returns how many epochs are done."""
        if not (folder / "state.json").is_file():
            return 0
        saved = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        if saved["settings"] != asdict(self.settings):
            raise HeadwiseError(f"{folder}: a run with other settings is there: choose another folder, or delete it")
        state = load_file(folder / "state.safetensors")
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(state[f"weights.{name}"])
                self.optimizer.state[weight] = {
                    key: state[f"adam.{key}.{name}"]
                    for key in ("step", "exp_avg", "exp_avg_sq")
                    if f"adam.{key}.{name}" in state
                }
        self.best = {name: state[f"best.{name}"] for name in self.weights if f"best.{name}" in state}
        self.step, self.tokens = saved["step"], saved["tokens"]
        self.best_epoch, self.best_value = saved["best"]
        self.history = [tuple(entry) for entry in saved["history"]]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step", UserWarning)
            for _ in range(self.step):  # wound forward: the optimizer made these steps before the restart
                self.schedule.step()
        return int(saved["epochs"])


def _decay_groups(weights: dict[str, nn.Parameter], decay: float) -> list[dict[str, Any]]:
    """Biases and norms are not decayed."""
    return [
        {"params": [weight for weight in weights.values() if weight.dim() > 1], "weight_decay": decay},
        {"params": [weight for weight in weights.values() if weight.dim() <= 1], "weight_decay": 0.0},
    ]
