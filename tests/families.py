"""Tiny models of every family, built from configs, with random weights that make every head matter."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import transformers as tf
from torch import Tensor, nn

from headwise import HeadMap, HeadMask

ON_V4 = tf.__version__.startswith("4.")

_BERT = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}
_SEQ2SEQ = {
    "vocab_size": 50,
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
_T5 = {
    "vocab_size": 50,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 3,
    "num_heads": 4,
    "decoder_start_token_id": 0,
    "pad_token_id": 0,
    "eos_token_id": 1,
}
_LLAMA = {
    **_BERT,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@dataclass(frozen=True)
class Case:
    """A tiny model: its class, its config and what it is fed."""

    name: str
    model_class: str
    config_class: str
    config: dict[str, Any]
    seq2seq: bool = False

    def build(self, seed: int = 0, **changes: Any) -> Any:
        """The model with weights large enough for heads to differ."""
        torch.manual_seed(seed)
        config = getattr(tf, self.config_class)(**{**self.config, **changes})
        model = getattr(tf, self.model_class)(config)
        enliven(model)
        return model.eval()


def enliven(model: nn.Module) -> None:
    """Widen the small initial weights, and the biases that start at zero, so that nothing is close to nothing."""
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.requires_grad:  # Marian's sinusoids are fixed and made anew on loading
                continue
            noise = 0.15 if parameter.dim() > 1 else 0.05
            parameter.add_(torch.randn_like(parameter) * noise)


CASES = [
    Case("bert", "BertModel", "BertConfig", _BERT),
    Case("bert-causal", "BertLMHeadModel", "BertConfig", {**_BERT, "is_decoder": True}),
    Case("roberta", "RobertaForSequenceClassification", "RobertaConfig", {**_BERT, "num_labels": 3}),
    Case("xlm-roberta", "XLMRobertaForTokenClassification", "XLMRobertaConfig", {**_BERT, "num_labels": 5}),
    Case("xlm-roberta-xl", "XLMRobertaXLModel", "XLMRobertaXLConfig", _BERT),
    Case("camembert", "CamembertModel", "CamembertConfig", _BERT),
    Case("electra", "ElectraForTokenClassification", "ElectraConfig", {**_BERT, "embedding_size": 16}),
    Case(
        "deberta-v2",
        "DebertaV2ForSequenceClassification",
        "DebertaV2Config",
        {**_BERT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    ),
    Case(
        "deberta-v2-shared",
        "DebertaV2Model",
        "DebertaV2Config",
        {**_BERT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True},
    ),
    Case(
        "distilbert",
        "DistilBertForTokenClassification",
        "DistilBertConfig",
        {"vocab_size": 50, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 40},
    ),
    Case(
        "modernbert",
        "ModernBertForSequenceClassification",
        "ModernBertConfig",
        {
            **_BERT,
            "local_attention": 6,
            "global_attn_every_n_layers": 2,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "cls_token_id": 1,
            "sep_token_id": 2,
        },
    ),
    Case("t5", "T5ForConditionalGeneration", "T5Config", _T5, seq2seq=True),
    Case("t5-encoder", "T5EncoderModel", "T5Config", _T5),
    Case("mt5", "MT5ForConditionalGeneration", "MT5Config", _T5, seq2seq=True),
    Case("marian", "MarianMTModel", "MarianConfig", _SEQ2SEQ, seq2seq=True),
    Case("m2m_100", "M2M100ForConditionalGeneration", "M2M100Config", _SEQ2SEQ, seq2seq=True),
    Case("bart", "BartForConditionalGeneration", "BartConfig", _SEQ2SEQ, seq2seq=True),
    Case("mbart", "MBartForConditionalGeneration", "MBartConfig", _SEQ2SEQ, seq2seq=True),
    Case("llama", "LlamaForCausalLM", "LlamaConfig", _LLAMA),
    Case("llama-classification", "LlamaForSequenceClassification", "LlamaConfig", _LLAMA),
    Case("mistral", "MistralForCausalLM", "MistralConfig", _LLAMA),
    Case("qwen2", "Qwen2ForCausalLM", "Qwen2Config", _LLAMA),
    Case("qwen3", "Qwen3ForCausalLM", "Qwen3Config", _LLAMA),
    Case("gemma", "GemmaForCausalLM", "GemmaConfig", _LLAMA),
    Case("gemma2", "Gemma2ForCausalLM", "Gemma2Config", {**_LLAMA, "query_pre_attn_scalar": 8, "sliding_window": 4}),
    Case(
        "gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", {**_LLAMA, "query_pre_attn_scalar": 8, "sliding_window": 4}
    ),
    Case(
        "gpt2",
        "GPT2LMHeadModel",
        "GPT2Config",
        {
            "vocab_size": 50,
            "n_embd": 32,
            "n_layer": 3,
            "n_head": 4,
            "n_positions": 40,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    Case(
        "bloom",
        "BloomForCausalLM",
        "BloomConfig",
        {
            "vocab_size": 50,
            "hidden_size": 32,
            "n_layer": 3,
            "n_head": 4,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
]
BY_NAME = {case.name: case for case in CASES}


def inputs_for(case: Case, rows: int = 3, tokens: int = 7, seed: int = 1) -> dict[str, Tensor]:
    """A padded batch: the last row is two tokens shorter."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, 50, (rows, tokens), generator=generator)
    attention = torch.ones_like(ids)
    attention[-1, -2:] = 0
    pad = case.config.get("pad_token_id", 0 if "roberta" not in case.name else 1)
    ids[-1, -2:] = pad
    inputs = {"input_ids": ids, "attention_mask": attention}
    if case.seq2seq:
        inputs["decoder_input_ids"] = torch.randint(4, 50, (rows, 5), generator=generator)
    return inputs


