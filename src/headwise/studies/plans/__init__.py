"""Plans of studies: YAML files that come with the package, or your own."""

import dataclasses
import importlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from headwise.data.folders import default_folder
from headwise.errors import HeadwiseError
from headwise.scoring import ScoringPlan
from headwise.studies.kinds import KINDS
from headwise.studies.plan_files import FOLDER, plan_names

_SCORING = {each.name for each in dataclasses.fields(ScoringPlan)}
#: What a field of each type holds in YAML, and in words.
_TYPES: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
    type(None): ((type(None),), "null"),
    Mapping: ((dict,), "a map of names and values"),
}


def find_plan(name: str, changes: Sequence[str] = ()) -> Any:
    """The plan of a name, or of a YAML file, with some of its fields changed.

    A plan names its kind (`study: targeted`, one of `KINDS`), the fields of `ScoringPlan` (model, task, data,
    languages, budget and so on) if its kind scores heads, and those of its kind. `data: default` is the data folder
    (`HEADWISE_DATA`).

    Args:
        name: The name or the file.
        changes: Fields with values that are to stand in place of the plan's, as `budget=500`; values are read as YAML.

    Raises:
        HeadwiseError: There is no such plan, or something in it is not known.

    Example:
        >>> find_plan("phrasebook", ["budget=500"]).scoring.budget
        500
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    yaml = importlib.import_module("yaml")  # untyped
    try:
        plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HeadwiseError(f"{name}: no such study: give a YAML file or one of {', '.join(plan_names())}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise HeadwiseError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise HeadwiseError(f"{path}: not YAML: {getattr(error, 'problem', error)}") from None
    if isinstance(plan, dict):
        plan.update(_read_change(each) for each in changes)
    return _checked(path, plan, {each.partition("=")[0]: f"--set {each}" for each in changes})


def _read_change(text: str) -> tuple[str, Any]:
    """The field and the value of a change."""
    field, found, value = text.partition("=")
    yaml = importlib.import_module("yaml")
    try:
        read = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise HeadwiseError(f"{text}: not YAML after '=': {getattr(error, 'problem', error)}") from None
    if not found or not field or field == "study":
        raise HeadwiseError(f"{text}: a change is FIELD=VALUE, with a field of the plan, such as budget=500")
    return field, read


def _checked(path: Path, plan: Any, changed: Mapping[str, str]) -> Any:
    """The plan of what was read; a mistake is that of the file, or of the change that brought the field in."""
    kind = KINDS.get(str(plan.pop("study", None))) if isinstance(plan, dict) else None
    if kind is None:
        raise HeadwiseError(f"{path}: not a plan: it must say 'study: KIND', one of {', '.join(KINDS)}")
    own = {each.name: each for each in dataclasses.fields(kind.plan)}
    scored = own.pop("scoring", None) is not None
    known = {*own, *(_SCORING if scored else ())}
    for key in plan:
        if key not in known:
            where = changed.get(key, path)
            raise HeadwiseError(f"{where}: nothing is called {key!r}: choose from {', '.join(sorted(known))}")
    required = [name for name, each in own.items() if each.default is each.default_factory is dataclasses.MISSING]
    for key in (*(("model", "task", "data") if scored else ()), *required):
        if key not in plan:
            raise HeadwiseError(f"{path}: {key!r} is missing")
    if scored and _are_codes(plan.get("languages")):
        plan["languages"] = ",".join(plan["languages"])  # a list is natural in YAML, and what the config of a run holds
    chosen = {key: plan.pop(key) for key in own if key in plan}
    _check_types(path, kind.plan, chosen, changed)
    if not scored:
        return kind.plan(**chosen)
    _check_types(path, ScoringPlan, plan, changed)
    if plan["data"] == "default":
        plan["data"] = _data_folder(path)
    return kind.plan(ScoringPlan(**plan), **chosen)


def _are_codes(found: Any) -> bool:
    return isinstance(found, list) and bool(found) and all(isinstance(code, str) for code in found)


def _check_types(path: Path, plan: type[Any], values: Mapping[str, Any], changed: Mapping[str, str]) -> None:
    """Make sure that YAML has read every value as what it is to be; lists are for the plans themselves to check."""
    hints = get_type_hints(plan)
    for name, value in values.items():
        origin = get_origin(hints[name])
        parts = get_args(hints[name]) if origin is UnionType else (origin or hints[name],)
        known = [_TYPES[part] for part in parts if part in _TYPES]
        if known and not any(type(value) in types for types, _ in known):
            mend = ": put it in quotes" if str in parts and not isinstance(value, list | dict) else ""
            kinds = " or ".join(words for _, words in known)
            raise HeadwiseError(f"{changed.get(name, path)}: {name!r} is {kinds}, not {value!r}{mend}")
        if isinstance(value, float) and not math.isfinite(value):
            raise HeadwiseError(f"{changed.get(name, path)}: {name!r} is a finite number, not {value}")


def _data_folder(path: Path) -> str:
    folder = default_folder()
    if folder is None:
        raise HeadwiseError(f"{path}: there is no data folder: set HEADWISE_DATA to it")
    return str(folder)
