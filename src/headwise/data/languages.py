"""Codes of languages: they name files, so they hold nothing that could lead out of a folder."""

import re

from headwise.errors import HeadwiseError

_CODE = re.compile(r"[A-Za-z0-9]+([_-][A-Za-z0-9]+)*")


def check_code(code: str, where: object) -> None:
    """See that a language's code is one.

    Args:
        code: The code.
        where: What it stands in, for the message: a file, with the line if it has any.

    Raises:
        HeadwiseError: It is not.

    Example:
        >>> check_code("en-de_tatoeba", "a.yaml")
        >>> check_code("../en", "a.yaml")
        Traceback (most recent call last):
        headwise.errors.HeadwiseError: a.yaml: '../en' is no code of a language: write letters and digits, as in zh_tw
    """
    if _CODE.fullmatch(code) is None:
        raise HeadwiseError(f"{where}: {code!r} is no code of a language: write letters and digits, as in zh_tw")
