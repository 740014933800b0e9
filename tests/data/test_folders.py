"""Folders of published data sets: which languages and splits they have, and what is in them."""

import gzip
import json
from pathlib import Path

import pytest

from headwise import HeadwiseError
from headwise.data.catalog import open_dataset
from headwise.data.examples import Example, PairExample, TextExample, TranslationExample, WordExample
from headwise.data.folders import HALVES_NOTE, default_folder, open_folder
from tests.data.test_text import complaint


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())


def treebank(*ids: str, upos: str = "NOUN") -> str:
    return "".join(f"# sent_id = {id_}\n1\t{id_}\t_\t{upos}\t_\t_\t0\troot\t_\t_\n\n" for id_ in ids)


def entities(*ids: str, word: str = "") -> str:
    return "".join(f"# sent_id = {id_}\n1\t{word or id_}\tB-PER\t-\t-\n\n" for id_ in ids)


def ids(examples: tuple[Example, ...]) -> list[str]:
    return [example.id for example in examples]


def no_split(root: Path, task: str, language: str, split: str) -> str:
    with pytest.raises(HeadwiseError) as caught:
        open_folder(root, task).examples(language, split)
    return str(caught.value)


@pytest.fixture
def ud(tmp_path: Path) -> Path:
    write(tmp_path, "ud/en_ewt-ud-train.conllu.gz", treebank("e1", "e2"))
    write(tmp_path, "ud/en_ewt-ud-dev.conllu", treebank("e3"))
    write(tmp_path, "ud/en_ewt-ud-test.conllu", treebank("e4"))
    for language in ("en", "tr", "zh"):
        write(tmp_path, f"ud/{language}_pud-ud-test.conllu.gz", treebank("p1", "p2", "p3"))
    write(tmp_path, "ud/el_gud-ud-train.conllu", treebank("g1"))
    write(tmp_path, "ud/el_gud-ud-test.conllu", treebank("g2", "g3"))
    write(tmp_path, "ud-nc/zh-ud-train.conllu", treebank("z1", upos="CONJ"))
    write(tmp_path, "ud/README.md", "no data")
    return tmp_path


def test_a_plain_code_is_trained_on_its_own_treebank_and_measured_on_the_aligned_one(ud: Path) -> None:
    data = open_folder(ud, "pos")
    assert data.languages == ("el", "en", "tr", "zh", "en_ewt", "en_pud", "zh_pud", "zh_v1")
    assert data.splits == ("train", "dev", "test", "all")
    assert data.note == HALVES_NOTE
    assert ids(data.examples("en", "train")) == ["e1", "e2"]
    assert {split: ids(data.examples("en", split)) for split in data.splits[1:]} == {
        "dev": ["p1", "p3"],
        "test": ["p2"],
        "all": ["p1", "p2", "p3"],
    }
    assert [ids(data.examples("en_ewt", split)) for split in data.splits] == [
        ["e1", "e2"],
        ["e3"],
        ["e4"],
        ["e3", "e4"],
    ]
    assert ids(data.examples("el", "train") + data.examples("el", "dev") + data.examples("el", "test")) == [
        *("g1", "g2", "g3")
    ]
    assert {language: ids(found) for language, found in data.aligned(["tr", "en", "zh"], "dev").items()} == {
        language: ["p1", "p3"] for language in ("tr", "en", "zh")
    }


def test_version_1_never_stands_in_for_version_2(ud: Path) -> None:
    assert no_split(ud, "pos", "zh", "train") == "zh_pud has no split 'train': ask for one of dev, test, all"
    assert no_split(ud, "pos", "zh_v1", "dev") == "zh_v1 has no split 'dev': ask for one of train"
    (example,) = open_folder(ud, "pos").examples("zh_v1", "train")
    assert isinstance(example, WordExample)
    assert example.labels == ("CCONJ",)


def test_entities_of_all_sources(tmp_path: Path) -> None:
    write(tmp_path, "ner/hr_set-ud-train.iob2.gz", entities("h1"))
    write(tmp_path, "ner/hr_set-ud-dev.iob2", entities("h2"))
    write(tmp_path, "ner/hr_set-ud-test.iob2", entities("h3"))
    write(tmp_path, "ner/il-ner/Hindi-train.txt", "a\tB-NEP\n")
    write(tmp_path, "ner/il-ner/Hindi-dev.txt", "a\tB-NEN\n")
    write(tmp_path, "ner/turkish-wiki-ner/dev.conll", "a\tB-GPE\n")
    data = open_folder(tmp_path, "ner")
    assert data.languages == ("hi", "hr", "tr")
    labels = {
        (language, split): example.labels
        for language, split in (("hi", "train"), ("hi", "dev"), ("hr", "test"), ("tr", "all"))
        for example in data.examples(language, split)
        if isinstance(example, WordExample)
    }
    assert labels == {
        ("hi", "train"): ("B-PER",),
        ("hi", "dev"): ("O",),
        ("hr", "test"): ("B-PER",),
        ("tr", "all"): ("B-LOC",),
    }


