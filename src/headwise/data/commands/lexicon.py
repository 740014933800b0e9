"""Our own words for rooms, devices and similar things, aligned across languages, with the grammar that they need.

The package has no names for rooms and devices. Its templates accept them in any case and after any article, because
they are meant for understanding and not for generation. A lexicon therefore has each word in the forms that the
language needs, and says which form is used where (`cases`), how the words around it change (`agree`), and which
sentences are unnatural (`avoid`).
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

#: The lists that lexicons fill, other than names of devices.
LISTS = ("area", "timer_name")

#: The kinds of devices in lexicons. Locks are not included: unlocking a door is turning its lock off, and many
#: languages say "open" for it.
DOMAINS = (
    "climate", "cover", "fan", "light", "media_player", "scene", "script", "switch", "vacuum", "valve", "weather",
)  # fmt: skip

#: Lists whose words are so common that they may also occur in the templates' own text.
FREE = ("timer_name", "scene", "script", "vacuum", "weather")

#: A filler in a marked sentence: its list, its kind and its text.
FILLER = re.compile(r"‹\w+ \w*›([^›]*)›")

#: The place of a word in the text that `cases` are matched with.
GAP = "‸"


@dataclass(frozen=True)
class Entry:
    """A word or phrase of the lexicon.

    Attributes:
        kind: Its gender, number or other property on which the words around it depend; may be empty.
        forms: Its text in each of the lexicon's forms.
    """

    kind: str
    forms: Mapping[str, str]


@dataclass(frozen=True)
class Lexicon:
    """The words of one language.

    Attributes:
        language: Its code.
        entries: The words of each list and kind of device; the same concepts in the same order in every language.
        unsaid: Words in the templates that are not used, and lists that are not used.
        cases: Patterns for `list|text before ‸ text after` and the form used there; the first match counts.
        agree: Patterns for sentences in which fillers are marked, `‹list kind›filler›`, and their replacements, such
            as the article that agrees with the filler.
        words: A pattern for any form of any room or device.
        avoid: A pattern for marked sentences that are unnatural.
    """

    language: str
    entries: Mapping[str, tuple[Entry, ...]]
    unsaid: frozenset[str]
    cases: tuple[tuple[re.Pattern[str], str], ...]
    agree: tuple[tuple[re.Pattern[str], str], ...]
    words: re.Pattern[str]
    avoid: re.Pattern[str]

    def named(self, list_name: str, domains: Sequence[str]) -> tuple[Entry, ...]:
        """Return the words of a list; for names of devices, those of the given kinds."""
        if list_name != "name":
            return self.entries[list_name]
        return tuple(entry for domain in domains for entry in self.entries[domain])

    def accept(self, marked: str) -> str | None:
        """Return a marked sentence with agreement; None if it is unnatural."""
        for pattern, better in self.agree:
            marked = pattern.sub(better, marked)
        return None if self.avoid.search(marked) else marked

    def form(self, entry: Entry, list_name: str, before: str, after: str) -> str:
        """Return the form of a word between two texts; the text before it has marks."""
        if len(self.cases) == 1:
            return entry.forms[self.cases[0][1]]
        said = re.sub(r"\s+", " ", FILLER.sub(r"\1", before))
        place = f"{list_name}|{said}{GAP}{after}"
        name = next(name for pattern, name in self.cases if pattern.search(place))
        return entry.forms[name]


def read_lexicon(language: str, spaced: bool) -> Lexicon:
    """Read the lexicon of a language, one of the JSON files beside this module.

    Args:
        language: Its code.
        spaced: Whether the language has spaces between words.
    """
    data = json.loads(lexicon_text(language))
    names: list[str] = data.get("forms", ["only"])
    cases = [*data.get("cases", []), ["", names[0]]]
    entries = {key: tuple(_entry(text, names) for text in data[key]) for key in (*LISTS, *DOMAINS)}
    return Lexicon(
        language=language,
        entries=entries,
        unsaid=frozenset(data.get("unsaid", [])),
        cases=tuple((re.compile(pattern), name) for pattern, name in cases),
        agree=tuple((re.compile(pattern), better) for pattern, better in data.get("agree", [])),
        words=_words([entry for key, listed in entries.items() if key not in FREE for entry in listed], spaced),
        avoid=re.compile("|".join(f"(?:{pattern})" for pattern in data.get("avoid", [])) or r"(?!)"),
    )


def lexicon_text(language: str) -> str:
    """Return the text of a language's file."""
    return (files("headwise.data.commands") / "lexicons" / f"{language}.json").read_text(encoding="utf-8")


def _entry(text: str, names: Sequence[str]) -> Entry:
    """Parse an entry `kind:form|form`; `=` repeats the first form, and a single form is used everywhere."""
    kind, _, rest = text.rpartition(":")
    forms = rest.split("|")
    if len(forms) == 1:
        forms *= len(names)
    return Entry(kind, dict(zip(names, (forms[0] if form == "=" else form for form in forms), strict=True)))


def _words(entries: Sequence[Entry], spaced: bool) -> re.Pattern[str]:
    forms = sorted({re.escape(form) for entry in entries for form in entry.forms.values()})
    return re.compile(rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)" if spaced else "|".join(forms))
