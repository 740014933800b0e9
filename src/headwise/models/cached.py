"""Models that are converted once and kept in the cache folder."""

from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from headwise.errors import HeadwiseError
from headwise.files import cache_folder, new_folder
from headwise.models.quiet import quiet


def cached_model(name: str, write: Callable[[Path], None]) -> Path:
    """The folder of a converted model, which is written if it is not there.

    A complete folder is used without a lock, so a cache that cannot be written serves as well.

    Args:
        name: Name of the folder, with the version of its source.
        write: Writes the model into a folder.

    Raises:
        HeadwiseError: The model is not in the cache, and the cache cannot be written.
    """
    folder = cache_folder() / "models" / name
    if _is_complete(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{name}.lock")):  # processes that start together write it only once
            if not _is_complete(folder):
                with quiet(), new_folder(folder, overwrite=True) as draft:
                    write(draft)
    except OSError as error:
        raise HeadwiseError(
            f"{folder}: cannot be written ({error.strerror}): set HEADWISE_CACHE to another folder"
        ) from None
    return folder


def _is_complete(folder: Path) -> bool:
    return (folder / "config.json").is_file()
