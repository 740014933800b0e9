"""Studies that tune a pre-trained encoder after removing heads: the common fields of their plans."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.errors import FieldError, require_whole
from headwise.scoring import ScoringPlan
from headwise.studies.cells import Cell, CellTuning
from headwise.studies.work import Work
from headwise.tuning import TuningSettings
from headwise.tuning.plan import check_share

#: Splits that a model is tuned on or chosen by.
_USED = ("train", "dev", "all")
#: A measurement is of a language, a condition (which heads are removed) and a draw (one tuned model of a condition).
Key = tuple[str, str, int]


@dataclass(frozen=True)
class TunedPlan:
    """The fields that all plans of these studies have.

    Attributes:
        scoring: Model, task, data, languages to measure, and seed. Only some kinds rank heads by its method. The model
            is a pre-trained encoder, which gets a new classifier for the task, unless it has one.
        train_languages: Comma-separated codes of the languages to tune on. Results in them are called in-language,
            results in the other languages cross-language.
        test_split: The split that is measured. The best epoch is chosen on `dev`.
        draws: Number of tuning runs of every condition, each with its own seed (and its own random heads, if heads are
            drawn).
        epochs: Number of epochs.
        learning_rate: Peak learning rate.
        batch_tokens: Number of tokens in a batch, padding included.
        freeze_embeddings: Keep the embeddings fixed.
        lora_rank: Train LoRA adapters of this rank instead of all weights (see `TuningSettings`); 0 for all weights.
        mean_pooling: A new classifier of whole inputs reads the mean of the last hidden states, as sentence encoders
            do, and not the first token.
        train_share: Share of the training examples to use.
        limit_test: The maximum number of test examples of each language; None for all.
        resamples: Number of resamples of every bootstrap, and of permutations of every permutation test.

    Raises:
        HeadwiseError: A value is out of range.
    """

    scoring: ScoringPlan
    train_languages: str = "en"
    test_split: str = "test"
    draws: int = 1
    epochs: int = 3
    learning_rate: float = 2e-5
    batch_tokens: int = 1024
    freeze_embeddings: bool = True
    lora_rank: int = 0
    mean_pooling: bool = False
    train_share: float = 1.0
    limit_test: int | None = None
    resamples: int = 1000

    def __post_init__(self) -> None:
        for name in ("draws", "resamples", "limit_test"):
            if (name, getattr(self, name)) != ("limit_test", None):
                require_whole(name, getattr(self, name))
        if self.test_split in _USED:
            raise FieldError("test_split", f"models are tuned and chosen on {self.test_split!r}: measure another split")
        check_share(self.train_share)
        if not self.trained:
            raise FieldError("train_languages", "names no language: give codes such as en,es")
        _ = self.settings(0)  # checks the numbers

    @property
    def trained(self) -> tuple[str, ...]:
        """Codes of the languages to tune on."""
        return tuple(code.strip() for code in self.train_languages.split(",") if code.strip())

    def settings(self, draw: int, stop_after: int | None = None) -> TuningSettings:
        """The settings of the training loop of a draw."""
        return TuningSettings(
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            batch_tokens=self.batch_tokens,
            freeze_embeddings=self.freeze_embeddings,
            bfloat16=self.scoring.bfloat16,
            seed=self.scoring.seed + draw,
            stop_after=stop_after,
            lora_rank=self.lora_rank,
        )

    def tuning(self, draw: int) -> CellTuning:
        """How the models of a draw are tuned."""
        return CellTuning(self.trained, self.settings(draw), self.train_share, limit_dev=self.scoring.limit)

    def languages(self, work: Work) -> tuple[str, ...]:
        """Codes of the languages to measure."""
        return tuple(work.setting.codes(self.scoring.languages))

    def test_ids(self, work: Work) -> dict[str, tuple[str, ...]]:
        """The ids of the test examples of each language."""
        cells = [Cell(language, self.test_split, limit=self.limit_test) for language in self.languages(work)]
        return {cell.language: tuple(each.id for each in work.grid.examples(cell)) for cell in cells}


@dataclass(frozen=True)
class GroupedPlan(TunedPlan):
    """The fields of plans whose results are grouped by properties of the languages.

    Attributes:
        typology: A TSV file with the columns `code`, `word_order_81A` (WALS) and `resource_level`. By default
            `typology/languages.tsv` in the data folder, if it exists.
    """

    typology: str | None = None


def trained_of(plan: TunedPlan) -> str:
    """The languages that models are trained on."""
    return plan.train_languages


def by_key(cells: Mapping[Key, Cell], measured: Mapping[Cell, NDArray[np.float64]]) -> dict[Key, NDArray[np.float64]]:
    """The measurements of cells by language, condition and draw."""
    return {key: measured[cell] for key, cell in cells.items()}
