"""The report of a run folder: a study or a scoring run."""

import dataclasses
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from headwise.data.task_names import TASK_TITLES
from headwise.errors import HeadwiseError
from headwise.masks import HeadMask
from headwise.methods import find_method
from headwise.report import ComparedRun, LanguageCost, Report, Section, masks_section, noun_of
from headwise.report.names import name_of, short_name
from headwise.roles import HeadRoles
from headwise.roles.run import TABLE
from headwise.runs.config import CONFIG, read_config, text_of
from headwise.scores import HeadScores
from headwise.scores.rules import likely_harmful, tells_likely
from headwise.scoring import ScoringPlan, plan_of
from headwise.scoring.run_folder import REFINED, SCORING, load_scores
from headwise.studies.attended import run_attention
from headwise.studies.kinds import KINDS
from headwise.studies.study import Study

#: Maximum number of languages that are named below the title.
MOST_NAMES = 8
#: Options of methods that `headwise score` accepts.
_FLAGS = {"error_rate", "confidence"}


def load_study(folder: str | os.PathLike[str]) -> Study:
    """The finished study in a run folder.

    Raises:
        HeadwiseError: There is none, or it is not finished.
    """
    path = Path(folder)
    name = text_of(read_config(path), "study", path)
    if name not in KINDS:
        raise HeadwiseError(f"{path / CONFIG}: 'study' is one of {', '.join(KINDS)}, not {name!r}: restore it")
    return KINDS[name].load(path)


@runtime_checkable
class CountsUnits(Protocol):
    """A study that knows the cost of its steps after scoring."""

    def units(self) -> Mapping[str, Mapping[str, float]]:
        """The cost of each step after scoring, by language."""


def report_of(
    folder: str | os.PathLike[str],
    roles: str | os.PathLike[str] | None = None,
    compared: Sequence[str | os.PathLike[str]] = (),
    attention: int = 0,
) -> Report:
    """The report of a run folder: a study or a scoring run.

    Args:
        folder: The run folder.
        roles: A run folder of `headwise roles` on the same model, or its file `roles.json`; the page shows its roles.
        compared: Other run folders with scores of the same heads, such as those of other methods, baselines or seeds.
        attention: Number of sentences per language on which the page shows the attention of heads. The model is loaded
            and run on them; 0 for no attention.

    Raises:
        HeadwiseError: The folder contains neither, or the roles or compared runs do not fit it.
    """
    path = Path(folder)
    config = read_config(path)
    model, task, data = (text_of(config, key, path) for key in ("model", "task", "data"))
    study = load_study(path) if "study" in config else None
    scores = study.scores if study is not None else load_scores(path)
    return Report(
        title=f"Heads of {short_name(model)}: {TASK_TITLES.get(task, task)}",
        model=model,
        task=task,
        data=data,
        facts=_facts(config, data),
        note=" ".join(study.notes) if study is not None else "",
        about=KINDS[config["study"]].about if study is not None else "",
        sections=study.sections() if study is not None else chosen_sections(path, scores),
        scores=scores,
        name=_run_name(path),
        compared=compared_runs(path, scores, [Path(each) for each in compared]),
        attention=run_attention(path, scores, attention) if attention else None,
        roles=None if roles is None else load_roles(Path(roles), scores),
        cost=_cost(study, scores),
        provenance=_provenance(config),
        commands=(_study_command(config, path) if study is not None else scoring_command(plan_of(path), path),),
    )


def _facts(config: Mapping[str, Any], data: str) -> tuple[str, ...]:
    """The kind of the run, its data and its languages."""
    kind = f"{config['study']} study" if "study" in config else "scoring run"
    name = short_name(data)
    source = f"data: {data}" if name == data else f"data {'file' if Path(name).suffix else 'folder'}: {name}"
    return tuple(filter(None, (f"{kind[0].upper()}{kind[1:]}", source, _languages(config.get("languages")))))


def _languages(found: object) -> str:
    """The names of the languages of a config, or how many they are; empty if it does not list them."""
    codes = [code.strip() for code in found.split(",")] if isinstance(found, str) else found
    if not isinstance(codes, list | tuple) or not codes:
        return ""
    if codes == ["all"]:
        return "all languages"
    return ", ".join(name_of(str(code)) for code in codes) if len(codes) <= MOST_NAMES else f"{len(codes)} languages"


def compared_runs(folder: Path, scores: Mapping[str, HeadScores], others: Sequence[Path]) -> tuple[ComparedRun, ...]:
    """The runs to compare with the main one: the other rankings of a study, and other run folders.

    Args:
        folder: The main run folder.
        scores: Its scores.
        others: Other run folders.

    Raises:
        HeadwiseError: A run has no scores, or none of the main run's heads.
    """
    own = [
        (each.name.removeprefix(f"{SCORING}-"), each)
        for each in sorted(folder.glob(f"{SCORING}-*"))
        if any(each.glob("scores/*.json")) and not each.name.startswith(f"{SCORING}-random")
    ]
    if others and not scores:
        raise HeadwiseError(f"{folder}: has no scores that {others[0]} could be compared with: give it alone")
    known, found = {_run_name(folder)}, []
    for name, path in (*own, *((_run_name(each), each) for each in others)):
        theirs = load_scores(path)
        _check_heads(path, scores, theirs)
        unique = name if name not in known else str(path)
        known.add(unique)
        found.append(ComparedRun(unique, theirs))
    return tuple(found)


def _run_name(folder: Path) -> str:
    return folder.resolve().name or str(folder)


