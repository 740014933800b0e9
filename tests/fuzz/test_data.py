"""Readers of data: no file of any content leads to anything but examples or one sentence."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from headwise.data.columns import CONLL_LABELS, read_atis, read_columns, read_tagged, read_uner
from headwise.data.conllu import read_conllu
from headwise.data.hub import tasks_on_hub
from headwise.data.massive import read_massive
from headwise.data.own import open_own
from headwise.data.tsv import read_aligned, read_parallel, read_paws_x, read_xnli
from tests.data.own_files import as_table, make_rows
from tests.fuzz.mutation import changed_bytes, changed_json, changed_lines
from tests.fuzz.running import fuzz

pytestmark = pytest.mark.slow


class Format(NamedTuple):
    """A format of data.

    Attributes:
        name: The name of the file.
        valid: A file without mistakes.
        read: The reader.
        change: Makes wrong files of a valid one.
    """

    name: str
    valid: bytes
    read: Callable[[Path], Any]
    change: Callable[[bytes], st.SearchStrategy[bytes]] = changed_bytes


def own(task: str | None) -> Callable[[Path], Any]:
    """Opens own data and reads all splits."""

    def read(path: Path) -> Any:
        found, _, _ = open_own(path, task)
        return [found.examples(code, split) for code in found.languages for split in found.splits if split != "all"]

    return read


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


def treebank(path: Path) -> Any:
    return read_conllu(path), read_conllu(path, v1=True)


TREE = b"""# sent_id = s1
# text = Rain fell
1\tRain\train\tNOUN\t_\tNumber=Sing\t2\tnsubj\t2:nsubj\tNER=B-PER|SpaceAfter=No
2-3\tdel\t_\t_\t_\t_\t_\t_\t_\t_
2\tfell\tfall\tVERB\t_\t_\t0\troot\t_\t_
2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_
3\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_

1\tGo\tgo\tVERB\t_\t_\t0\troot\t_\t_
"""
MASSIVE = {"id": "1", "locale": "en-US", "partition": "dev", "intent": "alarm_set", "utt": "wake me at nine am"}
MASSIVE["annot_utt"] = "wake me at [time : nine am]"
CHOICE = {
    "context": "Two and two are",
    "choices": ["four", "five"],
    "answer": 0,
    "language": "de",
    "separator": " ",
    "split": "dev",
}
HUB = b"""dataset: facebook/xnli
revision: main
task: nli
config: "{language}"
languages: [de, en]
splits: {dev: validation, test: test}
columns: {first: premise, second: hypothesis, label: label}
labels: {entailment: entailment, 1: neutral, contradiction: contradiction}
note: a note
"""
FORMATS = {
    "conllu": Format("de.conllu", TREE, treebank),
    "own conllu": Format("de.dev.conllu", TREE, own("pos")),
    "conllu, packed": Format("de.conllu.gz", gzip.compress(TREE), treebank),
    "massive": Format("en-US.jsonl", lines([MASSIVE] * 2), lambda path: read_massive(path, "dev"), changed_lines),
    "xnli": Format(
        "xnli.dev.tsv",
        b"language\tgold_label\tsentence1\tsentence2\tpromptID\tpairID\nde\tneutral\tA b.\tC d.\t1\t2\n",
        read_xnli,
    ),
    "paws-x": Format("dev.tsv", b"id\tsentence1\tsentence2\tlabel\n1\tA b\tB a\t1\n", read_paws_x),
    "parallel": Format("en-de.tsv", b"Tom laughed.\tTom lachte.\nGo.\tGeh.\n", read_parallel),
    "aligned": Format("flores200.de.txt", b"One.\nTwo.\n", lambda path: read_aligned(path, path)),
    "atis": Format("dev_EN.tsv", b"id\tutterance\tslot_labels\tintent\n1\tto rome\tO B-city\tflight\n", read_atis),
    "universal ner": Format("de-ud-dev.iob2", b"# sent_id = a\n1\tRome\tB-LOC\t-\t-\n2\tx\tO\t-\t-\n", read_uner),
    "columns": Format(
        "a.conll", b"Rome\tB-LOC\nfell\tO\n\nTom\tI-PER\n", lambda path: read_columns(path, CONLL_LABELS)
    ),
    "tagged": Format("a.conll", b"-DOCSTART- -X- O O\n\nRome NNP B-NP B-LOC\n", lambda path: list(read_tagged(path))),
    "hub declaration": Format("mine.yaml", HUB, lambda path: tasks_on_hub(str(path))),
    "csv": Format("own.csv", as_table(make_rows("classification"), ",").encode(), own(None)),
    "tsv of words": Format("own.tsv", as_table(make_rows("ner"), "\t").encode(), own("ner")),
    "json": Format("own.json", json.dumps(make_rows("nli")).encode(), own("nli"), changed_json),
    "json of words": Format("own.json", json.dumps(make_rows("slots")).encode(), own("slots"), changed_json),
    "json lines": Format("own.jsonl", lines(make_rows("translation")), own(None), changed_lines),
    "choices": Format("own.jsonl", lines([CHOICE] * 2), own("choice"), changed_lines),
    "choices in csv": Format(
        "own.csv", b'context,choices,answer,language,split\nTwo,"[""a"", ""b""]",1,de,dev\n', own("choice")
    ),
    "text": Format("de.dev.txt", b"one\ntwo\nthree\n", own(None)),
}


@pytest.mark.parametrize("name", FORMATS)
def test_any_file_is_read_or_refused(name: str, tmp_path: Path, fuzz_seconds: float, fuzz_seed: int) -> None:
    each = FORMATS[name]
    path = tmp_path / each.name
    path.write_bytes(each.valid)
    each.read(path)  # without mistakes there is no error, or nothing would be tested

    def read(content: bytes) -> None:
        path.write_bytes(content)
        each.read(path)

    assert fuzz(read, each.change(each.valid), fuzz_seconds, fuzz_seed) > 0
