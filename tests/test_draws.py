"""Draws depend on seed, stream and index alone, and follow the laws they claim."""

import hashlib
import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]

from headwise import HeadwiseError
from headwise.draws import Draws

#: A fixed seed passes or fails for good, so the level only says how odd a pass would have to be.
LEVEL = 0.001


def philox(counter: int, key: int) -> list[int]:
    """Four words of Philox 4x64-10, from the paper (Salmon et al. 2011), in plain Python."""
    word = 2**64 - 1
    c = [counter >> (64 * i) & word for i in range(4)]
    k = [key & word, key >> 64]
    for _ in range(10):
        a, b = c[0] * 0xD2E7470EE14C6C93, c[2] * 0xCA5A826395121157
        c = [(b >> 64) ^ c[1] ^ k[0], b & word, (a >> 64) ^ c[3] ^ k[1], a & word]
        k = [(k[0] + 0x9E3779B97F4A7C15) & word, (k[1] + 0xBB67AE8584CAA73B) & word]
    return c


def fits(counts: NDArray[np.int64], expected: NDArray[np.float64] | None = None) -> bool:
    return bool(stats.chisquare(counts, expected).pvalue > LEVEL)


def test_uniforms_are_the_words_of_the_published_generator() -> None:
    key = int.from_bytes(hashlib.sha256(b"2025\nuniform\n5\nfr").digest()[:16], "little")
    for index in (0, 1, 10**12):
        # Two steps of four words make a row of five; numpy steps the counter before it makes the first words.
        words = philox(2 * index + 1, key) + philox(2 * index + 2, key)
        row = Draws(2025, "fr").uniform(index, 1, 5)[0]
        assert row.tolist() == [(value >> 11) / 2**53 for value in words[:5]]


def test_draws_never_change() -> None:
    draws = Draws(2025, "fr")
    assert draws.uniform(5, 2, 2).tolist() == [
        [0.229482982779471, 0.5469903581098847],
        [0.5127097561964206, 0.8327665398241444],
    ]
    assert draws.coalitions(10**12, 3, 7).astype(int).tolist() == [
        [1, 0, 0, 1, 1, 1, 0],
        [1, 1, 1, 1, 1, 1, 1],
        [0, 0, 0, 0, 0, 0, 0],
    ]
    assert draws.examples(3, 9, 5).tolist() == [0, 0, 1, 3, 1, 4, 0, 2, 3]
    raw = draws.generator(4).bit_generator.random_raw(2)
    assert raw.tolist() == [6009692356956539330, 9145644312967189436]


@pytest.mark.parametrize("width", [1, 4, 7, 256])
def test_a_row_is_the_same_in_any_batch_and_order(width: int) -> None:
    draws = Draws(3, "de")
    whole = draws.uniform(100, 40, width)
    assert whole.shape == (40, width)
    for index in np.random.default_rng(0).permutation(40):
        assert np.array_equal(draws.uniform(100 + int(index), 1, width)[0], whole[index])
    assert np.array_equal(np.vstack([draws.uniform(100, 13, width), draws.uniform(113, 27, width)]), whole)


def test_coalitions_and_examples_are_the_same_in_any_batch() -> None:
    draws = Draws(3, "de")
    sets = draws.coalitions(50, 30, 11, 2, 9)
    assert np.array_equal(np.vstack([draws.coalitions(index, 1, 11, 2, 9) for index in range(50, 80)]), sets)
    used = draws.examples(50, 30, 7)
    assert np.array_equal(np.hstack([draws.examples(index, 1, 7) for index in range(50, 80)]), used)
    assert np.array_equal(np.hstack([draws.examples(50, 4, 7), draws.examples(54, 26, 7)]), used)


def test_nothing_is_drawn_twice() -> None:
    """53 bits: among these 50,000 values two would be equal by chance once in 7 million tests."""
    values = []
    for seed, stream in itertools.product((0, 1, -1), ("", "fr")):
        draws = Draws(seed, stream)
        values += [draws.uniform(0, 500, width).ravel() for width in (3, 4, 8)]
        values += [draws.generator(index).random(16) for index in (0, 1, 2, 2**64)]
    drawn = np.concatenate(values)
    assert len(drawn) > 45_000
    assert len(np.unique(drawn)) == len(drawn)


