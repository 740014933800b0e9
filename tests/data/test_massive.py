"""MASSIVE's JSON lines."""

import json
from pathlib import Path

import pytest

from headwise.data.examples import TextExample, WordExample
from headwise.data.massive import read_massive
from tests.data.test_text import complaint


def row(annotated: str = "stop", locale: str = "en-US", partition: str = "test", **fields: object) -> str:
    full = {"id": "1", "locale": locale, "partition": partition, "intent": "mute", "utt": "u", "annot_utt": annotated}
    return json.dumps(full | fields, ensure_ascii=False) + "\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "a.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


def slots(folder: Path, annotated: str, locale: str = "en-US") -> list[tuple[str, str]]:
    _, (example,) = read_massive(write(folder, row(annotated, locale)), "test")
    return list(zip(example.words, example.labels, strict=True))


def test_a_partition_has_intents_and_slots(tmp_path: Path) -> None:
    path = write(tmp_path, row() + "\n" + row("at [time : five am] [time : six]", partition="dev", id="2", utt="text"))
    assert read_massive(path, "dev") == (
        (TextExample("2", "text", "mute"),),
        (WordExample("2", ("at", "five", "am", "six"), ("O", "B-time", "I-time", "B-time")),),
    )


def test_characters_are_words_in_chinese_and_japanese(tmp_path: Path) -> None:
    expected = [("这", "B-date"), ("周", "I-date"), ("olly", "O"), ("叫", "O"), ("a", "B-app"), ("号", "I-app")]
    for locale in ("zh-CN", "zh-TW", "ja-JP"):
        assert slots(tmp_path, "[date : 这周] olly 叫 [app : a号]", locale) == expected
    assert slots(tmp_path, "ปลุก [date : พรุ่งนี้]", "th-TH") == [("ปลุก", "O"), ("พรุ่งนี้", "B-date")]


def test_a_slot_of_ascii_ends_at_its_bracket_in_chinese_too(tmp_path: Path) -> None:
    found = slots(tmp_path, "[app : net flix] 打开", "zh-CN")
    assert found == [("net", "B-app"), ("flix", "I-app"), ("打", "O"), ("开", "O")]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (row() + '{"id": \n', 2, "not JSON"),
        ("[" * 100_000, 1, "JSON too deep"),
        ("[1]\n", 1, "a JSON list, not an object"),
        (row(intent=None), 1, "no text in intent; found the fields id, locale, "),
        (row(partition="dev", annot_utt=3) + row(), 1, "no text in annot_utt; "),
        (row("at [time : five"), 1, "faulty bracket in annot_utt at character 4"),
        (row("at five]"), 1, "faulty bracket in annot_utt at character 8"),
        (row("[time five]"), 1, "faulty bracket in annot_utt at character 1"),
        (row("[time : ]"), 1, "faulty bracket in annot_utt at character 1"),
        (row("[a : [b : c]]"), 1, "faulty bracket in annot_utt at character 1"),
        (row(" "), 1, "no words"),
        (row(partition="train") + row(partition="dev"), None, "no partition 'test': ask for one of dev, train"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path: Path, text: str, line: int | None, said: str) -> None:
    path = write(tmp_path, text)
    assert said in complaint(lambda: read_massive(path, "test"), path, line)
