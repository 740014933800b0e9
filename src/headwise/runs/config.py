"""The config of a run: plain data in a YAML file, compared key by key."""

import importlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError
from headwise.support.typed import read_yaml

#: Name of the config file.
CONFIG = "config.yaml"


#: Keys that are missing in runs of earlier versions, with the values that those runs used.
_ADDED = {"dtype": "float32", "baseline": "zero", "lora_rank": 0}
#: Keys that are missing in runs of earlier versions and are then not compared.
_OPTIONAL = ("model_config",)


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


_ABSENT = _Absent()


def seeds_of(config: Mapping[str, Any], source: str, several: bool = True) -> list[int]:
    """The seed of a run, or the seeds of a merged run."""
    found = config.get("seed")
    seeds: list[Any] = found if several and isinstance(found, list) else [found]
    # SQLite's integers have 64 bits.
    if not all(type(seed) is int and -(2**63) <= seed < 2**63 for seed in seeds):
        raise HeadwiseError(f"{source}: 'seed' must be a whole number of at most 64 bits, not {found!r}")
    return seeds


def merged_config(configs: Sequence[tuple[Path, dict[str, Any]]]) -> dict[str, Any]:
    """The config of several runs that differ only in their seed, with the list of seeds."""
    if not configs:
        raise HeadwiseError("merging needs at least one run folder")
    start, common = configs[0]
    owners: dict[int, Path] = {}
    for folder, config in configs:
        for key, here, there in _differences({**_ADDED, **config, "seed": 0}, {**_ADDED, **common, "seed": 0}):
            raise HeadwiseError(
                f"{folder}: {key!r} is {here!r}, but {there!r} in {start}: merged runs may differ only in 'seed'"
            )
        for seed in seeds_of(config, str(folder / CONFIG)):
            if seed in owners:
                raise HeadwiseError(f"{folder}: its seed {seed} is also the seed of {owners[seed]}: merge it only once")
            owners[seed] = folder
    return {**common, "seed": sorted(owners)}


def _differences(one: Mapping[str, Any], other: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The differences between two configs: the key, with dots for nested keys, and both values."""
    for key in [*one, *(key for key in other if key not in one)]:
        here, there = one.get(key, _ABSENT), other.get(key, _ABSENT)
        if key in _OPTIONAL and _ABSENT in (here, there):
            continue
        if isinstance(here, dict) and isinstance(there, dict):
            yield from _differences(here, there, f"{above}{key}.")
        elif here != there:
            yield f"{above}{key}", here, there


def check_same(folder: Path, stored: Mapping[str, Any], wanted: Mapping[str, Any], extendable: Sequence[str]) -> None:
    """Check that a config matches the stored one; the numbers under `extendable` keys may be larger."""
    # A difference in the kind of run is reported first, since it explains the others.
    found = _differences({**_ADDED, **stored}, {**_ADDED, **wanted})
    for key, old, new in sorted(found, key=lambda each: each[0] != "study"):
        numbers = isinstance(old, int | float) and isinstance(new, int | float)
        if key not in extendable or not numbers:
            raise HeadwiseError(f"{folder}: contains a run with {key!r} = {old!r}, not {new!r}: choose another folder")
        if new < old:
            raise HeadwiseError(f"{folder}: {key!r} of this run is {old} and cannot be reduced to {new}")


def plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config as it will be read back: JSON data, with lists instead of tuples."""
    try:
        data: dict[str, Any] = json.loads(json.dumps(dict(config), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise HeadwiseError(f"the config of a run must be JSON data: {error}") from None
    return data


def text_of(config: Mapping[str, Any], key: str, folder: Path) -> str:
    """The text under a key that every run has, such as its model."""
    found = config.get(key)
    if not isinstance(found, str):
        raise HeadwiseError(f"{folder / CONFIG}: {key!r} must be text, not {config.get(key, _ABSENT)!r}: restore it")
    return found


def languages_of(config: Mapping[str, Any], folder: Path) -> list[str]:
    """The languages of a run."""
    found = config.get("languages", _ABSENT)
    if not isinstance(found, list) or not found or not all(isinstance(code, str) for code in found):
        raise HeadwiseError(f"{folder / CONFIG}: 'languages' must be a list of codes, not {found!r}: restore it")
    return found


def read_config(folder: Path) -> dict[str, Any]:
    """The config of the run in a folder."""
    try:
        return read_yaml(folder / CONFIG)
    except FileNotFoundError:
        raise HeadwiseError(f"{folder}: not a run folder: it has no {CONFIG}") from None


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Write the config under a temporary name and rename it. The name is fixed, because a run has one writer."""
    path = folder / CONFIG
    draft = path.with_suffix(".yaml.new")
    # Only ASCII, because PyYAML does not read every Unicode line break as it wrote it.
    yaml = importlib.import_module("yaml")  # untyped, and imported here because it is rarely needed
    text = yaml.safe_dump(dict(config), sort_keys=False)
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise HeadwiseError(f"{path}: cannot be written: {error.strerror}") from None
