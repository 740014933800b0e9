"""Typological distances between languages, from a file or from URIEL.

URIEL comes from the package `urielplus`, which contains its data and needs no network. The package `lang2vec` is not
used, because its latest version on PyPI (1.1.2) has no distances.
"""

import csv
import importlib
import logging
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError

#: The kinds of distances in URIEL.
DISTANCE_KINDS = ("syntactic", "genetic", "geographic", "phonological", "inventory", "featural")
#: Distances to one language, by language and kind; None if unknown.
Distances = dict[str, dict[str, float | None]]
#: Languages that URIEL describes best by the code of a macrolanguage: Serbo-Croatian and Norwegian.
_IN_URIEL = {"bs": "hbs", "hr": "hbs", "sr": "hbs", "nb": "nor", "nn": "nor"}


def iso_code(language: str) -> str | None:
    """The ISO 639-3 code of a language, without treebank, script or country; None if the language is unknown.

    Raises:
        HeadwiseError: The package `langcodes` is not installed.

    Example:
        >>> iso_code("de_pud"), iso_code("zh-TW"), iso_code("yue"), iso_code("xx")
        ('deu', 'zho', 'yue', None)
    """
    code = _leading(language)
    if code in _IN_URIEL:
        return _IN_URIEL[code]
    try:
        from langcodes import Language  # only needed here
    except ImportError:
        raise HeadwiseError("language codes need the package 'langcodes': pip install 'headwise[cli]'") from None
    try:
        # Normalization would replace Tagalog by Filipino.
        return Language.get(code, normalize=False).to_alpha3()
    except (LookupError, ValueError):
        return None


def _leading(language: str) -> str:
    return re.split("[_-]", language)[0].lower()


def read_distances(path: Path, languages: Sequence[str]) -> Distances:
    r"""Read distances from a CSV or TSV file with a column `language` and one column per kind of distance.

    A row of `de` also applies to `de_pud`, unless `de_pud` has its own row. Empty cells are unknown.

    Raises:
        HeadwiseError: The file cannot be read, a column or all languages are missing, or a cell is not a number.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "distances.csv"
        >>> _ = path.write_text("language,syntactic,genetic\nde,0.36,0.63\ntr,0.68,\n")
        >>> read_distances(path, ["de_pud", "tr"])
        {'de_pud': {'syntactic': 0.36, 'genetic': 0.63}, 'tr': {'syntactic': 0.68, 'genetic': None}}
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise HeadwiseError(f"{path}: 'typology' cannot be read: {error}") from None
    try:
        kinds, rows = _rows(path, lines)
    except csv.Error as error:
        raise HeadwiseError(f"{path}: 'typology' is not a table of distances: {error}") from None
    unknown: dict[str, float | None] = dict.fromkeys(kinds)
    found = {name: rows.get(name, rows.get(_leading(name), unknown)) for name in languages}
    if all(row is unknown for row in found.values()):
        raise HeadwiseError(f"{path}: has none of the languages {', '.join(languages)}: add a row for each")
    return found


def _rows(path: Path, lines: Sequence[str]) -> tuple[list[str], Distances]:
    """The kinds of distances in a file, and the distances of each language."""
    reader = csv.DictReader(lines, delimiter="\t" if lines and "\t" in lines[0] else ",")
    kinds = [name for name in reader.fieldnames or () if name != "language"]
    if "language" not in (reader.fieldnames or ()) or not kinds:
        raise HeadwiseError(f"{path}: the first line must name the columns: 'language' and at least one distance")
    return kinds, {row["language"]: {kind: _cell(path, reader.line_num, row[kind]) for kind in kinds} for row in reader}


def _cell(path: Path, line: int, text: str | None) -> float | None:
    if text is None or not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise HeadwiseError(f"{path}, line {line}: {text!r} is not a number: leave unknown cells empty")
    return value


def uriel_distances(source: str, languages: Sequence[str]) -> Distances | None:
    """The distances of languages to a source language in URIEL; None if the package `urielplus` is not installed.

    Raises:
        HeadwiseError: URIEL does not know the source, or its files cannot be read.
    """
    with _quiet():
        try:
            uriel = importlib.import_module("urielplus.urielplus").URIELPlus()
        except ImportError:
            return None
        except OSError as error:
            raise HeadwiseError(f"urielplus cannot read its data: {error}: give a file as 'typology'") from None
        start = iso_code(source)
        if start is None:
            raise HeadwiseError(f"'source' is {source!r}, which is not a language code: give one, or a 'typology' file")
        return {
            name: {kind: _distance(uriel, kind, start, iso_code(name)) for kind in DISTANCE_KINDS} for name in languages
        }


def _distance(uriel: Any, kind: str, source: str, code: str | None) -> float | None:
    if code is None:
        return None
    try:
        return float(uriel.new_distance(kind, [source, code]))
    except ValueError:  # the language is unknown, or the two languages have no feature in common
        return None


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the messages of urielplus, and remove the handler that it adds to the root logger."""
    root = logging.getLogger()
    before, level, handlers = root.manager.disable, root.level, list(root.handlers)
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)
        root.setLevel(level)
        root.handlers[:] = handlers
