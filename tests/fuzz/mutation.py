"""What can be wrong with a file: bytes that were changed, and data of other types, sizes and depths."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

#: What is put into text: special characters of the formats, numbers and nesting without end, halves of characters.
TOKENS = [
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\n", b"\n\n", b"\r", b"\r\n", b"\t", b" ", b"  ", b'"', b"'", b"\\", b"#"),
    *(b"{", b"}", b"[", b"]", b",", b":", b": ", b"- ", b"_", b"=", b"|", b"O", b"B-", b"I-", b"B-PER"),
    *(b"-DOCSTART-", b"# sent_id = ", b"0", b"1", b"-1", b"1-2", b"1.1", b"1e999", b"NaN", b"Infinity", b"null"),
    *(b"true", b"0x1F", b"1:30", b"2026-13-40", b"&a ", b"*a", b"<<: ", b"!!int ''", b"!!float ''", b"!!bool x"),
    *(b"!!timestamp x", b"!!binary x", b"!!set ", b"? ", b"---", b"...", b"%YAML", b"\\ud800", b"\\u0000", b"\x1f\x8b"),
    *("\u2028".encode(), "\x85".encode(), "\u0663".encode()),
    *(b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"1" + b":1" * 3000, b"0x" + b"f" * 5000, b"a" * 5000),
]
#: Values for a place where another one is expected.
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 2**31, 2**63, 10**30, 10**400, 0.5, -1.5, 1e308, float("inf"), float("nan")),
    *("", "x", "O", "\x00", "\ud800", "9" * 5000, "../x", "a" * 5000),
    *([], {}, [[]], [None], [1, 2], ["x", "x"], {"x": 1}, {"": None}, [{}], {"0": {"0": []}}, [[1], [2, 3]]),
]


def changed_bytes(valid: bytes) -> st.SearchStrategy[bytes]:
    """Valid bytes with a few changes; sometimes any bytes at all."""
    insertion = st.one_of(st.sampled_from(TOKENS), st.binary(max_size=8), st.just(b""))
    edit = st.tuples(st.integers(0, max(1, len(valid))), st.integers(0, 12), insertion)

    def apply(edits: list[tuple[int, int, bytes]]) -> bytes:
        found = bytearray(valid)
        for place, removed, inserted in edits:
            found[place : place + removed] = inserted
        return bytes(found)

    cut = st.integers(0, len(valid)).map(lambda place: valid[:place])
    return st.one_of(st.lists(edit, min_size=1, max_size=4).map(apply), cut, st.binary(max_size=200))


@st.composite
def changed_data(draw: st.DrawFn, valid: Any) -> Any:
    """Plain data in which a few places have another value, are missing, or are there under another name."""
    data = [copy.deepcopy(valid)]  # in a list, so that the whole can be replaced too
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(_places(data)))
        match draw(st.sampled_from(["replace", "replace", "delete", "rename", "repeat"])):
            case "delete" if container is not data:
                del container[key]
            case "rename" if isinstance(container, dict):
                container[draw(st.sampled_from(["", "x", "0", "\ud800"]))] = container.pop(key)
            case "repeat" if isinstance(container, list):
                container.append(copy.deepcopy(container[key]))
            case _:
                container[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    return data[0]


def changed_json(valid: bytes) -> st.SearchStrategy[bytes]:
    """A JSON file with other data, or with other bytes."""
    data = changed_data(json.loads(valid)).map(lambda found: json.dumps(found).encode())
    return st.one_of(data, data, changed_bytes(valid))


def changed_lines(valid: bytes) -> st.SearchStrategy[bytes]:
    """A file of JSON lines with other data in one line, or with other bytes."""
    lines = valid.splitlines()
    one = st.integers(0, len(lines) - 1).flatmap(
        lambda place: changed_data(json.loads(lines[place])).map(
            lambda found: b"\n".join([*lines[:place], json.dumps(found).encode(), *lines[place + 1 :]])
        )
    )
    return st.one_of(one, one, changed_bytes(valid))


def _places(data: Any) -> list[tuple[Any, Any]]:
    """Every place in nested data: the list or map, and the index or key."""
    found: list[tuple[Any, Any]] = []
    keys = list(data) if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in keys:
        found.append((data, key))
        found.extend(_places(data[key]))
    return found