def test_key_parts_cannot_run_together() -> None:
    assert not np.array_equal(Draws(1, "1").uniform(0, 1, 4), Draws(11).uniform(0, 1, 4))
    assert not np.array_equal(Draws(1, "a\n").uniform(0, 1, 4), Draws(1, "a").uniform(0, 1, 4))


def test_uniforms_are_uniform_along_and_across_rows() -> None:
    values = Draws(5).uniform(0, 10_000, 8)
    assert values.min() >= 0
    assert values.max() < 1
    for column in values.T:
        assert fits(np.histogram(column, bins=100, range=(0, 1))[0])
    # Pairs of neighbours along a row and down a column fill the square evenly; at even places no two pairs share one.
    for one, other in ((values[:, :-1], values[:, 1:]), (values[:-1], values[1:])):
        cells = (20 * one[::2, ::2]).astype(int) * 20 + (20 * other[::2, ::2]).astype(int)
        assert fits(np.bincount(cells.ravel(), minlength=400))


def test_generators_of_neighbouring_draws_are_unrelated() -> None:
    first = np.array([Draws(5).generator(index).random() for index in range(4_000)])
    assert fits(np.histogram(first, bins=50, range=(0, 1))[0])
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 4 / math.sqrt(len(first))


@pytest.mark.parametrize(("smallest", "largest"), [(0, None), (1, 4), (5, 6)])
def test_sizes_of_coalitions_are_equally_likely(smallest: int, largest: int | None) -> None:
    sizes = Draws(9).coalitions(0, 20_000, 6, smallest, largest).sum(axis=1)
    counts = np.bincount(sizes, minlength=7)
    allowed = slice(smallest, (6 if largest is None else largest) + 1)
    assert counts[allowed].sum() == 20_000
    assert fits(counts[allowed])


@pytest.mark.parametrize("size", [0, 3, 6])
def test_coalitions_can_all_be_of_one_size(size: int) -> None:
    assert (Draws(9).coalitions(0, 100, 6, size, size).sum(axis=1) == size).all()


def test_coalitions_of_a_size_are_equally_likely() -> None:
    sets = Draws(9).coalitions(0, 40_000, 6)
    counts = np.bincount(sets @ (1 << np.arange(6)), minlength=64)  # one bin per set
    law = np.array([1 / (7 * math.comb(6, code.bit_count())) for code in range(64)])
    assert fits(counts, 40_000 * law)


def test_examples_are_drawn_evenly_and_with_replacement() -> None:
    used = Draws(4).examples(0, 60_000, 37)
    assert fits(np.bincount(used, minlength=37))
    pairs = 4 * (used[:-1:2] % 4) + used[1::2] % 4  # what came before does not matter
    law = np.outer(np.bincount(np.arange(37) % 4), np.bincount(np.arange(37) % 4)).ravel() / 37**2
    assert fits(np.bincount(pairs, minlength=16), law * len(pairs))


def test_examples_and_coalitions_of_a_draw_are_independent() -> None:
    example = Draws(4).examples(0, 20_000, 5)
    member = Draws(4).coalitions(0, 20_000, 5)[np.arange(20_000), example]
    table = np.array([[(member[example == number] == on).sum() for on in (False, True)] for number in range(5)])
    assert stats.chi2_contingency(table).pvalue > LEVEL


def test_nothing_at_all_can_be_drawn() -> None:
    draws = Draws(0)
    assert draws.uniform(3, 0, 2).shape == (0, 2)
    assert draws.uniform(3, 2, 0).shape == (2, 0)
    assert draws.coalitions(3, 2, 0).shape == (2, 0)
    assert draws.examples(3, 0, 2).shape == (0,)


def test_impossible_draws_are_refused_in_a_sentence() -> None:
    draws = Draws(0)
    with pytest.raises(HeadwiseError, match="not -1 and 1"):
        draws.generator(-1)
    with pytest.raises(HeadwiseError, match="not 0 and -2"):
        draws.uniform(0, -2, 3)
    with pytest.raises(HeadwiseError, match="width"):
        draws.uniform(0, 2, -3)
    with pytest.raises(HeadwiseError, match=r"between 0 and 4 \(players\), not from 3 to 2"):
        draws.coalitions(0, 1, 4, 3, 2)
    with pytest.raises(HeadwiseError, match="not from 0 to 5"):
        draws.coalitions(0, 1, 4, largest=5)
    with pytest.raises(HeadwiseError, match="number of examples must be at least 1"):
        draws.examples(0, 1, 0)
