"""Output folders: nothing that headwise did not write there is ever replaced."""

from pathlib import Path

import pytest

from headwise import HeadwiseError
from headwise.outputs import MARKER, add_to_output, check_target, output_folder

KIND = "pruned model"


def write(folder: Path, text: str = "new", kind: str = KIND, overwrite: bool = False) -> None:
    with output_folder(folder, kind, overwrite) as draft:
        (draft / "weights").write_text(text)


def test_an_output_is_replaced_on_request(tmp_path: Path) -> None:
    write(tmp_path / "out", "old")
    with pytest.raises(HeadwiseError, match="not empty: choose another for --out, or replace its contents"):
        write(tmp_path / "out")
    write(tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "weights").read_text() == "new"


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda out: None, "headwise did not write this folder"),
        (lambda out: (out / MARKER).write_text("{}"), "headwise did not write this folder"),
        (lambda out: write_list(out, "tuned model"), "this is a tuned model, not a pruned model"),
        (lambda out: write_list(out, KIND), "it also contains 'mine.txt', which headwise did not write"),
    ],
)
def test_what_headwise_did_not_write_is_kept(prepare: object, message: str, tmp_path: Path) -> None:
    out = tmp_path / "data"
    out.mkdir()
    (out / "mine.txt").write_text("precious")
    prepare(out)  # type: ignore[operator]
    with pytest.raises(HeadwiseError, match=message):
        write(out, overwrite=True)
    assert (out / "mine.txt").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def write_list(out: Path, kind: str) -> None:
    other = out.with_name("other")
    write(other, kind=kind)
    (other / MARKER).rename(out / MARKER)
    (other / "weights").rename(out / "weights")
    other.rmdir()


def test_a_file_that_is_added_later_belongs_to_the_output(tmp_path: Path) -> None:
    write(tmp_path / "out")
    add_to_output(tmp_path / "out", "result.json", {"value": 1})
    write(tmp_path / "out", overwrite=True)
    assert not (tmp_path / "out" / "result.json").exists()


@pytest.mark.parametrize("place", ["run", "run/scores", "run/scores/deep"])
def test_nothing_is_written_into_a_run_folder(place: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "scores").mkdir(parents=True)
    for name in ("config.yaml", "journal.sqlite"):
        (run / name).touch()
    for overwrite in (False, True):
        with pytest.raises(HeadwiseError, match="this is inside the run folder"):
            write(tmp_path / place, overwrite=overwrite)


def test_a_target_keeps_models_and_data(tmp_path: Path) -> None:
    (tmp_path / "all" / "model").mkdir(parents=True)
    kept = {"the model": tmp_path / "all" / "model", "the mask": None}
    with pytest.raises(HeadwiseError, match="this folder contains the model"):
        check_target(tmp_path / "all", kept, KIND, True)
    with pytest.raises(HeadwiseError, match="the root folder"):
        check_target(Path("/"), {}, KIND, True)
    assert check_target(tmp_path / "new", kept, KIND, False) == (tmp_path / "new").resolve()


def test_links_that_form_a_loop_are_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(HeadwiseError, match="symbolic links"):
        write(tmp_path / "loop")
