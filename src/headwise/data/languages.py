"""Language codes and names. Codes name files, so they contain nothing that could lead out of a folder."""

import re
from importlib import import_module

from headwise.errors import HeadwiseError

_CODE = re.compile(r"[A-Za-z0-9]+([_-][A-Za-z0-9]+)*")


def check_code(code: str, where: object) -> None:
    """Check that a language code is valid.

    Args:
        code: The code.
        where: Where it was found, for the message: a file, with the line if there is one.

    Raises:
        HeadwiseError: It is not valid.

    Example:
        >>> check_code("en-de_tatoeba", "a.yaml")
        >>> check_code("../en", "a.yaml")
        Traceback (most recent call last):
        headwise.errors.HeadwiseError: a.yaml: '../en' is not a language code: use letters and digits, as in zh_tw
    """
    if _CODE.fullmatch(code) is None:
        raise HeadwiseError(f"{where}: {code!r} is not a language code: use letters and digits, as in zh_tw")


def language_name(code: str) -> str:
    """Return the English name of a language, or of both languages of a pair; the code itself if it is not known.

    Names come from the package `langcodes` (extra `cli`); without it the code is returned.

    Example:
        >>> language_name("sw"), language_name("en-de"), language_name("en_ewt"), language_name("xx")
        ('Swahili', 'English-German', 'English (ewt)', 'xx')
        >>> language_name("in-language")  # not Indonesian
        'in-language'
    """
    try:
        langcodes = import_module("langcodes")
        pair = re.fullmatch(r"([a-z]{2,3})-([a-z]{2,3})", code)
        if pair and langcodes.tag_is_valid(pair[2]):
            return "-".join(language_name(part) for part in pair.groups())
        plain, _, corpus = code.partition("_")
        if corpus and not re.fullmatch(r"[A-Za-z]{2}|[A-Za-z]{4}", corpus):  # neither a country nor a script
            name = language_name(plain)
            return code if name == plain else f"{name} ({corpus})"
        found = langcodes.Language.get(code)
        if not found.is_valid():
            return code
        name = str(found.display_name())
    except (ImportError, ValueError):  # langcodes or its names are not installed, or it cannot parse the code
        return code
    return code if name.startswith("Unknown language") else name
