"""From a plan and a setting to one scoring problem per language."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import cast, get_args

from headwise.architectures import BASELINES, PLAYERS
from headwise.engine import EngineFactory, EngineSettings, PlayerSet, kv_groups, mean_outputs, players_of
from headwise.errors import FieldError, HeadwiseError
from headwise.games import GAMES, Game, find_game
from headwise.games.unlabelled import find_agreement
from headwise.heads import HeadMap, PlayerKind
from headwise.means import MeanOutputs
from headwise.methods import Estimand, Problem
from headwise.scoring.plan import ScoringPlan
from headwise.scoring.setting import Setting, load_setting
from headwise.scoring.unlabelled import GameExamples, game_examples
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
        ("piece", plan.piece, get_args(Piece)),
        ("baseline", plan.baseline, BASELINES),
    ):
        if value not in known:
            raise FieldError(field, f"must be one of {', '.join(known)}, not {value!r}")
    if plan.game not in GAMES and find_agreement(plan.game) is None:
        raise FieldError("game", f"must be one of {', '.join(GAMES)} or agreement(LANGUAGE), not {plan.game!r}")
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
    game, known = _game(plan.game, setting.task), means or {}
    found, notes = game_examples(setting, game, selection.examples, plan.split, EngineSettings(bfloat16=plan.bfloat16))
    problems = {language: _problem(plan, setting, game, each, known) for language, each in found.items()}
    return problems, (*selection.notes, *notes)


def _problem(
    plan: ScoringPlan, setting: Setting, game: Game, examples: GameExamples, known: Mapping[str, MeanOutputs]
) -> Problem:
    players = find_players(setting.heads, plan.players)
    if not len(players):
        raise HeadwiseError(f"{setting.name}: the model has no {plan.players} left, so there is nothing to score")
    means, language = None, examples.language
    if plan.baseline == "mean":
        means = known.get(language) or mean_outputs(setting.model, setting.heads, examples.encoded, language)
    return Problem(
        model=setting.model,
        heads=setting.heads,
        examples=examples.encoded,
        players=players,
        game=game,
        estimand=find_estimand(plan.estimand),
        language=language,
        data=examples.fingerprint,
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
