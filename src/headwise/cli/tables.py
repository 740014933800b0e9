"""Tables of text as it is: brackets are no markup, and a narrow terminal folds cells in place of cutting them."""

from collections.abc import Iterable, Sequence
from typing import Any


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], **style: Any) -> None:
    """Print a table.

    Args:
        title: What stands above it, if anything.
        columns: Titles of its columns.
        rows: Its cells, a row after the other; an empty row is a line across.
        style: More of what `rich.table.Table` takes.
    """
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    headers = [Column(Text(name), overflow="fold") for name in columns]
    table = Table(*headers, title=Text(title, style="table.title") if title else None, **style)
    for row in rows:
        if row:
            table.add_row(*map(Text, row))
        else:
            table.add_section()
    Console().print(table)
