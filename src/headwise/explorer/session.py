"""What the explorer can do, without the server: measure a mask, show attention, save the mask, export the model."""

import copy
import os
import re
import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headwise.attention.view import AttentionView, attention
from headwise.data.examples import Example
from headwise.engine import EngineCost
from headwise.engine.evaluation import MaskJudge
from headwise.engine.resuming import MEMORY
from headwise.errors import FieldError, HeadwiseError
from headwise.explorer.sample import LanguageMetric, LanguageSample
from headwise.masks import HeadMask
from headwise.means import MeanOutputs
from headwise.models import load_model
from headwise.outputs import check_target
from headwise.pruning.checkpoint import PRUNED
from headwise.pruning.exporting import Exported, export
from headwise.scores import HeadScores
from headwise.scoring.setting import Setting

#: Maximum number of characters and of tokens of a typed sentence.
MOST_CHARACTERS = 2000
MOST_TOKENS = 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class Measured:
    """The metric of all languages under one mask.

    Attributes:
        mask: The mask.
        languages: The metric of each language.
        cost: The cost of the mask; layers whose outputs were known are not counted.
        plain: The cost of a plain evaluation of the same examples, in units.
    """

    mask: HeadMask
    languages: tuple[LanguageMetric, ...]
    cost: EngineCost
    plain: float


@dataclass(frozen=True)
class ExportedModel:
    """A pruned model that was written.

    Attributes:
        exported: The folder, the mask and the number of parameters.
        languages: The metric of the model as it was read from the folder, compared with the whole model.
    """

    exported: Exported
    languages: tuple[LanguageMetric, ...]


