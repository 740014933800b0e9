"""The engine: every way of working gives what one plain forward pass per row gives."""

from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise import HeadwiseError, find_heads, gated
from headwise.engine import EngineSettings, kv_groups, players_from_groups, players_of
from headwise.engine.examples import special_ids_of
from headwise.games import AccuracyGame, Game, LikelihoodGame, MarginGame, MetricGame, ProbabilityGame, generation_game
from headwise.heads import PlayerKind
from headwise.tasks.encoding import Batch
from headwise.tasks.metrics import EntityF1
from headwise.tasks.text_metrics import ChrF
from headwise.tasks.translation import EncodedPair, TranslationTask, translate
from tests.engine.worlds import ANSWERING, make_engine, plain_statistics, plain_values, random_rows, tiny_tokenizer
from tests.families import BY_NAME, ON_V4, Case, no_trace_left

assert_close = partial(torch.testing.assert_close, atol=1e-5, rtol=1e-5)
#: One of each kind of model.
KINDS = ("xlm-roberta", "llama", "mt5")


@pytest.mark.parametrize("case", ANSWERING, ids=lambda case: case.name)
def test_values_equal_one_plain_pass_per_row(case: Case) -> None:
    engine = make_engine(case)
    masks, index = random_rows(engine, 24)
    assert_close(engine.values(masks, index).values, plain_values(engine, masks, index))


@pytest.mark.parametrize("case", ANSWERING, ids=lambda case: case.name)
def test_gradients_equal_those_of_one_plain_pass_per_row(case: Case) -> None:
    if ON_V4 and case.name == "bert-causal":
        pytest.skip("transformers 4.57 makes its causal mask in single precision, where the least double overflows")
    engine = make_engine(case, model=case.build().double())
    masks, index = random_rows(engine, 6)
    found = engine.gradients(masks, index)
    assert_close(found.values, plain_values(engine, masks, index))
    for row, (mask, example) in enumerate(zip(masks, index, strict=True)):
        gates = torch.tensor(mask, dtype=torch.float32, requires_grad=True)
        (expected,) = torch.autograd.grad(plain_statistics(engine, gates, int(example))[0], gates)
        assert_close(found.gradients[row], expected)


@pytest.mark.parametrize("game", [LikelihoodGame(), AccuracyGame()], ids=lambda game: game.name)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_model_that_gives_no_number_is_named_with_the_example(bad: float, game: Game) -> None:
    case = BY_NAME["xlm-roberta"]
    model = case.build()
    engine = make_engine(case, game, model=model, settings=EngineSettings(bfloat16=True))
    with torch.no_grad():  # only the second example has this word
        [word, *_] = set(engine.examples.encoded[1].ids) - {
            word for place in (0, 2, 3, 4) for word in engine.examples.encoded[place].ids
        }
        model.roberta.embeddings.word_embeddings.weight[word] = bad
    masks, index = np.ones((4, len(engine.players)), bool), np.array([0, 2, 1, 1])
    with pytest.raises(HeadwiseError, match=r"returns NaN or infinity on example 1, .* without --bfloat16"):
        engine.values(masks, index)
    if game.differentiable:
        with pytest.raises(HeadwiseError, match=r"returns NaN or infinity on example 1, "):
            engine.gradients(masks, index)
    assert engine.values(masks[:2], index[:2]).values.isfinite().all()
    assert engine.values(masks[:0], index[:0]).values.shape == (0,)


@pytest.mark.parametrize("name", KINDS)
def test_bfloat16_is_nearly_the_same(name: str) -> None:
    case = BY_NAME[name]
    model = case.build()
    whole, half = (make_engine(case, settings=EngineSettings(bfloat16=each), model=model) for each in (False, True))
    masks, index = random_rows(whole, 24)
    exact, near = (each.gradients(masks, index) for each in (whole, half))
    assert not torch.equal(near.values, exact.values)
    torch.testing.assert_close(near.values, exact.values, atol=0.02, rtol=0.05)
    torch.testing.assert_close(half.values(masks, index).values, exact.values, atol=0.02, rtol=0.05)
    assert (near.gradients - exact.gradients).norm() < 0.2 * exact.gradients.norm()


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.integers(0, 10**6),
    st.integers(1, 40),
    st.integers(1, 200),
    st.booleans(),
    st.sampled_from(["heads", "ffn", "layers"]),
)
def test_any_rows_any_batch_size_any_players(
    name: str, seed: int, rows: int, budget: int, reuse: bool, kind: PlayerKind
) -> None:
    case = BY_NAME[name]
    model = case.build()
    engine = make_engine(
        case,
        ProbabilityGame(),
        players_of(find_heads(model), kind),
        EngineSettings(budget, reuse_prefixes=reuse),
        model,
    )
    masks, index = random_rows(engine, rows, seed)
    assert_close(engine.values(masks, index).values, plain_values(engine, masks, index))


