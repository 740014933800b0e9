"""The tuned models of a grid, which share encoded examples, frozen weights and everything else that does not differ."""

import copy
import dataclasses
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from headwise.data.examples import Example
from headwise.engine import ExampleSet
from headwise.files import hash_json, new_folder
from headwise.heads import base_model
from headwise.masks import HeadMask
from headwise.pruning import shrink
from headwise.scoring import Setting
from headwise.soft_masks import AnyMask
from headwise.studies.cells import CellTuning
from headwise.support.progress import Advance
from headwise.tuning import EpochResult, TrainingSet, TuningResult, train_encoded
from headwise.tuning.plan import check_share
from headwise.tuning.run import share_places
from headwise.tuning.untuned import NewClassifier

#: Subfolders of a run: states of models whose tuning is not finished, and tuned models that are needed again.
STATES, MODELS = "tuning", "models"
_WEIGHTS = "weights.safetensors"


@dataclass(frozen=True, eq=False)
class TunedModels:
    """Makes tuned models.

    Attributes:
        setting: The model that all tuning starts from, and the data.
        folder: The run folder, for the state of a run that is interrupted; None to keep nothing.
        classifier: The new classifier of the model, if it has one; every model gets that of its seed.
    """

    setting: Setting
    folder: Path | None = None
    classifier: NewClassifier | None = None
    _sets: dict[tuple[object, ...], TrainingSet] = field(default_factory=dict, repr=False)
    _hashes: dict[tuple[object, ...], str] = field(default_factory=dict, repr=False)

    def make(
        self,
        mask: AnyMask | None,
        tuning: CellTuning,
        key: str,
        progress: Advance | None = None,
        after_epoch: Callable[[int, Any], None] | None = None,
    ) -> tuple[Any, TuningResult]:
        """A copy of the model without the masked heads, tuned; an interrupted run continues after its last epoch.

        Args:
            mask: The heads to cut out; None for none.
            tuning: The tuning.
            key: A hash of all that the model depends on.
            progress: Called after each step.
            after_epoch: Called with the number of each finished epoch and the model.
        """
        model = self.start(mask, tuning)
        state = None if self.folder is None else self.folder / STATES / key
        called = None if after_epoch is None else lambda epoch: after_epoch(epoch, model)
        found = train_encoded(
            model, self.training_set(tuning), tuning.settings, state, progress, identity=key, after_epoch=called
        )
        return model, found

    def forget(self, key: str) -> None:
        """Delete the state of a model that is measured."""
        if self.folder is not None:
            shutil.rmtree(self.folder / STATES / key, ignore_errors=True)
            if (states := self.folder / STATES).is_dir() and not any(states.iterdir()):
                states.rmdir()

    def save(self, model: Any, key: str) -> None:
        """Keep the tuned weights of a model that is needed again."""
        if self.folder is not None:
            with new_folder(self.folder / MODELS / key, overwrite=True) as draft:
                save_file({name: each.detach().contiguous() for name, each in _trained(model)}, draft / _WEIGHTS)

    def load(self, mask: AnyMask | None, tuning: CellTuning, key: str) -> Any | None:
        """A model that was kept by `save`; None if it was not, or if its file is damaged, so that it is tuned again."""
        if self.folder is None or not self.is_saved(key):
            return None
        model = self.start(mask, tuning)
        try:
            model.load_state_dict(load_file(self.folder / MODELS / key / _WEIGHTS), strict=False)
        except (OSError, SafetensorError, RuntimeError):  # RuntimeError: not the shapes of the model
            return None
        return model

    def start(self, mask: AnyMask | None, tuning: CellTuning) -> Any:
        """A copy of the model without the masked heads, before tuning; see `pruned_copy`."""
        return pruned_copy(self.setting.model, mask, tuning, self.classifier)

    def is_saved(self, key: str) -> bool:
        """Whether a model was kept by `save`."""
        return self.folder is not None and (self.folder / MODELS / key / _WEIGHTS).is_file()

    def training_set(self, tuning: CellTuning) -> TrainingSet:
        """The encoded examples of a tuning; each example is encoded once."""
        place = _place(tuning)
        if place not in self._sets:
            train = [
                self.setting.encode(self.setting.dataset.examples(code, "train")).encoded[number]
                for code, number in self._chosen(tuning)
            ]
            dev = [self.setting.encode(self._dev(code, tuning)) for code in tuning.shares]
            encoded = tuple(each for some in dev for each in some.encoded)
            joined = ExampleSet(self.setting.task, encoded, dev[0].pad_id, sum(some.cut for some in dev))
            self._sets[place] = TrainingSet(tuple(train), joined)
        return self._sets[place]

    def hash_data(self, tuning: CellTuning) -> str:
        """A hash of the examples of a tuning."""
        place = _place(tuning)
        if place not in self._hashes:
            data = self.setting.dataset
            train: list[Example] = [data.examples(code, "train")[number] for code, number in self._chosen(tuning)]
            dev = [example for code in tuning.shares for example in self._dev(code, tuning)]
            self._hashes[place] = hash_json([[dataclasses.astuple(each) for each in split] for split in (train, dev)])
        return self._hashes[place]

    def _dev(self, code: str, tuning: CellTuning) -> Sequence[Example]:
        """The dev examples of a language."""
        return self.setting.dataset.examples(code, "dev")[: tuning.limit_dev]

    def _chosen(self, tuning: CellTuning) -> list[tuple[str, int]]:
        """The language and the number of each training example."""
        found = []
        for code, share in tuning.shares.items():
            check_share(share)
            count = len(self.setting.dataset.examples(code, "train"))
            found += [(code, number) for number in share_places(count, share, tuning.settings.seed)]
        return found


