"""Masks on test data: every language and mask measured once, kept in the run's journal, and compared with no mask."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from headwise.data.dataset import Dataset
from headwise.data.examples import Example
from headwise.data.opening import open_dataset
from headwise.errors import HeadwiseError
from headwise.gates import gated
from headwise.heads import HeadMap, find_heads
from headwise.masks import HeadMask
from headwise.models import load_model, load_tokenizer
from headwise.runs import Journal
from headwise.scoring import ScoringPlan
from headwise.stats import PairedTest, bootstrap_bands, paired_bootstrap
from headwise.tasks import Task, evaluate
from headwise.tasks.dispatch import task_of
from headwise.tasks.task import Piece

Array = NDArray[np.float64]
#: The split that is all of the data.
_WHOLE = "all"


@dataclass(frozen=True)
class Bench:
    """A model and the data that masks are judged on.

    Attributes:
        model: The model.
        tokenizer: Its tokenizer.
        task: The task.
        data: The data.
        split: The split that is judged on: never one that masks were made from.
        journal: Where measurements are kept, so that nothing is measured twice.
        limit: At most so many examples of each language, the first ones; None for all.
    """

    model: Any
    tokenizer: Any
    task: Task
    data: Dataset
    split: str
    journal: Journal
    limit: int | None = None

    @functools.cached_property
    def heads(self) -> HeadMap:
        """The model's head map."""
        return find_heads(self.model)

    def statistics(self, language: str, mask: HeadMask | None = None, only: Sequence[int] | None = None) -> Array:
        """What each test example adds to the metric under a mask, (examples, statistics); only some, if told so."""
        chosen = mask or HeadMask.full(self.heads)
        examples = self.data.examples(language, self.split)[: self.limit]
        if only is not None:
            examples = tuple(examples[place] for place in only)

        def measure() -> dict[str, Array]:
            with gated(self.model, chosen, heads=self.heads):
                return {"statistics": evaluate(self.model, self.task, examples, self.tokenizer).statistics}

        # The examples are part of the name: data that changed since are measured anew.
        kept = self.journal.once(f"{self.split} {language} {_name(chosen, examples)}", measure)
        return np.asarray(kept["statistics"])

    def value(self, statistics: Array) -> float:
        """The metric, in percent."""
        return float(self.task.metric.value(statistics.sum(0)))

    def compare(self, base: Array, other: Array, resamples: int) -> PairedTest:
        """How a mask differs from none."""
        [found] = paired_bootstrap(base, [other], cast(Callable[[Array], Array], self.task.metric.value), resamples)
        return found

    def bands(self, measured: Sequence[Array], resamples: int) -> tuple[Array, Array]:
        """The ends of the 95% interval of the metric under each of several masks, (masks,) each."""
        return bootstrap_bands(measured, cast(Callable[[Array], Array], self.task.metric.value), resamples)


def open_bench(scoring: ScoringPlan, split: str, journal: Journal, limit: int | None = None) -> Bench:
    """The model and the data of a plan, to judge masks on.

    Args:
        scoring: The plan.
        split: The split to judge on.
        journal: Where measurements are kept.
        limit: At most this number of examples of each language; None for all.

    Raises:
        HeadwiseError: The model or the data do not exist, or the task has no labels.
    """
    loaded = load_model(scoring.model, device=scoring.device, dtype=scoring.dtype)
    tokenizer = load_tokenizer(scoring.model)
    found = task_of(loaded, scoring.task, cast(Piece, scoring.piece))
    if not isinstance(found, Task) or tokenizer is None:
        raise HeadwiseError(
            f"studies need a model with a classifier and a tokenizer, not {scoring.model} for {scoring.task}"
        )
    dataset = open_dataset(scoring.data, scoring.task)
    known = dataclasses.replace(dataset, load=functools.cache(dataset.load))  # read once, not for every mask
    return Bench(loaded, tokenizer, found, known, split, journal, limit)


def check_split(scoring: ScoringPlan, test_split: str) -> None:
    """Make sure that nothing is judged on what it was made from: `all` holds every other split."""
    if test_split == scoring.split:
        raise HeadwiseError(f"test_split: heads are scored on {test_split!r} too: judge them on another split")
    for name, split, other in (("test_split", test_split, scoring.split), ("split", scoring.split, test_split)):
        if split == _WHOLE:
            raise HeadwiseError(f"{name}: {_WHOLE!r} holds {other!r} too: score and judge on splits that share nothing")


def check_examples(scoring: ScoringPlan, languages: Sequence[str], test_split: str) -> None:
    """Make sure that there is something to judge on before hours go into scoring.

    Raises:
        HeadwiseError: The data have no such split, or nothing in it of one of the languages.
    """
    dataset = open_dataset(scoring.data, scoring.task)
    for language in languages:
        dataset.examples(language, test_split)


def _name(mask: HeadMask, examples: Sequence[Example]) -> str:
    about = (mask.kind, sorted(mask.off), [dataclasses.astuple(example) for example in examples])
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]
