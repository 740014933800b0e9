"""Ids of items: some identify an item in every language, others only number the items of one file."""

import re

# Ours (#12), and the running numbers of treebanks (dev-s12, as in UD's GSD) and of Universal NER (batch-0003-0012).
_RUNNING = re.compile(r"#\d+|(train|dev|test)-s?\d+|batch-\d+-\d+")


def running_id(number: int) -> str:
    """Return the id of an item without one: its number in the file, which means nothing in another file.

    Example:
        >>> running_id(7)
        '#7'
    """
    return f"#{number}"


def identifies_item(name: str) -> bool:
    """Return whether an id identifies the item, so that an equal id in another language is the same item.

    Example:
        >>> [identifies_item(name) for name in ("n01001011", "#7", "dev-s7")]
        [True, False, False]
    """
    return _RUNNING.fullmatch(name) is None
