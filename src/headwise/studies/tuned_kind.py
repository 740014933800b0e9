"""Studies that tune a pre-trained encoder after removing heads: the common fields of their plans, and how they run."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast, get_args

import torch

from headwise.data.catalog import open_dataset
from headwise.data.selection import language_codes
from headwise.errors import FieldError, HeadwiseError, require_whole
from headwise.files import write_json
from headwise.models import choose_device, load_tokenizer
from headwise.runs import Run, open_run
from headwise.scoring import Setting
from headwise.scoring.setting import make_setting
from headwise.studies.grid import CellTuning
from headwise.studies.study import Study
from headwise.studies.tables import save_tables
from headwise.studies.work import Work
from headwise.support.progress import Advance
from headwise.tasks.task import Piece
from headwise.tuning import TuningSettings
from headwise.tuning.plan import check_share
from headwise.tuning.prepare import prepare

#: Splits that a model is tuned on or chosen by.
_USED = ("train", "dev", "all")


@dataclass(frozen=True)
class TunedPlan:
    """The fields that all plans of these studies have.

    Attributes:
        model: The pre-trained encoder: a name on the hub, a folder, or a default model such as `e5-small`. It gets a
            new classifier for the task, unless it has one.
        task: The task, such as `nli`.
        data: A data set, with the splits `train` and `dev` of the training languages.
        languages: Comma-separated codes of the languages to measure, or `all`.
        train_languages: Comma-separated codes of the languages to tune on. Results in them are called in-language,
            results in the other languages cross-language.
        test_split: The split that is measured. The best epoch is chosen on `dev`.
        draws: Number of tuning runs of every model, each with its own seed (and its own random heads, if heads are
            drawn).
        epochs: Number of epochs.
        learning_rate: Peak learning rate.
        batch_tokens: Number of tokens in a batch, padding included.
        freeze_embeddings: Keep the embeddings fixed.
        patience: Epochs without a better dev value before a run stops; 0 disables early stopping.
        bfloat16: Tune in bfloat16 where that is safe.
        train_share: Share of the training examples to use.
        limit_test: The maximum number of test examples of each language; None for all.
        resamples: Number of resamples of every bootstrap, and of permutations of every permutation test.
        typology: A TSV file with the columns `code`, `word_order_81A` (WALS) and `resource_level`. By default
            `typology/languages.tsv` in the data folder, if it exists.
        seed: Seed of the new classifier and of everything drawn.
        piece: Which piece of a word carries its label.
        device: Where the model runs, one of `headwise.models.DEVICES`.
        dtype: The type of the weights, one of `headwise.models.DTYPES`.

    Raises:
        HeadwiseError: A value is out of range.
    """

    model: str
    task: str
    data: str
    languages: str = "all"
    train_languages: str = "en"
    test_split: str = "test"
    draws: int = 1
    epochs: int = 3
    learning_rate: float = 2e-5
    batch_tokens: int = 1024
    freeze_embeddings: bool = True
    patience: int = 0
    bfloat16: bool = False
    train_share: float = 1.0
    limit_test: int | None = None
    resamples: int = 1000
    typology: str | None = None
    seed: int = 0
    piece: str = "text"
    device: str = "auto"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for name in ("draws", "resamples", "limit_test"):
            if (name, getattr(self, name)) != ("limit_test", None):
                require_whole(name, getattr(self, name))
        if self.test_split in _USED:
            raise FieldError("test_split", f"models are tuned and chosen on {self.test_split!r}: measure another split")
        if self.piece not in get_args(Piece):
            raise FieldError("piece", f"must be one of {', '.join(get_args(Piece))}, not {self.piece!r}")
        check_share(self.train_share)
        _ = self.settings(0)  # checks the numbers

    def settings(self, draw: int, stop_after: int | None = None) -> TuningSettings:
        """The settings of the training loop of a draw."""
        return TuningSettings(
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            batch_tokens=self.batch_tokens,
            freeze_embeddings=self.freeze_embeddings,
            patience=self.patience,
            bfloat16=self.bfloat16,
            seed=self.seed + draw,
            stop_after=stop_after,
        )

    def tuning(self, languages: Sequence[str], draw: int, stop_after: int | None = None) -> CellTuning:
        """How the models of a draw are tuned."""
        return CellTuning(tuple(languages), self.settings(draw, stop_after), self.train_share)


Plan = TypeVar("Plan", bound=TunedPlan)
Result = TypeVar("Result", bound=Study)


@dataclass(frozen=True)
class TunedWork:
    """The state of a running study.

    Attributes:
        work: The model with its classifier, the data, the journal and the grid.
        languages: Codes of the languages to measure.
        trained: Codes of the languages to tune on.
    """

    work: Work
    languages: tuple[str, ...]
    trained: tuple[str, ...]


@dataclass(frozen=True)
class TunedKind(Generic[Plan, Result]):
    """A kind of study that removes heads from a pre-trained encoder and tunes it afterwards.

    Attributes:
        name: Its name, as in the field `study` of a plan.
        plan: The class of its plans.
        study: Measures what the plan asks for, and returns the results.
        load: Loads the finished study of a folder.
    """

    name: str
    plan: type[Plan]
    study: Callable[[Plan, TunedWork], Result]
    load: Callable[[Path], Result]

    @property
    def figures(self) -> str:
        """The file with the results of a finished study."""
        return f"{self.name}.json"

    def run(self, plan: Plan, out: str | os.PathLike[str], progress: Advance | None = None) -> Result:
        """Run a study, or resume an interrupted one.

        Args:
            plan: The plan.
            out: The run folder.
            progress: Called after every step.

        Raises:
            HeadwiseError: The plan is invalid, or the folder contains a run of another plan.
        """
        folder, setting = Path(out), load_untuned(plan)
        languages, trained = _codes(plan, setting)
        config = {"study": self.name, **_config(plan), "languages": list(languages)}
        with open_run(folder, config, settled=(folder / self.figures).exists()) as run:
            study = self.study(plan, _work(setting, run, progress, languages, trained))
        write_json(folder / self.figures, study.to_dict())
        save_tables(study.tables(), folder)
        return study


def _work(
    setting: Setting, run: Run, progress: Advance | None, languages: tuple[str, ...], trained: tuple[str, ...]
) -> TunedWork:
    return TunedWork(Work(run.folder, setting, run.journal, progress), languages, trained)


def _codes(plan: TunedPlan, setting: Setting) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The languages to measure and those to tune on; fails before any tuning if a split is missing."""
    languages, trained = setting.codes(plan.languages), _trained(plan, setting.dataset)
    for language in languages:
        setting.dataset.examples(language, plan.test_split)
    for language in trained:
        setting.dataset.examples(language, "dev")
    return tuple(languages), tuple(trained)


