"""Generation under gates and on shrunk models: greedy and beam search, with cache, emptied layers included."""

from typing import Any

import pytest
import torch
from torch import Tensor

from headwise import HeadMask, HeadwiseError, find_heads, gated, shrink
from tests.families import BY_NAME, Case, inputs_for, no_trace_left, random_mask, row_of, uneven_mask

GENERATORS = [
    "marian",
    "mt5",
    "t5",
    "m2m_100",
    "bart",
    "mbart",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma",
    "gemma2",
    "gemma3",
    "gpt2",
    "bloom",
    "bert-causal",
]
LEFT_PADDED = ["llama", "gpt2", "bloom", "gemma3"]
WAYS: dict[str, dict[str, Any]] = {"greedy": {}, "beam": {"num_beams": 3}, "uncached": {"use_cache": False}}


def prompts(case: Case) -> dict[str, Tensor]:
    inputs = {name: tensor for name, tensor in inputs_for(case).items() if name != "decoder_input_ids"}
    # A decoder-only model continues what it is given, so its rows must not end in padding.
    return inputs if case.seq2seq else {name: tensor[:2] for name, tensor in inputs.items()}


def generate(model: Any, inputs: dict[str, Tensor], **way: Any) -> Tensor:
    # Tiny random models repeat themselves; without repetition every step depends on the heads.
    length = {"max_new_tokens": 10, "min_new_tokens": 10, "no_repeat_ngram_size": 1}
    found: Tensor = model.generate(**inputs, do_sample=False, **length, **way)
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", GENERATORS)
def test_shrunk_and_gated_models_write_the_same(name: str, way: str) -> None:
    case = BY_NAME[name]
    model, inputs = case.build(), prompts(case)
    heads = find_heads(model)
    changed = False
    for mask in (uneven_mask(heads, empty_layer=0), uneven_mask(heads, empty_layer=2), random_mask(heads, seed=1)):
        with gated(model, mask):
            expected = generate(model, inputs, **WAYS[way])
        assert torch.equal(generate(shrink(model, mask), inputs, **WAYS[way]), expected)
        changed |= not torch.equal(expected, generate(model, inputs, **WAYS[way]))
    assert changed


@pytest.mark.parametrize("way", [{"num_beams": 4}, {"num_beams": 3, "num_return_sequences": 3}, {}])
@pytest.mark.parametrize("name", ["marian", "mt5", "llama"])
def test_gates_follow_their_row_through_the_beams(name: str, way: dict[str, Any]) -> None:
    case = BY_NAME[name]
    model, inputs = case.build(), prompts(case)
    rows = inputs["input_ids"].shape[0]
    gates = torch.stack([random_mask(find_heads(model), seed).tensor() for seed in range(rows)])
    with no_trace_left(model), gated(model, gates):
        together = generate(model, inputs, **way).view(rows, -1, 1 if not way else way.get("num_return_sequences", 1))
    for row in range(rows):
        with gated(model, gates[row]):
            alone = generate(model, row_of(inputs, row), **way)
        assert torch.equal(together[row].flatten(), alone.flatten())


def test_sampled_copies_of_a_row_run_under_its_gates() -> None:
    case = BY_NAME["llama"]
    model, inputs = case.build(), prompts(case)
    full, none = torch.ones(12), torch.zeros(12)
    with gated(model, torch.stack([full, none])):
        both = model.generate(**inputs, max_new_tokens=1, do_sample=True, top_k=1, num_return_sequences=3)
    for row, gates in enumerate((full, none)):
        with gated(model, gates):
            alone = model.generate(**row_of(inputs, row), max_new_tokens=1, do_sample=False)
        assert torch.equal(both[3 * row : 3 * row + 3], alone.expand(3, -1))


def test_a_model_emptied_of_all_its_heads_still_writes() -> None:
    for name in ("llama", "mt5", "bloom"):
        case = BY_NAME[name]
        model, inputs = case.build(), prompts(case)
        nothing = ~HeadMask.full(find_heads(model))
        with gated(model, nothing):
            expected = generate(model, inputs)
        assert torch.equal(generate(shrink(model, nothing), inputs), expected)


@pytest.mark.parametrize("name", LEFT_PADDED)
def test_left_padded_prompts_are_continued_alike(name: str) -> None:
    case = BY_NAME[name]
    model, inputs = case.build(), prompts(case)
    inputs["attention_mask"][0, :2] = 0
    mask = uneven_mask(find_heads(model), empty_layer=0)
    with gated(model, mask):
        expected = generate(model, inputs)
    assert torch.equal(generate(shrink(model, mask), inputs), expected)


@pytest.mark.parametrize("name", ["llama", "marian", "mt5", "gpt2"])
def test_a_static_cache_works_before_and_after_the_cut(name: str) -> None:
    case = BY_NAME[name]
    model, inputs = case.build(), prompts(case)
    mask = uneven_mask(find_heads(model), empty_layer=0)
    with gated(model, mask):
        expected = generate(model, inputs, cache_implementation="static")
    assert torch.equal(generate(shrink(model, mask), inputs, cache_implementation="static"), expected)


def test_prompts_must_match_the_gates_row_by_row() -> None:
    case = BY_NAME["llama"]
    model = case.build()
    inputs = {name: tensor[:4] for name, tensor in inputs_for(case, rows=5).items()}
    with (
        pytest.raises(HeadwiseError, match="the gates have 2 rows, but the batch has 4"),
        gated(model, torch.ones(2, 12)),
    ):
        generate(model, inputs)


def test_a_generate_of_ones_own_comes_back() -> None:
    model = BY_NAME["llama"].build()
    model.generate = own = model.generate
    with gated(model, torch.ones(2, 12)):
        assert model.generate is not own
    assert model.generate is own


PER_ROW: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "beam": {"do_sample": False, "num_beams": 2},
    "sampling": {"do_sample": True, "top_k": 0},
}


@pytest.mark.parametrize("way", PER_ROW)
@pytest.mark.parametrize("name", GENERATORS)
def test_a_row_is_written_as_in_a_batch_that_is_all_under_its_mask(name: str, way: str) -> None:
    case = BY_NAME[name]
    model, inputs = case.build(), prompts(case)
    masks = [random_mask(find_heads(model), seed) for seed in range(len(inputs["input_ids"]))]

    def write(gates: Any) -> Tensor:
        torch.manual_seed(7)  # a sample of a row depends on the seed and on the probabilities of that row alone
        with gated(model, gates):
            found: Tensor = model.generate(**inputs, max_new_tokens=5, min_new_tokens=5, **PER_ROW[way])
        return found

    together = write(torch.stack([mask.tensor() for mask in masks]))
    for row, mask in enumerate(masks):
        assert torch.equal(together[row], write(mask)[row])
