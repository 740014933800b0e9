"""Sets of the hub, loaded by `datasets` itself from small local copies with the real layout."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from headwise import HeadwiseError
from headwise.data import hub
from headwise.data.columns import CONLL_LABELS, read_columns
from headwise.data.conllu import pos_examples, read_conllu
from headwise.data.examples import Example, PairExample, TextExample, WordExample
from headwise.data.hub import open_hub
from headwise.data.massive import CHARACTER_LOCALES, read_massive
from headwise.data.tsv import read_paws_x, read_xnli

hf: Any = import_module("datasets")  # which has no types
yaml: Any = import_module("yaml")

DECLARED = Path(hub.__file__).with_name("hub_sets")
TEXT, WORDS = hf.Value("string"), hf.List(hf.Value("string"))
ENTITIES = hf.ClassLabel(names=["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"])
XNLI = {"premise": TEXT, "hypothesis": TEXT, "label": hf.ClassLabel(names=["entailment", "neutral", "contradiction"])}
PAWS_X = {"id": hf.Value("int32"), "sentence1": TEXT, "sentence2": TEXT, "label": hf.ClassLabel(names=["0", "1"])}
WIKIANN = {"tokens": WORDS, "ner_tags": hf.List(ENTITIES), "langs": WORDS, "spans": WORDS}
UD = dict.fromkeys(("sent_id", "text"), TEXT) | {"tokens": WORDS, "upos": WORDS, "mwt": [{"id": TEXT}]}
MASSIVE = dict.fromkeys(("id", "locale", "partition", "utt", "annot_utt"), TEXT) | {
    "intent": hf.ClassLabel(names=["alarm_set", "mute"])
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def write(folder: Path, configs: dict[str, Any], features: dict[str, Any], pattern: str = "{}/{}.parquet") -> Path:
    """A copy of a set: configs of splits of rows as parquet files, named in a card as on the hub."""
    card: list[dict[str, Any]] = []
    for config, splits in configs.items():
        files = {split: pattern.format(config, split) for split in splits}
        for split, rows in splits.items():
            (folder / files[split]).parent.mkdir(parents=True, exist_ok=True)
            hf.Dataset.from_list(rows, features=hf.Features(features)).to_parquet(folder / files[split])
        data_files = [{"split": split, "path": path} for split, path in files.items()]
        card.append({"config_name": config, "data_files": data_files})
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': card})}---\n")
    return folder


def declare(folder: Path, base: str, without: str = "", **changed: Any) -> str:
    """A declared set's own YAML file with some fields changed."""
    fields = yaml.safe_load((DECLARED / f"{base}.yaml").read_text(encoding="utf-8")) | changed
    fields.pop(without, None)
    (folder / "own.yaml").write_text(yaml.safe_dump(fields), encoding="utf-8")
    return str(folder / "own.yaml")


def load(path: str, task: str, language: str, split: str = "test") -> tuple[Example, ...]:
    return open_hub(path, task).examples(language, split)


def complaint(path: str, task: str, language: str) -> str:
    """What loading says: one sentence that names the set, config and split, and ends with a way out."""
    with pytest.raises(HeadwiseError) as caught:
        load(path, task, language)
    message = str(caught.value)
    assert message.startswith(f"{yaml.safe_load(Path(path).read_text())['dataset']} (config ")
    assert ": " in message
    assert "\n" not in message
    assert ". " not in message
    return message.partition(")")[2]


def test_declared_sets_open_without_a_network() -> None:
    configs = {"xnli": "sw", "pawsx": "ko", "wikiann": "no", "ud": "en_ewt", "pud": "zh_pud", "massive": "zh-CN"}
    assert {path.name for path in DECLARED.iterdir()} == {f"{name}.yaml" for name in configs}
    for name, config in configs.items():
        found = hub._read_set(DECLARED / f"{name}.yaml")
        assert found.configs[config[:2]] == config
        for task in found.tasks:
            dataset = open_hub(f"hub:{name}", task)
            assert dataset.name == f"hub:{name}"
            assert dataset.splits == (("test",) if name == "pud" else ("train", "dev", "test"))
    assert set(hub._read_set(DECLARED / "massive.yaml").configs.values()) >= CHARACTER_LOCALES


def test_xnli_rows_are_its_alignment(tmp_path: Path) -> None:
    table = "language\tgold_label\tsentence1\tsentence2\tpromptID\tpairID\n"
    table += "en\tneutral\tA man.\tA fool.\t7\t8\nen\tcontradiction\tA man.\tNo man.\t7\t9\n"
    (tmp_path / "xnli.tsv").write_text(table)
    local = read_xnli(tmp_path / "xnli.tsv")["en"]
    rows = [{"premise": pair.first, "hypothesis": pair.second, "label": pair.label} for pair in local]
    copy = write(tmp_path, {"en": {"validation": rows}, "de": {"validation": [*rows, rows[0]]}}, XNLI)
    dataset = open_hub(declare(tmp_path, "xnli", dataset=str(copy)), "nli")
    expected = tuple(PairExample(str(row), x.first, x.second, x.label) for row, x in enumerate(local, 1))
    assert dataset.aligned(["de", "en"], "dev") == {"de": expected, "en": expected}
    assert "machine translations" in dataset.note


