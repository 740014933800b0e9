"""How scores and masks look in a notebook: one coloured square per head, layers as rows."""

import html
from collections.abc import Sequence

_CELL = "width:14px;height:14px;padding:0;border:1px solid #fff;background:{}"
_LABEL = "font:11px sans-serif;padding:0 6px 0 0;text-align:right;border:0;background:none"


def html_grid(title: str, players: Sequence[str], colours: Sequence[str], tips: Sequence[str]) -> str:
    """A table with one square per player; all text is escaped.

    Args:
        title: A line above the table.
        players: Names of the players, such as `encoder.3.7`; the part before the last dot is the row.
        colours: CSS colour of each player.
        tips: Text that is shown when the mouse is over the player.

    Example:
        >>> html_grid("<2 heads>", ("encoder.0.0", "encoder.0.1"), ("#fff", "#000"), ("a", "b")).count("<td title")
        2
    """
    rows: dict[str, list[str]] = {}
    for name, colour, tip in zip(players, colours, tips, strict=True):
        cell = f'<td title="{html.escape(tip)}" style="{_CELL.format(html.escape(colour))}"></td>'
        rows.setdefault(name.rpartition(".")[0], []).append(cell)
    lines = (f'<tr><th style="{_LABEL}">{html.escape(row)}</th>{"".join(cells)}</tr>' for row, cells in rows.items())
    return f"<div>{html.escape(title)}</div><table style='border-collapse:collapse'>{''.join(lines)}</table>"


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows under column titles, padded with spaces; the first column is left-aligned, the others right-aligned.

    Example:
        >>> print(text_table(("language", "accuracy"), [("zh", "79.23")]))
        language  accuracy
        zh           79.23
    """
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        first, *others = (
            cell.ljust(width) if not place else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join([first, *others]).rstrip()

    return "\n".join(line(each) for each in (columns, *rows))


def html_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as an HTML table; all text is escaped.

    Example:
        >>> html_table(("language",), [("<zh>",)])
        '<table><tr><th>language</th></tr><tr><td>&lt;zh&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{html.escape(each)}</th>" for each in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def diverging_colour(value: float, largest: float) -> str:
    """Orange for negative values, blue for positive ones, white for 0; safe for colour-blind readers.

    Example:
        >>> diverging_colour(0.0, 1.0), diverging_colour(-1.0, 1.0), diverging_colour(float("nan"), 1.0)
        ('rgb(255,255,255)', 'rgb(213,94,0)', '#ddd')
    """
    if value != value:
        return "#ddd"
    share = min(1.0, abs(value) / largest) if largest > 0 else 0.0
    full = (213, 94, 0) if value < 0 else (0, 114, 178)
    return f"rgb({','.join(str(round(255 + share * (part - 255))) for part in full)})"


def shorten(names: Sequence[str], most: int = 8) -> str:
    """The first few names and the number of the others.

    Example:
        >>> shorten(["a", "b", "c"], most=2)
        'a, b and 1 more'
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
