"""shrink and fold: the same outputs as gating, from fewer or from zeroed weights."""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from headwise import HeadMask, HeadwiseError, find_heads, fold, gated, shrink
from headwise.architectures import Projection
from headwise.errors import MaskMismatchError
from tests.families import BY_NAME, Case, difference, inputs_for, outputs_of, random_mask, uneven_mask


@pytest.mark.parametrize("empty_layer", [0, 1])
@torch.no_grad()
def test_shrunk_folded_and_gated_models_agree(case: Case, empty_layer: int) -> None:
    model, inputs = case.build(), inputs_for(case)
    mask = uneven_mask(find_heads(model), empty_layer)
    with gated(model, mask):
        expected = outputs_of(model, inputs)
    assert difference(outputs_of(shrink(model, mask), inputs), expected) < 1e-5
    assert difference(outputs_of(fold(model, mask), inputs), expected) < 1e-5


@torch.no_grad()
def test_a_shrunk_model_can_be_gated_and_shrunk_again(case: Case) -> None:
    model, inputs = case.build(), inputs_for(case)
    once = shrink(model, random_mask(find_heads(model), seed=1, share=0.7))
    mask = random_mask(find_heads(once), seed=2)
    with gated(once, mask):
        expected = outputs_of(once, inputs)
    twice = shrink(once, mask)
    assert difference(outputs_of(twice, inputs), expected) < 1e-5
    assert find_heads(twice).players() == tuple(name for name in mask.players if name not in mask.off)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["bert", "marian", "llama", "qwen3", "gpt2", "modernbert"])
@torch.no_grad()
def test_every_attention_implementation_works_on_shrunk_models(name: str, implementation: str) -> None:
    case = BY_NAME[name]
    model, inputs = case.build(attn_implementation=implementation), inputs_for(case)
    assert model.config._attn_implementation == implementation
    mask = uneven_mask(find_heads(model), empty_layer=1)
    with gated(model, mask):
        expected = outputs_of(model, inputs)
    assert difference(outputs_of(shrink(model, mask), inputs), expected) < 1e-5


@torch.no_grad()
def test_the_implementation_of_an_unevenly_grouped_model_can_still_be_changed() -> None:
    case = BY_NAME["llama"]
    model, inputs = case.build(attn_implementation="sdpa"), inputs_for(case)
    mask = HeadMask.without(find_heads(model), ["decoder.0.0"])
    shrunk = shrink(model, mask)
    expected = outputs_of(shrunk, inputs)
    shrunk.set_attn_implementation("eager")
    with_weights = shrunk(**inputs, output_attentions=True)
    assert difference(with_weights.logits * inputs["attention_mask"][..., None], expected) < 1e-5
    assert with_weights.attentions[0].shape[1] == 3


def test_parameters_go_by_whole_heads(case: Case) -> None:
    model = case.build()
    heads = find_heads(model)
    site = heads.sites[-1]
    shrunk = shrink(model, HeadMask.without(heads, [site.players[0], site.players[1]]))
    before, after = parameters_of(model, heads.sites[-1].projections), parameters_of(shrunk, site.projections)
    assert after == before // 2
    assert shrunk.get_submodule(site.output).weight.numel() == model.get_submodule(site.output).weight.numel() // 2


def parameters_of(model: nn.Module, projections: tuple[Projection, ...]) -> int:
    modules = [model.get_submodule(projection.path) for projection in projections]
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def test_key_value_heads_that_nobody_reads_go_too() -> None:
    model = BY_NAME["llama"].build()
    heads = find_heads(model)
    shrunk = shrink(model, HeadMask.without(heads, ["decoder.0.0", "decoder.0.1", "decoder.1.0"]))
    first, second, third = find_heads(shrunk).sites
    assert (first.kv_heads, first.kv_of) == (1, (0, 0))
    assert (second.kv_heads, second.kv_of) == (2, (0, 1, 1))
    assert (third.kv_heads, third.kv_of) == (2, (0, 0, 1, 1))
    assert shrunk.model.layers[0].self_attn.k_proj.weight.shape == (8, 32)


def test_an_emptied_site_has_no_weights_left() -> None:
    for name in ("bert", "llama", "gpt2", "t5"):
        model = BY_NAME[name].build()
        heads = find_heads(model)
        shrunk = shrink(model, HeadMask.without(heads, heads.sites[0].players))
        attention = shrunk.get_submodule(heads.sites[0].attention)
        assert sum(p.numel() for n, p in attention.named_parameters() if n.endswith("weight") and "norm" not in n) == 0


def test_the_model_itself_stays_whole_unless_told_otherwise() -> None:
    model = BY_NAME["bert"].build()
    mask = uneven_mask(find_heads(model))
    size = sum(p.numel() for p in model.parameters())
    shrink(model, mask)
    fold(model, mask)
    assert sum(p.numel() for p in model.parameters()) == size
    assert find_heads(model).fingerprint == mask.fingerprint
    assert shrink(model, mask, inplace=True) is model
    assert sum(p.numel() for p in model.parameters()) < size


def test_a_shrunk_model_can_be_tuned() -> None:
    for name in ("xlm-roberta", "mt5", "llama"):
        case = BY_NAME[name]
        model = case.build()
        heads = find_heads(model)
        shrunk = shrink(model, HeadMask.without(heads, [site.players[site.layer] for site in heads.sites]))
        outputs_of(shrunk, inputs_for(case)).pow(2).mean().backward()
        assert [name for name, parameter in shrunk.named_parameters() if parameter.grad is None] == []


def test_a_mask_that_removes_nothing_changes_nothing() -> None:
    for name in ("bert", "t5"):
        model = BY_NAME[name].build()
        shrunk = shrink(model, HeadMask.full(find_heads(model)))
        assert shrunk.state_dict().keys() == model.state_dict().keys()


