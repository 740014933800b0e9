"""Train a small translation model from scratch: Marian's architecture, on the Tatoeba pairs of the data folder.

`python -m recipes.translation` trains for about 25 minutes on two cores or 40 minutes on one, measures BLEU and chrF on
test pairs, and writes a checkpoint for plain transformers: `AutoModelForSeq2SeqLM.from_pretrained(...).generate(...)`.
If the cores are shared with other programs, use `--threads 1`, because two threads would mostly wait for each other.
"""

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import Unigram
from torch import Tensor, nn
from transformers import (
    GenerationConfig,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
    get_linear_schedule_with_warmup,
)

from headwise.data.examples import Example, TranslationExample
from headwise.data.folders import default_folder, open_folder
from headwise.files import new_folder, write_json
from headwise.tasks.likelihood import mean_log_likelihood
from headwise.tasks.translation import EncodedPair, TranslationEvaluation, TranslationTask, evaluate_translation
from headwise.tuning.loop import epoch_batches

END, UNKNOWN, PAD = "</s>", "<unk>", "<pad>"
TASK = TranslationTask(max_length=128)


@dataclass(frozen=True)
class Settings:
    """Settings of the training.

    Attributes:
        epochs: Number of epochs.
        vocabulary: Size of the vocabulary, which both languages share.
        batch_tokens: Maximum number of padded tokens per step, on the longer side.
        learning_rate: Peak learning rate of AdamW; it falls linearly to 0.
        warmup: Number of steps in which the learning rate rises.
        smoothing: Label smoothing.
        dropout: Dropout of the model.
        bfloat16: Compute in bfloat16 where that is safe (autocast).
        seed: Seed of all random draws.
    """

    epochs: int = 16
    vocabulary: int = 4000
    batch_tokens: int = 512
    learning_rate: float = 1e-3
    warmup: int = 500
    smoothing: float = 0.1
    dropout: float = 0.2
    bfloat16: bool = False
    seed: int = 0