@pytest.mark.parametrize("name", KINDS)
def test_flips_are_the_values_of_the_flipped_masks(name: str) -> None:
    engine = make_engine(BY_NAME[name])
    bases, index = random_rows(engine, 4)
    players = np.random.default_rng(1).integers(-1, len(engine.players), (4, 7))
    found = engine.flips(bases, index, players)
    assert_close(found.base, plain_values(engine, bases, index))
    for base, place in np.ndindex(players.shape):
        if players[base, place] < 0:
            assert found.flipped[base, place].isnan()
            continue
        mask = bases[base].copy()
        mask[players[base, place]] ^= True
        expected = plain_statistics(engine, mask, int(index[base]))[0].detach()
        assert_close(found.flipped[base, place], expected)


@pytest.mark.parametrize(
    "game", [AccuracyGame(), MarginGame(), LikelihoodGame(), MetricGame(EntityF1(("O", "B-X", "I-X", "B-Y", "I-Y")))]
)
def test_every_game_gives_its_statistics(game: AccuracyGame) -> None:
    engine = make_engine(BY_NAME["xlm-roberta"], game)
    masks, index = random_rows(engine, 12)
    assert_close(engine.values(masks, index).values, plain_values(engine, masks, index))


def test_heads_that_share_keys_can_be_one_player() -> None:
    case = BY_NAME["llama"]
    model = case.build()
    engine = make_engine(case, players=kv_groups(find_heads(model)), model=model)
    assert engine.players.names[:3] == ("decoder.0.kv0", "decoder.0.kv1", "decoder.1.kv0")
    masks, index = random_rows(engine, 12)
    assert_close(engine.values(masks, index).values, plain_values(engine, masks, index))


def test_a_player_may_hold_heads_of_several_layers_and_the_rest_stay_on() -> None:
    case = BY_NAME["xlm-roberta"]
    model = case.build()
    groups = {"corners": ["encoder.0.0", "encoder.2.3"], "middle": ["encoder.1.1"]}
    engine = make_engine(case, players=players_from_groups(find_heads(model), groups), model=model)
    masks, index = random_rows(engine, 12)
    assert_close(engine.values(masks, index).values, plain_values(engine, masks, index))


def test_players_of_several_kinds_at_once() -> None:
    case = BY_NAME["xlm-roberta"]
    model = case.build()
    groups = {"head": ["encoder.0.0"], "block": ["encoder.ffn.1"], "layer": ["encoder.layer.2"]}
    mixed = make_engine(case, players=players_from_groups(find_heads(model), groups), model=model)
    for kind, name in (("heads", "encoder.0.0"), ("ffn", "encoder.ffn.1"), ("layers", "encoder.layer.2")):
        player = list(groups.values()).index([name])
        alone = make_engine(case, players=players_from_groups(find_heads(model), {name: [name]}), model=model)
        mask = np.ones((1, 3), dtype=bool)
        mask[0, player] = False
        expected = alone.values(np.zeros((1, 1), dtype=bool), np.array([0])).values
        assert_close(mixed.values(mask, np.array([0])).values, expected)
        assert kind in mixed.players.owners


def test_a_flip_costs_only_the_layers_from_its_own_up() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])  # 3 layers of 4 heads
    base = np.ones((1, 12), dtype=bool)
    cost = engine.flips(base, np.array([0]), np.arange(12)[None]).cost
    # The base 3 layer passes; 4 flips each from the first, second and third layer: 4·3 + 4·2 + 4·1.
    assert cost.layer_passes == 3 + 24
    assert cost.units == pytest.approx(9)
    assert cost.examples == 1


