"""HTML elements whose text and attributes are escaped by markupsafe; only `Markup` is not escaped."""

from collections.abc import Iterable

from markupsafe import Markup, escape

#: Elements without content.
_EMPTY = {"meta", "input", "rect", "path", "line", "polyline", "polygon", "circle"}

Attribute = str | float | bool | None


def element(name: str, /, *inside: str | None, **attributes: Attribute) -> Markup:
    """An element. Text and attributes are escaped, `Markup` is not; None is left out.

    Attributes are named as in HTML, with `_` for `-` and a trailing `_` if the name is a Python keyword: `class_`.
    True gives the bare name; False and None give no attribute.

    Example:
        >>> print(element("p", "1 < 2, ", element("b", "&"), class_="note", hidden=True))
        <p class="note" hidden>1 &lt; 2, <b>&amp;</b></p>
    """
    opening = name + "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{opening}/>") if name in _EMPTY else Markup(f"<{opening}>{joined(inside)}</{name}>")


def joined(parts: Iterable[str | None]) -> Markup:
    """Concatenate parts; text is escaped, None is left out.

    Example:
        >>> print(joined(["a < b", None, Markup("<hr>")]))
        a &lt; b<hr>
    """
    return Markup("").join(part for part in parts if part is not None)


def isolated(text: str) -> Markup:
    """Text from data in a `bdi` element, so that right-to-left text does not reorder the text around it."""
    return element("bdi", text)


def table_frame(label: str, table: Markup) -> Markup:
    """A table that scrolls horizontally on a narrow screen, with the mouse or the arrow keys."""
    return element("div", table, class_="frame", role="region", aria_label=label, tabindex="0")


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