def _trained(plan: TunedPlan, dataset: Any) -> list[str]:
    return list(language_codes(plan.train_languages, dataset, "train_languages"))


def load_untuned(plan: TunedPlan, model: str | None = None) -> Setting:
    """The pre-trained encoder of a plan with a new classifier, and the data.

    Args:
        plan: The plan.
        model: Another model than that of the plan.

    Raises:
        HeadwiseError: The model or the data do not exist, or do not fit the task.
    """
    name = model or plan.model
    dataset = open_dataset(plan.data, plan.task)  # before the model, because it fails faster
    train = [each for code in _trained(plan, dataset) for each in dataset.examples(code, "train")]
    torch.manual_seed(plan.seed)  # of a new classifier: the same when a study is resumed
    found, _ = prepare(name, plan.task, train, cast(Piece, plan.piece), dtype=plan.dtype)
    tokenizer = load_tokenizer(name)
    if tokenizer is None:
        raise HeadwiseError(f"{name}: the model has no tokenizer: choose a model that has one")
    found.to(choose_device(plan.device)).eval()
    return make_setting(found, tokenizer, dataset, plan.task, plan.piece, name)


def _config(plan: TunedPlan) -> Mapping[str, object]:
    """The plan without the device, which results do not depend on."""
    return {name: value for name, value in dataclasses.asdict(plan).items() if name != "device"}
