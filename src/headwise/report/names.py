"""Names of languages and of players, as the page shows them."""

import functools
import re
from collections.abc import Sequence
from pathlib import PurePath

from markupsafe import Markup

from headwise.data.languages import language_name
from headwise.report.html import element, isolated, joined

#: Names of languages are shown beside codes that look like this; other texts are names already.
_CODE = re.compile(r"[a-z]{2,3}([_-][A-Za-z0-9]+)*")


@functools.cache
def name_of(label: str) -> str:
    """The name of a language, or the code itself if the name is not known; words after a comma are kept.

    Example:
        >>> name_of("zh"), name_of("Chinese"), name_of("zh, cross-lingual")
        ('Chinese', 'Chinese', 'Chinese, cross-lingual')
    """
    code, comma, rest = label.partition(", ")
    return f"{language_name(code) if _CODE.fullmatch(code) else code}{comma}{rest}"


def language_label(label: str) -> Markup:
    """The name of a language with its code beside it.

    Example:
        >>> print(language_label("zh"))
        <bdi>Chinese</bdi> <code>zh</code>
    """
    name = name_of(label)
    return (
        isolated(label) if name == label else joined([isolated(name), " ", element("code", label.partition(", ")[0])])
    )


def short_name(name: str) -> str:
    """The last part of the path of a folder or file; other names, such as those of the hub, are unchanged.

    Example:
        >>> short_name("/home/me/models/tagger"), short_name("org/tagger")
        ('tagger', 'org/tagger')
    """
    path = PurePath(name)
    return path.name or name if path.is_absolute() or name.startswith((".", "~")) else name


def short_list(players: Sequence[str]) -> str:
    """Players by site, as compact text.

    Example:
        >>> short_list(("encoder.0.1", "encoder.0.3", "encoder.5.4"))
        'encoder.0: 1, 3; encoder.5: 4'
        >>> short_list(("encoder.ffn.3", "encoder.ffn.5"))
        'encoder.ffn: 3, 5'
    """
    sites: dict[str, list[str]] = {}
    for name in players:
        site, _, number = name.rpartition(".")
        sites.setdefault(site, []).append(number)
    return "; ".join(f"{site}: {', '.join(numbers)}" for site, numbers in sites.items())
