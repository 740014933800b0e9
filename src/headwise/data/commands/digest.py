"""NamedDraws and names that are the same on every machine: from SHA-256, never from `hash` or a shared generator."""

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def fingerprint(*parts: str) -> str:
    """Ten hexadecimal digits that name these texts.

    Example:
        >>> fingerprint("en", "turn on the light") == fingerprint("en", "turn on the light")
        True
    """
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:10]


class NamedDraws:
    """A stream of draws that belongs to a name.

    Attributes:
        draw: Gives the next number, at least 0 and less than 1.

    Only `random.random` is used: the one method of which Python promises that a seed gives the same numbers for good.

    Example:
        >>> NamedDraws("en", "HassTurnOn").pick("abcdef") == NamedDraws("en", "HassTurnOn").pick("abcdef")
        True
    """

    def __init__(self, *name: str) -> None:
        self.draw = random.Random(int(fingerprint(*name), 16)).random

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[int(self.draw() * len(items))]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """The items in a drawn order."""
        return [items[index] for _, index in sorted((self.draw(), index) for index in range(len(items)))]
