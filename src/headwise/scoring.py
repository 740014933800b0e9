"""Scoring the heads of a model by name, language by language, in a run folder that survives being stopped."""

import dataclasses
import functools
import hashlib
import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from headwise.data.choosing import choose_examples, language_codes
from headwise.data.examples import Example
from headwise.data.opening import open_dataset
from headwise.engine import EngineSettings, PlayerSet, encode_examples, kv_groups, players_of
from headwise.errors import HeadwiseError, require_whole
from headwise.games import GAMES, Game, find_game
from headwise.heads import HeadMap, PlayerKind, find_heads, hash_weights
from headwise.masks import HeadMask
from headwise.methods import Budget, Estimand, Method, Problem, find_method, run_method
from headwise.models import load_model, load_tokenizer
from headwise.results import REFINED
from headwise.rules import harmful_mask
from headwise.runs import Run, open_run
from headwise.runs.config import languages_of, read_config
from headwise.score_tables import pyarrow_modules, save_table
from headwise.scores import HeadScores
from headwise.tasks.dispatch import check_tokenizer, task_of
from headwise.tasks.encoding import Encoded
from headwise.tasks.protocol import AnyTask
from headwise.tasks.task import Piece

#: What the values of a run may be about; `kv` are heads that share a key-value head, together.
PLAYERS = ("heads", "ffn", "layers", "kv")
#: Called with the units done, the units of all languages and a few words on how it goes.
Advance = Callable[[int, int, str], None]