def test_entities_of_pud_are_aligned_through_the_treebank(tmp_path: Path) -> None:
    for language in ("en", "zh"):
        write(tmp_path, f"ud/{language}_pud-ud-test.conllu", treebank("w01001004", "w01001009", "n01001011"))
    write(tmp_path, "ner/en_pud-ud-test.iob2", entities("n01001-0001", "w01001-0001", "w01001-0002"))
    batches = "".join(entities(f"batch-{n}", word=w) for n, w in enumerate(("w01001004", "w01001009", "n01001011")))
    write(tmp_path, "ner/zh_pud-ud-test.iob2", batches)
    data = open_folder(tmp_path, "ner")
    assert ids(data.examples("en", "dev")) == ids(data.examples("zh", "dev")) == ["w01001004", "n01001011"]
    assert ids(data.aligned(["zh", "en"], "test")["en"]) == ["w01001009"]
    assert data.splits == ("dev", "test", "all")


def test_massive_locales_are_languages(tmp_path: Path) -> None:
    rows = [
        {"id": split, "locale": "x", "partition": split, "intent": "i", "utt": "u", "annot_utt": "[s : u]"}
        for split in ("test", "train", "dev")
    ]
    for locale in ("zh-CN", "zh-TW", "sw-KE"):
        write(tmp_path, f"massive/{locale}.jsonl.gz", "\n".join(map(json.dumps, rows)))
    intents, slots = open_folder(tmp_path, "intents"), open_folder(tmp_path, "slots")
    assert intents.languages == slots.languages == ("sw", "zh", "zh_cn", "zh_tw")
    assert intents.note == ""
    assert ids(intents.examples("sw", "all")) == ids(slots.examples("zh", "all")) == ["dev", "test"]
    assert [example.labels for example in slots.examples("zh", "train") if isinstance(example, WordExample)] == [
        ("B-s",)
    ]


@pytest.fixture
def nli(tmp_path: Path) -> Path:
    rows = [
        f"{language}\tneutral\t{'same' if language == 'ur' else prompt}\th\t{prompt}\t{3 * prompt + pair}\n"
        for language in ("en", "ur")
        for prompt in (5, 8, 9)
        for pair in (0, 1)
    ]
    write(
        tmp_path,
        "xnli/xnli.dev.tsv.gz",
        "language\tgold_label\tsentence1\tsentence2\tpromptID\tpairID\n" + "".join(rows),
    )
    header = "gold_label\tsentence1\tsentence2\tpairID\n"
    write(tmp_path, "mnli/mnli.train.tsv", header + "neutral\ta\tb\t1\n")
    write(tmp_path, "mnli/mnli.dev.tsv", header + "neutral\ta\tb\t1\nneutral\ta\te\t2\nneutral\tc\td\t3\n")
    return tmp_path


def test_no_premise_is_in_both_halves_and_languages_agree(nli: Path) -> None:
    data = open_folder(nli, "nli")
    assert data.languages == ("en", "ur", "en_mnli", "en_xnli")
    for language in ("en", "ur", "en_xnli"):  # also where a translation makes two premises one
        assert ids(data.examples(language, "dev")) == ["5.15", "5.16", "9.27", "9.28"]
        assert ids(data.examples(language, "test")) == ["8.24", "8.25"]
    assert ids(data.examples("en", "train")) == ["1"]
    assert [ids(data.examples("en_mnli", split)) for split in ("dev", "test", "all")] == [
        ["1", "2"],
        ["3"],
        ["1", "2", "3"],
    ]


def test_both_xnli_files_are_used_as_they_are(nli: Path) -> None:
    write(
        nli,
        "xnli/xnli.test.tsv",
        "language\tgold_label\tsentence1\tsentence2\tpromptID\tpairID\nen\tneutral\tp\th\t7\t19\n",
    )
    data = open_folder(nli, "nli")
    assert [len(data.examples("en", split)) for split in ("dev", "test", "all")] == [6, 1, 7]
    assert isinstance(data.examples("en", "test")[0], PairExample)


def test_translations(tmp_path: Path) -> None:
    pairs = [("a", "x"), ("b", "x"), ("b", "y"), *((f"s{n}", f"t{n}") for n in range(100))]
    write(tmp_path, "mt/en-de.tsv", "".join(f"{source}\t{target}\n" for source, target in pairs))
    for language in ("en", "de", "sw"):
        write(tmp_path, f"mt/flores200.{language}.txt", f"{language}1\n{language}2\n{language}3\n")
    data = open_folder(tmp_path, "translation")
    assert data.languages == (
        "de-en", "de-sw", "en-de", "en-sw", "sw-de", "sw-en", "en-de_flores", "en-de_tatoeba",
    )  # fmt: skip
    assert data.variants == ("de-sw", "sw-de", "en-de_flores", "en-de_tatoeba"), "pairs without English are rare"
    assert data.aligned(["en-sw", "en-de", "sw-de"], "test") == {
        "en-sw": (TranslationExample("2", "en2", "sw2", "en-sw"),),
        "en-de": (TranslationExample("2", "en2", "de2", "en-de"),),
        "sw-de": (TranslationExample("2", "sw2", "de2", "sw-de"),),
    }
    # The first three pairs hang together, so they are one group, and the 101 groups go 0 dev, 1 test, 20 dev, 21 test …
    assert ids(data.examples("en-de_tatoeba", "dev")) == ["#1", "#2", "#3", *(f"#{n}" for n in range(23, 104, 20))]
    assert ids(data.examples("en-de_tatoeba", "test")) == [f"#{n}" for n in range(4, 85, 20)]
    assert data.examples("en-de", "train") == data.examples("en-de_tatoeba", "train")
    assert set(ids(data.examples("en-de", "train") + data.examples("en-de_tatoeba", "all"))) == {
        f"#{number}" for number in range(1, 104)
    }


