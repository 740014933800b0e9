"""Every file of the data folder is read, and counts are those of its README."""

import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from headwise.data.columns import IL_NER_LABELS, TURKISH_WIKI_LABELS, UNER_LABELS, read_columns
from headwise.data.conllu import read_conllu
from headwise.data.examples import PairExample, TranslationExample, WordExample
from headwise.data.folders import default_folder, open_folder
from headwise.data.massive import CHARACTER_LOCALES, read_massive
from headwise.data.text import read_lines
from headwise.data.tsv import NLI_LABELS, read_aligned, read_pairs, read_parallel, read_xnli

FOLDER = default_folder()
ROOT = FOLDER or Path()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(FOLDER is None, reason="no data folder: set HEADWISE_DATA"),
]
README = (ROOT / "README.md").read_text(encoding="utf-8") if FOLDER and (FOLDER / "README.md").exists() else ""
#: The tables' rows: file, then the cells, of which the last ones are counts.
TABLE = {
    cells[0]: cells[1:]
    for line in README.splitlines()
    if len(cells := [cell.strip() for cell in line.strip("|").split("|")]) > 1 and cells[0].endswith(".gz")
}
TREEBANKS = [name for name in TABLE if ".conllu" in name]
ENTITY_FILES = [name for name in TABLE if name.startswith("ner/")]
PROSE = " ".join(README.split())


def stated(pattern: str) -> list[int]:
    """The numbers that the README states in this phrase."""
    match = re.search(pattern, PROSE)
    assert match, f"the README does not say {pattern!r}"
    return [int(number.replace(",", "")) for number in match.groups()]


def files(folder: str, pattern: str = "*.gz") -> list[Path]:
    return sorted((ROOT / folder).glob(pattern))


def test_the_readme_names_every_file_that_these_tests_read() -> None:
    assert set(TREEBANKS) == {f"{path.parent.name}/{path.name}" for path in files("ud") + files("ud-nc")}
    assert set(ENTITY_FILES) == {str(path.relative_to(ROOT)) for path in (ROOT / "ner").rglob("*.gz")}
    others = {path.parent.name for path in ROOT.rglob("*.gz")} - {"il-ner", "turkish-wiki-ner"}
    assert others == {"ud", "ud-nc", "ner", "massive", "xnli", "mnli", "mt"}


@pytest.mark.parametrize("name", TREEBANKS)
def test_treebanks(name: str) -> None:
    sentences = read_conllu(ROOT / name, v1=name.startswith("ud-nc/zh-"))
    *_, count, words = TABLE[name]
    assert len(sentences) == int(count)
    assert sum(len(sentence.words) for sentence in sentences) == int(words)
    assert len({sentence.id for sentence in sentences}) == len(sentences)
    # An independent reading of the words and tags: lines whose first column is a plain number.
    rows = [line.split("\t") for _, line in read_lines(ROOT / name) if re.match(r"\d+\t", line)]
    assert [word for sentence in sentences for word in sentence.words] == [row[1] for row in rows]
    assert [tag.replace("CCONJ", "CONJ") for sentence in sentences for tag in sentence.upos] == [
        row[3].replace("CCONJ", "CONJ") for row in rows
    ]
    assert [head for sentence in sentences for head in sentence.heads] == [int(row[6]) for row in rows]
    assert all(sentence.heads.count(0) == 1 for sentence in sentences)


@pytest.mark.parametrize("name", ENTITY_FILES)
def test_entities(name: str, caplog: pytest.LogCaptureFixture) -> None:
    labels, columns = UNER_LABELS, {"word": 1, "tag": 2, "width": 5}
    if "/il-ner/" in name or "/turkish-wiki-ner/" in name:
        labels, columns = (IL_NER_LABELS if "/il-ner/" in name else TURKISH_WIKI_LABELS), {}
    examples = read_columns(ROOT / name, {label: label for label in labels}, **columns)
    *_, count, tokens, entities = TABLE[name]
    assert len(examples) == int(count)
    assert sum(len(example.words) for example in examples) == int(tokens)
    found = Counter(label[2:] for example in examples for label in example.labels if label.startswith("B-"))
    listed = {label: int(number) for label, number in re.findall(r"(\w+) (\d+)", entities)}
    # The README counts B- only and names the one I- without a B-, which is read as an entity of its own.
    mended = {"ner/hr_set-ud-dev.iob2.gz": Counter(PER=1)}.get(name, Counter())
    assert {label: found[label] - mended[label] for label in listed} == listed
    assert entities.endswith("…") or set(found) == set(listed)
    assert ("continue nothing" in caplog.text) == bool(mended)
    mapped = read_columns(ROOT / name, labels, **columns)
    assert {label[2:] for example in mapped for label in example.labels} <= {"", "PER", "ORG", "LOC"}


