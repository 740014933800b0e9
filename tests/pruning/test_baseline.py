"""shrink and fold under mean ablation: the means of removed heads go into the bias, exactly."""

from pathlib import Path

import pytest
import torch

from headwise import HeadMask, HeadwiseError, find_heads, fold, gated, load_pruned, save_pruned, shrink
from tests.families import BY_NAME, Case, difference, inputs_for, outputs_of, random_mask, uneven_mask
from tests.means import means_of

#: Their output projections have no bias that plain transformers could load.
WITHOUT_BIAS = {"t5", "t5-encoder", "mt5", "mistral", "qwen2"}


@pytest.mark.parametrize("empty_layer", [0, 1])
@torch.no_grad()
def test_gated_shrunk_and_folded_models_agree(case: Case, empty_layer: int, tmp_path: Path) -> None:
    model, inputs = case.build(), inputs_for(case)
    mask, means = uneven_mask(find_heads(model), empty_layer), means_of(case, model)
    with gated(model, mask, baseline=means):
        expected = outputs_of(model, inputs)
    assert difference(outputs_of(shrink(model, mask), inputs), expected) > 1e-3
    shrunk = shrink(model, mask, baseline=means)
    assert difference(outputs_of(shrunk, inputs), expected) < 1e-5
    save_pruned(shrunk, tmp_path / "shrunk")
    assert difference(outputs_of(load_pruned(tmp_path / "shrunk"), inputs), expected) < 1e-5
    if case.name in WITHOUT_BIAS:
        with pytest.raises(HeadwiseError, match=r"have no bias, .* use shrink"):
            fold(model, mask, baseline=means)
        return
    folded = fold(model, mask, baseline=means)
    assert difference(outputs_of(folded, inputs), expected) < 1e-5
    folded.save_pretrained(tmp_path / "folded")
    loaded = type(model).from_pretrained(tmp_path / "folded").eval()
    assert difference(outputs_of(loaded, inputs), expected) < 1e-5


@torch.no_grad()
def test_the_model_and_its_config_stay_as_they_were() -> None:
    model = BY_NAME["llama"].build()
    mask, means = uneven_mask(find_heads(model)), means_of(BY_NAME["llama"], model)
    names = set(model.state_dict())
    folded = fold(model, mask, baseline=means)
    assert folded.config.attention_bias is True
    assert set(folded.state_dict()) > names
    assert set(model.state_dict()) == names
    assert model.config.attention_bias is False


@torch.no_grad()
def test_a_mask_that_removes_nothing_changes_nothing() -> None:
    for name in ("bert", "t5", "llama"):
        model = BY_NAME[name].build()
        means, full = means_of(BY_NAME[name], model), HeadMask.full(find_heads(model))
        for act in (shrink, fold):
            assert act(model, full, baseline=means).state_dict().keys() == model.state_dict().keys()


@torch.no_grad()
def test_a_model_shrunk_to_its_means_can_be_shrunk_again() -> None:
    for name in ("bert", "mt5", "llama"):
        case = BY_NAME[name]
        model, inputs = case.build(), inputs_for(case)
        means, heads = means_of(case, model), find_heads(model)
        first, second = random_mask(heads, 1, share=0.7), random_mask(heads, 2)
        with gated(model, first & second, baseline=means):
            expected = outputs_of(model, inputs)
        once = shrink(model, first, baseline=means)
        kept = means.restricted_to(find_heads(once))
        rest = HeadMask.without(find_heads(once), [name for name in second.off if name in kept.players])
        assert difference(outputs_of(shrink(once, rest, baseline=kept), inputs), expected) < 1e-5


def test_a_model_shrunk_to_its_means_can_be_tuned() -> None:
    case = BY_NAME["mt5"]
    model = case.build()
    shrunk = shrink(model, random_mask(find_heads(model), 1, share=0.7), baseline=means_of(case, model))
    outputs_of(shrunk, inputs_for(case)).pow(2).mean().backward()
    biases = [weight.grad for name, weight in shrunk.named_parameters() if name.endswith(".o.bias")]
    assert biases
    assert all(each is not None for each in biases)


@torch.no_grad()
def test_adapters_take_part_in_the_means() -> None:
    peft = pytest.importorskip("peft")
    case = BY_NAME["bert"]
    config = peft.LoraConfig(r=2, target_modules=["query", "value", "dense"], init_lora_weights=False)
    model, inputs = peft.get_peft_model(case.build(), config).eval(), inputs_for(case)
    mask, means = uneven_mask(find_heads(model), 1), means_of(case, model)
    with gated(model, mask, baseline=means):
        expected = outputs_of(model, inputs)
    for act in (shrink, fold):
        assert difference(outputs_of(act(model, mask, baseline=means), inputs), expected) < 1e-5
