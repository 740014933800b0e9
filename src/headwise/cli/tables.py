"""Plain tables: brackets are not interpreted as markup, and long cells are wrapped instead of cut."""

from collections.abc import Iterable, Sequence
from typing import Any


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], **style: Any) -> None:
    """Print a table.

    Args:
        title: Title of the table; may be empty.
        columns: Titles of the columns.
        rows: Cells of each row; an empty row is a horizontal line.
        style: Further arguments of `rich.table.Table`.
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
