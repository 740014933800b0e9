"""Tuning a model on a task: from objects in hand (`tune`), or from a plan to a checkpoint (`run_tuning`)."""

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headwise.data.catalog import open_dataset
from headwise.data.dataset import Dataset
from headwise.data.examples import Example
from headwise.data.selection import language_codes
from headwise.draws import Draws
from headwise.errors import HeadwiseError
from headwise.files import read_json
from headwise.gates import gated
from headwise.heads import PRUNED_ATTRIBUTE, find_heads
from headwise.models import choose_device, load_tokenizer
from headwise.outputs import add_to_output, check_target, output_folder
from headwise.pruning import save_pruned
from headwise.soft_masks import AnyMask, load_mask
from headwise.support.progress import Advance
from headwise.tasks.protocol import AnyTask
from headwise.tuning.loop import EpochResult, TuningResult, train_model
from headwise.tuning.plan import TuningPlan, TuningSettings, check_share
from headwise.tuning.prepare import prepare

#: What the folder of a tuned model is called.
TUNED = "tuned model"
#: The plan and the result of `run_tuning`.
_RESULT = "tuning.json"
_FORMAT, _VERSION = "headwise-tuning", 1
#: Examples of the splits `train` and `dev`, of all languages together.
Splits = Mapping[str, Sequence[Example]]


@dataclass(frozen=True)
class TunedModel:
    """A tuned model and what was measured on the way.

    Attributes:
        model: The model, with the weights of its best epoch.
        tokenizer: Its tokenizer.
        task: The task, with the labels of the model.
        result: Loss and dev value of each epoch, and which epoch was kept.
    """

    model: Any
    tokenizer: Any
    task: AnyTask
    result: TuningResult


def tune(
    model: Any,
    tokenizer: Any,
    data: Dataset | Splits,
    task: str | AnyTask | None = None,
    languages: Sequence[str] = ("en",),
    *,
    settings: TuningSettings | None = None,
    mask: AnyMask | None = None,
    share: float = 1.0,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Advance | None = None,
) -> TunedModel:
    """Tune a model on a task and keep the weights of its best epoch on dev.

    A model with a fitting head (a classifier with the labels of the task, or an output layer for translation and `lm`)
    is trained in place. Any other model is left unchanged: a copy of its encoder gets a new classifier. Shrunk models
    stay shrunk.

    Args:
        model: A transformers or PEFT model, or the name of a model.
        tokenizer: The tokenizer of the model; with the name of a model, None loads the tokenizer of that name.
        data: A data set with the splits `train` and `dev`, or a mapping from these names to examples.
        task: Name of the task, or a task; by default the task that the data set was opened for.
        languages: Languages of the data set to train on. Not used with a mapping of examples.
        settings: Settings of the training loop.
        mask: Train under this mask, hard or soft. The saved weights do not contain the mask.
        share: Share of the training examples (of each language) to use. The examples of a smaller share are part of
            those of a larger share with the same seed.
        out: Folder for the tuned model. While the run is not finished its state is kept next to this folder, and the
            same call continues an interrupted run. By default nothing is written.
        overwrite: Replace a tuned model.
        progress: Called with the number of steps done, the number of steps in total and a status text.

    Raises:
        HeadwiseError: Something does not fit together; the message says what.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
        >>> from headwise.data.examples import WordExample
        >>> config = BertConfig(vocab_size=4, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> words = {"[PAD]": 0, "[UNK]": 1, "cat": 2, "sat": 3}
        >>> fast = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
        >>> fast.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=fast, pad_token="[PAD]")
        >>> examples = [WordExample("1", ("cat", "sat"), ("NOUN", "VERB"))]
        >>> tuned = tune(BertModel(config), tokenizer, {"train": examples, "dev": examples}, task="pos")
        >>> type(tuned.model).__name__, len(tuned.result.history)
        ('BertForTokenClassification', 3)
    """
    if task is None and isinstance(data, Dataset):
        task = data.task or None
    if task is None:
        raise HeadwiseError("task: give the name of a task, such as 'pos', or a task")
    settings, name = settings or TuningSettings(), str(model) if isinstance(model, str | os.PathLike) else None
    kept = {"the model": Path(name) if name else None}
    target = None if out is None else check_target(Path(out), kept, TUNED, overwrite)
    train, dev = read_splits(data, languages, share, settings.seed)
    torch.manual_seed(settings.seed)  # of a new classifier: the same when a run is resumed
    prepared, chosen = prepare(model, task, train)
    if tokenizer is None:
        tokenizer = _tokenizer(name)
    state = None if target is None else target.with_name(f".{target.name}.tuning")
    with nullcontext() if mask is None else gated(prepared, mask):
        result = train_model(prepared, chosen, train, dev, tokenizer, settings, state, progress, mask)
    if target is not None and state is not None:
        save_tuned(prepared, tokenizer, target, overwrite)
        shutil.rmtree(state, ignore_errors=True)
    return TunedModel(prepared, tokenizer, chosen, result)


