"""The examples of the pages on data and on language models: every file that they show opens for its task."""

import re
from pathlib import Path

import pytest

from headwise.data.catalog import open_and_guess, open_dataset
from headwise.data.hub import open_hub

DOCS = Path(__file__).parents[2] / "docs"
FILES, TEXT_FILES = (
    dict(re.findall(r'```\w+ title="(.+?)"\n(.*?)```', (DOCS / page).read_text(encoding="utf-8"), re.DOTALL))
    for page in ("data.md", "language-models.md")
)
TASKS = {
    **{"reviews.csv": "classification", "pairs.csv": "classification", "entailment.csv": "nli", "tags.jsonl": "pos"},
    **{"drugs.jsonl": "ner", "bookings.jsonl": "slots", "de.test.conll": "ner", "translations.csv": "translation"},
    **{"tr.test.txt": "lm", "sentiment.yaml": "classification", "nli.yaml": "nli", "treebanks.yaml": "pos"},
    **{"entities.yaml": "ner"},
}
TEXT_TASKS = {
    "continuations.sw.jsonl": "continuation",
    "questions.sw.jsonl": "choice",
    "questions.sw.csv": "choice",
    "pairs.en.jsonl": "minimal-pairs",
}


def test_the_page_shows_a_file_for_every_task() -> None:
    assert FILES.keys() == TASKS.keys()
    assert set(TASKS.values()) == {"classification", "nli", "pos", "ner", "slots", "translation", "lm"}


@pytest.mark.parametrize("name", [name for name in TASKS if not name.endswith(".yaml")])
def test_a_documented_file_opens(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")
    data = open_dataset(path, TASKS[name])
    assert all(data.examples(code, split) for code in data.languages for split in data.splits if split != "train")
    assert open_and_guess(path)[1] == TASKS[name].replace("slots", "ner")


@pytest.mark.parametrize("name", [name for name in TASKS if name.endswith(".yaml")])
def test_a_documented_declaration_opens(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")
    assert open_hub(str(path), TASKS[name]).languages == ("de", "tr")


def test_the_page_on_language_models_shows_files_for_its_tasks() -> None:
    assert TEXT_FILES.keys() == TEXT_TASKS.keys()


@pytest.mark.parametrize("name", TEXT_TASKS)
def test_a_documented_file_of_a_language_model_opens(tmp_path: Path, name: str) -> None:
    stem, language, ending = name.split(".")
    path = tmp_path / f"{stem}.{language}.test.{ending}"  # one example is too few to draw splits from
    path.write_text(TEXT_FILES[name], encoding="utf-8")
    data = open_dataset(path, TEXT_TASKS[name])
    assert len(data.examples(language, "test")) == 1
