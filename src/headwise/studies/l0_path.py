"""L0 paths (Voita et al., 2019, section 6): how many heads can be removed while a model is tuned, and which go first.

Gates and weights are trained together for growing penalties, each continuing from the one before. With encoder gates
the decoder is frozen, as in the paper, so that no function moves from the encoder to the decoder. Every mask of a path
is compared with the first penalty of the same path: a first penalty of 0 is tuning without pruning, so that the effect
of more training is not taken for an effect of pruning. The control from scratch trains new weights with the same heads.
"""

import copy
import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from headwise.engine import EngineFactory, LocalEngine
from headwise.engine.evaluation import MaskJudge
from headwise.errors import FieldError, HeadwiseError, require_whole
from headwise.files import write_json
from headwise.heads import find_heads
from headwise.masks import HeadMask
from headwise.methods.l0 import Sites
from headwise.runs import Journal, open_run
from headwise.scoring import ScoringPlan, Setting, load_setting
from headwise.scoring.l0_path import L0Point, check_lams, judge_once
from headwise.studies.l0_path_study import NAME, WHOLE, Measured, condition_of, study_of
from headwise.studies.tables import save_tables
from headwise.studies.tuned_study import TunedStudy, load_tuned_study
from headwise.studies.work import plan_config
from headwise.support.progress import Advance
from headwise.tasks.evaluation import Evaluation
from headwise.tasks.metrics import CorpusMetric
from headwise.tuning import TuningSettings
from headwise.tuning.l0 import L0Tuning, TuningData, train_from_scratch, tune_l0_path

#: File with the results of a finished study.
FIGURES = f"{NAME}.json"
#: Splits that weights and gates are trained on.
_USED = ("train", "dev", "all")


@dataclass(frozen=True)
class L0PathPlan:
    """The plan of a study of L0 paths.

    Attributes:
        scoring: Model, task, data, language (or pair of languages) and seed; its method is not used.
        lams: Weights of the penalty, in ascending order; the first one is the base of all comparisons.
        sites: The gates of each path: `encoder` (the decoder is frozen), `all`, `decoder` or `cross`.
        epochs: Number of epochs for each penalty.
        learning_rate: Peak learning rate of the weights.
        gate_learning_rate: Peak learning rate of the gates.
        batch_tokens: Number of tokens in a batch, padding included.
        freeze_embeddings: Keep the embeddings fixed.
        scratch_lams: Penalties whose masks are also trained from scratch, as a control; none by default.
        scratch_epochs: Number of epochs of the control.
        scratch_learning_rate: Peak learning rate of the control.
        limit_train: The maximum number of training examples; None for all.
        test_split: The split that masks are measured on.
        limit_test: The maximum number of dev and of test examples; None for all.
        tolerance: Largest loss of the metric that counts as none.
        resamples: Number of bootstrap resamples.

    Raises:
        HeadwiseError: A value is out of range.

    Example:
        >>> plan = L0PathPlan(ScoringPlan("model", "translation", "data", "en-fr"), lams=[0, 0.1], sites=["encoder"])
        >>> plan.settings.epochs, plan.gates("encoder").train
        (1, 'encoder')
    """

    scoring: ScoringPlan
    lams: Sequence[float]
    sites: Sequence[str] = ("encoder", "all")
    epochs: int = 1
    learning_rate: float = 2e-5
    gate_learning_rate: float = 0.1
    batch_tokens: int = 1024
    freeze_embeddings: bool = True
    scratch_lams: Sequence[float] = ()
    scratch_epochs: int = 10
    scratch_learning_rate: float = 5e-4
    limit_train: int | None = None
    test_split: str = "test"
    limit_test: int | None = None
    tolerance: float = 0.5
    resamples: int = 1000

    def __post_init__(self) -> None:
        try:
            check_lams(self.lams)
        except HeadwiseError as error:
            raise FieldError("lams", str(error).removeprefix("lams: ")) from None
        known = get_args(Sites)
        if not self.sites or len(set(self.sites)) < len(self.sites) or set(self.sites) - set(known):
            raise FieldError("sites", f"a list of {', '.join(known)}, each at most once, not {list(self.sites)}")
        if unknown := set(self.scratch_lams) - set(self.lams):
            raise FieldError("scratch_lams", f"some of 'lams', which {min(unknown):g} is not")
        require_whole("resamples", self.resamples)
        for name in ("limit_train", "limit_test"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name))
        if self.test_split in _USED:
            raise FieldError("test_split", f"models are trained on {self.test_split!r}: measure another split")
        if not self.tolerance >= 0:
            raise FieldError("tolerance", f"a number of at least 0, not {self.tolerance}")
        _ = self.settings, self.scratch_settings  # these check the numbers

    @property
    def settings(self) -> TuningSettings:
        """The settings of the training loop, for each penalty."""
        return TuningSettings(
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            batch_tokens=self.batch_tokens,
            freeze_embeddings=self.freeze_embeddings,
            seed=self.scoring.seed,
        )

    @property
    def scratch_settings(self) -> TuningSettings:
        """The settings of the control from scratch."""
        return dataclasses.replace(self.settings, epochs=self.scratch_epochs, learning_rate=self.scratch_learning_rate)

    def gates(self, sites: str) -> L0Tuning:
        """What is trained together in the path of some sites."""
        part: Any = "encoder" if sites == "encoder" else "all"
        return L0Tuning(cast(Sites, sites), part, self.gate_learning_rate)