def _check_heads(folder: Path, scores: Mapping[str, HeadScores], theirs: Mapping[str, HeadScores]) -> None:
    players = {name for each in scores.values() for name in each.players}
    if not any(players.intersection(each.players) for each in theirs.values()):
        example = next(iter(next(iter(theirs.values())).players), "none")
        raise HeadwiseError(
            f"{folder}: has scores of other {noun_of(scores)}s, such as {example}: compare runs of the same model"
        )


def load_roles(path: Path, scores: Mapping[str, HeadScores]) -> HeadRoles:
    """The roles of a run folder or of a file.

    Args:
        path: A run folder of `headwise roles`, or its file `roles.json`.
        scores: The scores that the roles are shown with.

    Raises:
        HeadwiseError: There are no roles, or they are of other weights.
    """
    found = HeadRoles.load(path / f"{TABLE}.json" if path.is_dir() else path)
    scored = {each.provenance.fingerprint for each in scores.values()} - {None}
    measured = found.about.get("fingerprint")
    if measured is not None and scored and measured not in scored:
        raise HeadwiseError(
            f"{path}: the roles are of the weights {measured}, but the heads of {', '.join(map(str, scored))} were "
            "scored: measure the roles of the scored model"
        )
    return found


def _cost(study: Study | None, scores: Mapping[str, HeadScores]) -> tuple[LanguageCost, ...]:
    """The cost of scoring and of the later steps of a study, by language."""
    seconds = study.seconds if study is not None else {}
    later: Mapping[str, Mapping[str, float]] = study.units() if isinstance(study, CountsUnits) else {}
    return tuple(
        LanguageCost(language, {"scoring": each.provenance.units, **later.get(language, {})}, seconds.get(language))
        for language, each in scores.items()
    )


def chosen_sections(folder: Path, scores: Mapping[str, HeadScores]) -> tuple[Section, ...]:
    """The heads that the masks of a scoring run remove, with the commands that prune; empty if no head is removed."""
    chosen: dict[str, dict[str, tuple[str, ...]]] = {"harmful": {}, "likely": {}, "refined": {}}
    for language, each in scores.items():
        chosen["harmful"][language] = each.decided("harmful")
        chosen["likely"][language] = likely_harmful(each) if tells_likely(each) else ()
        if (path := folder / REFINED / f"{language}.json").is_file():
            gone = set(HeadMask.load(path).off)
            members = each.members or tuple((name,) for name in each.players)
            off = (name for name, own in zip(each.players, members, strict=True) if gone.issuperset(own))
            chosen["refined"][language] = tuple(off)
    commands = {
        name: f"headwise prune {shlex.quote(str(folder))} --language {{language}} --{name} --out pruned-{{language}}"
        for name in chosen
    }
    found = masks_section(chosen, commands, noun_of(scores))
    return () if found is None else (found,)


def _provenance(config: Mapping[str, Any]) -> dict[str, str]:
    """The config of the run."""
    return {name: _shown(value) for name, value in config.items() if value not in (None, {}, "", [])}


def _shown(value: object) -> str:
    """A value of the config as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_shown(each)}" for name, each in value.items())
    return ", ".join(map(_shown, value)) if isinstance(value, list | tuple) else _word(value)


def _study_command(config: Mapping[str, Any], folder: Path) -> str:
    """The command that repeats a study.

    The config of a study that scores heads is a complete plan; for other studies the fields are given by `--set`.
    """
    name = str(config["study"])
    fields = [field.name for field in dataclasses.fields(KINDS[name].plan)]
    if "scoring" in fields:
        return shlex.join(["headwise", "study", str(folder / CONFIG), "--out", str(folder)])
    changes = (part for field in fields for part in ("--set", f"{field}={json.dumps(config[field])}"))
    return shlex.join(["headwise", "study", name, *changes, "--out", str(folder)])


def scoring_command(plan: ScoringPlan, folder: Path) -> str:
    """The command that repeats a scoring run, with the fields that differ from their defaults.

    It is a Python call if the command line has no option for a field.

    Example:
        >>> plan = ScoringPlan("org/tagger", "pos", "my data", "de,tr", options={"error_rate": 0.05})
        >>> scoring_command(plan, Path("runs/mine"))
        "headwise score org/tagger --task pos --data 'my data' --languages de,tr --error-rate 0.05 --out runs/mine"
    """
    options = _changed_options(plan, folder)
    if options.keys() - _FLAGS:  # the command line has no options for these
        return f"run_scoring({dataclasses.replace(plan, options=options)!r}, {str(folder)!r})  # in Python"
    words = ["headwise", "score", plan.model]
    for each in dataclasses.fields(plan):
        value = getattr(plan, each.name)
        if each.name not in ("model", "options") and value != each.default:
            words += [f"--{each.name}"] if value is True else [f"--{each.name}", _word(value)]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", _word(value)]
    return shlex.join([*words, "--out", str(folder)])


def _changed_options(plan: ScoringPlan, folder: Path) -> dict[str, Any]:
    """The options of a run's method that differ from their defaults."""
    if not isinstance(plan.options, dict):
        raise HeadwiseError(f"{folder / CONFIG}: 'options' must be a map of names and values, not {plan.options!r}")
    usual = dataclasses.asdict(cast(Any, find_method(plan.method)))
    return {name: value for name, value in plan.options.items() if name not in usual or usual[name] != value}


def _word(value: object) -> str:
    """A value as text, with 60000 instead of 60000.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
