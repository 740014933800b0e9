"""LanguageMasks: one model, a mask for each row's language."""

from pathlib import Path

import pytest
import torch

from headwise import HeadMask, HeadwiseError, LanguageMasks, find_heads, gated
from headwise.errors import MaskMismatchError
from tests.families import BY_NAME, difference, inputs_for, no_trace_left, outputs_of, random_mask, row_of

CASE = BY_NAME["xlm-roberta"]


@pytest.fixture
def masks() -> LanguageMasks:
    model = CASE.build()
    heads = find_heads(model)
    return LanguageMasks(model, {"sw": random_mask(heads, 1), "zh": random_mask(heads, 2), "tr": HeadMask.full(heads)})


@torch.no_grad()
def test_each_row_runs_under_the_mask_of_its_language(masks: LanguageMasks) -> None:
    inputs = inputs_for(CASE)
    with no_trace_left(masks.model), masks.use(["zh", "tr", "sw"]):
        together = outputs_of(masks.model, inputs)
    for row, language in enumerate(["zh", "tr", "sw"]):
        with gated(masks.model, masks.masks[language]):
            assert difference(together[row : row + 1], outputs_of(masks.model, row_of(inputs, row))) < 1e-5


@torch.no_grad()
def test_one_language_serves_the_whole_batch(masks: LanguageMasks) -> None:
    inputs = inputs_for(CASE)
    with masks.use("sw"):
        by_language = outputs_of(masks.model, inputs)
    with gated(masks.model, masks.masks["sw"]):
        assert torch.equal(by_language, outputs_of(masks.model, inputs))


def test_an_unknown_language_is_an_error_unless_there_is_a_default(masks: LanguageMasks) -> None:
    with (
        pytest.raises(HeadwiseError, match=r"no mask for the language 'de' \(known: sw, zh, tr\)"),
        masks.use(["sw", "de"]),
    ):
        pass
    with_default = LanguageMasks(masks.model, masks.masks, default=masks.masks["sw"])
    inputs = inputs_for(CASE)
    with torch.no_grad(), with_default.use(["de", "tr", "zh"]):
        found = outputs_of(masks.model, inputs)
    with torch.no_grad(), masks.use(["sw", "tr", "zh"]):
        assert torch.equal(outputs_of(masks.model, inputs), found)


@pytest.mark.parametrize("default", [False, True])
def test_all_masks_fit_in_one_small_file(masks: LanguageMasks, default: bool, tmp_path: Path) -> None:
    saved = LanguageMasks(masks.model, masks.masks, masks.masks["zh"] if default else None)
    saved.save(tmp_path / "masks.json")
    loaded = LanguageMasks.load(tmp_path / "masks.json", masks.model)
    assert {language: mask.off for language, mask in loaded.masks.items()} == {
        language: mask.off for language, mask in masks.masks.items()
    }
    assert [mask.language for mask in loaded.masks.values()] == ["sw", "zh", "tr"]
    assert (loaded.default.off if loaded.default else None) == (masks.masks["zh"].off if default else None)
    assert (tmp_path / "masks.json").stat().st_size < 1000


def test_masks_of_another_model_are_refused(masks: LanguageMasks, tmp_path: Path) -> None:
    masks.save(tmp_path / "masks.json")
    with pytest.raises(MaskMismatchError):
        LanguageMasks.load(tmp_path / "masks.json", CASE.build(seed=1))
    with pytest.raises(MaskMismatchError):
        LanguageMasks(BY_NAME["llama"].build(), masks.masks)


def test_masks_of_layers_are_refused() -> None:
    model = CASE.build()
    with pytest.raises(HeadwiseError, match="masks of heads, not of layers"):
        LanguageMasks(model, {"sw": HeadMask.full(find_heads(model), kind="layers")})


def test_a_file_without_languages_is_named(masks: LanguageMasks, tmp_path: Path) -> None:
    path = tmp_path / "masks.json"
    masks.save(path)
    path.write_text(path.read_text().replace('"languages"', '"tongues"'))
    with pytest.raises(HeadwiseError, match=r"masks\.json: 'languages' must be an object"):
        LanguageMasks.load(path, masks.model)


def test_no_masks_at_all_is_an_unknown_language_like_any_other() -> None:
    with pytest.raises(HeadwiseError, match="no mask for the language 'sw'"), LanguageMasks(CASE.build(), {}).use("sw"):
        pass


def test_masks_that_are_added_later_do_not_slip_in(masks: LanguageMasks) -> None:
    mine = dict(masks.masks)
    bound = LanguageMasks(masks.model, mine)
    mine["de"] = mine["sw"]
    with pytest.raises(HeadwiseError, match="no mask for the language 'de'"), bound.use("de"):
        pass
