"""Markup that cannot be broken by what is put into it: all text is escaped unless it is markup already."""

import html
from collections.abc import Iterable

#: Elements that have nothing inside.
_EMPTY = {"meta", "input", "rect", "path", "line", "polyline", "polygon"}

Attribute = str | float | bool | None


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def element(name: str, /, *inside: str | None, **attributes: Attribute) -> Html:
    """An element: plain text in it and in its attributes is escaped, `Html` stands as it is, None is left out.

    Attributes are named as in HTML, with `_` for `-` and one at the end where Python has the word: `class_`. True
    gives the bare name, False and None nothing.

    Example:
        >>> print(element("p", "1 < 2, ", element("b", "&"), class_="note", hidden=True))
        <p class="note" hidden>1 &lt; 2, <b>&amp;</b></p>
    """
    opening = name + "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{opening}/>") if name in _EMPTY else Html(f"<{opening}>{joined(inside)}</{name}>")


def joined(parts: Iterable[str | None]) -> Html:
    """Some parts one after the other, plain text escaped.

    Example:
        >>> print(joined(["a < b", None, Html("<hr>")]))
        a &lt; b<hr>
    """
    return Html("".join(escape(part) for part in parts if part is not None))


def escape(text: str) -> str:
    """Text as it may stand in markup; markup as it is."""
    return text if isinstance(text, Html) else html.escape(text)


def isolated(text: str) -> Html:
    """Text from data, which may run from right to left without turning its neighbours round."""
    return element("bdi", text)


def table_frame(label: str, table: Html) -> Html:
    """A table that scrolls sideways on a narrow screen, with the mouse or the arrow keys."""
    return element("div", table, class_="frame", role="region", aria_label=label, tabindex="0")


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
