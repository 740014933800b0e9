"""Multiple choice in the engine: a choice is a class whose logit is its log-likelihood."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from headwise import HeadwiseError, find_heads, gated
from headwise.data.examples import ChoiceExample, PromptExample, TextExample
from headwise.engine import EngineSettings, LocalEngine, encode_examples, players_of
from headwise.engine.evaluation import MaskJudge, measure
from headwise.engine.examples import mean_outputs, token_batches
from headwise.games import (
    AccuracyGame,
    Game,
    LikelihoodGame,
    MarginGame,
    MetricGame,
    ProbabilityGame,
    TextLikelihoodGame,
    find_game,
)
from headwise.games.pair import PairGame
from headwise.masks import HeadMask
from headwise.tasks.causal import LanguageTask
from headwise.tasks.choices import MultipleChoice
from headwise.tasks.continuation import ContinuationTask
from headwise.tasks.metrics import Accuracy
from tests.families import BY_NAME, no_trace_left, random_mask
from tests.pieces import one_token_a_word
from tests.plain_choices import evaluate_choices, score_choices

WORDS = one_token_a_word()
UNEVEN = [
    ChoiceExample("a", "w2 w3 w4", ("w9 w9", "w5 w6", "w8 w9 w10 w11"), 1),
    ChoiceExample("b", "w20", ("w21", "w2", "w3", "w30"), 0),
    ChoiceExample("c", "", ("w10 w4", "w12 w4 w5"), 1),
]
EVEN = [ChoiceExample(str(n), f"w{n} w{n + 3}", (f"w{n + 9} w4", f"w{n + 2}"), n % 2) for n in range(2, 7)]


def engine_of(examples: list[ChoiceExample], game: Game, name: str = "llama", **settings: Any) -> LocalEngine:
    model = BY_NAME[name].build()
    task = MultipleChoice("bytes", window=40)
    return LocalEngine(model, None, game, encode_examples(task, examples, WORDS), None, EngineSettings(**settings))


def rows_of(engine: LocalEngine, count: int) -> tuple[Any, Any]:
    draw = np.random.default_rng(0)
    return draw.random((count, len(engine.players))) < 0.6, draw.integers(0, len(engine.examples), count)


@pytest.mark.parametrize("name", ["gpt2", "llama", "bloom"])
@pytest.mark.parametrize("settings", [{}, {"token_budget": 8}, {"reuse_prefixes": False}])
def test_values_are_those_of_one_choice_at_a_time(name: str, settings: dict[str, Any]) -> None:
    engine = engine_of(UNEVEN, ProbabilityGame(), name, **settings)
    gates, index = rows_of(engine, 12)
    found = engine.values(gates, index)
    for row, example in enumerate(index):
        with gated(engine.model, torch.from_numpy(gates[row])):
            scores = score_choices(engine.model, MultipleChoice("bytes", window=40), [UNEVEN[example]], WORDS)
        assert float(found.values[row]) == pytest.approx(float(scores.probabilities[0]), abs=1e-5)
    assert found.cost.rows == 12
    assert 0 < found.cost.units <= engine.most_units(12)


def plain_value(game: Game, scores: Any, answer: int) -> float:
    match game:
        case AccuracyGame():
            return float(scores.argmax() == answer)
        case MarginGame():
            return float(scores[answer] - np.delete(scores, answer).max())
        case LikelihoodGame():
            return float(scores[answer] - np.log(np.exp(scores).sum()))
    raise AssertionError(game)


@pytest.mark.parametrize("game", [AccuracyGame(), MarginGame(), LikelihoodGame()], ids=lambda game: game.name)
def test_games_of_classification_apply_to_choices(game: Game) -> None:
    engine = engine_of(UNEVEN, game)
    found = engine.values(np.ones((3, len(engine.players)), dtype=bool), np.arange(3)).values
    scores = score_choices(engine.model, MultipleChoice("bytes", window=40), UNEVEN, WORDS).scores
    for value, each, example in zip(found, scores, UNEVEN, strict=True):
        assert float(value) == pytest.approx(plain_value(game, each, example.answer), abs=1e-5)


@pytest.mark.parametrize("game", [ProbabilityGame(), LikelihoodGame(), MarginGame()], ids=lambda game: game.name)
def test_gradients_are_finite_differences(game: Game) -> None:
    engine = engine_of(UNEVEN, game)
    engine.model.double()
    index, step = np.arange(3), 1e-3
    gates = np.random.default_rng(1).uniform(0.5, 1.0, (3, len(engine.players))).astype(np.float32)
    with no_trace_left(engine.model):
        found = engine.gradients(gates, index)
    for player in range(0, len(engine.players), 3):
        up, down = gates.copy(), gates.copy()
        up[:, player] += step
        down[:, player] -= step
        slopes = (engine.values(up, index).values - engine.values(down, index).values) / (2 * step)
        assert found.gradients[:, player].tolist() == pytest.approx(slopes.tolist(), abs=2e-3)
    assert found.values.tolist() == pytest.approx(engine.values(gates, index).values.tolist(), abs=1e-6)
    assert found.cost.units == 2 * 3


def test_flips_of_examples_with_equally_many_choices_share_their_layers() -> None:
    engine = engine_of(EVEN, PairGame(ProbabilityGame(), AccuracyGame()))
    bases, players = np.ones((5, len(engine.players)), dtype=bool), np.tile(np.arange(len(engine.players)), (5, 1))
    found = engine.flips(bases, np.arange(5), players)
    shared = 5 + 5 * float(engine.flip_units.sum())
    assert found.cost.units == pytest.approx(shared)
    assert found.cost.units <= engine.most_units(players.size + 5, shared) + 1e-9
    one = bases[:1].copy()
    one[0, 2] = False
    assert torch.allclose(found.flipped[0, 2], engine.values(one, np.arange(1)).values[0], atol=1e-5)


def test_masks_are_judged_as_by_plain_evaluation() -> None:
    model, task = BY_NAME["llama"].build(), MultipleChoice(window=40)
    heads = find_heads(model)
    masks = [HeadMask.full(heads), random_mask(heads, 3)]
    judge = MaskJudge(model, heads, task, UNEVEN + EVEN, WORDS)
    for mask, found in zip(masks, judge.measure(masks).statistics, strict=True):
        with gated(model, mask):
            assert found.tolist() == evaluate_choices(model, task, UNEVEN + EVEN, WORDS).statistics.tolist()
    assert judge.metric.name == "accuracy"
    (result,) = measure(model, task, UNEVEN, WORDS).results
    assert (result.metric, result.examples) == ("accuracy", 3)


def test_means_are_over_the_tokens_of_all_choices() -> None:
    model, task = BY_NAME["gpt2"].build(), MultipleChoice(window=40)
    heads, examples = find_heads(model), encode_examples(task, UNEVEN, WORDS)
    found, sequences = mean_outputs(model, heads, examples), examples.sequences.encoded
    alone = [mean_outputs(model, heads, replace(examples, encoded=(each,))) for each in sequences]
    total = sum(len(each.ids) for each in sequences)
    for name, mean in found.values.items():
        parts = [one.values[name] * len(each.ids) / total for one, each in zip(alone, sequences, strict=True)]
        assert torch.allclose(mean, torch.stack(parts).sum(0), atol=1e-6)
    with pytest.raises(HeadwiseError, match="an example of the task 'choice' is several sequences"):
        next(token_batches(model, heads, examples))


def plain_text_value(model: Any, ids: list[int], first: int, size: int) -> float:
    """Log-likelihood of the tokens from `first` on, by one forward pass per token, divided by the size of the text."""
    total = 0.0
    for place in range(first, len(ids)):
        with torch.no_grad():
            total += float(model(torch.tensor([ids[:place]])).logits[0, -1].log_softmax(-1)[ids[place]])
    return total / size


def test_likelihood_per_byte_and_per_character_of_texts_and_continuations() -> None:
    model = BY_NAME["gpt2"].build()
    text, prompt = TextExample("1", "w5 w6 größer"), PromptExample("2", "w5 w6", "w7 größer")
    for game, text_size, size in (
        ("log-likelihood-per-byte", 14, 12),
        ("log-likelihood-per-character", 12, 10),
    ):
        for task, example, ids, first, length in (
            (LanguageTask(window=40), text, [1, 5, 6, 0], 1, text_size),
            (ContinuationTask(window=40), prompt, [5, 6, 7, 0], 2, size),
        ):
            engine = LocalEngine(model, None, find_game(game), encode_examples(task, [example], WORDS))
            found = engine.values(np.ones((1, len(engine.players)), dtype=bool), np.zeros(1, dtype=np.int64))
            assert float(found.values[0]) == pytest.approx(plain_text_value(model, ids, first, length), rel=1e-5)


def test_games_of_texts_are_refused_for_labels() -> None:
    engine = engine_of(UNEVEN, TextLikelihoodGame())
    with pytest.raises(HeadwiseError, match="'log-likelihood-per-byte' is for the tasks lm, continuation and transl"):
        engine.values(np.ones((1, len(engine.players)), dtype=bool), np.zeros(1, dtype=np.int64))


def test_feed_forward_blocks_and_several_statistics_are_supported() -> None:
    model = BY_NAME["llama"].build()
    examples = encode_examples(MultipleChoice(window=40), UNEVEN, WORDS)
    engine = LocalEngine(model, None, MetricGame(Accuracy()), examples, players_of(find_heads(model), "ffn"))
    assert engine.values(np.ones((3, len(engine.players)), dtype=bool), np.arange(3)).values.shape == (3, 2)
