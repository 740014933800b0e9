"""Choices that share their prompt have the values of choices that are computed one by one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from headwise import find_heads
from headwise.data.examples import ChoiceExample, PromptExample
from headwise.engine import EngineSettings, LocalEngine, encode_examples
from headwise.engine.shared_tokens import most_tree_tokens, takes_trees
from headwise.games import AccuracyGame, Game, LikelihoodGame, MetricGame, ProbabilityGame, TextLikelihoodGame
from headwise.games.pair import PairGame
from headwise.tasks.causal import BitsPerByte
from headwise.tasks.choices import MultipleChoice
from headwise.tasks.continuation import ContinuationTask
from headwise.tasks.encoding import Encoded
from headwise.tasks.metrics import Accuracy
from headwise.tasks.token_trees import TokenTree, make_tree_batch
from tests.engine.worlds import random_rows
from tests.families import BY_NAME, no_trace_left
from tests.means import means_of
from tests.pieces import one_token_a_word

WORDS = one_token_a_word()
#: Causal families that read trees, and variants whose attention is sliding in some or all layers.
READERS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "gpt2")},
    "mistral-sliding": ("mistral", {"sliding_window": 4}),
    "qwen3-sliding": ("qwen3", {"sliding_window": 4, "use_sliding_window": True, "max_window_layers": 1}),
    "gemma3-eager": ("gemma3", {"attn_implementation": "eager"}),
    "gpt2-eager": ("gpt2", {"attn_implementation": "eager"}),
}
EXAMPLES = [
    ChoiceExample("long", "w2 w3 w4 w5 w6 w7 w8", ("w9 w9", "w5 w6 w7", "w9 w9 w10 w11"), 1),
    ChoiceExample("one token each", "w20 w4 w7", ("w21", "w2", "w3", "w30"), 0),
    ChoiceExample("pair", "", ("w10 w4 w5 w6 w7 w8 w9", "w10 w4 w5 w6 w3 w8 w9"), 1),
    ChoiceExample("nothing shared", "", ("w12", "w13 w4"), 0),
]


def engines(name: str, game: Game, **settings: Any) -> tuple[LocalEngine, LocalEngine]:
    """An engine that shares tokens and one that does not."""
    family, changes = READERS[name]
    model = BY_NAME[family].build(**changes)
    examples = encode_examples(MultipleChoice("tokens", window=40), EXAMPLES, WORDS)
    shared, alone = EngineSettings(**settings), EngineSettings(reuse_prefixes=False)
    one, other = (LocalEngine(model, None, game, examples, settings=each) for each in (shared, alone))
    return one, other


@pytest.mark.parametrize("settings", [{}, {"token_budget": 16}], ids=["whole", "small batches"])
@pytest.mark.parametrize("name", READERS)
def test_values_and_gradients_are_those_without_sharing(name: str, settings: dict[str, Any]) -> None:
    shared, alone = engines(name, ProbabilityGame(), **settings)
    masks, index = random_rows(shared, 12)
    with no_trace_left(shared.model):
        found, expected = shared.values(masks, index), alone.values(masks, index)
    assert torch.allclose(found.values, expected.values, atol=1e-5)
    gates = np.random.default_rng(0).uniform(0, 1.5, masks.shape).astype(np.float32)
    steep, plain = shared.gradients(gates, index), alone.gradients(gates, index)
    assert torch.allclose(steep.values, plain.values, atol=1e-5)
    assert torch.allclose(steep.gradients, plain.gradients, atol=1e-5)
    assert steep.cost.units == plain.cost.units == 24
    assert steep.cost.tokens < plain.cost.tokens


def test_costs_are_those_of_the_tokens_that_are_computed() -> None:
    shared, alone = engines("llama", ProbabilityGame())
    rows = np.ones((4, len(shared.players)), dtype=bool), np.arange(4)
    seen: list[int] = []
    handle = shared.model.lm_head.register_forward_hook(lambda _m, inputs, _o: seen.append(len(inputs[0])))
    found = shared.values(*rows).cost
    handle.remove()
    plain = alone.values(*rows).cost
    # The last token of a choice is predicted, but it is not an input. Two choices of the first example begin with w9.
    assert found.tokens == (7 + 1 + 2 + 2) + 3 + (5 + 2 + 2) + 2
    assert plain.tokens == (8 + 9 + 10) + 4 * 3 + (7 + 7) + (1 + 2)
    assert sum(seen) == (2 + 3 + 4) + 4 + (7 + 7) + (1 + 2)
    assert (found.rows, found.units, found.examples) == (4, 4, 4)
    assert (plain.rows, plain.units) == (4, 4)
    assert found.flops < plain.flops


def test_choices_of_one_token_share_the_output_layer() -> None:
    shared, alone = engines("llama", ProbabilityGame())
    rows = np.ones((3, len(shared.players)), dtype=bool), np.ones(3, dtype=np.int64)
    rows[0][1:, 0] = False
    seen: list[int] = []
    shared.model.lm_head.register_forward_hook(lambda _m, inputs, _o: seen.append(len(inputs[0])))
    found = shared.values(*rows).values
    assert seen == [3]  # one position of each row instead of four
    assert torch.allclose(found, alone.values(*rows).values, atol=1e-5)


def test_flips_of_trees_share_layers_and_are_bounded() -> None:
    shared, alone = engines("qwen2", PairGame(ProbabilityGame(), AccuracyGame()))
    bases, players = np.ones((4, len(shared.players)), dtype=bool), np.tile(np.arange(len(shared.players)), (4, 1))
    found, expected = (each.flips(bases, np.arange(4), players) for each in (shared, alone))
    assert torch.allclose(found.flipped, expected.flipped, atol=1e-5)
    units = 4 + 4 * float(shared.flip_units.sum())
    assert found.cost.units == pytest.approx(units)
    assert found.cost.units <= shared.most_units(players.size + 4, units) + 1e-9


def test_examples_with_different_numbers_of_choices_share_layers() -> None:
    shared, _ = engines("gpt2", MetricGame(Accuracy()))
    assert len({len(each.choices) for each in shared.examples.choices}) > 1
    masks = np.ones((8, len(shared.players)), dtype=bool)
    masks[4:, -1] = False  # a head of the last of three layers
    found = shared.values(masks, np.tile(np.arange(4), 2))
    assert found.values.shape == (8, 2)
    assert found.cost.units == pytest.approx(4 + 4 / 3)


def test_trees_that_exceed_the_memory_limit_are_computed_by_choice() -> None:
    shared, alone = engines("llama", ProbabilityGame(), memory_limit=1)
    masks, index = random_rows(shared, 6)
    found = shared.values(masks, index)
    assert torch.allclose(found.values, alone.values(masks, index).values, atol=1e-5)
    assert found.cost.units <= shared.most_units(6)


def test_mean_outputs_replace_heads_in_trees() -> None:
    shared, _ = engines("llama", ProbabilityGame())
    baseline = means_of(BY_NAME["llama"], shared.model)
    masks, index = random_rows(shared, 6)
    both = [
        LocalEngine(shared.model, None, ProbabilityGame(), shared.examples, None, settings, baseline)
        for settings in (EngineSettings(), EngineSettings(reuse_prefixes=False))
    ]
    one, other = (each.values(masks, index).values for each in both)
    assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("name", ["bloom", "bert-causal", "marian"])
def test_other_models_do_not_take_trees(name: str) -> None:
    model = BY_NAME[name].build()
    assert not takes_trees(model, find_heads(model))


def test_other_implementations_of_attention_do_not_take_trees() -> None:
    model = BY_NAME["llama"].build()
    model.config._attn_implementation = "flash_attention_2"
    assert not takes_trees(model, find_heads(model))


@pytest.mark.parametrize("name", READERS)
def test_the_tokens_of_a_tree_have_the_states_of_their_sequences(name: str) -> None:
    family, changes = READERS[name]
    model, draw = BY_NAME[family].build(**changes), np.random.default_rng(3)
    stem = tuple(map(int, draw.integers(4, 50, 6)))
    sequences = [Encoded((*stem[:cut], *map(int, draw.integers(4, 50, 4))), (0,), (0,)) for cut in (6, 6, 3, 0)] + [
        Encoded(stem[:2], (0,), (0,))
    ]
    whole = [replace(each, positions=tuple(range(len(each.ids))), gold=(0,) * len(each.ids)) for each in sequences]
    tree = TokenTree.of(whole)
    assert len(tree.ids) == 6 + 4 + 4 + 4 + 4
    short = TokenTree.of(whole[-1:])
    batch = make_tree_batch(model, [tree, short], [0, 1], pad_id=0)
    with torch.no_grad():
        logits = model(**batch.inputs(torch.device("cpu")), use_cache=False).logits
        alone = torch.cat([model(torch.tensor([each.ids]), use_cache=False).logits[0] for each in whole])
    assert torch.allclose(logits[0, list(tree.positions)], alone, atol=1e-5)
    assert torch.allclose(logits[1, :2], alone[-2:], atol=1e-5)


PROMPTS = [
    PromptExample("1", "w2 w3 w4 w5 w6", "w9 w9 w8"),
    PromptExample("2", "w7 w7 w7", "w8 w2"),
    PromptExample("3", "w2 w3 w4 w5 w6", "w9 w7"),
    PromptExample("4", "w2 w3 w4 w5 w6", "w11"),
]


def prompt_engines(name: str, game: Game) -> tuple[LocalEngine, LocalEngine]:
    """An engine that shares the prompts of continuations and one that does not."""
    family, changes = READERS.get(name, (name, {}))
    model = BY_NAME[family].build(**changes)
    examples = encode_examples(ContinuationTask(window=40), PROMPTS, WORDS)
    settings = (EngineSettings(), EngineSettings(reuse_prefixes=False))
    one, other = (LocalEngine(model, None, game, examples, settings=each) for each in settings)
    return one, other


@pytest.mark.parametrize("game", [LikelihoodGame(), TextLikelihoodGame(), MetricGame(BitsPerByte())], ids=str)
@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2", "bloom"])
def test_continuations_of_one_prompt_share_it_under_equal_gates(name: str, game: Game) -> None:
    shared, alone = prompt_engines(name, game)
    masks = np.random.default_rng(0).random((3, len(shared.players))) < 0.6
    rows = np.repeat(masks, 4, axis=0), np.tile([3, 1, 0, 2], 3)
    found, expected = shared.values(*rows), alone.values(*rows)
    assert torch.allclose(found.values, expected.values, atol=1e-5)
    if name == "bloom":
        assert found.cost.tokens <= expected.cost.tokens
        return
    assert expected.cost.tokens == 3 * (7 + 6 + 5 + 4)
    assert found.cost.tokens <= 3 * (5 + 2 + 4)
    assert found.cost.units == pytest.approx(12 * found.cost.tokens / expected.cost.tokens)


def test_rows_with_other_gates_are_not_merged() -> None:
    shared, alone = prompt_engines("llama", LikelihoodGame())
    masks, index = random_rows(shared, 9)
    found, expected = shared.values(masks, index), alone.values(masks, index)
    assert torch.allclose(found.values, expected.values, atol=1e-5)
    assert found.cost.units <= shared.most_units(9)


def test_flips_of_continuations_stay_within_their_bound() -> None:
    shared, alone = prompt_engines("llama", LikelihoodGame())
    count = len(shared.players)
    bases, players = np.ones((4, count), dtype=bool), np.random.default_rng(1).integers(0, count, (4, 3))
    players[2] = players[0]
    found, expected = (each.flips(bases, np.arange(4), players) for each in (shared, alone))
    assert torch.allclose(found.flipped, expected.flipped, atol=1e-5)
    assert found.cost.units <= shared.most_units(16, 4 + float(shared.flip_units[players].sum())) + 1e-9


@pytest.mark.parametrize("name", ["gpt2", "gpt2-eager", "llama"])
def test_a_tree_may_have_more_tokens_than_the_model_has_positions(name: str) -> None:
    family, changes = READERS[name]
    model, prompt = BY_NAME[family].build(**changes), " ".join(f"w{n}" for n in range(10, 30))
    prompts = [PromptExample(str(n), prompt, " ".join(f"w{n + k}" for k in range(12))) for n in range(30, 35)]
    examples = encode_examples(ContinuationTask(window=40), prompts, WORDS)
    settings = (EngineSettings(), EngineSettings(reuse_prefixes=False))
    shared, alone = (LocalEngine(model, None, LikelihoodGame(), examples, settings=each) for each in settings)
    rows = np.ones((5, len(shared.players)), dtype=bool), np.arange(5)
    found, expected = shared.values(*rows), alone.values(*rows)
    assert torch.allclose(found.values, expected.values, atol=1e-5)
    if most_tree_tokens(model) is None:  # GPT-2 of transformers 4 has a maximum with eager attention
        assert (found.cost.tokens, expected.cost.tokens) == (20 + 5 * 11, 5 * (20 + 11))
