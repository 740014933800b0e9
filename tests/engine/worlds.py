"""Tiny games on tiny models of every family, and the plain way to value a row."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from headwise import gated
from headwise.engine import EngineSettings, ExampleSet, LocalEngine, PlayerSet
from headwise.games import Answers, Game, GenerationGame, LikelihoodGame
from headwise.tasks.encoding import Encoded
from headwise.tasks.protocol import AnyTask
from headwise.tasks.task import find_task
from headwise.tasks.translation import EncodedPair, TranslationTask
from tests.families import CASES, Case

#: The cases with an output that labels can be read off.
ANSWERING = [
    case for case in CASES if case.model_class.endswith("LMHeadModel") or not case.model_class.endswith("Model")
]


def make_examples(case: Case, model: Any, count: int = 5, seed: int = 0) -> ExampleSet:
    """Examples of several lengths for the case's kind of model."""
    draw = np.random.default_rng(seed)
    encoded: list[Encoded] = []
    for _ in range(count):
        ids = tuple(map(int, draw.integers(4, 50, draw.integers(4, 9))))
        if case.seq2seq:
            target = tuple(map(int, draw.integers(4, 50, draw.integers(3, 7))))
            encoded.append(EncodedPair(ids, tuple(range(len(target))), target, target))
        elif "SequenceClassification" in case.model_class:
            encoded.append(Encoded(ids, (), (int(draw.integers(2)),)))
        else:
            encoded.append(Encoded(ids, tuple(range(len(ids))), tuple(map(int, draw.integers(0, 2, len(ids))))))
    return ExampleSet(task_of(case), tuple(encoded), getattr(model.config, "pad_token_id", None) or 0)


def task_of(case: Case) -> AnyTask:
    """A task for the case's kind of model."""
    if case.seq2seq:
        return TranslationTask()
    if "SequenceClassification" in case.model_class:
        return find_task("classification", ("no", "yes"))
    return find_task("slots", ("O", "B-X"))


def make_engine(
    case: Case,
    game: Game | GenerationGame | None = None,
    players: PlayerSet | None = None,
    settings: EngineSettings | None = None,
    model: Any = None,
) -> LocalEngine:
    """An engine on a tiny model."""
    model = case.build() if model is None else model
    return LocalEngine(model, None, game or LikelihoodGame(), make_examples(case, model), players, settings)


def random_rows(engine: LocalEngine, rows: int, seed: int = 0) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Rows in random order: some at random, some flips of one another."""
    draw = np.random.default_rng(seed)
    masks = draw.random((rows, len(engine.players))) < 0.6
    index = draw.integers(0, len(engine.examples), rows)
    near = draw.integers(0, max(1, rows // 3), rows // 2)  # every other row is a flip of one of a third of the rows
    masks[: rows // 2], index[: rows // 2] = masks[near], index[near]
    masks[np.arange(rows // 2), draw.integers(0, masks.shape[1], rows // 2)] ^= True
    order = draw.permutation(rows)
    return masks[order], index[order]


def plain_statistics(engine: LocalEngine, mask: NDArray[Any] | Tensor, example: int) -> Tensor:
    """One row by one forward pass of one example under `gated`, (statistics,)."""
    examples = engine.examples
    batch = examples.task.make_batch(engine.model, examples.encoded, [example], examples.pad_id)
    gates = engine.players.gates(torch.as_tensor(mask)[None])
    (kind, each), *others = gates.items()
    assert not others, "gated() takes one kind at a time"
    with gated(engine.model, each[0], players=kind, baseline=engine.baseline):
        logits = engine.model(**batch.inputs(torch.device("cpu"))).logits
    chosen = torch.tensor([example])
    answers = Answers(
        examples.task.select(logits, batch), batch.rows, batch.places, examples.counts[chosen], examples.gold_of(chosen)
    )
    assert not isinstance(engine.game, GenerationGame)
    return engine.game.measure(answers)[0]


def plain_values(engine: LocalEngine, masks: NDArray[Any], index: NDArray[np.int64]) -> Tensor:
    """The values of rows, each by a forward pass of its own."""
    with torch.no_grad():
        rows = [plain_statistics(engine, mask, int(example)) for mask, example in zip(masks, index, strict=True)]
    found = torch.stack(rows)
    return found[:, 0] if engine.game.statistics == 1 else found


def tiny_tokenizer() -> Any:
    """Fifty words, the first four of them special."""
    words = ["<unk>", "<pad>", "<s>", "</s>", *(f"w{i}" for i in range(46))]
    pieces = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=pieces, unk_token="<unk>", pad_token="<pad>", eos_token="</s>")
