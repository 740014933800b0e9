"""Random draws that depend only on a seed, the name of a stream and the draw's index."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.errors import HeadwiseError

#: Philox generates four 64-bit words at each step of its counter.
_WORDS = 4


@dataclass(frozen=True)
class Draws:
    """Draws numbered from 0, independent of the order, the batch and the worker in which they are made.

    Draws come from Philox, a counter-based generator with a key. The key is a hash of the seed, the stream, the kind
    of draw and its width, so draws that differ in one of these are independent. A draw uses a fixed number of counter
    steps. Each index therefore has its own range of the counter, and a range of indices is generated in one call.

    `uniform`, `coalitions` and `examples` use only Philox's raw words and never change. The results of a method of
    `generator` may depend on the version of numpy.

    Attributes:
        seed: Any integer.
        stream: Name that separates draws that must be independent under the same seed.

    Example:
        >>> draws = Draws(seed=7)
        >>> draws.uniform(first=0, count=3, width=2).round(3)
        array([[0.115, 0.49 ],
               [0.502, 0.754],
               [0.176, 0.789]])
        >>> bool((draws.uniform(first=2, count=1, width=2) == draws.uniform(first=0, count=3, width=2)[2:]).all())
        True
    """

    seed: int
    stream: str = ""

    def generator(self, index: int) -> np.random.Generator:
        """A separate generator for one draw, for draws without a fixed width.

        Example:
            >>> bool(Draws(7).generator(3).random() == Draws(7).generator(3).random())
            True
        """
        _check_range(index, 1)
        # The index is the upper half of the 256-bit counter, so each draw has 2**128 steps.
        return np.random.Generator(np.random.Philox(key=self._key("generator", 0), counter=int(index) << 128))

    def uniform(self, first: int, count: int, width: int) -> NDArray[np.float64]:
        """Uniform numbers in [0, 1): one row per draw, (count, width).

        Rows of another width are different numbers, not the same ones truncated.
        """
        # A float64 holds 53 bits exactly, so every value is exact and equally likely.
        return (self._words("uniform", first, count, width) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def coalitions(
        self, first: int, count: int, players: int, smallest: int = 0, largest: int | None = None
    ) -> NDArray[np.bool_]:
        """Random sets of players: the size is uniform, and the set is uniform among the sets of that size.

        Args:
            first: Index of the first draw.
            count: Number of draws.
            players: Number of players.
            smallest: The smallest size.
            largest: The largest size, inclusive; the number of players by default.

        Returns:
            The members of each set as booleans, (count, players).

        Example:
            >>> Draws(7).coalitions(first=0, count=3, players=6, smallest=1, largest=5).astype(int)
            array([[0, 1, 1, 1, 0, 1],
                   [0, 0, 1, 1, 1, 1],
                   [1, 1, 1, 0, 0, 1]])
        """
        largest = players if largest is None else largest
        if not 0 <= smallest <= largest <= players:
            raise HeadwiseError(
                f"coalition sizes must be between 0 and {players} (players), not from {smallest} to {largest}"
            )
        words = self._words("coalitions", first, count, players + 1)
        # (count, 1); the remainder of a 64-bit word changes the probability of a size by at most 2**-64.
        sizes = smallest + (words[:, :1] % np.uint64(largest - smallest + 1)).astype(np.int64)
        order = np.argsort(words[:, 1:], axis=1, kind="stable")  # (count, players)
        members = np.empty(order.shape, dtype=np.bool_)
        np.put_along_axis(members, order, np.arange(players) < sizes, axis=1)
        return members

    def examples(self, first: int, count: int, total: int) -> NDArray[np.int64]:
        """The index of the example that each draw uses, (count,), out of `total` examples.

        Draws are with replacement, because anytime-valid bounds on a mean need independent draws.

        Example:
            >>> Draws(7).examples(first=0, count=8, total=4)
            array([1, 1, 0, 3, 3, 0, 0, 2])
        """
        if total < 1:
            raise HeadwiseError(f"the number of examples must be at least 1, not {total}")
        words = self._words("examples", first, count, 1)[:, 0]
        return (words % np.uint64(total)).astype(np.int64)

    def _words(self, what: str, first: int, count: int, width: int) -> NDArray[np.uint64]:
        """Random 64-bit words, one row per draw, (count, width)."""
        _check_range(first, count)
        if width < 0:
            raise HeadwiseError(f"the width of a draw must be at least 0, not {width}")
        steps = -(-width // _WORDS)  # of one row, rounded up: the surplus words are dropped
        bits = np.random.Philox(key=self._key(what, width), counter=int(first) * steps)
        words: NDArray[np.uint64] = bits.random_raw(count * steps * _WORDS)
        return words.reshape(count, steps * _WORDS)[:, :width]

    def _key(self, what: str, width: int) -> int:
        """The 128-bit key; the stream is last because it may contain any character."""
        text = f"{self.seed}\n{what}\n{width}\n{self.stream}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")


def _check_range(first: int, count: int) -> None:
    if first < 0 or count < 0:
        raise HeadwiseError(f"the index and the number of draws must be at least 0, not {first} and {count}")
