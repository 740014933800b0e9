"""One row of data per model family: where its attention, feed-forward blocks and layers are.

Paths are module names inside the model; `*` is the layer number. They are matched from the right, so the same
row covers a bare encoder and every task model built on it.
"""

from dataclasses import dataclass
from typing import Any, Literal

from headwise.errors import HeadwiseError

Stack = Literal["encoder", "decoder", "cross"]
Layout = Literal["blocks", "interleaved"]
Position = Literal["none", "shared-bias", "alibi"]
#: Names of the number of layers in configs of transformers.
_LAYER_COUNTS = (
    "num_hidden_layers", "num_layers", "num_decoder_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers"
)  # fmt: skip
#: Ten times as many as the deepest language models have; building the layers of a damaged config could take hours.
_MOST_LAYERS = 1000
#: The parts of a model whose values a run can estimate; a `kv` player is all heads that share a key-value head.
PLAYERS = ("heads", "ffn", "layers", "kv")
#: What replaces the output of a player that is off: zero, or its mean output.
BASELINES = ("zero", "mean")


@dataclass(frozen=True)
class Projection:
    """A linear map into the heads that holds `q`, `k` or `v`, or several of them fused.

    Attributes:
        path: Module name relative to the site.
        parts: Which of `q`, `k`, `v` it holds, in order.
        layout: Order of fused parts: `blocks` is all q, all k, all v; `interleaved` is q, k, v head by head.
    """

    path: str
    parts: str
    layout: Layout = "blocks"


@dataclass(frozen=True)
class SiteRow:
    """Where one kind of attention site is.

    Attributes:
        stack: The stack that its heads belong to.
        path: Module name of the site, with `*` for the layer number.
        projections: The maps into the heads, relative to `path`. Those that a model does not have are ignored.
        output: The output projection, relative to `path`.
        attention: The module that computes the attention, relative to `path` (empty: the site itself).
    """

    stack: Stack
    path: str
    projections: tuple[Projection, ...]
    output: str
    attention: str = ""


@dataclass(frozen=True)
class BlockRow:
    """Where the feed-forward blocks or the layers of a stack are.

    Attributes:
        stack: The stack that they belong to.
        path: The module that returns the block's output, with `*` for the layer number.
        output: The last linear layer (or norm) of a feed-forward block, relative to `path` (empty: the module itself).
    """

    stack: Stack
    path: str
    output: str = ""


@dataclass(frozen=True)
class Family:
    """Everything headwise knows about a family of models.

    Attributes:
        name: Display name of the family.
        model_types: The values of `config.model_type` that it covers.
        sites: Its attention sites.
        feed_forward: Modules whose output is what a feed-forward block adds to the residual stream.
        layers: Modules that return a layer's output.
        head_width: Attribute of the attention module that holds the width of a head.
        head_counts: Attributes of the attention module that hold the number of heads, if they exist.
        widths: Attributes that hold heads × width, if they exist.
        position: Kind of position information with one entry per head that is passed to the attention.
        relevance: Whether the rules of `headwise.propagation` cover all its operations, as its tests show.
        projects_positions: Whether the projections into the heads are also applied to embeddings of positions.
        token_trees: Whether sequences with the same beginning can share its tokens in one row: the model takes
            positions and a mask for pairs of tokens.
    """

    name: str
    model_types: tuple[str, ...]
    sites: tuple[SiteRow, ...]
    feed_forward: tuple[BlockRow, ...]
    layers: tuple[BlockRow, ...]
    head_width: str = "head_dim"
    head_counts: tuple[str, ...] = ("num_heads",)
    widths: tuple[str, ...] = ()
    position: Position = "none"
    relevance: bool = False
    projects_positions: bool = False
    token_trees: bool = False


def _qkv(q: str, k: str, v: str) -> tuple[Projection, ...]:
    return Projection(q, "q"), Projection(k, "k"), Projection(v, "v")


def _blocks(path: str, output: str = "") -> tuple[BlockRow, ...]:
    return (BlockRow("encoder", path, output),)


_PROJ = _qkv("q_proj", "k_proj", "v_proj")
_T5 = _qkv("q", "k", "v")
_BERT = _qkv("self.query", "self.key", "self.value")
_DEBERTA = (
    *_qkv("self.query_proj", "self.key_proj", "self.value_proj"),
    Projection("self.pos_query_proj", "q"),
    Projection("self.pos_key_proj", "k"),
)


def _decoder_only(name: str, model_types: tuple[str, ...], feed_forward: str, output: str = "") -> Family:
    """A Llama-like family: separate projections, heads in groups that share keys and values."""
    return Family(
        name=name,
        model_types=model_types,
        sites=(SiteRow("decoder", "layers.*.self_attn", _PROJ, "o_proj"),),
        feed_forward=(BlockRow("decoder", f"layers.*.{feed_forward}", output),),
        layers=(BlockRow("decoder", "layers.*"),),
        relevance=True,
        token_trees=True,
    )