@pytest.mark.parametrize("path", files("massive"), ids=lambda path: path.name)
def test_massive(path: Path) -> None:
    total, *sizes, intent_types, slot_types = stated(
        r"([\d,]+) rows = train ([\d,]+) \+ dev ([\d,]+) \+ test ([\d,]+); (\d+) intents, 18 scenarios, (\d+) slots"
    )
    read = [read_massive(path, partition) for partition in ("train", "dev", "test")]
    assert [len(intents) for intents, _ in read] == [len(slots) for _, slots in read] == sizes
    assert sum(sizes) == total
    assert len({example.label for intents, _ in read for example in intents}) == intent_types
    found = {label[2:] for _, slots in read for example in slots for label in example.labels} - {""}
    assert len(found) == slot_types
    unspaced = path.name.split(".")[0] in CHARACTER_LOCALES
    for intents, slots in read:
        for intent, example in zip(intents, slots, strict=True):
            text = "".join(example.words) if unspaced else " ".join(example.words)
            assert text == (intent.text.replace(" ", "") if unspaced else intent.text)
    brackets = sum(line.count(" : ") for _, line in read_lines(path))
    assert sum(label[:2] == "B-" for _, slots in read for example in slots for label in example.labels) == brackets


def test_xnli() -> None:
    (path,) = files("xnli")
    languages, each = stated(r"(\d+) languages x (2,490)")
    found = read_xnli(path)
    assert len(found) == languages
    assert [len(examples) for examples in found.values()] == [each] * languages
    assert len({tuple(example.id for example in examples) for examples in found.values()}) == 1
    for examples in found.values():
        assert list(Counter(example.label for example in examples).values()) == [each // 3] * 3


@pytest.mark.parametrize("split", ["train", "dev"])
def test_mnli(split: str) -> None:
    examples = read_pairs(
        ROOT / f"mnli/mnli.{split}.tsv.gz", "sentence1", "sentence2", "gold_label", "pairID", NLI_LABELS
    )
    counts = Counter(example.label for example in examples).most_common()
    assert [len(examples), *(count for _, count in counts)] == stated(
        rf"{split} ([\d,]+) \(" + ", ".join(rf"{label} ([\d,]+)" for label, _ in counts) + r"\)"
    )


def test_translations() -> None:
    pairs = files("mt", "*.tsv.gz")
    assert [len(read_parallel(path)) for path in pairs] == [
        *(count for path in pairs for count in stated(rf"{path.name.split('.')[0]} ([\d,]+)[;.]"))
    ]
    (lines,) = stated(r"([\d,]+) lines each, line-aligned")
    flores = files("mt", "flores200.*.gz")
    assert len(flores) == 10
    assert {len(read_aligned(ROOT / "mt/flores200.en.txt.gz", path)) for path in flores} == {lines}


def test_halves_are_the_same_items_in_every_language() -> None:
    tags, names = open_folder(ROOT, "pos"), open_folder(ROOT, "ner")
    pud = [match[1] for name in TREEBANKS if (match := re.match(r"ud/(\w+)_pud-", name))]
    assert len(pud) == 17
    dev = {tuple(example.id for example in tags.examples(language, "dev")) for language in pud}
    dev |= {
        tuple(example.id for example in names.examples(language, "dev")) for language in ("de", "en", "pt", "ru", "zh")
    }
    assert [len(each) for each in dev] == [500]


def test_universal_ner_is_aligned_with_the_treebanks() -> None:
    tags, names = open_folder(ROOT, "pos"), open_folder(ROOT, "ner")
    for language in ("de", "en", "pt", "ru", "zh"):
        pairs = list(zip(tags.examples(language, "all"), names.examples(language, "all"), strict=True))
        same = 0
        for tagged, named in pairs:
            assert isinstance(tagged, WordExample)
            assert isinstance(named, WordExample)
            assert tagged.id == named.id
            same += tagged.words == named.words
        assert same >= 996  # a handful of sentences were segmented anew since


def test_no_premise_and_no_sentence_is_on_both_sides() -> None:
    data = open_folder(ROOT, "nli")
    assert len(data.languages) == 17
    for language in data.languages:
        premises = [
            {example.first for example in data.examples(language, split) if isinstance(example, PairExample)}
            for split in ("dev", "test")
        ]
        assert not premises[0] & premises[1]
    pairs = open_folder(ROOT, "translation")
    for language in ("en-de_tatoeba", "en-ru_tatoeba"):
        splits = [
            [example for example in pairs.examples(language, split) if isinstance(example, TranslationExample)]
            for split in ("train", "dev", "test")
        ]
        for one, two in combinations(splits, 2):
            assert not {example.source for example in one} & {example.source for example in two}
            assert not {example.target for example in one} & {example.target for example in two}
