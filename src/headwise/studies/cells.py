"""Cells: what a study measures."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from headwise.errors import FieldError
from headwise.soft_masks import AnyMask, SoftMask
from headwise.tuning import TuningSettings


@dataclass(frozen=True)
class CellTuning:
    """How the model of a cell is tuned after pruning and before it is measured.

    Attributes:
        languages: Languages to train on; the data set must have their splits `train` and `dev`.
        settings: Settings of the training loop.
        share: Share of the training examples of each language to use.
        own: Languages that have a share of their own, with that share.
        limit_dev: The maximum number of dev examples of each language that the best epoch is chosen by, the first ones;
            None for all.
    """

    languages: tuple[str, ...]
    settings: TuningSettings
    share: float = 1.0
    own: tuple[tuple[str, float], ...] = ()
    limit_dev: int | None = None

    @property
    def shares(self) -> dict[str, float]:
        """The share of each language, in the order of training.

        Example:
            >>> CellTuning(("en", "sw"), TuningSettings(), share=0.1, own=(("en", 1.0),)).shares
            {'en': 1.0, 'sw': 0.1}
        """
        own = dict(self.own)
        return {code: own.get(code, self.share) for code in self.languages}

    @property
    def content(self) -> dict[str, Any]:
        """What the result of the tuning depends on, besides the examples; settings that are off are left out."""
        settings = {name: value for name, value in dataclasses.asdict(self.settings).items() if value}
        if settings.get("patience", 0) >= self.settings.epochs:
            del settings["patience"]  # it never stops the run
        return settings


@dataclass(frozen=True)
class Cell:
    """One measurement: a model, pruned and tuned as stated, on the examples of one language.

    Attributes:
        language: The language.
        split: The split, which must not be one that masks were chosen on.
        mask: The mask; None for the whole model.
        limit: The maximum number of examples, the first ones; None for all.
        only: Indices of the examples to measure; None for all of them.
        tuning: Remove the masked heads from a copy of the model and tune it; None for no tuning.
        epoch: Measure a tuned model after this epoch, counted from 1; None for its best epoch on dev.
        series: Name of the cells that this one belongs to. It is shown while the cell is measured, `--only` looks for
            it, and `--shard` gives all cells of a series to the same machine. The result does not depend on it.

    Raises:
        HeadwiseError: The cell is not tuned, or not for so many epochs, but has an epoch.
    """

    language: str
    split: str
    mask: AnyMask | None = None
    limit: int | None = None
    only: tuple[int, ...] | None = None
    tuning: CellTuning | None = None
    epoch: int | None = None
    series: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        most = 0 if self.tuning is None else self.tuning.settings.epochs
        if self.epoch is not None and not 1 <= self.epoch <= most:
            raise FieldError(
                "epoch", f"must be a number from 1 to the number of epochs of the tuning, not {self.epoch}"
            )

    @property
    def gates(self) -> tuple[str, tuple[Any, ...]]:
        """The mask as plain data; a mask that turns nothing off is no mask.

        Example:
            >>> Cell("en", "test").gates
            ('heads', ())
        """
        if self.mask is None:
            return "heads", ()
        if isinstance(self.mask, SoftMask):
            return self.mask.kind, tuple(self.mask.gates)
        return (self.mask.kind, tuple(sorted(self.mask.off))) if self.mask.off else ("heads", ())

    @property
    def model_label(self) -> str:
        """The model of the cell in words.

        Example:
            >>> Cell("zh", "test", tuning=CellTuning(("en", "zh"), TuningSettings()), series="multi zh").model_label
            'multi zh, nothing off, tuned on en+zh'
        """
        off = 0 if self.mask is None or isinstance(self.mask, SoftMask) else len(self.mask.off)
        gates = "soft mask" if isinstance(self.mask, SoftMask) else f"{off} off" if off else "nothing off"
        tuned = "" if self.tuning is None else f"tuned on {'+'.join(self.tuning.languages)}"
        return ", ".join(filter(None, (self.series, gates, tuned)))

    @property
    def label(self) -> str:
        """The cell in words; `--only` is a pattern of it.

        Example:
            >>> Cell("zh", "test").label
            'nothing off, test zh'
        """
        after = "" if self.epoch is None else f" after epoch {self.epoch}"
        return f"{self.model_label}, {self.split} {self.language}{after}"
