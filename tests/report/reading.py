"""Parsing a page into elements, with a check that all of them are closed in order."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Element:
    """One element; its text includes that of its children."""

    name: str
    attributes: dict[str, str | None]
    children: list["Element"] = field(default_factory=list)
    text: str = ""

    def all(self, name: str = "", **attributes: str) -> list["Element"]:
        """All elements, including this one, with the given name and attributes."""
        wanted = {key.rstrip("_"): value for key, value in attributes.items()}
        own = [self] if name in ("", self.name) and wanted.items() <= self.attributes.items() else []
        return own + [found for child in self.children for found in child.all(name, **attributes)]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("page", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute of {tag} is given twice"
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data


def read(text: str) -> Element:
    """Parse a page; every element must be closed in order."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert [element.name for element in reader.open] == ["page"]
    return reader.open[0]