def test_rows_without_ids_are_aligned_only_if_the_set_says_so(tmp_path: Path) -> None:
    rows = [{"premise": "a", "hypothesis": "b", "label": 0}]
    copy = write(tmp_path, {"en": {"validation": rows}, "de": {"validation": rows}}, XNLI)
    silent = open_hub(declare(tmp_path, "xnli", "aligned", dataset=str(copy)), "nli")
    with pytest.raises(HeadwiseError, match="share no item"):
        silent.aligned(["de", "en"], "dev")


def test_paws_x_is_as_its_files_are(tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("id\tsentence1\tsentence2\tlabel\n3\ta b\tb a\t0\n5\tc\td\t1\n")
    rows = [{"id": 3, "sentence1": "a b", "sentence2": "b a", "label": 0}]
    rows.append({"id": 5, "sentence1": "c", "sentence2": "d", "label": 1})
    copy = declare(tmp_path, "pawsx", dataset=str(write(tmp_path, {"ko": {"validation": rows}}, PAWS_X)))
    assert load(copy, "classification", "ko", "dev") == read_paws_x(tmp_path / "dev.tsv")


def test_wikiann_is_as_columns_are_with_its_iob2_mended(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tags = [["O", "I-PER", "I-PER"], ["B-LOC"]]
    words = [["see", "Ada", "Byron"], ["Rom"]]
    lines = ["\n".join(map("\t".join, zip(*pair, strict=True))) for pair in zip(words, tags, strict=True)]
    (tmp_path / "x.conll").write_text("\n\n".join(lines) + "\n")
    rest = {"langs": ["no"], "spans": ["LOC: Rom"]}
    rows = [{"tokens": word, "ner_tags": tag} | rest for word, tag in zip(words, tags, strict=True)]
    copy = write(tmp_path, {"no": {"test": rows}}, WIKIANN)
    found = load(declare(tmp_path, "wikiann", dataset=str(copy)), "ner", "no")
    assert found == read_columns(tmp_path / "x.conll", CONLL_LABELS)
    assert found[0] == WordExample("#1", ("see", "Ada", "Byron"), ("O", "B-PER", "I-PER"))
    assert "(config 'no', split 'test'): 1 I- labels" in caplog.text


@pytest.mark.parametrize(("name", "config", "classes"), [("ud", "de_gsd", False), ("pud", "de_pud", True)])
def test_ud_is_as_conllu_is(tmp_path: Path, name: str, config: str, classes: bool) -> None:
    lines = ["# sent_id = n01001011", "# text = Im Haus", "1-2\tIm" + "\t_" * 8]
    forms = [("In", "ADP"), ("dem", "DET"), ("Haus", "NOUN")]
    lines += [f"{i}\t{word}\t_\t{tag}\t_\t_\t{i % 3}\t_\t_\t_" for i, (word, tag) in enumerate(forms, 1)]
    (tmp_path / "de.conllu").write_text("\n".join(lines) + "\n")
    row = {"sent_id": "n01001011", "text": "Im Haus", "mwt": [{"id": "1-2"}]}
    row |= {"tokens": [word for word, _ in forms], "upos": [tag for _, tag in forms]}
    features = UD | ({"upos": hf.List(hf.ClassLabel(names=["X", "NOUN", "ADP", "DET"]))} if classes else {})
    copy = write(tmp_path, {config: {"test": [row]}}, features, "parquet/{}/{}.parquet")
    found = load(declare(tmp_path, name, dataset=str(copy)), "pos", "de")
    assert found == pos_examples(read_conllu(tmp_path / "de.conllu"))


def test_massive_is_as_its_files_are_with_intents_and_slots(tmp_path: Path) -> None:
    row = {"locale": "zh-CN", "partition": "dev", "utt": "这周 olly", "annot_utt": "[date : 这周] olly"}
    rows = [row | {"id": "12", "intent": "mute"}, row | {"id": "7", "intent": "alarm_set"}]
    (tmp_path / "zh-CN.jsonl").write_text("\n".join(map(json.dumps, rows)))
    intents, slots = read_massive(tmp_path / "zh-CN.jsonl", "dev")
    faulty = [rows[0] | {"annot_utt": "[up"}]
    copy = write(tmp_path / "copy", {"zh-CN": {"validation": rows, "test": faulty}}, MASSIVE, "{}/{}/0000.parquet")
    (copy / "README.md").unlink()  # the branch of parquet copies has a folder for each config, and no card
    path = declare(tmp_path, "massive", dataset=str(copy))
    assert load(path, "intents", "zh", "dev") == intents
    assert load(path, "slots", "zh", "dev") == slots
    assert slots[0] == WordExample("12", ("这", "周", "olly"), ("B-date", "I-date", "O"))
    assert complaint(path, "slots", "de").startswith(": no data there (")
    assert complaint(path, "slots", "zh").startswith(", line 1: faulty bracket in annot_utt at character 1: ")


def test_a_set_of_ones_own_maps_numbers_and_may_have_one_config(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text('{"s": "fine", "l": 1}\n{"s": "dull", "l": 0}\n')
    fields = {"dataset": str(tmp_path), "task": "classification", "columns": {"text": "s", "label": "l"}}
    path = declare(tmp_path, "xnli", "config", languages=["en"], labels={0: "bad", 1: "good"}, **fields)
    assert load(path, "classification", "en") == (TextExample("1", "fine", "good"), TextExample("2", "dull", "bad"))
    path = declare(tmp_path, "xnli", "config", languages=["en"], labels="names", **fields)
    assert complaint(path, "classification", "en").startswith(", line 1: unknown label 1: map it in the field 'labels'")


@pytest.mark.parametrize(
    ("without", "changed", "said"),
    [
        ("", {"colour": "red"}, "unknown field, 'colour': use dataset, task, "),
        ("columns", {}, "no field 'columns': see the fields in docs/data.md"),
        ("languages", {}, "no field 'languages': add it, or make 'config' a mapping"),
        ("", {"dataset": 3}, "Expected 'str', got 'int' in 'dataset': see "),
        ("", {"revision": 2.1}, "Expected 'str | null', got 'float' in 'revision': see "),
        ("", {"task": "parsing"}, "unknown task in the field 'task', 'parsing': use pos, ner, "),
        ("", {"task": []}, "the field 'task' is empty: fill it"),
        ("", {"languages": "en"}, "Expected 'array | null', got 'str' in 'languages': see "),
        ("", {"languages": ["da", False]}, "Expected 'str', got 'bool' in 'languages[1]': see "),
        ("", {"config": "plain"}, "the field 'config' is the same for all languages: write {language}"),
        ("", {"config": {"en": "en"}}, "the field 'languages' repeats the mapping 'config': "),
        ("languages", {"config": {"en": 1}}, "Expected 'str', got 'int' in 'config[...]': see "),
        ("", {"splits": ["test"]}, "Expected 'object', got 'array' in 'splits': see "),
        ("", {"splits": {"validation": "dev"}}, "unknown split in the field 'splits', 'validation': use train, dev"),
        ("", {"columns": {}}, "the field 'columns' is empty: fill it"),
        ("", {"columns": {"words": "w"}}, "unknown column in the field 'columns', 'words': use id, first, second"),
        ("", {"columns": {"first": "a"}}, "the field 'columns' has too few columns for the task 'nli': give first, "),
        ("", {"labels": "name"}, "the field 'labels' is 'name': write 'names' or a mapping"),
        ("", {"labels": {True: "a"}}, "Expected 'int | str', got 'bool' in 'key' in 'labels': see "),
        ("", {"languages": ["en", "../evil"]}, "'../evil' is not a language code: "),
        ("languages", {"config": {"/etc/x": "en"}}, "'/etc/x' is not a language code: "),
        ("", {"aligned": "yes"}, "Expected 'bool', got 'str' in 'aligned': see "),
    ],
)
def test_a_faulty_declaration_is_named(tmp_path: Path, without: str, changed: dict[str, Any], said: str) -> None:
    path = declare(tmp_path, "xnli", without, **changed)
    with pytest.raises(HeadwiseError) as caught:
        open_hub(path, "nli")
    assert str(caught.value).startswith(f"{path}: {said}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task: nli\nx: [\n", ", line 2: not YAML: "),
        ("- a\n", ": no fields: "),
        ("", ": the file is empty: "),
        ("[" * 5000, ": not YAML: a date or number is not valid, or the nesting is too deep"),
    ],
)
def test_a_file_that_declares_nothing_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "own.yml").write_text(text)
    with pytest.raises(HeadwiseError) as caught:
        open_hub(str(tmp_path / "own.yml"), "nli")
    assert str(caught.value).startswith(f"{tmp_path / 'own.yml'}{said}")


