"""Lines of text files, and what is said when a file is not one."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from headwise import HeadwiseError
from headwise.data.text import read_blocks, read_lines


def complaint(read: Callable[[], object], path: Path, line: int | None = None) -> str:
    """What the error says after file and line, when it is one sentence of the form "what is wrong: the way out"."""
    with pytest.raises(HeadwiseError) as caught:
        read()
    where = f"{path}: " if line is None else f"{path}, line {line}: "
    message = str(caught.value)
    assert message.startswith(where)
    said = message.removeprefix(where)
    assert ": " in said
    assert "\n" not in said
    assert ". " not in said
    assert not said.endswith(".")
    return said


def zipped(content: bytes) -> bytes:
    """Gzip without the time of day, which would give a test another name in every process."""
    return gzip.compress(content, mtime=0)


def test_lines_end_at_every_kind_of_newline_and_nowhere_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("a\nb\r\nc\rd\u2028e\x85f\n\ng".encode())
    assert list(read_lines(path)) == [(1, "a"), (2, "b"), (3, "c"), (4, "d\u2028e\x85f"), (5, ""), (6, "g")]


def test_gzip_reads_like_plain_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\n")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\r\ntwo\n"))
    assert list(read_lines(tmp_path / "a.txt.gz")) == list(read_lines(str(tmp_path / "a.txt")))


def test_a_byte_order_mark_is_dropped_at_the_start_only(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\ufeffone\n\ufefftwo\n", encoding="utf-8")
    assert [line for _, line in read_lines(path)] == ["one", "\ufefftwo"]


def test_blocks_are_what_blank_lines_separate(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\na\nb\n \n\nc", encoding="utf-8")
    assert list(read_blocks(path)) == [[(2, "a"), (3, "b")], [(6, "c")]]


@pytest.mark.parametrize(
    ("name", "content", "line", "said"),
    [
        ("a.txt", b"fine\ncaf\xe9\n", 2, "not UTF-8"),
        ("a.txt", "fine".encode("utf-16"), 1, "not UTF-8"),
        ("a.txt", "fine".encode("utf-16-le"), 1, "zero bytes"),
        ("a.txt.gz", zipped(b"fine\n\xe9"), 2, "not UTF-8"),
        ("a.txt", zipped(b"fine\n"), None, "without .gz"),
        ("a.txt.gz", b"plain\n", None, "not a complete gzip file"),
        ("a.txt.gz", zipped(b"fine\n" * 1000)[:-9], None, "not a complete gzip file"),
        ("a.txt.gz", zipped(b"fine\n")[:10] + b"\xff" * 20, None, "not a complete gzip file"),
        ("a.txt", b"", None, "the file is empty"),
        ("a.txt", b"\n \n", None, "the file is empty"),
        ("a.txt.gz", b"", None, "the file is empty"),
        ("a.txt.gz", zipped(b""), None, "the file is empty"),
    ],
)
def test_a_file_that_is_no_text_is_named(
    tmp_path: Path, name: str, content: bytes, line: int | None, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert said in complaint(lambda: list(read_lines(path)), path, line)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    assert "no such file" in complaint(lambda: list(read_lines(tmp_path / "a")), tmp_path / "a")
    assert "cannot be read" in complaint(lambda: list(read_lines(tmp_path)), tmp_path)


@pytest.mark.parametrize("content", [b"\n" * 200_000, b"a b\n" * 100_000, b"a" * 200_000])
def test_a_small_file_that_unpacks_to_a_huge_one_is_named(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.data.text._UNPACKED", 100_000)
    path = tmp_path / "bomb.txt.gz"
    path.write_bytes(gzip.compress(content, 9))
    with pytest.raises(HeadwiseError, match=r"bomb.*more than 100 times its size"):
        for _ in read_lines(path):
            pass


def test_a_line_of_many_megabytes_is_named(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"short\n" + b"a" * 16_000_001)
    with pytest.raises(HeadwiseError, match=r"long\.txt, line 2: longer than 16,000,000 bytes"):
        list(read_lines(path))
