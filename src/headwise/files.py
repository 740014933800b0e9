"""Files that are whole or not there: written under a temporary name, then renamed."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError


def cache_folder() -> Path:
    """Where headwise keeps what it can make again: `HEADWISE_CACHE`, or a folder in the user's cache."""
    chosen = os.environ.get("HEADWISE_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "headwise"


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether there is such a folder; a name that no folder can have is none, where `Path.is_dir` fails."""
    try:
        return Path(path).is_dir()
    except OSError:  # longer than the file system takes
        return False


def hash_json(content: Any) -> str:
    """A hash of plain data, to tell contents apart: 16 hexadecimal digits.

    Example:
        >>> hash_json(["zh", [1, 2]]) == hash_json(("zh", (1, 2))), hash_json(["zh", [1, 3]])
        (True, '451cbef09080c5fd')
    """
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write under a temporary name, then rename: a reader never sees half a file."""
    target = Path(path)
    draft: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=f".{target.name}-", dir=target.parent, delete=False) as file:
            draft = Path(file.name)
            file.write(content)
        draft.chmod(0o644)
        draft.replace(target)
    except OSError as error:
        if draft is not None:
            draft.unlink(missing_ok=True)
        raise HeadwiseError(f"{target}: cannot be written: {error.strerror}") from None


def write_json(path: str | os.PathLike[str], data: Mapping[str, Any]) -> None:
    """Write JSON for people to read, whole or not at all."""
    write_bytes(path, (json.dumps(data, ensure_ascii=False, indent=1) + "\n").encode())


def read_json(path: str | os.PathLike[str], form: str, version: int) -> dict[str, Any]:
    """Read a JSON file of ours and check what it says it is."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HeadwiseError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise HeadwiseError(f"{path}: cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        raise HeadwiseError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, brackets in brackets in brackets …
        raise HeadwiseError(f"{path}: not JSON that anyone would write: give another file") from None
    if not isinstance(data, dict) or data.get("format") != form:
        raise HeadwiseError(f"{path}: not a {form} file: its 'format' is not {form!r}")
    if data.get("version") != version:
        raise HeadwiseError(
            f"{path}: version {data.get('version')} of {form}, but this headwise reads version {version}"
        )
    return data


def check_target(out: Path, kept: Mapping[str, Path | None], overwrite: bool) -> Path:
    """Check a folder to write before any work is done for it.

    Args:
        out: The folder.
        kept: Files and folders that must not be overwritten, by a name for messages.
        overwrite: Whether everything else in the folder may be replaced.

    Returns:
        The absolute path of the folder.

    Raises:
        HeadwiseError: Something in `kept` is in the folder, the folder is not empty, or the path is a file.
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


@contextmanager
def new_folder(path: str | os.PathLike[str], overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill that appears under its name only when the body has ended well.

    Args:
        path: The folder's final name.
        overwrite: Replace a folder that is there; otherwise one with anything in it is an error.
    """
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise HeadwiseError(f"{target}: a file of that name is in the way")
    if not overwrite and target.is_dir() and any(target.iterdir()):
        raise HeadwiseError(f"{target}: the folder is not empty: choose another, or overwrite it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise HeadwiseError(f"{target}: cannot be written: {error.strerror}") from None
    try:
        draft.chmod(0o755)
        yield draft
        _swap_in(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _swap_in(draft: Path, target: Path) -> None:
    """Rename draft to target; what stood there is moved aside first and deleted last."""
    if not target.exists():
        draft.rename(target)
        return
    aside = draft.with_name(f"{draft.name}.old")
    target.rename(aside)
    draft.rename(target)
    shutil.rmtree(aside)