def test_unknown_names_and_tasks_are_named(tmp_path: Path) -> None:
    with pytest.raises(HeadwiseError, match="no hub set 'glue' is declared: use one of hub:massive, hub:pawsx, "):
        open_hub("hub:glue", "nli")
    with pytest.raises(HeadwiseError, match=r"none\.yaml: no such file: check the path"):
        open_hub(str(tmp_path / "none.yaml"), "nli")
    with pytest.raises(HeadwiseError, match="hub:massive has no task 'pos': it has intents, slots"):
        open_hub("hub:massive", "pos")


def test_packages_are_needed_only_when_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    dataset = open_hub("hub:xnli", "nli")
    with pytest.raises(HeadwiseError, match=r"needs the package 'datasets': pip install 'headwise\[hub\]'"):
        dataset.examples("en", "test")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(HeadwiseError, match=r"needs the package 'yaml': pip install 'headwise\[hub\]'"):
        open_hub("hub:xnli", "nli")


def test_a_hub_out_of_reach_is_named(tmp_path: Path) -> None:
    said = complaint(declare(tmp_path, "xnli"), "nli", "en")  # tests never ask the hub
    assert said.startswith(": the hub cannot be reached (")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Dataset 'x/y' is a gated dataset on the Hub. You must be authenticated to access it.", "the set is gated"),
        ("Dataset 'x/y' doesn't exist on the Hub or cannot be accessed.", "no such set"),
        ("Revision '9' doesn't exist for dataset 'x/y' on the Hub.", "no such revision"),
    ],
)
def test_what_the_hub_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    def refuse(*_: object, **__: object) -> None:  # in the words of datasets/load.py: the hub itself is out of reach
        raise hf.exceptions.DatasetNotFoundError(text)

    monkeypatch.setattr(hf, "load_dataset", refuse)
    assert complaint(declare(tmp_path, "xnli"), "nli", "en").startswith(f": {said} (")


