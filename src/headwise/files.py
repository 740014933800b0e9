"""Atomic writing of files and folders: they are written under a temporary name and then renamed."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError


def cache_folder() -> Path:
    """The folder for files that can be created again: `HEADWISE_CACHE`, or a folder in the user's cache."""
    chosen = os.environ.get("HEADWISE_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "headwise"


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder; False for a name that is too long, where `Path.is_dir` raises an error."""
    try:
        return Path(path).is_dir()
    except OSError:  # longer than the file system allows
        return False


def hash_json(content: Any) -> str:
    """A hash of plain data: 16 hexadecimal digits.

    Example:
        >>> hash_json(["zh", [1, 2]]) == hash_json(("zh", (1, 2))), hash_json(["zh", [1, 3]])
        (True, '451cbef09080c5fd')
    """
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write under a temporary name, then rename, so that a reader never sees a partial file."""
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


def check_page(path: str | os.PathLike[str], suffix: str) -> None:
    """Raise an error if a page would replace a file whose name is not that of a page.

    Args:
        path: The file that is going to be written.
        suffix: How names of such pages end, such as `.html`.

    Raises:
        HeadwiseError: There is a file, and its name ends otherwise.
    """
    if os.path.lexists(path) and not is_folder(path) and Path(path).suffix.lower() != suffix:
        raise HeadwiseError(f"{path}: this exists and is not a page, so it is not replaced: give a name with {suffix}")


def write_json(path: str | os.PathLike[str], data: Mapping[str, Any]) -> None:
    """Write indented JSON atomically."""
    write_bytes(path, (json.dumps(data, ensure_ascii=False, indent=1) + "\n").encode())


def read_json(
    path: str | os.PathLike[str], form: str | Collection[str], version: int | Collection[int]
) -> dict[str, Any]:
    """Read a JSON file written by headwise and check its format and version.

    Args:
        path: The file.
        form: The name of the format, or the names of several formats.
        version: The version of the format, or the versions that can be read.
    """
    versions = (version,) if isinstance(version, int) else tuple(version)
    forms = (form,) if isinstance(form, str) else tuple(form)
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HeadwiseError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise HeadwiseError(f"{path}: cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        raise HeadwiseError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    except (ValueError, RecursionError):  # a number with thousands of digits, or very deep nesting
        raise HeadwiseError(f"{path}: not valid JSON: a number is too long or the nesting too deep") from None
    found = data.get("format") if isinstance(data, dict) else None
    if found not in forms:
        about = f"its 'format' is {found!r}" if isinstance(found, str) else "it has no 'format'"
        raise HeadwiseError(f"{path}: not a {' or '.join(forms)} file: {about}")
    if data.get("version") not in versions:
        known = " and ".join(map(str, versions))
        raise HeadwiseError(
            f"{path}: version {data.get('version')} of {found}, but this headwise reads version {known}"
        )
    return dict(data)


@contextmanager
def new_folder(path: str | os.PathLike[str], overwrite: bool = False) -> Iterator[Path]:
    """Create a folder that gets its final name only if the body ends without an error.

    Args:
        path: The folder's final name.
        overwrite: Replace an existing folder. By default a folder that is not empty raises an error.
    """
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise HeadwiseError(f"{target}: a file with this name exists")
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
        try:
            _swap_in(draft, target)
        except OSError as error:
            raise HeadwiseError(f"{target}: cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _swap_in(draft: Path, target: Path) -> None:
    """Rename draft to target; an existing target is renamed first and deleted last."""
    if not target.exists():
        draft.rename(target)
        return
    aside = draft.with_name(f"{draft.name}.old")
    target.rename(aside)
    draft.rename(target)
    shutil.rmtree(aside)