def main() -> None:
    """Train, evaluate and save the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--language", default="en-de_tatoeba", help="language pair of the data folder")
    parser.add_argument("--output", type=Path, default=Path("runs/translation-en-de"), help="output folder")
    parser.add_argument("--epochs", type=int, default=Settings.epochs)
    parser.add_argument("--vocabulary", type=int, default=Settings.vocabulary)
    parser.add_argument("--dropout", type=float, default=Settings.dropout)
    parser.add_argument("--learning-rate", type=float, default=Settings.learning_rate)
    parser.add_argument("--bfloat16", action="store_true", help="compute in bfloat16 where that is safe")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--threads", type=int, help="number of threads of torch (default: chosen by torch)")
    parser.add_argument("--quick", action="store_true", help="a test run of about a minute on few pairs")
    options = vars(parser.parse_args())
    language, output, quick, threads = (options.pop(name) for name in ("language", "output", "quick", "threads"))
    if threads:
        torch.set_num_threads(threads)
    settings = Settings(**options)
    if quick:
        settings = replace(settings, epochs=2, vocabulary=2000, warmup=20)
    train, dev, test = (
        open_pairs(language, split)[: limit if quick else None]
        for split, limit in (("train", 2000), ("dev", 50), ("test", 50))
    )
    tokenizer = train_tokenizer(train, settings.vocabulary)
    model = build_model(tokenizer, settings)
    steps = fit(model, tokenizer, train, dev, settings)
    results = {beams: evaluate_translation(model, replace(TASK, beams=beams), test, tokenizer) for beams in (1, 4)}
    figures = summarise(results, len(train), len(test), steps, settings)
    save(model, tokenizer, output, language, figures)
    for pair, written in list(zip(test, results[4].translations, strict=True))[:5]:
        print(f"{pair.source}\n  {written}\n  (reference: {pair.target})")
    print(json.dumps(figures, ensure_ascii=False))


def open_pairs(language: str, split: str) -> list[TranslationExample]:
    """The pairs of one split of the data folder."""
    folder = default_folder()
    if folder is None:
        raise SystemExit("no data folder: set HEADWISE_DATA")
    examples: Sequence[Example] = open_folder(folder, "translation").examples(language, split)
    return [example for example in examples if isinstance(example, TranslationExample)]


def train_tokenizer(pairs: Sequence[TranslationExample], vocabulary: int) -> Any:
    """A SentencePiece-like Unigram vocabulary of both languages."""
    pieces = Tokenizer(Unigram())
    pieces.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " ")])
    pieces.pre_tokenizer = pre_tokenizers.Metaspace()
    pieces.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=vocabulary, special_tokens=[END, UNKNOWN, PAD], unk_token=UNKNOWN, show_progress=False
    )
    pieces.train_from_iterator((text for pair in pairs for text in (pair.source, pair.target)), trainer)
    pieces.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", special_tokens=[(END, pieces.token_to_id(END))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=pieces,
        eos_token=END,
        unk_token=UNKNOWN,
        pad_token=PAD,
        model_max_length=TASK.max_length,
        model_input_names=["input_ids", "attention_mask"],
    )


def build_model(tokenizer: Any, settings: Settings) -> Any:
    """A Marian model of 3 + 3 layers with 8 heads each; encoder, decoder and output share the embeddings."""
    torch.manual_seed(settings.seed)
    width, layers, heads = 256, 3, 8
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    config = MarianConfig(
        vocab_size=len(tokenizer),
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=2 * width,
        decoder_ffn_dim=2 * width,
        max_position_embeddings=TASK.max_length,
        activation_function="relu",
        dropout=settings.dropout,
        scale_embedding=True,
        init_std=width**-0.5,  # gives inputs of unit variance with scaled embeddings
        pad_token_id=pad,
        eos_token_id=end,
        bos_token_id=None,
        decoder_start_token_id=pad,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config)
    model.generation_config = GenerationConfig(
        max_length=TASK.max_length, num_beams=4, pad_token_id=pad, eos_token_id=end, decoder_start_token_id=pad
    )
    return model


def fit(model: Any, tokenizer: Any, train: Sequence[Example], dev: Sequence[Example], settings: Settings) -> int:
    """Train the model and restore the weights of the epoch with the highest likelihood of the dev references."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    encoded, _ = TASK.encode(train, tokenizer)
    lengths = [pair.length for pair in encoded]
    tokens, seed = settings.batch_tokens, settings.seed
    epochs = [list(epoch_batches(lengths, tokens, seed, epoch)) for epoch in range(settings.epochs)]
    total = sum(len(batches) for batches in epochs)
    schedule = get_linear_schedule_with_warmup(optimizer, settings.warmup, total)
    start, step = time.monotonic(), 0
    best, weights = -math.inf, {}
    for batches in epochs:
        model.train()
        for index in batches:
            loss = train_step(model, encoded, index, tokenizer.pad_token_id, settings)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            step += 1
            if step % 100 == 0:
                left = (time.monotonic() - start) / 60 * (total / step - 1)
                print(f"step {step} of {total}, loss {float(loss):.3f}, {left:.1f} minutes left", flush=True)
        value = mean_log_likelihood(model, TASK, dev, tokenizer)
        print(f"step {step}, dev: {value:.3f} per token", flush=True)
        if value > best:
            best, weights = value, {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(weights)
    return step


def train_step(model: Any, encoded: Sequence[EncodedPair], index: list[int], pad_id: int, settings: Settings) -> Tensor:
    """The gradients of one batch, and its loss."""
    batch = TASK.make_batch(model, encoded, index, pad_id)
    device = next(model.parameters()).device
    with torch.autocast(device.type, torch.bfloat16, enabled=settings.bfloat16):
        logits = model(**batch.inputs(device), use_cache=False).logits
    chosen = TASK.select(logits, batch).float()  # (labels, vocabulary)
    loss = nn.functional.cross_entropy(chosen, batch.gold.to(device), label_smoothing=settings.smoothing)
    loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
    return loss.detach()


def summarise(
    results: dict[int, TranslationEvaluation], train: int, test: int, steps: int, settings: Settings
) -> dict[str, Any]:
    """The rounded results, with the settings and the numbers of examples."""
    found: dict[str, Any] = {"train": train, "test": test, "steps": steps, "settings": vars(settings)}
    for beams, result in results.items():
        for name, each in result.results.items():
            found[f"{name}, {beams} beams" if beams > 1 else f"{name}, greedy"] = {
                "value": round(each.value, 2),
                "95%": [round(each.low, 2), round(each.high, 2)],
            }
    found["cut"] = results[1].cut
    found["signatures"] = results[1].signatures
    return found


def save(model: Any, tokenizer: Any, folder: Path, language: str, figures: dict[str, Any]) -> None:
    """Write model, tokenizer, results and a model card; the folder is created atomically."""
    rows = "\n".join(
        f"| {name} | {each['value']:.1f} | {each['95%'][0]:.1f}–{each['95%'][1]:.1f} |"
        for name, each in figures.items()
        if isinstance(each, dict) and "value" in each
    )
    with new_folder(folder, overwrite=True) as draft:
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)
        # Transformers 5 writes a class name that 4.57 does not know; both versions know this one.
        config = json.loads((draft / "tokenizer_config.json").read_text(encoding="utf-8"))
        write_json(draft / "tokenizer_config.json", config | {"tokenizer_class": "PreTrainedTokenizerFast"})
        write_json(draft / "figures.json", figures)
        (draft / "README.md").write_text(
            f"""# A small translation model, {language}

Marian, 3 + 3 layers, 8 heads, trained from scratch by `recipes/translation.py` in {figures["settings"]["epochs"]} \
epochs on {figures["train"]:,} Tatoeba pairs (CC BY 2.0 FR). For experiments with heads, not for practical use. On
{figures["test"]:,} test pairs:

| metric | value | 95% interval |
|---|---|---|
{rows}
""",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