@torch.no_grad()
def test_attention_weights_keep_the_numbers_of_their_layers(case: Case) -> None:
    model, inputs = case.build(attn_implementation="eager"), inputs_for(case)
    output = shrink(model, uneven_mask(find_heads(model), empty_layer=1))(**inputs, output_attentions=True)
    weights = output.encoder_attentions if case.seq2seq else output.attentions
    sites = find_heads(model).sites[:3]
    mask = uneven_mask(find_heads(model), empty_layer=1)
    kept = [sum(player not in mask.off for player in site.players) for site in sites]
    assert kept[1] == 0
    assert [layer.shape[1] for layer in weights] == kept


def test_cutting_one_model_leaves_others_of_the_same_config_alone() -> None:
    first = BY_NAME["bert"].build()
    second = type(first)(first.config)
    shrink(first, uneven_mask(find_heads(first)), inplace=True)
    assert find_heads(second).players()[0] == "encoder.0.0"
    assert len(find_heads(second).players()) == 12


@pytest.mark.parametrize("name", ["bert", "t5", "bloom", "llama"])
@torch.no_grad()
def test_shrunk_models_can_be_copied_and_sent_to_other_processes(name: str) -> None:
    case = BY_NAME[name]
    model, inputs = case.build(), inputs_for(case)
    once = shrink(model, random_mask(find_heads(model), 1, share=0.7))
    twice = shrink(once, uneven_mask(find_heads(once), empty_layer=0))
    for copied in (copy.deepcopy(twice), pickle.loads(pickle.dumps(twice))):  # noqa: S301
        assert torch.equal(outputs_of(copied, inputs), outputs_of(twice, inputs))


def test_a_gated_model_is_not_copied_with_its_gates() -> None:
    model = BY_NAME["bert"].build()
    mask = uneven_mask(find_heads(model))
    for act in (shrink, fold):
        with gated(model, torch.ones(12)), pytest.raises(HeadwiseError, match="already gated"):
            act(model, mask)


def test_a_cut_model_cannot_be_folded_into_a_full_shape() -> None:
    model = BY_NAME["bert"].build()
    shrunk = shrink(model, uneven_mask(find_heads(model)))
    with pytest.raises(HeadwiseError, match="already cut out of this model"):
        fold(shrunk, HeadMask.full(find_heads(shrunk)))


@torch.no_grad()
def test_folded_models_load_in_plain_transformers(tmp_path: object) -> None:
    case = BY_NAME["xlm-roberta"]
    model, inputs = case.build(), inputs_for(case)
    mask = uneven_mask(find_heads(model))
    fold(model, mask).save_pretrained(tmp_path)
    with gated(model, mask):
        expected = outputs_of(model, inputs)
    assert difference(outputs_of(type(model).from_pretrained(tmp_path).eval(), inputs), expected) < 1e-5


def test_a_mask_of_another_model_is_refused() -> None:
    bert, llama = BY_NAME["bert"].build(), BY_NAME["llama"].build()
    mask = HeadMask.full(find_heads(bert))
    for act in (shrink, fold):
        with pytest.raises(MaskMismatchError, match=r"encoder\.0\.0.*decoder\.0\.0"):
            act(llama, mask)


def test_a_mask_of_layers_cannot_be_cut() -> None:
    model = BY_NAME["bert"].build()
    with pytest.raises(HeadwiseError, match="only masks of heads"):
        shrink(model, HeadMask.full(find_heads(model), kind="layers"))


def test_quantised_weights_are_refused() -> None:
    model = BY_NAME["bert"].build()
    mask = uneven_mask(find_heads(model))
    dense = model.encoder.layer[0].attention.self.query
    dense.weight = torch.nn.Parameter(dense.weight.to(torch.int8), requires_grad=False)
    with pytest.raises(HeadwiseError, match="unquantised"):
        shrink(model, mask.moved_to(find_heads(model)))


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["bert", "distilbert", "mt5", "marian", "llama", "qwen3", "gpt2", "bloom", "modernbert"]),
    shape=st.sampled_from([(1, 2), (2, 4), (3, 4)]),
    kv=st.sampled_from([1, 2]),
    rows=st.integers(1, 3),
    tokens=st.integers(3, 9),
    data=st.data(),
)
@torch.no_grad()
def test_any_mask_on_any_shape(
    name: str, shape: tuple[int, int], kv: int, rows: int, tokens: int, data: st.DataObject
) -> None:
    case = BY_NAME[name]
    layers, heads_per_layer = shape
    model, inputs = case.build(**_resized(case, layers, heads_per_layer, kv)), inputs_for(case, rows, tokens)
    heads = find_heads(model)
    on = data.draw(st.lists(st.booleans(), min_size=len(heads.players()), max_size=len(heads.players())))
    mask = HeadMask.without(heads, [player for player, keep in zip(heads.players(), on, strict=True) if not keep])
    with gated(model, mask):
        expected = outputs_of(model, inputs)
    assert difference(outputs_of(shrink(model, mask), inputs), expected) < 1e-5
    assert difference(outputs_of(fold(model, mask), inputs), expected) < 1e-5


def _resized(case: Case, layers: int, heads: int, kv: int) -> dict[str, int]:
    sizes = {
        "num_hidden_layers": layers,
        "n_layers": layers,
        "n_layer": layers,
        "num_layers": layers,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "num_decoder_layers": layers,
        "num_attention_heads": heads,
        "n_heads": heads,
        "n_head": heads,
        "num_heads": heads,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "num_key_value_heads": kv,
    }
    return {key: value for key, value in sizes.items() if key in case.config}
