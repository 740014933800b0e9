"""From a plan and a setting to one scoring problem per language."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast, get_args

from headwise.architectures import BASELINES, PLAYERS
from headwise.data.examples import Example
from headwise.engine import EngineFactory, EngineSettings, PlayerSet, kv_groups, mean_outputs, players_of
from headwise.errors import FieldError, HeadwiseError
from headwise.games import GAMES, Game, find_game
from headwise.heads import HeadMap, PlayerKind
from headwise.means import MeanOutputs
from headwise.methods import Estimand, Problem
from headwise.scoring.plan import ScoringPlan
from headwise.scoring.setting import Setting, fingerprint_examples, load_setting
from headwise.tasks.protocol import AnyTask
from headwise.tasks.task import Piece


def check_plan(plan: ScoringPlan) -> None:
    """Check the choices of a plan, before anything is loaded.

    Raises:
        HeadwiseError: A choice does not exist.
    """
    find_estimand(plan.estimand)
    for field, value, known in (
        ("players", plan.players, PLAYERS),
        ("game", plan.game, GAMES),
        ("piece", plan.piece, get_args(Piece)),
        ("baseline", plan.baseline, BASELINES),
    ):
        if value not in known:
            raise FieldError(field, f"must be one of {', '.join(known)}, not {value!r}")
    if plan.baseline == "mean" and plan.players == "layers":
        raise FieldError("baseline", "a layer that is off is skipped, so it has no mean output: use 'zero'")


def make_problems(
    plan: ScoringPlan,
    setting: Setting | None = None,
    trust_remote_code: bool = False,
    means: Mapping[str, MeanOutputs] | None = None,
    make_engine: EngineFactory | None = None,
) -> tuple[dict[str, Problem], tuple[str, ...]]:
    """The problem of each language, and notes to print with the results.

    Args:
        plan: The plan.
        setting: The model and data of the plan; loaded by default.
        trust_remote_code: Run code that comes with a model that is loaded here.
        means: The mean outputs of languages, if they are known already; others are computed if the plan needs them.
        make_engine: Creates engines, for example `Cluster.make_engine`; by default the one of the setting.

    Raises:
        HeadwiseError: The model, its task, the data or the game do not fit each other, or do not exist.
    """
    check_plan(plan)
    if setting is None:
        setting = load_setting(plan.model, plan.task, plan.data, plan.piece, trust_remote_code, plan.device, plan.dtype)
    if make_engine is not None:
        setting = replace(setting, make_engine=make_engine)
    selection = setting.examples(plan.languages, plan.split, plan.limit)
    known = means or {}
    problems = {
        language: _problem(plan, setting, language, each, known.get(language))
        for language, each in selection.examples.items()
    }
    return problems, selection.notes


def _problem(
    plan: ScoringPlan, setting: Setting, language: str, examples: Sequence[Example], means: MeanOutputs | None
) -> Problem:
    players = find_players(setting.heads, plan.players)
    if not len(players):
        raise HeadwiseError(f"{setting.name}: the model has no {plan.players} left, so there is nothing to score")
    encoded = setting.encode(examples)
    if plan.baseline == "zero":
        means = None
    elif means is None:
        means = mean_outputs(setting.model, setting.heads, encoded, language)
    return Problem(
        model=setting.model,
        heads=setting.heads,
        examples=encoded,
        players=players,
        game=_game(plan.game, setting.task),
        estimand=find_estimand(plan.estimand),
        language=language,
        data=fingerprint_examples(examples, encoded.encoded),
        settings=EngineSettings(bfloat16=plan.bfloat16),
        make_engine=setting.make_engine,
        baseline=means,
    )


def _game(name: str, task: AnyTask) -> Game:
    labels = getattr(task, "labels", ())
    if name == "f1" and "O" not in labels:
        raise FieldError("game", f"'f1' is for entities and slots, not for {task.name}: use accuracy or probability")
    return find_game(name, labels)


def find_estimand(name: str) -> Estimand:
    """The estimand with the given name.

    Example:
        >>> find_estimand("truncated(0.25)")
        Estimand(share=0.25)
    """
    if name in ("full", "truncated"):
        return Estimand(0.5 if name == "truncated" else 0.0)
    if match := re.fullmatch(r"truncated\((0?\.\d+)\)", name):
        return Estimand(float(match.group(1)))
    raise FieldError("estimand", f"'full', 'truncated' or 'truncated(SHARE)' with a share below 1, not {name!r}")


def find_players(heads: HeadMap, name: str) -> PlayerSet:
    """The players of the given kind, one of `PLAYERS`."""
    return kv_groups(heads) if name == "kv" else players_of(heads, cast(PlayerKind, name))
