"""Plans of studies: YAML files of the package or of the user."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headwise.data.folders import default_folder
from headwise.errors import HeadwiseError
from headwise.scoring import ScoringPlan
from headwise.studies.kinds import KINDS
from headwise.studies.plan_files import FOLDER, plan_names
from headwise.support.typed import check_fields, read_assignment, read_yaml


def find_plan(name: str, changes: Sequence[str] = ()) -> Any:
    """A plan by name or from a YAML file, with some of its fields changed.

    A plan contains its kind (`study: targeted`, one of `KINDS`), the fields of its kind and, if its kind scores heads,
    the fields of `ScoringPlan` (model, task, data, languages, budget and so on). `data: default` means the data folder
    (`HEADWISE_DATA`). A plan may have `sizes`: a map from names, such as `small` and `full`, to fields; the change
    `size=full` chooses one, and the first one is the default.

    Args:
        name: The name or the file.
        changes: Fields and values that replace those of the plan, such as `budget=500`; values are parsed as YAML.

    Raises:
        HeadwiseError: There is no such plan, or a field of it is unknown, missing or has the wrong type.

    Example:
        >>> find_plan("phrasebook", ["budget=500"]).scoring.budget
        500
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    try:
        plan = read_yaml(path)
    except FileNotFoundError:
        raise HeadwiseError(f"{name}: no such study: give a YAML file or one of {', '.join(plan_names())}") from None
    made = dict(_read_change(each) for each in changes)
    plan = {**_of_size(path, plan, made.pop("size", None)), **made}
    return _checked(path, plan, {each.partition("=")[0]: f"--set {each}" for each in changes})


def _of_size(path: Path, plan: dict[str, Any], size: object) -> dict[str, Any]:
    """The plan with the fields of a size; by default the first size of the plan, if it has any."""
    sizes = plan.pop("sizes", {})
    if not isinstance(sizes, dict) or not all(isinstance(fields, dict) for fields in sizes.values()):
        raise HeadwiseError(f"{path}: 'sizes' must be a map of names and the fields of each")
    if size is None and not sizes:
        return plan
    chosen = next(iter(sizes)) if size is None else size
    if chosen not in sizes:
        known = f"choose from {', '.join(map(str, sizes))}" if sizes else "leave it out"
        raise HeadwiseError(f"{path}: the plan has no size {chosen!r}: {known}")
    return {**plan, **sizes[chosen]}


def _read_change(text: str) -> tuple[str, Any]:
    """The field and the value of a change."""
    field, found, _ = text.partition("=")
    if not found or not field or field == "study":
        raise HeadwiseError(f"{text}: a change is FIELD=VALUE, with a field of the plan, such as budget=500")
    return read_assignment(text)


def _checked(path: Path, plan: dict[str, Any], changed: Mapping[str, str]) -> Any:
    """The plan with the given fields; error messages name the file, or the change that set the field."""
    kind = KINDS.get(str(plan.pop("study", None)))
    if kind is None:
        raise HeadwiseError(f"{path}: not a plan: it needs a field 'study', one of {', '.join(KINDS)}")
    own = {each.name for each in dataclasses.fields(kind.plan)}
    scored = "scoring" in own
    if scored and _are_codes(plan.get("languages")):
        plan["languages"] = ",".join(plan["languages"])  # YAML plans and configs may have a list
    kinds = [kind.plan, ScoringPlan] if scored else [kind.plan]
    check_fields(plan, kinds, path, changed, without=["scoring"])
    chosen = {name: plan.pop(name) for name in own if name in plan}
    if not scored:
        return kind.plan(**chosen)
    if plan["data"] == "default":
        plan["data"] = _data_folder(path)
    return kind.plan(ScoringPlan(**plan), **chosen)


def _are_codes(found: Any) -> bool:
    return isinstance(found, list) and bool(found) and all(isinstance(code, str) for code in found)


def _data_folder(path: Path) -> str:
    folder = default_folder()
    if folder is None:
        raise HeadwiseError(f"{path}: there is no data folder: set HEADWISE_DATA to it")
    return str(folder)
