"""Random draws that depend on nothing but a seed, the name of a stream and the draw's index."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.errors import HeadwiseError

#: Philox makes four 64-bit words at each step of its counter.
_WORDS = 4


@dataclass(frozen=True)
class Draws:
    """Draws numbered from 0, each the same whatever was drawn before it, in which batch, and by which worker.

    Draws come from Philox, which scrambles a counter under a key. The key is a hash of the seed, the stream, what
    is drawn and how wide a draw is, so these have nothing in common; a draw takes a fixed number of steps of the
    counter, so each index has its own stretch, and a range of indices is one stretch that is made in one go.

    `uniform`, `coalitions` and `examples` use Philox's words alone and never change; what a method of `generator`
    makes of them is up to the version of numpy.

    Attributes:
        seed: Any whole number.
        stream: Tells apart what must be independent under one seed.

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
        """A generator of the draw's own, for draws of no fixed width.

        Example:
            >>> bool(Draws(7).generator(3).random() == Draws(7).generator(3).random())
            True
        """
        _check_range(index, 1)
        # The upper half of the 256-bit counter: 2**128 steps until the next draw begins.
        return np.random.Generator(np.random.Philox(key=self._key("generator", 0), counter=int(index) << 128))

    def uniform(self, first: int, count: int, width: int) -> NDArray[np.float64]:
        """Numbers from 0 up to, never including, 1: one row per draw, (count, width).

        Rows of another width are other numbers, not the same ones cut off.
        """
        # The upper 53 bits are what a float64 holds, so every value is exact and equally likely.
        return (self._words("uniform", first, count, width) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def coalitions(
        self, first: int, count: int, players: int, smallest: int = 0, largest: int | None = None
    ) -> NDArray[np.bool_]:
        """Sets of players: first a size, each equally likely, then a set, each of that size equally likely.

        Args:
            first: Index of the first draw.
            count: How many draws.
            players: How many players there are.
            smallest: The smallest size.
            largest: The largest size, inclusive; all players unless given.

        Returns:
            Who is in each set, (count, players).

        Example:
            >>> Draws(7).coalitions(first=0, count=3, players=6, smallest=1, largest=5).astype(int)
            array([[0, 1, 1, 1, 0, 1],
                   [0, 0, 1, 1, 1, 1],
                   [1, 1, 1, 0, 0, 1]])
        """
        largest = players if largest is None else largest
        if not 0 <= smallest <= largest <= players:
            raise HeadwiseError(
                f"sizes of coalitions go from 0 to {players} (players), not from {smallest} to {largest}"
            )
        words = self._words("coalitions", first, count, players + 1)
        # (count, 1); the remainder of a 64-bit word favours no size by more than 2**-64.
        sizes = smallest + (words[:, :1] % np.uint64(largest - smallest + 1)).astype(np.int64)
        order = np.argsort(words[:, 1:], axis=1, kind="stable")  # (count, players)
        members = np.empty(order.shape, dtype=np.bool_)
        np.put_along_axis(members, order, np.arange(players) < sizes, axis=1)
        return members

    def examples(self, first: int, count: int, total: int) -> NDArray[np.int64]:
        """Which of `total` examples each draw uses, (count,): any of them, whatever came before.

        With replacement, because bounds on a mean that hold at all times need draws that do not know of one another.

        Example:
            >>> Draws(7).examples(first=0, count=8, total=4)
            array([1, 1, 0, 3, 3, 0, 0, 2])
        """
        if total < 1:
            raise HeadwiseError(f"draws need at least one example to choose from, not {total}")
        words = self._words("examples", first, count, 1)[:, 0]
        return (words % np.uint64(total)).astype(np.int64)

    def _words(self, what: str, first: int, count: int, width: int) -> NDArray[np.uint64]:
        """Random 64-bit words, one row per draw, (count, width)."""
        _check_range(first, count)
        if width < 0:
            raise HeadwiseError(f"a draw has a width of 0 or more, not {width}")
        steps = -(-width // _WORDS)  # of one row, rounded up: the words too many are dropped
        bits = np.random.Philox(key=self._key(what, width), counter=int(first) * steps)
        words: NDArray[np.uint64] = bits.random_raw(count * steps * _WORDS)
        return words.reshape(count, steps * _WORDS)[:, :width]

    def _key(self, what: str, width: int) -> int:
        """The 128-bit key; the stream comes last because only it may hold any character."""
        text = f"{self.seed}\n{what}\n{width}\n{self.stream}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")


def _check_range(first: int, count: int) -> None:
    if first < 0 or count < 0:
        raise HeadwiseError(f"draws have an index and a number of 0 or more, not {first} and {count}")