def test_parallel_files_that_are_too_small_are_refused_and_small_ones_noted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "mt" / "en-de.tsv"
    write(tmp_path, "mt/en-de.tsv", "".join(f"s{n}\tt{n}\n" for n in range(60)))
    said = complaint(lambda: open_folder(tmp_path, "translation").examples("en-de", "test"), path)
    assert said.startswith("its 60 pairs give only 3 for test: add pairs, or give a file with the columns source, ")
    write(tmp_path, "mt/en-de.tsv", "".join(f"s{n}\tt{n}\n" for n in range(200)))
    assert len(open_folder(tmp_path, "translation").examples("en-de", "test")) == 10
    assert f"{path}: only 10 of its 200 pairs are for test" in caplog.text


def test_multiatis_is_a_folder_of_tables(tmp_path: Path) -> None:
    for split, code in (("train", "EN"), ("dev", "EN"), ("test", "EN"), ("test", "TR")):
        rows = f"id\tutterance\tslot_labels\tintent\n7\tto {code}\tO B-city\tflight\n"
        write(tmp_path, f"atis/{split}_{code}.tsv", rows + f"8\t{split}\tO\tcity\n")
    intents, slots = open_dataset(tmp_path, "intents"), open_dataset(tmp_path, "slots")
    assert intents.languages == slots.languages == ("en", "tr")
    assert intents.examples("en", "train") == (TextExample("7", "to EN", "flight"), TextExample("8", "train", "city"))
    assert slots.examples("en", "dev")[0] == WordExample("7", ("to", "EN"), ("O", "B-city"))
    assert ids(slots.aligned(["en", "tr"], "all")["tr"]) == ["7", "8"]


def test_paws_x_is_a_folder_of_folders(tmp_path: Path) -> None:
    table = "id\tsentence1\tsentence2\tlabel\n3\ta b\tb a\t0\n"
    for name in ("en/train", "en/dev_2k", "en/test_2k", "de/translated_train", "de/dev_2k", "de/test_2k"):
        write(tmp_path, f"paws-x/{name}.tsv", table)
    data = open_dataset(tmp_path, "classification")
    assert (data.languages, data.splits) == (("de", "en"), ("train", "dev", "test", "all"))
    assert data.examples("de", "train") == (PairExample("3", "a b", "b a", "0"),)
    assert ids(data.aligned(["en", "de"], "test")["de"]) == ["3"]


def test_texts(tmp_path: Path) -> None:
    for language in ("en", "sw"):
        write(tmp_path, f"mt/flores200.{language}.txt", f"{language}1\n{language}2\n{language}3\n")
    write(tmp_path, "lm/en.train.txt.gz", "a\nb\n")
    write(tmp_path, "lm/de.dev.txt", "c\nd\n")
    data = open_folder(tmp_path, "lm")
    assert data.languages == ("de", "en", "sw", "en_flores", "en_own")
    assert data.aligned(["sw", "en"], "dev") == {
        language: (TextExample("1", f"{language}1"), TextExample("3", f"{language}3")) for language in ("sw", "en")
    }
    assert data.examples("en", "train") == (TextExample("#1", "a"), TextExample("#2", "b"))
    assert ids(data.examples("de", "test")) == ["#2"]
    write(tmp_path, "lm/de.dev.txt", "c\n\nd\n")
    path = tmp_path / "lm" / "de.dev.txt"
    assert "the line is empty" in complaint(lambda: open_folder(tmp_path, "lm").examples("de", "all"), path, 2)


def test_what_is_not_there_is_named(ud: Path) -> None:
    missing = ud / "nowhere"
    assert "no such folder" in complaint(lambda: open_folder(missing, "pos"), missing)
    assert "no files for the task 'slots': put them into massive/" in complaint(lambda: open_folder(ud, "slots"), ud)
    with pytest.raises(HeadwiseError, match="no data for a task 'parsing': choose one of pos, ner, intents, slots"):
        open_folder(ud, "parsing")
    assert "has no language 'xx': it has el, en" in no_split(ud, "pos", "xx", "dev")


def test_the_environment_names_the_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWISE_DATA", str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.setenv("HEADWISE_DATA", str(tmp_path / "x"))
    assert "set HEADWISE_DATA" in complaint(default_folder, tmp_path / "x")
    monkeypatch.delenv("HEADWISE_DATA")
    assert default_folder() is None