@dataclass(frozen=True)
class ScoringPlan:
    """What is asked of a scoring run: everything to repeat it.

    Attributes:
        model: Name on the hub, a folder, or a default.
        task: The task, such as `pos`.
        data: A folder, `phrasebook`, `commands`, `hub:NAME` or a YAML file.
        languages: Comma-separated codes, or `all`.
        split: Which part of the data.
        method: One of `headwise.methods.METHODS`.
        options: Options of the method, by name; its own defaults unless told.
        budget: Units that the method may spend on each language.
        game: What a coalition is worth, one of `headwise.games.GAMES`.
        estimand: `full`, `truncated` (at one half) or `truncated(share)`.
        players: Whose values are wanted, one of `PLAYERS`.
        seed: Seed of all draws.
        limit: At most so many examples of each language, the first ones; None for all.
        piece: Which piece of a word carries its label.
        bfloat16: Compute in bfloat16 where that is safe.

    Raises:
        HeadwiseError: The limit is no whole number of at least 1.
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

    def __post_init__(self) -> None:
        if self.limit is not None:
            require_whole("limit", self.limit)
        if not math.isfinite(self.budget):
            raise HeadwiseError(f"--budget is a finite number, not {self.budget}")

    @property
    def folder(self) -> Path:
        """Where the run goes unless told otherwise.

        Example:
            >>> str(ScoringPlan("org/tagger", "pos", "phrasebook").folder)
            'runs/org-tagger-pos-stars'
        """
        name = f"{self.model}-{self.task}-{self.method}"
        return Path("runs") / re.sub(r"[^\w.-]+", "-", name).strip("-.")


@dataclass(frozen=True)
class LanguageScores:
    """What a run found for one language.

    Attributes:
        scores: The scores.
        seconds: Time that its rounds took, whenever they ran.
        examples: How many examples there were.
        cut: How many of them were longer than the model takes, and were cut.
        finished: Whether everything is decided or the budget is spent; otherwise time ran out.
    """

    scores: HeadScores
    seconds: float
    examples: int
    cut: int
    finished: bool


@dataclass(frozen=True)
class ScoringRun:
    """What a run found.

    Attributes:
        folder: The run folder.
        languages: What it found, by language.
        notes: What must be said with it.
    """

    folder: Path
    languages: Mapping[str, LanguageScores]
    notes: tuple[str, ...]

    @property
    def scores(self) -> dict[str, HeadScores]:
        """The scores of each language."""
        return {language: found.scores for language, found in self.languages.items()}


def run_scoring(
    plan: ScoringPlan,
    out: str | os.PathLike[str] | None = None,
    seconds: float | None = None,
    trust_remote_code: bool = False,
    progress: Advance | None = None,
) -> ScoringRun:
    """Score a model, or go on with a run that was stopped, is to be extended, or is done and only read again.

    Writes `scores/<language>.json` and `masks/<language>.json` (what is harmful is off) as languages are done, and
    `scores.parquet` when all are.

    Args:
        plan: What to do.
        out: The run folder; `plan.folder` unless told.
        seconds: Stop after so long, however much of the budget is left; the same call goes on.
        trust_remote_code: Run code that comes with the model.
        progress: Called after each round.

    Raises:
        HeadwiseError: Something in the plan does not fit, or the folder holds another run or one being written.
    """
    pyarrow_modules()  # a missing package must not show only at the end
    method = plan_method(plan)
    problems, notes = make_problems(plan, trust_remote_code)
    with open_run(plan.folder if out is None else out, _config(plan, method, problems)) as run:
        found = dict(_score_each(plan, method, problems, run, seconds, progress))
        save_table([each.scores for each in found.values()], run.folder / "scores.parquet")
    return ScoringRun(run.folder, found, notes)


def plan_of(folder: str | os.PathLike[str]) -> ScoringPlan:
    """The plan of a run that is there, for all of its languages: which items they share depends on all.

    Raises:
        HeadwiseError: There is no scoring run in the folder.
    """
    config = read_config(Path(folder))
    names = {part.name for part in dataclasses.fields(ScoringPlan)}
    if missing := sorted(names - config.keys()):
        raise HeadwiseError(f"{folder}: not a run of headwise score: its config has no {missing[0]!r}")
    languages = ",".join(languages_of(config, Path(folder)))
    return ScoringPlan(**{**{name: config[name] for name in names}, "languages": languages})


def make_problems(plan: ScoringPlan, trust_remote_code: bool = False) -> tuple[dict[str, Problem], tuple[str, ...]]:
    """The problem of each language, and what must be said with its results.

    Raises:
        HeadwiseError: The model, its task, the data or the game do not fit, or do not exist.
    """
    estimand = find_estimand(plan.estimand)
    _require("--players", plan.players, PLAYERS)
    _require("--game", plan.game, GAMES)
    _require("--piece", plan.piece, get_args(Piece))
    dataset = open_dataset(plan.data, plan.task)
    examples, note = choose_examples(dataset, language_codes(plan.languages, dataset), plan.split, plan.limit)
    model = load_model(plan.model, trust_remote_code)
    tokenizer = load_tokenizer(plan.model, trust_remote_code)
    if tokenizer is None:
        raise HeadwiseError(f"{plan.model}: comes without a tokenizer: choose a model that has one")
    task = task_of(model, plan.task, cast(Piece, plan.piece))
    check_tokenizer(task, tokenizer)
    heads = find_heads(model)
    encoded = {language: encode_examples(task, each, tokenizer) for language, each in examples.items()}
    problems = {
        language: Problem(
            model=model,
            heads=heads,
            examples=each,
            players=find_players(heads, plan.players),
            game=_game(plan.game, task),
            estimand=estimand,
            language=language,
            data=fingerprint_examples(examples[language], each.encoded),
            settings=EngineSettings(bfloat16=plan.bfloat16),
        )
        for language, each in encoded.items()
    }
    return problems, tuple(line for line in (note, dataset.note) if line)


def _game(name: str, task: AnyTask) -> Game:
    labels = getattr(task, "labels", ())
    if name == "f1" and "O" not in labels:
        raise HeadwiseError(f"--game f1 is for entities and slots, not for {task.name}: take accuracy or probability")
    return find_game(name, labels)


def fingerprint_examples(examples: Sequence[Example], encoded: Sequence[Encoded]) -> str:
    """A hash of examples as a model reads them: their ids, tokens and labels.

    Example:
        >>> from headwise.data.examples import TextExample
        >>> fingerprint_examples([TextExample("1", "hello", "greet")], [Encoded((5, 9), (), (0,))])
        '0815eac411eaa637'
    """
    digest = hashlib.sha256()
    for example, each in zip(examples, encoded, strict=True):
        parts = [getattr(each, part.name) for part in dataclasses.fields(each)]
        digest.update(json.dumps([example.id, *parts]).encode())
    return digest.hexdigest()[:16]


def find_estimand(name: str) -> Estimand:
    """The estimand of a name.

    Example:
        >>> find_estimand("truncated(0.25)")
        Estimand(share=0.25)
    """
    if name in ("full", "truncated"):
        return Estimand(0.5 if name == "truncated" else 0.0)
    if match := re.fullmatch(r"truncated\((0?\.\d+)\)", name):
        return Estimand(float(match.group(1)))
    raise HeadwiseError(f"--estimand is 'full', 'truncated' or 'truncated(SHARE)' with a share below 1, not {name!r}")


def find_players(heads: HeadMap, name: str) -> PlayerSet:
    """The players of a name of `PLAYERS`."""
    return kv_groups(heads) if name == "kv" else players_of(heads, cast(PlayerKind, name))


def _require(option: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise HeadwiseError(f"{option} is one of {', '.join(known)}, not {value!r}")


def plan_method(plan: ScoringPlan) -> Method:
    """The method of a plan with its options; a method that has to know its budget beforehand is given the plan's."""
    options = {str(name): value for name, value in plan.options.items()}  # names in a plan's YAML may be numbers
    method = find_method(plan.method, **options)
    if method.needs_units and "units" not in options:
        return find_method(plan.method, units=plan.budget, **options)
    return method


