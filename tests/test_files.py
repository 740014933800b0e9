"""Files and folders are whole or not there."""

from pathlib import Path

import pytest

from headwise import HeadwiseError
from headwise.files import is_folder, new_folder, read_json, write_json


def test_a_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), new_folder(tmp_path / "out") as draft:
        draft.write_text("a folder is no file")
    assert list(tmp_path.iterdir()) == []
    with new_folder(tmp_path / "out") as draft:
        (draft / "whole").write_text("x")
        assert not (tmp_path / "out").exists()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "whole"]


def test_a_folder_with_something_in_it_is_replaced_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("x")
    with pytest.raises(HeadwiseError, match="not empty"), new_folder(tmp_path / "out"):
        pass
    with new_folder(tmp_path / "out", overwrite=True) as draft:
        (draft / "new").write_text("x")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["new", "out"]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(HeadwiseError, match="file with this name"), new_folder(tmp_path / "out", overwrite=True):
        pass


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"a": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"a": object()})
    assert (tmp_path / "a.json").read_text() == '{\n "a": 1\n}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, f"[{'9' * 5000}]"])
def test_json_that_nobody_would_write_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(HeadwiseError, match=r"a\.json: not valid JSON"):
        read_json(tmp_path / "a.json", "some-form", 1)


def test_a_name_too_long_for_a_folder_is_none(tmp_path: Path) -> None:
    assert is_folder(tmp_path)
    assert not is_folder(tmp_path / "a")
    assert not is_folder("a" * 300)