@dataclass(eq=False)
class Session:
    """A model, a sample of each language, and the place where masks are saved.

    Only one method may run at a time, except `save`: they all run the model.

    Attributes:
        setting: The model and the data.
        examples: The sample of each language.
        out: Folder for masks; nothing else is written there.
        export_dir: Folder for the pruned model; None if none may be exported.
        start: The mask at the start.
        scores: Scores of heads by language, to colour the heads; may be empty.
        baselines: Mean outputs by language, which replace the heads that are off; by default 0 replaces them.
        data: Name of the data set on the command line; by default its own name.
        about: A line about the data, such as the split.
        memory: Maximum number of bytes of the outputs of layers that are kept, for all languages together.
    """

    setting: Setting
    examples: Mapping[str, Sequence[Example]]
    out: Path = Path("masks")
    export_dir: Path | None = None
    start: HeadMask | None = None
    scores: Mapping[str, HeadScores] = field(default_factory=dict)
    baselines: Mapping[str, MeanOutputs] = field(default_factory=dict)
    data: str = ""
    about: str = ""
    memory: int = MEMORY
    mask: HeadMask = field(init=False)
    samples: tuple[LanguageSample, ...] = field(init=False)
    _saved: set[Path] = field(default_factory=set, init=False)
    _exported: bool = field(default=False, init=False)
    _writing: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        setting = self.setting
        self.mask = self.start or HeadMask.full(setting.heads)
        self.mask.check(setting.heads)
        if self.mask.kind != "heads":
            raise FieldError("mask", f"the explorer switches heads, but this mask is about {self.mask.kind}")
        if self.export_dir is not None:
            check_target(self.export_dir, {"the model": Path(setting.name)}, PRUNED, overwrite=False)
        share = self.memory // max(1, len(self.examples))
        self.samples = tuple(
            LanguageSample(
                language,
                MaskJudge(
                    setting.model, setting.heads, setting.task, examples, setting.tokenizer, language,
                    baseline=self.baselines.get(language),
                ),
                share,
            )
            for language, examples in self.examples.items()
        )  # fmt: skip

    def mask_of(self, off: Iterable[str]) -> HeadMask:
        """The mask with these heads off.

        Raises:
            HeadwiseError: The model has no such head.
        """
        return HeadMask.without(self.setting.heads, off)

    def measure(self, off: Iterable[str], stopped: Callable[[], bool] = lambda: False) -> Measured:
        """The metric of each language with these heads off, compared with the whole model.

        Args:
            off: Names of the heads that are off.
            stopped: Called before each batch; if it returns True, the computation ends with an error.

        Raises:
            HeadwiseError: The model has no such head.
            StoppedError: The computation was stopped.
        """
        mask, found, cost = self.mask_of(off), [], EngineCost()
        self.mask = mask
        for sample in self.samples:
            result, own = sample.compare(mask, stopped)
            found.append(result)
            cost += own
        return Measured(mask, tuple(found), cost, float(sum(map(len, self.examples.values()))))

    def attention(self, sentence: str, head: str, off: Iterable[str], target: str = "") -> AttentionView:
        """The attention of a head on a sentence, without the mask and with it, side by side.

        Args:
            sentence: The sentence.
            head: Name of the head.
            off: Names of the heads that are off.
            target: What the decoder of a sequence-to-sequence model reads; without it only the encoder runs.

        Raises:
            HeadwiseError: There is no such head, or the sentence is empty or too long.
        """
        model, tokenizer, mask = self.setting.model, self.setting.tokenizer, self.mask_of(off)
        self._check_length("sentence", sentence)
        if target:
            self._check_length("target", target)
        targets = [target] if target else None
        before = attention(model, tokenizer, {"whole model": sentence}, [head], targets=targets)
        after = attention(model, tokenizer, {"with the mask": sentence}, [head], targets=targets, mask=mask)
        return replace(after, sentences=(*before.sentences, *after.sentences))

    def save(self, off: Iterable[str], name: str) -> Path:
        """Write a mask file into the folder for masks.

        Raises:
            HeadwiseError: The name is not a plain file name, or a file of this name was there before.
        """
        if not _NAME.fullmatch(name):
            raise FieldError("name", "use 1 to 64 letters, digits, - and _, without a folder and without an ending")
        mask, path = self.mask_of(off), self.out / f"{name}.json"
        with self._writing:
            if path not in self._saved and (path.exists() or path.is_symlink()):
                raise FieldError("name", f"{path} exists already: choose another name")
            mask.save(path)
            self._saved.add(path)
        return path

    def export(self, off: Iterable[str]) -> ExportedModel:
        """Remove heads, write the smaller model to the folder for it, read it again and measure it.

        The folder must be new or empty at the first export; later exports of the session replace it.

        Raises:
            HeadwiseError: No folder was given, no head is off, or the model cannot be pruned.
        """
        if self.export_dir is None:
            raise HeadwiseError("no folder for the pruned model was given: start the explorer with --export-dir FOLDER")
        if self.baselines:
            raise HeadwiseError(
                "mean outputs differ between languages, so one model cannot have them all: save the mask, and use "
                "headwise prune with --mask and --means"
            )
        mask = self.mask_of(off)
        if not mask.off:
            raise HeadwiseError("no head is off, so there is nothing to remove: switch some heads off first")
        model = copy.deepcopy(self.setting.model)  # export changes its model
        found = export(model, mask, self.setting.tokenizer, self.export_dir, overwrite=self._exported)
        self._exported = True
        del model
        small = load_model(str(self.export_dir), device=self.setting.model.device.type, dtype="auto")
        return ExportedModel(found, tuple(sample.compare_model(small) for sample in self.samples))

    def commands(self, path: os.PathLike[str] | str) -> list[str]:
        """Commands that use a saved mask."""
        setting = self.setting
        data = ["--task", setting.task.name, "--data", self.data or setting.dataset.source or setting.dataset.name]
        languages = ["--languages", ",".join(self.examples)]
        mask = ["--mask", str(path)]
        return [
            shlex.join(["headwise", "eval", setting.name, *data, *languages, *mask]),
            shlex.join(["headwise", "prune", setting.name, *mask, "--out", "FOLDER"]),
        ]

    @property
    def translates(self) -> bool:
        """Whether the model is a sequence-to-sequence model."""
        return any(site.stack == "cross" for site in self.setting.heads.sites)

    def _check_length(self, name: str, text: str) -> None:
        if not text.strip():
            raise FieldError(name, "is empty: type some words")
        if len(text) > MOST_CHARACTERS:
            raise FieldError(name, f"has {len(text):,} characters: at most {MOST_CHARACTERS:,} are shown")
        most = getattr(self.setting.model.config, "max_position_embeddings", None) or MOST_TOKENS
        most = min(MOST_TOKENS, most - 2)  # RoBERTa's positions start at 2
        if (tokens := len(self.setting.tokenizer(text)["input_ids"])) > most:
            raise FieldError(name, f"has {tokens} tokens: at most {most} are shown")
