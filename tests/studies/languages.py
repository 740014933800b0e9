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
_WORDS, _WIDTH, _HEADS = 6, 64, 4


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
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=2 + len(LANGUAGES) * _WORDS, n_embd=_WIDTH, n_layer=2, n_head=_HEADS, n_positions=12, n_inner=64,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, tie_word_embeddings=False,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def _train(model: Any, tokenizer: Any) -> None:
    """Teach copying, with the attention of layer 0 without effect."""
    first = model.transformer.h[0].attn.c_proj
    torch.nn.init.zeros_(first.weight)
    first.requires_grad_(False)
    lines = [line for language in LANGUAGES for line in texts(language, 200, seed=2)]
    ids = torch.tensor([[0, *row] for row in tokenizer(lines)["input_ids"]])
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
    first.requires_grad_(True)
    model.eval()


@torch.no_grad()
def _plant(model: Any, tokenizer: Any) -> None:
    """Plant both heads."""
    generator = torch.Generator().manual_seed(3)
    noise, damage = (2.5 * torch.randn(_WIDTH, generator=generator) for _ in range(2))
    places = {code: slice(2 + at * _WORDS, 2 + (at + 1) * _WORDS) for at, code in enumerate(LANGUAGES)}
    model.transformer.wte.weight[places[REPAIRED]] += damage
    _write(model, tokenizer, 0, HURT, noise)
    _write(model, tokenizer, 1, REPAIRED, -damage)


def _write(model: Any, tokenizer: Any, head: int, language: str, vector: Tensor) -> None:
    """Make a head of layer 0 write a vector if the words that it reads are of a language."""
    attention, norm = model.transformer.h[0].attn, model.transformer.h[0].ln_1
    lines = [line for code in LANGUAGES for line in texts(code, 40, seed=4)]
    ids = torch.tensor([[0, *row] for row in tokenizer(lines)["input_ids"]])
    read = norm(model.transformer.wte(ids) + model.transformer.wpe(torch.arange(ids.shape[1]))).reshape(-1, _WIDTH)
    wanted = torch.tensor([[0.0, *(float(word.startswith(language)) for word in line.split())] for line in lines])
    inputs = torch.cat([read, torch.ones(len(read), 1)], dim=1)
    found = torch.linalg.lstsq(inputs, wanted.reshape(-1, 1)).solution[:, 0]  # 1 for words of the language, else 0
    size = _WIDTH // _HEADS
    value = 2 * _WIDTH + head * size  # queries, keys and values are side by side
    attention.c_attn.weight[:, value : value + size] = 0
    attention.c_attn.bias[value : value + size] = 0
    attention.c_attn.weight[:, value], attention.c_attn.bias[value] = found[:-1], found[-1]
    attention.c_proj.weight[head * size : (head + 1) * size] = 0
    attention.c_proj.weight[head * size] = vector
