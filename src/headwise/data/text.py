"""Lines, blocks between blank lines, and JSON lines of UTF-8 text files, plain or gzip."""

import gzip
import io
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError

#: Maximum number of bytes of a line.
_LONGEST = 16_000_000
#: A compressed text may unpack to this number of bytes, or to this multiple of its size.
_UNPACKED, _RATIO = 5_000_000, 100
FilePath = str | os.PathLike[str]


def read_lines(path: FilePath) -> Iterator[tuple[int, str]]:
    r"""Read the lines of a text file, without line ends, and their numbers from 1.

    Lines end only at `\n`, `\r\n` or `\r`: U+2028 and similar characters are text. A byte order mark is dropped.

    Args:
        path: A UTF-8 file, gzip if its name ends in `.gz`.

    Raises:
        HeadwiseError: The file is missing, empty, not UTF-8, or not gzip although its name ends in `.gz`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "greetings.txt")
        ...     _ = path.write_bytes(b"hello\r\nhabari\r\n")
        ...     list(read_lines(path))
        [(1, 'hello'), (2, 'habari')]
    """
    number, blank = 0, True
    for raw in _raw_lines(path):
        text = _decode(raw, path, number + 1)
        if number == 0:
            text = text.removeprefix("\ufeff")
        for line in text.removesuffix("\n").removesuffix("\r").split("\r"):
            number += 1
            blank = blank and not line.strip()
            yield number, line
    if blank:
        raise HeadwiseError(f"{path}: the file is empty: download it again or give another")


def read_json_object(path: FilePath, number: int, line: str) -> dict[str, Any]:
    """Return the JSON object of a line.

    Raises:
        HeadwiseError: The line is not a JSON object.
    """
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise HeadwiseError(f"{path}, line {number}: not JSON ({error.msg}): give one object per line") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or thousands of brackets
        raise HeadwiseError(f"{path}, line {number}: JSON too deep or with too large numbers: drop the line") from None
    if "\\ud" in line.lower() and _has_lone_surrogate(found):
        raise HeadwiseError(f"{path}, line {number}: a \\u escape that is half a character: correct the line")
    if not isinstance(found, dict):
        raise HeadwiseError(f"{path}, line {number}: a JSON {type(found).__name__}, not an object: write {{...}}")
    return found


def _has_lone_surrogate(found: Any) -> bool:
    """Whether JSON data have text that is not valid Unicode."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def read_blocks(path: FilePath) -> Iterator[list[tuple[int, str]]]:
    """Read the blocks of lines between blank lines, each line with its number: the sentences of CoNLL-like files."""
    block: list[tuple[int, str]] = []
    for number, line in read_lines(path):
        if line.strip():
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _raw_lines(path: FilePath) -> Iterator[bytes]:
    try:
        with Path(path).open("rb") as file:
            if Path(path).suffix != ".gz":
                yield from _checked(file, path)
                return
            with gzip.open(file) as unpacked:
                _check_size(unpacked, path, max(_UNPACKED, _RATIO * os.fstat(file.fileno()).st_size))
                # Much faster than GzipFile's own readline, which is Python code.
                yield from _checked(io.BufferedReader(unpacked), path)
    except FileNotFoundError:
        raise HeadwiseError(f"{path}: no such file: check the path") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise HeadwiseError(
            f"{path}: not a complete gzip file: download it again, or remove .gz from its name if it is plain text"
        ) from None
    except OSError as error:
        raise HeadwiseError(f"{path}: cannot be read ({error.strerror}): check its permissions") from None


def _check_size(unpacked: gzip.GzipFile, path: FilePath, most: int) -> None:
    """Unpack a file without reading its lines, which would take minutes if most of them are empty."""
    size = 0
    while block := unpacked.read(1 << 20):
        size += len(block)
        if size > most:
            raise HeadwiseError(
                f"{path}: it unpacks to more than {_RATIO} times its size, as no text does: give another file"
            )
    unpacked.seek(0)


def _checked(file: io.BufferedReader, path: FilePath) -> Iterator[bytes]:
    """The lines of an open file, as long as none is too long."""
    for number, raw in enumerate(iter(lambda: file.readline(_LONGEST + 1), b""), 1):
        if len(raw) > _LONGEST:
            raise HeadwiseError(
                f"{path}, line {number}: longer than {_LONGEST:,} bytes: split it, or give another file"
            )
        yield raw


def _decode(raw: bytes, path: FilePath, number: int) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        if number == 1 and raw.startswith(b"\x1f\x8b"):
            raise HeadwiseError(f"{path}: gzip data in a file without .gz: add the ending .gz to its name") from None
        raise HeadwiseError(f"{path}, line {number}: not UTF-8: convert the file, for example with iconv") from None
    if "\0" in text:  # UTF-16 without a byte order mark decodes as UTF-8 with zeros between the letters
        raise HeadwiseError(
            f"{path}, line {number}: it has zero bytes, so it is not UTF-8: convert the file, for example with iconv"
        )
    return text