PAIR = {"premise": "a", "hypothesis": "b", "label": 0}
NUMBERED = XNLI | {"label": hf.Value("int64")}


@pytest.mark.parametrize(
    ("row", "features", "changed", "said"),
    [
        (PAIR, XNLI, {"config": "{language}_X"}, ": not a config of the set (BuilderConfig 'en_X' not found, "),
        (PAIR, XNLI, {"config": None, "languages": ["en"]}, ": not a config of the set (Config name is missing"),
        (PAIR, XNLI, {"splits": {"test": "dev"}}, ": no such split (Unknown split"),
        (PAIR, XNLI, {"splits": {"test": "test["}}, ": cannot be loaded ("),
        (PAIR, XNLI, {"dataset": "/nowhere"}, ": no data there ("),
        (PAIR, XNLI, {"columns": {"first": "a", "second": "b", "label": "c"}}, ": no column 'a' for 'columns: first'"),
        (PAIR | {"premise": None}, XNLI, {}, ", line 1: no first in column 'premise': "),
        (PAIR | {"label": None}, XNLI, {}, ", line 1: no label in column 'label': "),
        (PAIR | {"label": -1}, XNLI, {}, ", line 1: unknown label -1: map it to one of entailment, neutral, "),
        (PAIR, XNLI, {"labels": {"neutral": "neutral"}}, ", line 1: unknown label 'entailment': map it"),
        (PAIR, XNLI, {"labels": {"entailment": "yes"}}, ", line 1: unknown label 'entailment': map it"),
        (PAIR, NUMBERED, {"labels": "names"}, ", line 1: unknown label 0: map it"),
    ],
)
def test_what_does_not_fit_the_set_is_named(
    tmp_path: Path, row: dict[str, Any], features: dict[str, Any], changed: dict[str, Any], said: str
) -> None:
    copy = write(tmp_path / "copy", {"en": {"test": [row]}, "de": {"test": [PAIR]}}, features)
    path = declare(tmp_path, "xnli", **{"dataset": str(copy)} | changed)
    assert complaint(path, "nli", "en").startswith(said)


@pytest.mark.parametrize(
    ("words", "tags", "said"),
    [
        (["a", "b"], ["O"], "not one label for each word: "),
        ([], [], "no words in column 'tokens': "),
        (["a"], ["PER"], "label 'PER' is not IOB2: "),
    ],
)
def test_words_that_do_not_fit_are_named(tmp_path: Path, words: list[str], tags: list[str], said: str) -> None:
    copy = write(
        tmp_path, {"en": {"test": [{"tokens": words, "ner_tags": tags}]}}, {"tokens": WORDS, "ner_tags": WORDS}
    )
    path = declare(tmp_path, "wikiann", dataset=str(copy))
    assert complaint(path, "ner", "en").startswith(f", line 1: {said}")


def test_scripts_and_broken_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text('{"a":\n')
    path = declare(tmp_path, "xnli", "config", dataset=str(tmp_path), languages=["en"])
    assert complaint(path, "nli", "en").startswith(": cannot be loaded (JSON parse error")
    (tmp_path / f"{tmp_path.name}.py").touch()
    assert complaint(path, "nli", "en").startswith(": the set is a script")
