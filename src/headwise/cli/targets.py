"""Folders to write: nothing is lost there that a command reads, nor anything else unless told so."""

from collections.abc import Mapping
from pathlib import Path

from headwise.errors import HeadwiseError


def check_target(out: Path, kept: Mapping[str, Path | None], overwrite: bool) -> Path:
    """The folder to write in full, before any work is done for it.

    Args:
        out: The folder as it was given.
        kept: What must not be lost, by what people call it.
        overwrite: Whether all else in the folder may be replaced.

    Raises:
        HeadwiseError: Something would be lost, or a file is in the way.
    """
    target = out.resolve()
    for what, path in kept.items():
        if path is not None and path.exists() and path.resolve().is_relative_to(target):
            raise HeadwiseError(f"{out}: {what} is there and would be lost: choose another folder for --out")
    if not target.name:
        raise HeadwiseError(f"{out}: everything is there and would be lost: choose another folder for --out")
    if target.exists() and not target.is_dir():
        raise HeadwiseError(f"{out}: a file of that name is in the way: choose another folder for --out")
    if not overwrite and target.is_dir() and any(target.iterdir()):
        raise HeadwiseError(
            f"{out}: the folder is not empty: choose another for --out, or replace all that is in it with --overwrite"
        )
    return target