def test_without_reuse_every_row_is_a_whole_pass() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"], settings=EngineSettings(reuse_prefixes=False))
    assert engine.values(np.ones((5, 12), dtype=bool), np.zeros(5, dtype=int)).cost.units == 5


def test_equal_rows_cost_one() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])
    assert engine.values(np.ones((5, 12), dtype=bool), np.zeros(5, dtype=int)).cost.units == 1


def test_operations_are_those_that_torch_counts() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    for name in ("xlm-roberta", "llama", "marian"):
        case = BY_NAME[name]
        model = case.build(attn_implementation="eager")  # the counter sees the matrix products of no other
        engine = make_engine(case, model=model)
        with FlopCounterMode(display=False) as counter:
            cost = engine.values(np.ones((1, len(engine.players)), dtype=bool), np.array([0])).cost
        assert cost.flops == pytest.approx(counter.get_total_flops(), rel=0.02), name


def test_hooks_and_modes_do_not_outlive_a_call() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])
    engine.model.train()
    masks, index = random_rows(engine, 4)
    with no_trace_left(engine.model):
        engine.values(masks, index)
        engine.gradients(masks, index)
    assert engine.model.training
    assert all(weight.requires_grad for weight in engine.model.parameters())


def test_nothing_is_left_behind_by_an_error() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])
    masks, index = random_rows(engine, 4)

    def fail(*_: object) -> None:
        raise RuntimeError("broken classifier")

    with no_trace_left(engine.model):
        handle = engine.model.classifier.register_forward_hook(fail)
        with pytest.raises(RuntimeError, match="broken"):
            engine.gradients(masks, index)
        handle.remove()
    assert all(weight.requires_grad for weight in engine.model.parameters())


def test_a_small_memory_limit_only_makes_smaller_batches() -> None:
    case = BY_NAME["xlm-roberta"]
    large, small = make_engine(case), make_engine(case, settings=EngineSettings(memory_limit=50_000))
    masks, index = random_rows(large, 30)
    one, other = small.values(masks, index), large.values(masks, index)
    assert_close(one.values, other.values)
    assert one.cost.units > other.cost.units  # prefixes are computed again in every batch


def test_heads_that_no_row_has_are_not_computed_where_that_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KINDS:
        engine = make_engine(BY_NAME[name])
        masks, index = random_rows(engine, 12)
        masks[:, [0, 3, 5]] = False
        masks[:, engine.heads.players().index(f"{engine.heads.sites[1].name}.1")] = False
        expected, whole = plain_values(engine, masks, index), engine.values(masks, index)
        with monkeypatch.context() as patch:
            patch.setattr("headwise.engine.local.WORTH_A_COPY", 0.0)
            narrowed = engine.values(masks, index)
        assert_close(whole.values, expected)
        assert_close(narrowed.values, expected)
        assert narrowed.cost.units == pytest.approx(whole.cost.units)
        assert narrowed.cost.flops < whole.cost.flops


def test_written_texts_are_valued_by_summed_statistics() -> None:
    case = BY_NAME["marian"]
    tokenizer = tiny_tokenizer()
    references = tuple(f"w{i} w{i + 1} w{i + 2}" for i in range(5))
    engine = make_engine(case, generation_game(ChrF(), tokenizer, references))
    masks, index = random_rows(engine, 8)
    answer = engine.values(masks, index)
    found = answer.values
    task = engine.examples.task
    assert isinstance(task, TranslationTask)
    for row, (mask, example) in enumerate(zip(masks, index, strict=True)):
        pair = engine.examples.encoded[example]
        assert isinstance(pair, EncodedPair)
        with gated(engine.model, torch.tensor(mask).float()):
            (text,) = translate(engine.model, task, [pair], tokenizer)
        np.testing.assert_allclose(found[row], ChrF().statistics(text, references[example]))
    assert 0 <= engine.game.corpus(found.numpy().astype(np.float64)) <= 1
    assert answer.cost.units == len({(bytes(mask), int(example)) for mask, example in zip(masks, index, strict=True)})