def run_tuning(
    plan: TuningPlan,
    out: str | os.PathLike[str],
    overwrite: bool = False,
    trust_remote_code: bool = False,
    progress: Advance | None = None,
) -> TuningResult:
    """Tune a model as a plan says and save it, or continue a run that was interrupted.

    Args:
        plan: What to do.
        out: Folder for the tuned model: an ordinary checkpoint, or a pruned one if heads were cut out of the model.
        overwrite: Replace a tuned model.
        trust_remote_code: Run code that comes with the model.
        progress: Called with the number of steps done, the number of steps in total and a status text.

    Raises:
        HeadwiseError: Something in the plan does not fit, or the folder cannot be written.
    """
    mask_file = None if plan.mask is None else Path(plan.mask)
    kept = {"the model": Path(plan.model), "the data": Path(plan.data), "the mask": mask_file}
    if not overwrite and (found := _finished(Path(out), plan)) is not None:
        return found
    target = check_target(Path(out), kept, TUNED, overwrite)  # absolute: the current folder may be replaced
    mask = None if mask_file is None else load_mask(mask_file)
    dataset = open_dataset(plan.data, plan.task)
    codes = language_codes(plan.train_languages, dataset, "--train-languages")
    train, dev = read_splits(dataset, codes, plan.share, plan.seed)
    torch.manual_seed(plan.seed)  # of a new classifier: the same when a run is resumed
    model, task = prepare(plan.model, plan.task, train, plan.word_piece, plan.window, trust_remote_code, plan.dtype)
    model.to(choose_device(plan.device))
    if mask is not None and plan.other_weights:
        mask = mask.moved_to(find_heads(model))
    tokenizer = _tokenizer(plan.model, trust_remote_code)
    splits = {"train": train, "dev": dev}
    tuned = tune(
        model,
        tokenizer,
        splits,
        task,
        settings=plan.settings,
        mask=mask,
        out=out,
        overwrite=overwrite,
        progress=progress,
    )
    about = {"plan": asdict(plan), "result": asdict(tuned.result)}
    add_to_output(target, _RESULT, {"format": _FORMAT, "version": _VERSION, **about})
    return tuned.result


def _finished(folder: Path, plan: TuningPlan) -> TuningResult | None:
    """The result of a finished run with the same plan; None if there is none."""
    if not (folder / _RESULT).is_file():
        return None
    data = read_json(folder / _RESULT, _FORMAT, _VERSION)
    if data.get("plan") != asdict(plan):
        return None
    try:
        result = dict(data["result"])
        history = tuple(EpochResult(*each) for each in result["history"])
        return TuningResult(**(result | {"history": history}))
    except (KeyError, TypeError, ValueError):
        raise HeadwiseError(f"{folder / _RESULT}: not complete: tune again with --overwrite") from None


def read_splits(
    data: Dataset | Splits, languages: Sequence[str], share: float = 1.0, seed: int = 0
) -> tuple[list[Example], list[Example]]:
    """The examples to train on and the dev examples, of all languages together.

    Args:
        data: A data set, or examples by the names of the splits.
        languages: Languages of the data set.
        share: Share of the training examples to use, of each language.
        seed: Seed of the order in which a share takes examples.

    Raises:
        HeadwiseError: A split or a language is missing, or the share is out of range.

    Example:
        >>> from headwise.data.examples import TextExample
        >>> examples = [TextExample(str(n), "hello", "greet") for n in range(10)]
        >>> train, dev = read_splits({"train": examples, "dev": examples}, (), share=0.2)
        >>> len(train), len(dev)
        (2, 10)
    """
    check_share(share)
    if isinstance(data, Dataset):
        codes = list(dict.fromkeys([languages] if isinstance(languages, str) else languages))
        train = [_take_share(data.examples(code, "train"), share, seed) for code in codes]
        return list(chain(*train)), list(chain(*(data.examples(code, "dev") for code in codes)))
    if missing := [split for split in ("train", "dev") if not data.get(split)]:
        raise HeadwiseError(f"data: there are no examples under {missing[0]!r}: give examples for 'train' and 'dev'")
    return _take_share(data["train"], share, seed), list(data["dev"])


def save_tuned(model: Any, tokenizer: Any, folder: Path, overwrite: bool = False) -> None:
    """Save an ordinary checkpoint, or a pruned one if heads were cut out of the model."""
    if getattr(model.config, PRUNED_ATTRIBUTE, None):
        save_pruned(model, folder, tokenizer, overwrite=overwrite, kind=TUNED)
        return
    with output_folder(folder, TUNED, overwrite) as draft:
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)


def share_places(count: int, share: float, seed: int) -> list[int]:
    """The numbers of the examples of a share: those of a smaller share are part of those of a larger one.

    Args:
        count: Number of all examples.
        share: The share.
        seed: Seed of the order in which a share takes examples.
    """
    order = np.argsort(Draws(seed, "share").uniform(0, 1, count)[0])
    return sorted(order[: max(1, round(share * count))].tolist())


def _take_share(examples: Sequence[Example], share: float, seed: int) -> list[Example]:
    """At least one example, the first ones of an order that depends on the seed alone, in the order of the data."""
    return [examples[place] for place in share_places(len(examples), share, seed)]


def _tokenizer(model: str | None, trust_remote_code: bool = False) -> Any:
    if model is None:
        raise HeadwiseError("tokenizer: give the tokenizer of the model")
    tokenizer = load_tokenizer(model, trust_remote_code)
    if tokenizer is None:
        raise HeadwiseError(f"{model}: comes without a tokenizer")
    return tokenizer
