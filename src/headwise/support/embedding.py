"""Data and scripts inside an HTML page that needs nothing else."""

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

#: Characters that could end a script element, or that are line ends in JavaScript.
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_TABLE = str.maketrans(_UNSAFE)


def safe_json(data: Any) -> str:
    r"""Data as JSON that is safe inside a script element of a page.

    Example:
        >>> safe_json({"a": "</script>"})
        '{"a":"\\u003c/script\\u003e"}'
    """
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_TABLE)


def page_script(*scripts: str) -> str:
    """The script of a page: what all pages share, and then its own scripts."""
    shared = files("headwise.support").joinpath("elements.js").read_text(encoding="utf-8")
    return "\n".join((shared, *scripts))


def page_policy(style: str, script: str) -> str:
    """A content security policy that allows one style sheet and one script of the page itself, and nothing else.

    Example:
        >>> page_policy("p {}", "")
        "default-src 'none'; style-src 'sha256-SNJDlN1Iy2mnt7DOjQIyDb2LQE6O5PQiSZomcdzawQ4='; script-src \
'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    return f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