class _Running:
    """A running study.

    Args:
        plan: The plan.
        setting: The model and the data.
        folder: The run folder.
        journal: Stores what is measured.
        progress: Called after every penalty and every control.
    """

    def __init__(
        self, plan: L0PathPlan, setting: Setting, folder: Path, journal: Journal, progress: Advance | None
    ) -> None:
        self.plan, self.setting, self.folder, self.journal, self.progress = plan, setting, folder, journal, progress
        self.data = read_data(plan, setting)
        controls = len(plan.scratch_lams) * len(plan.sites) + bool(plan.scratch_lams)
        self.done, self.total = 0, len(plan.lams) * len(plan.sites) + controls

    def measure(self) -> Measured:
        """Everything that the study reports."""
        full = HeadMask.full(self.setting.heads)
        whole = self._judge(self.setting.model, full, "whole")
        paths = {sites: self._path(sites) for sites in self.plan.sites}
        scratch = {}
        if self.plan.scratch_lams:
            scratch[WHOLE] = self._scratch(full, WHOLE)
            for sites, points in paths.items():
                for point in points:
                    if point.lam in self.plan.scratch_lams:
                        name = condition_of(sites, point.lam)
                        scratch[name] = self._scratch(point.mask.moved_to(self.setting.heads), name)
        return Measured(self.data.language, whole, paths, scratch)

    def _path(self, sites: str) -> tuple[L0Point, ...]:
        points = tune_l0_path(
            copy.deepcopy(self.setting.model),
            self.data,
            self.plan.lams,
            self.plan.settings,
            self.plan.gates(sites),
            out=self.folder / "paths" / sites,
            progress=lambda _done, _total, status: self._step(f"{sites} gates, {status}"),
        )
        for point in points:
            point.mask.save(self.folder / "masks" / f"{sites}-{point.lam:g}.json")
        return points

    def _scratch(self, mask: HeadMask, name: str) -> tuple[Evaluation, ...]:
        """New weights, trained with the same heads off."""
        state = self.folder / "scratch" / name.replace(" ", "-")
        new, _ = train_from_scratch(self.setting.model, mask, self.data, self.plan.scratch_settings, state)
        found = self._judge(new, mask.moved_to(find_heads(new)), f"scratch {name}")
        self._step(f"from scratch, {name}")
        return found

    @property
    def metrics(self) -> tuple[CorpusMetric, ...]:
        """The metrics of the task, the main one first."""
        return self._judge_of(self.setting.model).metrics

    def _judge(self, model: Any, mask: HeadMask, stream: str) -> tuple[Evaluation, ...]:
        return judge_once(self._judge_of(model), mask, self.journal, stream)

    def _judge_of(self, model: Any) -> MaskJudge:
        data = self.data
        return MaskJudge(model, find_heads(model), data.task, data.test, data.tokenizer, data.language)

    def _step(self, status: str) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total, status)


def read_data(plan: L0PathPlan, setting: Setting) -> TuningData:
    """The examples of a plan.

    Raises:
        HeadwiseError: The plan names no or several languages, or a split is missing.
    """
    codes = setting.codes(plan.scoring.languages)
    if len(codes) != 1:
        raise FieldError("languages", f"one language or pair of languages such as en-fr, not {', '.join(codes)}")
    [language] = codes
    train, dev, test = (setting.dataset.examples(language, split) for split in ("train", "dev", plan.test_split))
    return TuningData(
        setting.task, setting.tokenizer, train[: plan.limit_train], dev[: plan.limit_test], test[: plan.limit_test],
        language,
    )  # fmt: skip


def run_l0_path(plan: L0PathPlan, out: str | os.PathLike[str], progress: Advance | None = None) -> TunedStudy:
    """Run a study of L0 paths, or resume an interrupted one.

    Args:
        plan: The plan.
        out: The run folder. It keeps the weights after every penalty.
        progress: Called after every penalty and every control.

    Raises:
        HeadwiseError: The plan does not fit the model or the data, or the folder contains a run of another plan.
    """
    folder, scoring = Path(out), plan.scoring
    setting = load_setting(
        scoring.model, scoring.task, scoring.data, scoring.piece, device=scoring.device, dtype=scoring.dtype
    )
    config = {"study": NAME, **plan_config(plan), "languages": list(setting.codes(scoring.languages))}
    with open_run(folder, config, settled=(folder / FIGURES).exists()) as run:
        running = _Running(plan, setting, folder, run.journal, progress)
        measured = running.measure()
    study = study_of(plan, folder, measured, [each.id for each in running.data.test], running.metrics)
    write_json(folder / FIGURES, study.to_dict())
    save_tables(study.tables(), folder)
    return study


@dataclass(frozen=True)
class _L0PathKind:
    """The kind `l0-path`: penalties of a path depend on each other, so it is not a grid."""

    name: str = NAME
    plan: type[Any] = L0PathPlan

    def run(
        self,
        plan: L0PathPlan,
        out: str | os.PathLike[str],
        progress: Advance | None = None,
        make_engine: EngineFactory = LocalEngine,  # noqa: ARG002 - the model is trained in this process
    ) -> TunedStudy:
        """Run a plan."""
        return run_l0_path(plan, out, progress)

    def load(self, folder: Path) -> TunedStudy:
        """The finished study of a folder."""
        return load_tuned_study(folder, NAME)


L0_PATH = _L0PathKind()
