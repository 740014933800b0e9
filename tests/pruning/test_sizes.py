"""The size of a pruned model, counted without pruning it."""

import pytest

from headwise import HeadMask, find_heads, shrink
from headwise.pruning.sizes import ModelSizes, count_parameters
from tests.families import BY_NAME, no_trace_left, uneven_mask


@pytest.mark.parametrize("family", ["bert", "t5", "llama", "bloom"])
def test_the_size_is_that_of_the_shrunk_model(family: str) -> None:
    model = BY_NAME[family].build()
    mask = uneven_mask(find_heads(model))
    with no_trace_left(model):
        found = ModelSizes(model).after(mask)
    assert found == (count_parameters(model), count_parameters(shrink(model, mask)))


def test_a_full_mask_leaves_the_size() -> None:
    model = BY_NAME["bert"].build()
    size = count_parameters(model)
    assert ModelSizes(model).after(HeadMask.full(find_heads(model))) == (size, size)


def test_masks_of_layers_have_no_size() -> None:
    model = BY_NAME["bert"].build()
    mask = HeadMask.without(find_heads(model), ["encoder.layer.1"], "layers")
    assert ModelSizes(model).after(mask) is None