def _config(plan: ScoringPlan, method: Method, problems: Mapping[str, Problem]) -> dict[str, Any]:
    """The plan with all that it left open, and what identifies the model and the examples."""
    first = next(iter(problems.values()))
    options = dataclasses.asdict(cast(Any, method))
    return {
        **dataclasses.asdict(plan),
        "languages": list(problems),
        "options": options,
        "version": method.version,
        "estimand": first.estimand.name,
        "fingerprint": first.heads.fingerprint,
        "weights": hash_weights(first.model),
        "examples": {language: problem.data for language, problem in problems.items()},
    }


def _score_each(
    plan: ScoringPlan,
    method: Method,
    problems: Mapping[str, Problem],
    run: Run,
    seconds: float | None,
    progress: Advance | None,
) -> Iterator[tuple[str, LanguageScores]]:
    """Score one language after the other and write what is found."""
    start, total = time.monotonic(), int(plan.budget * len(problems))
    for done, (language, problem) in enumerate(problems.items()):
        budget = Budget(plan.budget, _time_left(seconds, start, len(problems) - done))
        show = functools.partial(_show, progress, language, int(plan.budget * done), total)
        found = run_method(method, problem, budget, plan.seed, run.journal, language, show)
        rounds, scores = found.rounds, found.scores
        if not (rounds.done or run.journal.count(language)):
            raise HeadwiseError(
                f"--budget: {plan.budget:g} units do not pay for the first round of {method.name}, which may take "
                f"{rounds.next_units:.0f}: raise it"
            )
        _save(scores, problem.heads, run.folder, f"{language}.json")
        finished = rounds.done or scores.provenance.units + rounds.next_units > plan.budget
        show(plan.budget, plan.budget, rounds.status)
        yield language, LanguageScores(scores, found.seconds, len(problem.examples), problem.examples.cut, finished)


def _save(scores: HeadScores, heads: HeadMap, folder: Path, name: str) -> None:
    """Write scores and the mask that follows from them; what was refined from another mask is not valid any more."""
    mask, path = harmful_mask(scores, heads), folder / "masks" / name
    if path.exists() and HeadMask.load(path) != mask:
        (folder / REFINED / name).unlink(missing_ok=True)
    scores.save(folder / "scores" / name)
    mask.save(path)


def _time_left(seconds: float | None, start: float, languages: int) -> float | None:
    """What is left of the time, shared between the languages that are left; at least a second, to begin a round."""
    return None if seconds is None else max(1.0, (seconds - (time.monotonic() - start)) / languages)


def _show(progress: Advance | None, language: str, before: int, total: int, units: float, _: float, word: str) -> None:
    if progress is not None:
        progress(before + int(units), total, f"{language}: {word}")
