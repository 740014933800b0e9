"""The plan of a scoring run: everything that is needed to repeat it."""

import dataclasses
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwise.errors import LARGEST, FieldError, HeadwiseError, require_whole
from headwise.runs.config import languages_of, read_config


@dataclass(frozen=True)
class ScoringPlan:
    """The plan of a scoring run.

    Attributes:
        model: Name on the hub, a folder, or the name of a default model.
        task: The task, such as `pos`.
        data: A data set: a file, a folder, `phrasebook`, `commands`, `hub:NAME` or a YAML file.
        languages: Comma-separated codes, or `all`.
        split: Split of the data.
        method: One of `headwise.methods.METHODS`.
        options: Options of the method by name; the method has defaults for the others.
        budget: Maximum number of units for each language.
        game: The value of a coalition, one of `headwise.games.GAMES`.
        estimand: `full`, `truncated` (at one half) or `truncated(share)`.
        players: The players to score, one of `headwise.architectures.PLAYERS`.
        seed: Seed of all draws.
        limit: The maximum number of examples per language, the first ones; None for all.
        piece: Which piece of a word carries its label.
        bfloat16: Compute in bfloat16 where that is safe (autocast).
        device: Where the model runs, one of `headwise.models.DEVICES`. It is not part of a run's config.
        dtype: The type of the model's weights, one of `headwise.models.DTYPES`.
        baseline: What replaces the output of a player that is off: `zero`, or `mean` (its mean output over the
            examples of the language).

    Raises:
        HeadwiseError: The limit is not a whole number of at least 1, or the budget is not finite.
    """

    model: str
    task: str
    data: str
    languages: str = "all"
    split: str = "dev"
    method: str = "stars"
    options: Mapping[str, Any] = field(default_factory=dict)
    budget: float = 60_000
    game: str = "probability"
    estimand: str = "full"
    players: str = "heads"
    seed: int = 0
    limit: int | None = None
    piece: str = "text"
    bfloat16: bool = False
    device: str = "auto"
    dtype: str = "float32"
    baseline: str = "zero"

    def __post_init__(self) -> None:
        if self.limit is not None:
            require_whole("limit", self.limit)
        if not math.isfinite(self.budget):
            raise FieldError("budget", f"must be a finite number, not {self.budget}")
        if self.budget > LARGEST:
            raise FieldError("budget", f"at most {LARGEST:,} units, not {self.budget:g}")

    @property
    def folder(self) -> Path:
        """The default run folder.

        Example:
            >>> str(ScoringPlan("org/tagger", "pos", "phrasebook").folder)
            'runs/org-tagger-pos-stars'
        """
        name = f"{self.model}-{self.task}-{self.method}"
        return Path("runs") / re.sub(r"[^\w.-]+", "-", name).strip("-.")


def plan_of(folder: str | os.PathLike[str]) -> ScoringPlan:
    """The plan of an existing run, with all of its languages, since the items they share depend on all of them.

    Raises:
        HeadwiseError: The folder holds no scoring run.
    """
    config = read_config(Path(folder))
    fields = dataclasses.fields(ScoringPlan)
    if missing := sorted(
        {part.name for part in fields} - config.keys() - {"device", "dtype", "baseline"}
    ):  # added later
        raise HeadwiseError(f"{folder}: not a run of headwise score: its config has no {missing[0]!r}")
    languages = ",".join(languages_of(config, Path(folder)))
    return ScoringPlan(
        **{**{part.name: config[part.name] for part in fields if part.name in config}, "languages": languages}
    )
