"""find_heads: every site of every family, on bare, task, wrapped and pruned models."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from headwise import HeadwiseError, find_heads, shrink
from headwise.architectures import FAMILIES, known_model_types
from headwise.errors import UnknownFamilyError
from headwise.heads import hash_weights, weight_shape
from tests.families import BY_NAME, CASES, Case, random_mask


def test_every_site_has_its_modules_and_its_shape(case: Case) -> None:
    model = case.build()
    heads = find_heads(model)
    stacks = ["encoder", "decoder", "cross"] if case.seq2seq else [heads.sites[0].stack]
    assert [site.name for site in heads.sites] == [f"{stack}.{layer}" for stack in stacks for layer in range(3)]
    for site in heads.sites:
        assert site.heads == (0, 1, 2, 3)
        assert weight_shape(model.get_submodule(site.output))[1] == 4 * site.head_width
        assert "".join(projection.parts for projection in site.projections)[:3] == "qkv"


def test_every_model_type_of_the_table_is_tested() -> None:
    tested = {case.build().config.model_type for case in CASES}
    assert tested == set(known_model_types())


def test_no_model_type_has_two_rows() -> None:
    assert len(known_model_types()) == len(set(known_model_types()))
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_blocks_and_layers_are_counted_like_heads(case: Case) -> None:
    heads = find_heads(case.build())
    stacks = ["encoder", "decoder"] if case.seq2seq else [heads.sites[0].stack]
    assert heads.players("ffn") == tuple(f"{stack}.ffn.{layer}" for stack in stacks for layer in range(3))
    assert heads.players("layers") == tuple(f"{stack}.layer.{layer}" for stack in stacks for layer in range(3))


def test_grouped_heads_know_the_key_value_head_they_read() -> None:
    site = find_heads(BY_NAME["llama"].build()).sites[0]
    assert (site.kv_heads, site.kv_of) == (2, (0, 0, 1, 1))


def test_a_causal_bert_counts_as_a_decoder() -> None:
    assert find_heads(BY_NAME["bert-causal"].build()).players()[0] == "decoder.0.0"


def test_cross_attention_of_a_bert_decoder_and_of_gpt2_is_found() -> None:
    for name, cross in (("bert-causal", {"add_cross_attention": True}), ("gpt2", {"add_cross_attention": True})):
        heads = find_heads(BY_NAME[name].build(**cross))
        assert [site.name for site in heads.sites if site.stack == "cross"] == ["cross.0", "cross.1", "cross.2"]


def test_pruned_heads_leave_the_names_of_the_others_alone() -> None:
    model = BY_NAME["xlm-roberta"].build()
    mask = random_mask(find_heads(model), seed=3)
    kept = find_heads(shrink(model, mask)).players()
    assert kept == tuple(name for name in mask.players if name not in mask.off)


def test_the_same_weights_have_the_same_fingerprint_in_any_dtype_and_under_any_head() -> None:
    def tiny_weights() -> Any:
        model = BY_NAME["xlm-roberta"].build()
        with torch.no_grad():
            model.roberta.encoder.layer[0].attention.self.query.weight.mul_(1e-8)  # float16 has nothing that small
        return model

    model = tiny_weights()
    fingerprint = find_heads(model).fingerprint
    assert find_heads(model.roberta).fingerprint == fingerprint
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        assert find_heads(tiny_weights().to(dtype)).fingerprint == fingerprint


def test_other_weights_have_another_fingerprint() -> None:
    model = BY_NAME["xlm-roberta"].build()
    before = find_heads(model).fingerprint
    assert find_heads(BY_NAME["xlm-roberta"].build(seed=1)).fingerprint != before
    with torch.no_grad():
        weight = model.roberta.encoder.layer[2].attention.self.value.weight
        weight.add_(torch.randn_like(weight) * 0.02)
    assert find_heads(model).fingerprint != before


def test_the_same_checkpoint_has_the_same_weights_in_any_type(case: Case, tmp_path: Path) -> None:
    model = case.build()
    model.save_pretrained(tmp_path)
    found = hash_weights(model)
    assert hash_weights(type(model).from_pretrained(tmp_path)) == found
    assert hash_weights(model.bfloat16()) == found
    assert hash_weights(case.build(seed=1)) != found


@pytest.mark.parametrize(
    "part", ["classifier.weight", "classifier.bias", "roberta.embeddings.LayerNorm.weight",
             "roberta.encoder.layer.0.intermediate.dense.weight", "roberta.encoder.layer.1.output.dense.bias"]
)  # fmt: skip
def test_weights_outside_attention_are_told_apart_too(part: str) -> None:
    model = BY_NAME["xlm-roberta"].build()
    fingerprint, weights = find_heads(model).fingerprint, hash_weights(model)
    with torch.no_grad():
        model.get_parameter(part).mul_(1.02)
    assert find_heads(model).fingerprint == fingerprint
    assert hash_weights(model) != weights


def test_a_model_without_weights_has_heads_but_no_fingerprint() -> None:
    with torch.device("meta"):
        model: Any = BY_NAME["bert"].build()
    heads = find_heads(model)
    assert len(heads.players()) == 12
    assert heads.fingerprint is None
    assert hash_weights(model) is None


def test_an_unknown_family_is_named_with_the_way_to_add_it() -> None:
    from transformers import OPTConfig, OPTModel

    model = OPTModel(
        OPTConfig(
            vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, ffn_dim=8, word_embed_proj_dim=8
        )
    )
    with pytest.raises(UnknownFamilyError, match=r"'opt'.*add a row.*headwise/architectures.py"):
        find_heads(model)


def test_something_that_is_no_transformers_model_is_refused() -> None:
    with pytest.raises(HeadwiseError, match=r"Linear is not a transformers model"):
        find_heads(nn.Linear(2, 2))


def test_a_bloom_that_bypasses_its_projection_is_refused() -> None:
    model = BY_NAME["bloom"].build(slow_but_exact=True, pretraining_tp=2)
    with pytest.raises(HeadwiseError, match="slow_but_exact=False"):
        find_heads(model)


def test_unknown_players_are_refused() -> None:
    with pytest.raises(HeadwiseError, match="'heads', 'ffn' or 'layers'"):
        find_heads(BY_NAME["bert"].build()).players("neurons")  # type: ignore[arg-type]