FAMILIES: tuple[Family, ...] = (
    Family(
        name="BERT, RoBERTa, XLM-R",
        model_types=("bert", "roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "electra"),
        sites=(
            SiteRow("encoder", "encoder.layer.*.attention", _BERT, "output.dense", "self"),
            SiteRow("cross", "encoder.layer.*.crossattention", _BERT, "output.dense", "self"),
        ),
        feed_forward=_blocks("encoder.layer.*.output.dense"),
        layers=_blocks("encoder.layer.*"),
        head_width="attention_head_size",
        head_counts=("num_attention_heads",),
        widths=("all_head_size",),
        relevance=True,
    ),
    Family(
        name="DeBERTa v2",
        model_types=("deberta-v2",),
        sites=(SiteRow("encoder", "encoder.layer.*.attention", _DEBERTA, "output.dense", "self"),),
        feed_forward=_blocks("encoder.layer.*.output.dense"),
        layers=_blocks("encoder.layer.*"),
        head_width="attention_head_size",
        head_counts=("num_attention_heads",),
        widths=("all_head_size",),
        projects_positions=True,
    ),
    Family(
        name="DistilBERT",
        model_types=("distilbert",),
        sites=(SiteRow("encoder", "transformer.layer.*.attention", _qkv("q_lin", "k_lin", "v_lin"), "out_lin"),),
        feed_forward=_blocks("transformer.layer.*.ffn", "lin2"),
        layers=_blocks("transformer.layer.*"),
        head_width="attention_head_size",
        head_counts=("n_heads",),
        widths=("dim",),
        relevance=True,
    ),
    Family(
        name="ModernBERT",
        model_types=("modernbert",),
        sites=(SiteRow("encoder", "layers.*.attn", (Projection("Wqkv", "qkv"),), "Wo"),),
        feed_forward=_blocks("layers.*.mlp", "Wo"),
        layers=_blocks("layers.*"),
        widths=("all_head_size",),
    ),
    Family(
        name="T5, mT5",
        model_types=("t5", "mt5"),
        sites=(
            SiteRow("encoder", "encoder.block.*.layer.0.SelfAttention", _T5, "o"),
            SiteRow("decoder", "decoder.block.*.layer.0.SelfAttention", _T5, "o"),
            SiteRow("cross", "decoder.block.*.layer.1.EncDecAttention", _T5, "o"),
        ),
        feed_forward=(
            BlockRow("encoder", "encoder.block.*.layer.1.DenseReluDense", "wo"),
            BlockRow("decoder", "decoder.block.*.layer.2.DenseReluDense", "wo"),
        ),
        layers=(BlockRow("encoder", "encoder.block.*"), BlockRow("decoder", "decoder.block.*")),
        head_width="key_value_proj_dim",
        head_counts=("n_heads",),
        widths=("inner_dim",),
        position="shared-bias",
        relevance=True,
    ),
    Family(
        name="Marian, M2M100, NLLB, BART, mBART",
        model_types=("marian", "m2m_100", "bart", "mbart"),
        sites=(
            SiteRow("encoder", "encoder.layers.*.self_attn", _PROJ, "out_proj"),
            SiteRow("decoder", "decoder.layers.*.self_attn", _PROJ, "out_proj"),
            SiteRow("cross", "decoder.layers.*.encoder_attn", _PROJ, "out_proj"),
        ),
        feed_forward=(BlockRow("encoder", "encoder.layers.*.fc2"), BlockRow("decoder", "decoder.layers.*.fc2")),
        layers=(BlockRow("encoder", "encoder.layers.*"), BlockRow("decoder", "decoder.layers.*")),
        relevance=True,
    ),
    _decoder_only("Llama, Mistral, Qwen, Gemma", ("llama", "mistral", "qwen2", "qwen3", "gemma"), "mlp", "down_proj"),
    # Gemma 2 and 3 normalise a block's output, so what the block adds is the output of that norm.
    _decoder_only("Gemma 2 and 3", ("gemma2", "gemma3_text"), "post_feedforward_layernorm"),
    Family(
        name="GPT-2",
        model_types=("gpt2",),
        sites=(
            SiteRow("decoder", "h.*.attn", (Projection("c_attn", "qkv"),), "c_proj"),
            SiteRow("cross", "h.*.crossattention", (Projection("q_attn", "q"), Projection("c_attn", "kv")), "c_proj"),
        ),
        feed_forward=(BlockRow("decoder", "h.*.mlp", "c_proj"),),
        layers=(BlockRow("decoder", "h.*"),),
        widths=("split_size",),
        relevance=True,
        token_trees=True,
    ),
    Family(
        name="BLOOM",
        model_types=("bloom",),
        sites=(
            SiteRow("decoder", "h.*.self_attention", (Projection("query_key_value", "qkv", "interleaved"),), "dense"),
        ),
        feed_forward=(BlockRow("decoder", "h.*.mlp.dense_4h_to_h"),),
        layers=(BlockRow("decoder", "h.*"),),
        position="alibi",
    ),
)


def known_model_types() -> tuple[str, ...]:
    """Every `config.model_type` with a row.

    Example:
        >>> "xlm-roberta" in known_model_types()
        True
    """
    return tuple(model_type for family in FAMILIES for model_type in family.model_types)


def check_layer_counts(config: Any) -> None:
    """Check that the model of a config can be built in seconds.

    Raises:
        HeadwiseError: The config has too many layers; it is damaged.

    Example:
        >>> from transformers import BertConfig
        >>> check_layer_counts(BertConfig(num_hidden_layers=10**6))
        Traceback (most recent call last):
        headwise.errors.HeadwiseError: 'num_hidden_layers' is 1000000, but models have at most 1000 layers
    """
    for name in _LAYER_COUNTS:
        count = getattr(config, name, None)
        if isinstance(count, int) and count > _MOST_LAYERS:
            raise HeadwiseError(f"{name!r} is {count}, but models have at most {_MOST_LAYERS} layers")
