"""Random draws and names that are the same on every machine: made by SHA-256, not by `hash` or a shared generator."""

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def fingerprint(*parts: str) -> str:
    """Return ten hexadecimal digits that identify texts.

    Example:
        >>> fingerprint("en", "turn on the light") == fingerprint("en", "turn on the light")
        True
    """
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:10]


class NamedDraws:
    """A stream of random draws that depends only on a name.

    Attributes:
        draw: Returns the next number, at least 0 and less than 1.

    Only `random.random` is used, since it is the only method for which Python guarantees the same numbers for a seed.

    Example:
        >>> NamedDraws("en", "HassTurnOn").pick("abcdef") == NamedDraws("en", "HassTurnOn").pick("abcdef")
        True
    """

    def __init__(self, *name: str) -> None:
        self.draw = random.Random(int(fingerprint(*name), 16)).random

    def pick(self, items: Sequence[Item]) -> Item:
        """Return one of the items."""
        return items[int(self.draw() * len(items))]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """Return the items in random order."""
        return [items[index] for _, index in sorted((self.draw(), index) for index in range(len(items)))]
