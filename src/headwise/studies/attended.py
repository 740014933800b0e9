"""Attention of a run's model on sentences of its data, for the report."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headwise.attention.view import AttentionView, attention
from headwise.data.examples import (
    ChoiceExample,
    Example,
    PairExample,
    PromptExample,
    Sentence,
    TextExample,
    TranslationExample,
)
from headwise.errors import FieldError, require_whole
from headwise.report.attended import MOST_CHARACTERS, notable_heads
from headwise.runs.config import read_config, text_of
from headwise.scores import HeadScores
from headwise.scoring import Setting, load_setting

#: Sentences of at most this number of tokens are preferred: longer ones are hard to look at and need much space.
TOKENS = 24
#: They are chosen among the first examples of each language.
EXAMPLES = 100


def run_attention(
    folder: str | os.PathLike[str], scores: Mapping[str, HeadScores], sentences: int = 1
) -> AttentionView:
    """The attention of the heads with the lowest and highest values, on a few sentences of each language.

    The sentences are the first ones with at most `TOKENS` tokens, or the shortest ones, of the split that heads were
    scored on; in aligned data they are the same in all languages. As many heads are chosen as fit a report.

    Args:
        folder: The run folder.
        scores: Its scores, by language.
        sentences: Number of sentences per language.

    Returns:
        A view whose sentences have the codes of their languages as labels.

    Raises:
        HeadwiseError: The scores are not of heads, or the model is not the one that was scored.
    """
    require_whole("attention", sentences)
    if any(each.kind != "heads" for each in scores.values()):
        raise FieldError("attention", "only heads have attention: leave it out, or score heads")
    setting = _setting(Path(folder), scores)
    split = str(read_config(Path(folder)).get("split", "dev"))
    found = setting.examples(list(scores), split, EXAMPLES).examples
    chosen = _choose(found, {code: [_tokens(setting, each) for each in found[code]] for code in found}, sentences)
    size = sum(_tokens(setting, each) ** 2 for each in (one for examples in chosen.values() for one in examples))
    heads = notable_heads(scores, max(int(MOST_CHARACTERS * 3 / 4 / size), 1))
    labels = [code for code, examples in chosen.items() for _ in examples]
    texts = [text_of_example(each) for examples in chosen.values() for each in examples]
    seq2seq = any(site.stack == "cross" for site in setting.heads.sites)
    targets = [target for _, target in texts] if seq2seq and all(target for _, target in texts) else None
    view = attention(setting.model, setting.tokenizer, [text for text, _ in texts], heads, targets=targets)
    labelled = (dataclasses.replace(each, label=label) for each, label in zip(view.sentences, labels, strict=True))
    return dataclasses.replace(view, sentences=tuple(labelled))


def _setting(folder: Path, scores: Mapping[str, HeadScores]) -> Setting:
    """The model and data of a run; raises an error if the weights are not those that were scored."""
    config = read_config(folder)
    model, task, data = (text_of(config, key, folder) for key in ("model", "task", "data"))
    setting = load_setting(
        model, task, data, str(config.get("piece", "text")), dtype=str(config.get("dtype", "float32"))
    )
    scored = {each.provenance.fingerprint for each in scores.values()} - {None}
    if scored and setting.heads.fingerprint not in scored:
        raise FieldError(
            "attention",
            f"{folder}: {model} has other weights than the model whose heads were scored, for example because it was "
            "tuned in between: leave it out, or make the report of a run of headwise score",
        )
    return setting


def text_of_example(example: Example) -> tuple[str, str]:
    """The text that a model reads of an example, and for translations the target, else an empty text.

    Words are separated by spaces. Of a pair of texts, the first one is read; of several choices, the right one.

    Example:
        >>> text_of_example(ChoiceExample("1", "Two and two are", ("four.", "five."), 0))
        ('Two and two are four.', '')
    """
    match example:
        case TranslationExample():
            return example.source, example.target
        case PairExample():
            return example.first, ""
        case ChoiceExample():
            return "".join(example.pairs[example.answer]), ""
        case PromptExample():
            return "".join(example.pair), ""
        case TextExample() | Sentence():
            return example.text, ""
    return " ".join(example.words), ""


def _tokens(setting: Setting, example: Example) -> int:
    """The number of tokens of the longer text of an example."""
    return max(_length(setting.tokenizer, text) for text in text_of_example(example))


def _length(tokenizer: Any, text: str) -> int:
    return len(tokenizer(text, verbose=False)["input_ids"]) if text else 0


def _choose(
    examples: Mapping[str, Sequence[Example]], tokens: Mapping[str, Sequence[int]], count: int
) -> dict[str, list[Example]]:
    """The first short examples of each language, or the shortest; in aligned data, the same ones in all languages."""
    ids = [[each.id for each in found] for found in examples.values()]
    if all(each == ids[0] for each in ids):
        longest = [max(sizes) for sizes in zip(*tokens.values(), strict=True)]
        tokens = dict.fromkeys(tokens, longest)

    def places(sizes: Sequence[int]) -> list[int]:
        return sorted(range(len(sizes)), key=lambda place: (max(sizes[place], TOKENS), place))[:count]

    return {code: [found[place] for place in places(tokens[code])] for code, found in examples.items()}
