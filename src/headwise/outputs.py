"""Output folders that a user names: where they may be, and what `--overwrite` may replace.

Every output folder has a small file that lists what headwise wrote there. Only a folder whose list is complete is
replaced, so a wrong `--out` cannot delete anything else.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError
from headwise.files import new_folder, read_json, write_json

#: The list of an output folder.
MARKER = ".headwise.json"
_FORMAT, _VERSION = "headwise-output", 1
#: A folder with these files is a run folder.
_RUN = ("config.yaml", "journal.sqlite")


@contextmanager
def output_folder(path: str | os.PathLike[str], kind: str, overwrite: bool = False) -> Iterator[Path]:
    """Create an output folder, which gets its final name only if the body ends without an error.

    Args:
        path: The folder, new or empty.
        kind: What is written, such as `pruned model`.
        overwrite: Replace an output of the same kind.

    Raises:
        HeadwiseError: The folder may not be written; see `check_target`.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "smaller"
        >>> with output_folder(folder, "pruned model") as draft:
        ...     _ = (draft / "weights").write_text("1 2 3")
        >>> sorted(each.name for each in folder.iterdir())
        ['.headwise.json', 'weights']
    """
    check_target(Path(path), {}, kind, overwrite)
    with new_folder(path, overwrite) as draft:
        yield draft
        _write_list(draft, kind)


def add_to_output(folder: Path, name: str, data: Mapping[str, Any]) -> None:
    """Write one more JSON file into an output folder, and add it to the list of the folder."""
    write_json(folder / name, data)
    _write_list(folder, read_json(folder / MARKER, _FORMAT, _VERSION)["kind"])


def check_target(out: Path, kept: Mapping[str, Path | None], kind: str, overwrite: bool) -> Path:
    """Check an output folder before any work starts.

    Args:
        out: The folder.
        kept: Files and folders that must not be overwritten, by their name in error messages.
        kind: What is going to be written.
        overwrite: Whether an output of the same kind may be replaced.

    Returns:
        The absolute path of the folder.

    Raises:
        HeadwiseError: The folder contains something in `kept` or is inside a run folder, the path is a file, or the
            folder is not empty and may not be replaced.
    """
    try:
        target = out.resolve()
        for what, path in kept.items():
            if path is not None and path.exists() and path.resolve().is_relative_to(target):
                raise HeadwiseError(f"{out}: this folder contains {what}: choose another folder for --out")
        if not target.name:
            raise HeadwiseError(f"{out}: the root folder cannot be replaced: choose another folder for --out")
        if target.exists() and not target.is_dir():
            raise HeadwiseError(f"{out}: a file with this name exists: choose another folder for --out")
        runs = [each for each in (target, *target.parents) if all((each / name).is_file() for name in _RUN)]
        if runs:
            raise HeadwiseError(f"{out}: this is inside the run folder {runs[0]}: choose another folder for --out")
        if target.is_dir() and any(target.iterdir()):
            _check_replaceable(out, kind, overwrite)
    except (OSError, RuntimeError) as error:  # RuntimeError: a symbolic link that leads to itself
        reason = error.strerror if isinstance(error, OSError) else "its symbolic links form a loop"
        raise HeadwiseError(f"{out}: cannot be written ({reason}): choose another folder for --out") from None
    return target


def _check_replaceable(out: Path, kind: str, overwrite: bool) -> None:
    """Raise an error if a folder that is not empty may not be replaced."""
    if not overwrite:
        raise HeadwiseError(
            f"{out}: the folder is not empty: choose another for --out, or replace its contents with --overwrite"
        )
    fix = "choose another folder for --out, or delete this one yourself"
    try:
        marker = read_json(out / MARKER, _FORMAT, _VERSION)
    except HeadwiseError:
        raise HeadwiseError(f"{out}: headwise did not write this folder, so it is not replaced: {fix}") from None
    if marker.get("kind") != kind:
        raise HeadwiseError(f"{out}: this is a {marker.get('kind')}, not a {kind}, so it is not replaced: {fix}")
    listed = marker.get("files")
    others = {each.name for each in out.iterdir()} - {MARKER, *(listed if isinstance(listed, list) else ())}
    if others:
        raise HeadwiseError(f"{out}: it also contains {min(others)!r}, which headwise did not write: {fix}")


def _write_list(folder: Path, kind: str) -> None:
    names = sorted(each.name for each in folder.iterdir() if each.name != MARKER)
    write_json(folder / MARKER, {"format": _FORMAT, "version": _VERSION, "kind": kind, "files": names})
