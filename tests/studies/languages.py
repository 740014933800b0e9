"""A language model with planted heads: one hurts a single language, one repairs another language.

A text is four random words of a language, and the same words again. Layer 1 learns to copy. The heads of layer 0 have
no effect while the model is trained. Then two of them are planted: `HARMFUL` writes noise if the words are of `HURT`,
and `HELPFUL` removes noise that was added to the embeddings of `REPAIRED`.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

LANGUAGES = ("en", "de", "fr", "ru", "sw", "tr")
HURT, REPAIRED = "tr", "sw"
HARMFUL, HELPFUL = "decoder.0.0", "decoder.0.1"
_WORDS, _WIDTH, _HEADS, _POSITIONS = 6, 64, 4, 12
#: Dimensions of the embeddings for languages, for no token, and for positions; the others are for words.
_SHARED = len(LANGUAGES) + 1 + _POSITIONS


def texts(language: str, count: int, seed: int) -> list[str]:
    """Four words, twice; the same items in every language."""
    draws = np.random.default_rng(seed).integers(0, _WORDS, (count, 4))
    return [" ".join(f"{language}{number}" for number in (*row, *row)) for row in draws]


def save_language_world(folder: Path, count: int = 32) -> Path:
    """The folders `model` and `data`, with texts as FLORES has them."""
    tokenizer, model = _tokenizer(), _model()
    _train(model, tokenizer)
    _plant(model, tokenizer)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    (folder / "data" / "mt").mkdir(parents=True)
    for language in LANGUAGES:
        lines = "\n".join(texts(language, count, seed=1))
        (folder / "data" / "mt" / f"flores200.{language}.txt").write_text(f"{lines}\n")
    return folder


def _tokenizer() -> Any:
    words = ["<s>", "<unk>", *(f"{language}{number}" for language in LANGUAGES for number in range(_WORDS))]
    fast = Tokenizer(WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    fast.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=fast, bos_token="<s>", eos_token="<s>", unk_token="<unk>")


def _model() -> Any:
    """A model whose embeddings have dimensions for languages, for positions and for words."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=2 + len(LANGUAGES) * _WORDS, n_embd=_WIDTH, n_layer=2, n_head=_HEADS, n_positions=_POSITIONS,
        n_inner=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
        tie_word_embeddings=False,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    tokens, positions = model.transformer.wte.weight, model.transformer.wpe.weight
    with torch.no_grad():
        tokens[:, :_SHARED], positions[:, :] = 0, 0
        tokens[:, _SHARED:] = torch.nn.functional.normalize(torch.randn(len(tokens), _WIDTH - _SHARED), dim=1)
        for place in range(len(LANGUAGES)):
            tokens[_words_of(LANGUAGES[place]), place] = 1
        positions[range(_POSITIONS), range(_SHARED - _POSITIONS, _SHARED)] = 1
    tokens.requires_grad_(False)
    positions.requires_grad_(False)
    return model


def _words_of(language: str) -> slice:
    """The tokens of a language."""
    first = 2 + LANGUAGES.index(language) * _WORDS
    return slice(first, first + _WORDS)


def _train(model: Any, tokenizer: Any) -> None:
    """Teach copying, with the attention of layer 0 without effect."""
    first = model.transformer.h[0].attn.c_proj
    torch.nn.init.zeros_(first.weight)
    first.requires_grad_(False)
    ids = _ids(tokenizer, [line for language in LANGUAGES for line in texts(language, 200, seed=2)])
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=5e-3)
    generator = torch.Generator().manual_seed(0)
    model.train()
    for _ in range(150):
        batch = ids[torch.randint(len(ids), (96,), generator=generator)]
        loss = model(batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.requires_grad_(True)
    model.eval()


def _ids(tokenizer: Any, lines: list[str]) -> Tensor:
    """The tokens of texts after the start token, (texts, 9)."""
    return torch.tensor([[0, *row] for row in tokenizer(lines)["input_ids"]])


@torch.no_grad()
def _plant(model: Any, tokenizer: Any) -> None:
    """Plant both heads."""
    generator = torch.Generator().manual_seed(3)
    noise, damage = (torch.randn(_WIDTH, generator=generator) for _ in range(2))
    damage[:_SHARED] = 0
    model.transformer.wte.weight[_words_of(REPAIRED)] += damage
    _write(model, tokenizer, 0, HURT, noise)
    _write(model, tokenizer, 1, REPAIRED, -damage)
    attention = model.transformer.h[0].attn  # every head of layer 0 does a little everywhere, as in a real model
    attention.c_attn.weight += 0.005 * torch.randn(attention.c_attn.weight.shape, generator=generator)
    attention.c_proj.weight += 0.01 * torch.randn(attention.c_proj.weight.shape, generator=generator)


def _write(model: Any, tokenizer: Any, head: int, language: str, vector: Tensor) -> None:
    """Make a head of layer 0 attend to each token itself, and write a vector if it is a word of a language."""
    attention, norm = model.transformer.h[0].attn, model.transformer.h[0].ln_1
    ids = _ids(tokenizer, texts(language, 40, seed=4))
    places = torch.arange(ids.shape[1])
    read = norm(model.transformer.wte(ids) + model.transformer.wpe(places))[:, 1:]
    size, own, nothing = _WIDTH // _HEADS, LANGUAGES.index(language), len(LANGUAGES)
    weight, starts = attention.c_attn.weight, [part * _WIDTH + head * size for part in range(3)]
    for start in starts:  # queries, keys and values are side by side
        weight[:, start : start + size] = 0
        attention.c_attn.bias[start : start + size] = 0
    for start in starts[:2]:
        for place in range(_POSITIONS):
            weight[_SHARED - _POSITIONS + place, start + place], weight[nothing, start + place] = 5, -5
    # The norm moves all dimensions alike, so the difference from a dimension of no token is 0 for other languages.
    scale = 1 / float((read[..., own] - read[..., nothing]).mean())
    weight[own, starts[2]], weight[nothing, starts[2]] = scale, -scale
    attention.c_proj.weight[head * size : (head + 1) * size] = 0
    attention.c_proj.weight[head * size] = vector
