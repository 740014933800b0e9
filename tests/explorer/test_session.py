"""What the explorer can do: the numbers of plain evaluations, attention of both models, masks and exports on disk."""

from pathlib import Path

import numpy as np
import pytest

from headwise import HeadMask, HeadwiseError, attention, find_heads, gated, load_pruned
from headwise.engine.evaluation import evaluate
from headwise.engine.resuming import StoppedError
from headwise.explorer.sample import RESAMPLES
from headwise.explorer.session import Session
from headwise.stats import paired_bootstrap
from headwise.tasks.task import Task
from tests.explorer.worlds import make_examples, make_session, make_world, tagger

MASKS = [[], ["encoder.0.1"], ["encoder.0.1", "encoder.2.3"], ["encoder.2.3"], ["encoder.1.0", "encoder.1.1"]]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return make_session(tmp_path)


def test_the_metric_is_that_of_a_plain_evaluation(session: Session) -> None:
    model, tokenizer = tagger()
    task, seen = session.setting.task, set()
    assert isinstance(task, Task)
    for off in MASKS:
        found = session.measure(off)
        assert [each.code for each in found.languages] == ["en", "sw"]
        for each, examples in zip(found.languages, make_examples().values(), strict=True):
            base = evaluate(model, task, examples, tokenizer)
            with gated(model, HeadMask.without(find_heads(model), off)):
                plain = evaluate(model, task, examples, tokenizer)
            assert (each.metric, each.examples) == (plain.metric, len(examples))
            assert (each.base, each.value) == (base.value, plain.value)
            [test] = paired_bootstrap(
                base.statistics,
                [plain.statistics],
                task.metric.value,
                RESAMPLES,
            )
            assert (each.difference, each.low, each.high, each.p_value) == (
                test.difference, test.low, test.high, test.p_value,
            )  # fmt: skip
            seen.add(each.value)
    assert len(seen) > 4, "the masks change the metric"


def test_toggles_cost_the_layers_from_their_head_upwards(session: Session) -> None:
    assert session.measure([]).cost.units == 0, "the whole model was just measured"
    shares = []
    for head in session.setting.heads.players():
        found = session.measure([head])
        shares.append(found.cost.units / found.plain)
        assert session.measure([]).cost.units == 0, "undo"
    assert found.plain == 51
    assert np.mean(shares) == pytest.approx((3 + 2 + 1) / 9)


def test_a_stopped_measurement_leaves_the_session_usable(session: Session) -> None:
    with pytest.raises(StoppedError):
        session.measure(["encoder.0.0"], lambda: True)
    assert session.measure(["encoder.0.0"]).languages == make_session(session.out).measure(["encoder.0.0"]).languages


def test_attention_without_the_mask_and_with_it(session: Session) -> None:
    model, tokenizer = tagger()
    view = session.attention("the cat sat", "encoder.2.1", ["encoder.0.1"])
    assert [each.label for each in view.sentences] == ["whole model", "with the mask"]
    mask = HeadMask.without(find_heads(model), ["encoder.0.1"])
    for sentence, own in enumerate((None, mask)):
        expected = attention(model, tokenizer, "the cat sat", ["encoder.2.1"], mask=own).weights("encoder.2.1")
        np.testing.assert_array_equal(view.weights("encoder.2.1", sentence), expected)
    assert not np.allclose(view.weights("encoder.2.1", 0), view.weights("encoder.2.1", 1))
    assert dict(view.gates) == {"encoder.0.1": 0.0}


@pytest.mark.parametrize(
    ("sentence", "head", "problem"),
    [
        ("", "encoder.0.0", "sentence: is empty"),
        (" \t", "encoder.0.0", "sentence: is empty"),
        ("a" * 2001, "encoder.0.0", "2,001 characters"),
        ("cat " * 39, "encoder.0.0", "39 tokens: at most 38"),
        ("cat", "encoder.9.0", "no head 'encoder.9.0'"),
    ],
)
def test_sentences_that_cannot_be_shown(session: Session, sentence: str, head: str, problem: str) -> None:
    with pytest.raises(HeadwiseError, match=problem):
        session.attention(sentence, head, [])


def test_a_saved_mask_has_the_toggled_heads(session: Session) -> None:
    path = session.save(["encoder.2.3", "encoder.0.1"], "mine")
    assert path == session.out / "mine.json"
    mask = HeadMask.load(path)
    assert mask.off == ("encoder.0.1", "encoder.2.3")
    mask.check(session.setting.heads)
    session.save([], "mine")  # its own file may be replaced
    assert HeadMask.load(path).off == ()


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", "/etc/x", "a.json", "é", "a" * 65, "-x", "x\n"])
def test_masks_are_never_saved_elsewhere(session: Session, name: str) -> None:
    with pytest.raises(HeadwiseError, match="letters, digits"):
        session.save([], name)
    assert not session.out.exists()


def test_files_that_were_there_before_are_kept(session: Session, tmp_path: Path) -> None:
    session.out.mkdir()
    (session.out / "old.json").write_text("precious")
    (tmp_path / "other.json").write_text("precious")
    (session.out / "link.json").symlink_to(tmp_path / "other.json")
    (session.out / "dangling.json").symlink_to(tmp_path / "nothing.json")
    for name in ("old", "link", "dangling"):
        with pytest.raises(HeadwiseError, match="exists already"):
            session.save([], name)
    assert (session.out / "old.json").read_text() == (tmp_path / "other.json").read_text() == "precious"
    assert not (tmp_path / "nothing.json").exists()


def test_an_exported_model_has_the_metric_of_the_mask(session: Session) -> None:
    off = ["encoder.0.1", "encoder.2.3"]
    measured, found = session.measure(off), session.export(off)
    for each, masked in zip(found.languages, measured.languages, strict=True):
        assert (each.base, each.value, each.low) == (masked.base, masked.value, masked.low)
    assert found.exported.parameters[0] > found.exported.parameters[1]
    assert session.export_dir is not None
    small = load_pruned(session.export_dir)
    assert len(find_heads(small).players()) == 10
    assert len(find_heads(session.setting.model).players()) == 12, "the model itself is not changed"
    session.export(["encoder.1.0"])  # replaces its own export
    assert len(find_heads(load_pruned(session.export_dir)).players()) == 11


def test_what_cannot_be_exported(session: Session, tmp_path: Path) -> None:
    with pytest.raises(HeadwiseError, match="no head is off"):
        session.export([])
    with pytest.raises(HeadwiseError, match="--export-dir"):
        make_session(tmp_path, export_dir=None).export(["encoder.0.0"])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(HeadwiseError, match="not empty"):
        make_session(tmp_path, export_dir=tmp_path / "full")


def test_a_session_may_start_with_a_mask(tmp_path: Path) -> None:
    heads = make_world().heads
    assert make_session(tmp_path, start=HeadMask.without(heads, ["encoder.1.1"])).mask.off == ("encoder.1.1",)
    with pytest.raises(HeadwiseError, match="about ffn"):
        make_session(tmp_path, start=HeadMask.full(heads, "ffn"))
    with pytest.raises(HeadwiseError, match=r"no player 'encoder\.7\.7'"):
        make_session(tmp_path).measure(["encoder.7.7"])
