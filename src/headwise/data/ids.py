"""Ids of items: some tell which item it is, in whatever language; others only count the items of one file."""

import re

# Ours (#12), and those with which treebanks (dev-s12, UD's GSD among them) and Universal NER (batch-0003-0012) count.
_COUNTED = re.compile(r"#\d+|(train|dev|test)-s?\d+|batch-\d+-\d+")


def counted_id(number: int) -> str:
    """The id of an item to which its file gives none: its number there, which says nothing in another file.

    Example:
        >>> counted_id(7)
        '#7'
    """
    return f"#{number}"


def tells_item(name: str) -> bool:
    """Whether an id tells the item, so that another language's item of that id is the same.

    Example:
        >>> [tells_item(name) for name in ("n01001011", "#7", "dev-s7")]
        [True, False, False]
    """
    return _COUNTED.fullmatch(name) is None
