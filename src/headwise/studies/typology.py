"""How far languages are from one another, as typologists measure it: out of a file, or out of URIEL.

URIEL comes from the package `urielplus`, which has its data inside and needs no network; `lang2vec` 1.1.2, the last on
PyPI, has no distances.
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

#: The distances that URIEL knows.
KINDS = ("syntactic", "genetic", "geographic", "phonological", "inventory", "featural")
#: Distances to one language, by language and kind; None where it is not known.
Distances = dict[str, dict[str, float | None]]
# ISO 639-1 to 639-3, where it is the code under which URIEL knows most: of Croatian, Serbian and Bosnian that is
# Serbo-Croatian, of all Norwegian `nor`; Chinese, Arabic, Swahili and the like are the macrolanguages.
_CODES = """
af afr am amh ar ara as asm az aze be bel bg bul bn ben br bre bs hbs ca cat cs ces cy cym da dan de deu el ell en eng
eo epo es spa et est eu eus fa fas fi fin fo fao fr fra fy fry ga gle gd gla gl glg gn grn gu guj ha hau he heb hi hin
hr hbs ht hat hu hun hy hye id ind ig ibo is isl it ita ja jpn jv jav ka kat kk kaz km khm kn kan ko kor ku kur ky kir
la lat lb ltz ln lin lo lao lt lit lv lav mg mlg mi mri mk mkd ml mal mn mon mr mar ms msa mt mlt my mya nb nor ne nep
nl nld nn nor no nor or ori pa pan pl pol ps pus pt por qu que ro ron ru rus rw kin sa san sd snd si sin sk slk sl slv
sn sna so som sq sqi sr hbs su sun sv swe sw swa ta tam te tel tg tgk th tha tk tuk tl tgl tn tsn tr tur tt tat ug uig
uk ukr ur urd uz uzb vi vie wo wol xh xho yi yid yo yor zh zho zu zul
"""
_ISO: dict[str, str] = dict(re.findall(r"\b(\w\w) (\w{3})\b", _CODES))


def iso_code(language: str) -> str | None:
    """The ISO 639-3 code of a language, whatever treebank, script or country follows it; None if it is not known.

    Example:
        >>> iso_code("de_pud"), iso_code("zh-TW"), iso_code("yue"), iso_code("xx")
        ('deu', 'zho', 'yue', None)
    """
    code = _leading(language)
    return code if len(code) == 3 else _ISO.get(code)


def _leading(language: str) -> str:
    return re.split("[_-]", language)[0].lower()


def read_distances(path: Path, languages: Sequence[str]) -> Distances:
    r"""The distances in a CSV or TSV file: a column `language`, then one for each kind of distance.

    A row of `de` also holds for `de_pud`, unless that has a row of its own. Empty cells are unknown.

    Raises:
        HeadwiseError: The file cannot be read, a column or all of the languages are missing, or a cell is no number.

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
        raise HeadwiseError(f"{path}: has none of the languages {', '.join(languages)}: give each a row")
    return found


def _rows(path: Path, lines: Sequence[str]) -> tuple[list[str], Distances]:
    """The kinds of distances in a file, and what it has of each language."""
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
        return {name: {kind: _distance(uriel, kind, start, iso_code(name)) for kind in KINDS} for name in languages}


def _distance(uriel: Any, kind: str, source: str, code: str | None) -> float | None:
    if code is None:
        return None
    try:
        return float(uriel.new_distance(kind, [source, code]))
    except ValueError:  # it does not know the language, or nothing that both languages have
        return None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the messages of urielplus, and without the handler that it gives the root logger."""
    root = logging.getLogger()
    before, level, handlers = root.manager.disable, root.level, list(root.handlers)
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)
        root.setLevel(level)
        root.handlers[:] = handlers
