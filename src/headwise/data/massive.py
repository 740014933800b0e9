"""MASSIVE: voice-assistant commands with intents and slots, one file of JSON lines per locale."""

import re

from headwise.data.examples import TextExample, WordExample
from headwise.data.text import FilePath, read_json_object, read_lines
from headwise.errors import HeadwiseError

#: The locales in which every character is a word, as in the authors' code (alexa/massive, create_hf_dataset.py). Other
#: languages that are written without spaces, such as Thai, have spaces in MASSIVE.
CHARACTER_LOCALES = frozenset({"ja-JP", "zh-CN", "zh-TW"})

_FIELDS = ("id", "locale", "partition", "intent", "utt", "annot_utt")
_PIECE = re.compile(r"\[(?P<slot>[^\[\]:\s]+) : (?P<inside>[^\[\]]+)\]|(?P<outside>[^\[\]]+)")


def read_massive(path: FilePath, partition: str) -> tuple[tuple[TextExample, ...], tuple[WordExample, ...]]:
    r"""Read the intents and slots of one partition of a MASSIVE file, in the same order.

    Slots come from the brackets of `annot_utt`, as IOB2. Words are separated by spaces; in Chinese and Japanese each
    character is a word, as in the authors' code, except for words in ASCII letters, which are kept whole.

    Args:
        path: The file.
        partition: `train`, `dev` or `test`.

    Raises:
        HeadwiseError: A line is not JSON, has a missing field or a faulty bracket; or the partition is not in the file.

    Example:
        >>> import json, tempfile, pathlib
        >>> row = {"id": "1", "locale": "en-US", "partition": "dev", "intent": "alarm_set",
        ...        "utt": "wake me at nine am", "annot_utt": "wake me at [time : nine am]"}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "en-US.jsonl")
        ...     _ = path.write_text(json.dumps(row))
        ...     (intent,), (slots,) = read_massive(path, "dev")
        >>> intent.label, slots.labels
        ('alarm_set', ('O', 'O', 'O', 'B-time', 'I-time'))
    """
    intents, slots = [], []
    partitions = set()
    for number, line in read_lines(path):
        if not line.strip():
            continue
        row = _row(path, number, line)
        partitions.add(row["partition"])
        if row["partition"] == partition:
            words, labels = parse_slots(path, number, row["annot_utt"], row["locale"] in CHARACTER_LOCALES)
            intents.append(TextExample(row["id"], row["utt"], row["intent"]))
            slots.append(WordExample(row["id"], words, labels))
    if not intents:
        raise HeadwiseError(f"{path}: no partition {partition!r}: ask for one of {', '.join(sorted(partitions))}")
    return tuple(intents), tuple(slots)


def _row(path: FilePath, number: int, line: str) -> dict[str, str]:
    row = read_json_object(path, number, line)
    missing = [field for field in _FIELDS if not isinstance(row.get(field), str)]
    if missing:
        raise HeadwiseError(
            f"{path}, line {number}: no text in {', '.join(missing)}; found the fields {', '.join(row)}: MASSIVE has "
            f"{', '.join(_FIELDS)}"
        )
    return {field: row[field] for field in _FIELDS}


def parse_slots(
    path: FilePath, number: int, annotated: str, by_character: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of an utterance with slots in brackets, and their labels in IOB2.

    Args:
        path: The file of the utterance, for error messages.
        number: Its line there.
        annotated: The utterance, such as `wake me at [time : nine am]`.
        by_character: Whether every character is a word, as in MASSIVE for Chinese and Japanese.
    """
    words: list[str] = []
    labels: list[str] = []
    end = 0
    for piece in _PIECE.finditer(annotated):
        if piece.start() != end:
            break
        end = piece.end()
        found = _words(piece["inside"] or piece["outside"], by_character)
        words += found
        if piece["slot"] is None:
            labels += ["O"] * len(found)
        elif found:
            labels += [f"B-{piece['slot']}"] + [f"I-{piece['slot']}"] * (len(found) - 1)
    if end != len(annotated):
        raise HeadwiseError(
            f"{path}, line {number}: faulty bracket in annot_utt at character {end + 1}: write [slot : words]"
        )
    if not words:
        raise HeadwiseError(f"{path}, line {number}: no words in annot_utt: fill it or delete the line")
    return tuple(words), tuple(labels)


def _words(text: str, by_character: bool) -> list[str]:
    if not by_character:
        return text.split()
    return [word for chunk in text.split() for word in ([chunk] if chunk.isascii() else chunk)]