def pruned_copy(model: Any, mask: AnyMask | None, tuning: CellTuning, classifier: NewClassifier | None) -> Any:
    """A copy of a model without the masked heads, before tuning. Frozen embeddings are shared, not copied."""
    shared = {}
    if tuning.settings.freeze_embeddings:
        embeddings = base_model(model).get_input_embeddings().parameters()
        shared = {id(each): nn.Parameter(each.data, requires_grad=False) for each in embeddings}
    found = copy.deepcopy(model, shared)
    if classifier is not None:
        classifier.reset(found, tuning.settings.seed)
    if mask is None or (isinstance(mask, HeadMask) and not mask.off):
        return found
    return shrink(found, mask, inplace=True)


def _place(tuning: CellTuning) -> tuple[object, ...]:
    """What the examples of a tuning depend on; the seed only if there is a choice."""
    shares = tuple(tuning.shares.items())
    return shares, tuning.limit_dev, tuning.settings.seed if any(share < 1 for _, share in shares) else None


def _trained(model: Any) -> list[tuple[str, nn.Parameter]]:
    return [(name, each) for name, each in model.named_parameters() if each.requires_grad]


def pack_result(result: TuningResult) -> dict[str, NDArray[Any]]:
    """What was measured during tuning, as arrays for the journal."""
    return {
        "losses": np.array([epoch.loss for epoch in result.history]),
        "values": np.array([epoch.value for epoch in result.history]),
        "counts": np.array([result.best_epoch, result.steps, result.tokens], dtype=np.int64),
        "seconds": np.array(result.seconds),
    }


def unpack_result(arrays: Mapping[str, NDArray[Any]], metric: str) -> TuningResult:
    """The inverse of `pack_result`."""
    pairs = zip(arrays["losses"].tolist(), arrays["values"].tolist(), strict=True)
    history = tuple(EpochResult(loss, value) for loss, value in pairs)
    best, steps, tokens = arrays["counts"].tolist()
    return TuningResult(metric, best, history[best - 1].value, history, steps, tokens, float(arrays["seconds"]))