def outputs_of(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    """What a model says: its logits, or its last hidden states; padded places are left out."""
    output = model(**inputs)
    found: Tensor = output.logits if hasattr(output, "logits") else output.last_hidden_state
    if found.dim() == 3 and found.shape[1] == inputs["attention_mask"].shape[1]:
        found = found * inputs["attention_mask"][..., None]
    return found


def row_of(inputs: dict[str, Tensor], row: int) -> dict[str, Tensor]:
    """One row of a batch as a batch of its own."""
    return {name: tensor[row : row + 1] for name, tensor in inputs.items()}


def uneven_mask(heads: HeadMap, empty_layer: int = 0) -> HeadMask:
    """A different number of heads in every site; one layer of every stack emptied."""
    off: list[str] = []
    for index, site in enumerate(heads.sites):
        gone = site.heads if site.layer == empty_layer else site.heads[:: 2 + index % 2]
        off.extend(f"{site.name}.{head}" for head in gone)
    return HeadMask.without(heads, off)


def random_mask(heads: HeadMap, seed: int, share: float = 0.5) -> HeadMask:
    """Every head on with the same chance."""
    keep = torch.rand(len(heads.players()), generator=torch.Generator().manual_seed(seed)) < share
    return HeadMask.without(heads, [name for name, on in zip(heads.players(), keep.tolist(), strict=True) if not on])


def difference(left: Tensor, right: Tensor) -> float:
    """The largest difference between two tensors of the same shape, relative to values larger than 1."""
    assert left.shape == right.shape
    return float((left - right).abs().max() / right.abs().max().clamp(min=1))


@contextmanager
def no_trace_left(model: nn.Module) -> Iterator[None]:
    """Fails if the body leaves a hook or an attribute behind on any module."""
    before = _traces(model)
    try:
        yield
    finally:
        assert _traces(model) == before


def _traces(model: nn.Module) -> list[tuple[str, tuple[str, ...], int, int]]:
    return [
        (name, tuple(sorted(vars(module))), len(module._forward_pre_hooks), len(module._forward_hooks))
        for name, module in model.named_modules()
    ]