@pytest.mark.parametrize("name", KINDS)
def test_examples_run_once_in_batches_by_length_inside_a_context(name: str) -> None:
    engine = make_engine(BY_NAME[name], settings=EngineSettings(token_budget=16))
    engine.model.train()
    seen: list[int] = []

    def within(batch: Batch) -> AbstractContextManager[None]:
        assert not engine.model.training
        seen.extend(batch.index.tolist())
        return nullcontext()

    with no_trace_left(engine.model):
        cost = engine.run(np.array([0, 2, 3]), within)
    assert engine.model.training
    assert sorted(seen) == [0, 2, 3]
    assert (cost.units, cost.rows, cost.examples) == (3, 3, 3)
    assert engine.run(np.zeros(0, dtype=np.int64), within).units == 0


def test_tokens_that_are_not_text_are_known() -> None:
    assert special_ids_of(tiny_tokenizer()) == (1, 3)  # padding and end; the unknown token stands for text


def test_no_rows_are_no_values() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])
    assert engine.values(np.ones((0, 12), dtype=bool), np.zeros(0, dtype=int)).values.shape == (0,)


def test_wrong_rows_are_refused_with_a_sentence() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])
    with pytest.raises(HeadwiseError, match=r"masks of shape \(1, 3\) do not fit 1 rows of 12 players"):
        engine.values(np.ones((1, 3), dtype=bool), np.array([0]))
    with pytest.raises(HeadwiseError, match="numbered 0 to 4, not 5"):
        engine.values(np.ones((1, 12), dtype=bool), np.array([5]))
    with pytest.raises(HeadwiseError, match="has no gradient"):
        make_engine(BY_NAME["xlm-roberta"], AccuracyGame()).gradients(np.ones((1, 12), dtype=bool), np.array([0]))


@pytest.mark.parametrize("name", KINDS)
def test_real_gates_are_valued_as_one_plain_pass_per_row(name: str) -> None:
    engine = make_engine(BY_NAME[name])
    masks, index = random_rows(engine, 12)
    draw = np.random.default_rng(2)
    gates = np.where(masks, draw.choice([0.25, 1.0, 1.5], masks.shape), 0.0).astype(np.float32)
    gates[6:] = gates[:6]  # rows that are equal, or equal up to the last player, share their work
    index[6:] = index[:6]
    gates[6:9, -1] += 0.5
    found = engine.values(gates, index)
    assert_close(found.values, plain_values(engine, gates, index))
    layers = len(engine.heads.layers)
    assert found.cost.units <= 6 + 3 / layers + 1e-9
    assert_close(engine.gradients(gates, index).values, found.values)


def test_real_gates_of_0_and_1_are_masks() -> None:
    engine = make_engine(BY_NAME["llama"])
    masks, index = random_rows(engine, 12)
    found, real = engine.values(masks, index), engine.values(masks.astype(np.float64), index)
    assert torch.equal(found.values, real.values)
    assert found.cost.units == real.cost.units


def test_gates_that_no_engine_takes_are_refused() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])
    with pytest.raises(HeadwiseError, match="NaN or infinite"):
        engine.values(np.full((1, 12), np.nan), np.array([0]))
    with pytest.raises(HeadwiseError, match="only boolean gates can be flipped"):
        engine.flips(np.full((1, 12), 0.5), np.array([0]), np.array([[1]]))


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 10**6), st.integers(1, 12), st.integers(0, 20), st.integers(1, 600))
def test_flips_never_cost_more_than_the_most_units(name: str, seed: int, bases: int, flips: int, budget: int) -> None:
    engine = make_engine(BY_NAME[name], settings=EngineSettings(budget))
    draw = np.random.default_rng(seed)
    masks, index = random_rows(engine, bases, seed)
    players = draw.integers(0, len(engine.players), (bases, flips))
    cost = engine.flips(masks, index, players).cost
    shared = bases + float(engine.flip_units[players].sum())
    assert cost.units <= engine.most_units(bases * (1 + flips), shared=shared) + 1e-9
    assert engine.most_units(bases * (1 + flips), shared=shared) <= bases * (1 + flips)
    assert engine.values(masks, index).cost.units <= engine.most_units(bases) + 1e-9
    assert engine.gradients(masks, index).cost.units <= engine.most_units(bases, gradients=True) + 1e-9
