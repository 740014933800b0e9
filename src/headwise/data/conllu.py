"""Treebanks in CoNLL-U, the format of Universal Dependencies."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from headwise.data.columns import check_iob2, log_repairs, repair_iob2
from headwise.data.examples import UPOS, Sentence, WordExample
from headwise.data.ids import running_id
from headwise.data.text import FilePath, read_blocks
from headwise.errors import HeadwiseError
from headwise.support.extras import require

#: Tags of UD 1.x that version 2 renamed.
V1_UPOS = {"CONJ": "CCONJ"}

#: Columns that are not used are not parsed, which halves the time.
_UNREAD: dict[str, Callable[[list[str], int], Any]] = dict.fromkeys(("feats", "deps"), lambda _columns, _place: None)


#: A parsed line: `conllu.Token`, a dict with the names of the columns.
Token = Mapping[str, Any]


@cache
def _parser() -> tuple[Callable[..., Any], type[Exception]]:
    """Return the parser of the package `conllu` and the exception that it raises."""
    package = require("conllu", "tasks", "a treebank")
    return package.parse_token_and_metadata, package.exceptions.ParseException


def read_conllu(path: FilePath, v1: bool = False) -> tuple[Sentence, ...]:
    r"""Read the sentences of a CoNLL-U file.

    Multiword ranges and empty nodes are skipped. A sentence without `sent_id` gets its number as id (`#1`), one
    without `text` its words, separated by spaces. Entities are IOB2 labels under the MISC key `NER`; malformed IOB2
    is repaired as in `repair_iob2`, and a warning gives the number of such labels.

    Args:
        path: The file.
        v1: Whether the file is UD 1.x, in which CCONJ is called CONJ.

    Raises:
        HeadwiseError: The file is not CoNLL-U, or a word has no form, no UPOS tag of UD 2 or no head within its
            sentence.

    Example:
        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "one.conllu")
        ...     _ = path.write_text("1\tRain\train\tNOUN\t_\t_\t2\tnsubj\t_\t_\n"
        ...                         "2\tfell\tfall\tVERB\t_\t_\t0\troot\t_\t_\n")
        ...     pos_examples(read_conllu(path))
        (WordExample(id='#1', words=('Rain', 'fell'), labels=('NOUN', 'VERB')),)
    """
    sentences: list[Sentence] = []
    repaired = 0
    for block in read_blocks(path):
        rows, metadata = _parse(path, block)
        if rows:
            sentence, count = _sentence(path, rows, metadata, running_id(len(sentences) + 1), v1)
            sentences.append(sentence)
            repaired += count
    if not sentences:
        raise HeadwiseError(f"{path}: comments but no sentences: download the file again or give another")
    log_repairs(path, repaired)
    return tuple(sentences)


def pos_examples(sentences: Iterable[Sentence]) -> tuple[WordExample, ...]:
    """Return the sentences as words with parts of speech."""
    return tuple(WordExample(sentence.id, sentence.words, sentence.upos) for sentence in sentences)


def entity_examples(sentences: Iterable[Sentence]) -> tuple[WordExample, ...]:
    """Return the sentences as words with entity labels."""
    return tuple(WordExample(sentence.id, sentence.words, sentence.entities) for sentence in sentences)


def _parse(path: FilePath, block: list[tuple[int, str]]) -> tuple[list[tuple[int, Token]], Mapping[str, Any]]:
    """Parse a block; return its words with their line numbers, and its comments."""
    parse, failure = _parser()
    numbers, lines = [], []
    for number, line in block:
        if not line.startswith("#"):
            width = line.count("\t") + 1
            if width != 10:
                raise HeadwiseError(
                    f"{path}, line {number}: {width} columns instead of CoNLL-U's 10: separate columns by one tab each"
                )
            numbers.append(number)
            while "  " in line:  # the parser reads two spaces within a column as a tab
                line = line.replace("  ", " ")
        lines.append(line)
    try:
        parsed = parse("\n".join(lines), field_parsers=_UNREAD)
    except (failure, ValueError) as error:
        fault = str(error).rstrip(".") if isinstance(error, failure) else "a number is too long"
        raise HeadwiseError(f"{path}, line {_faulty(block)}: not CoNLL-U ({fault}): correct the line") from None
    rows = [(number, token) for number, token in zip(numbers, parsed, strict=True) if isinstance(token["id"], int)]
    return rows, parsed.metadata


def _faulty(block: list[tuple[int, str]]) -> int:
    """Return the number of the first line that cannot be parsed."""
    parse, failure = _parser()
    for number, line in block:
        try:
            parse(line, field_parsers=_UNREAD)
        except (failure, ValueError):  # ValueError: a number of thousands of digits
            return number
    return block[0][0]


def _sentence(
    path: FilePath, rows: Sequence[tuple[int, Any]], metadata: Mapping[str, Any], running: str, v1: bool
) -> tuple[Sentence, int]:
    """Return a sentence and the number of its entity labels that were repaired."""
    name = str(metadata.get("sent_id") or running)
    upos, entities = [], []
    for place, (number, token) in enumerate(rows, 1):
        if token["id"] != place:
            raise HeadwiseError(
                f"{path}, line {number}: word {token['id']} where word {place} of sentence {name!r} is expected: "
                "number the words from 1"
            )
        if not token["form"].strip():
            raise HeadwiseError(f"{path}, line {number}: word {place} of sentence {name!r} is empty: fill its form")
        if token["head"] is None or not 0 <= token["head"] <= len(rows):
            raise HeadwiseError(
                f"{path}, line {number}: the head of word {place} of sentence {name!r} is not one of its words: "
                f"give a number from 0 (root) to {len(rows)}"
            )
        upos.append(_tag(path, number, name, token["upos"], v1))
        entities.append((token.get("misc") or {}).get("NER") or "O")
        check_iob2(path, number, entities[-1])
    words = tuple(str(token["form"]) for _, token in rows)
    labels, repaired = repair_iob2(entities)
    return Sentence(
        id=name,
        text=str(metadata.get("text") or " ".join(words)),
        words=words,
        upos=tuple(upos),
        heads=tuple(int(token["head"]) for _, token in rows),
        relations=tuple(str(token["deprel"]) for _, token in rows),
        entities=labels,
    ), repaired


def _tag(path: FilePath, number: int, name: str, tag: str, v1: bool) -> str:
    known = V1_UPOS.get(tag, tag) if v1 else tag
    if known not in UPOS:
        way_out = "read it as UD 1.x (v1=True)" if tag in V1_UPOS else f"use one of {', '.join(UPOS)}"
        raise HeadwiseError(f"{path}, line {number}: unknown UPOS tag {tag!r} in sentence {name!r}: {way_out}")
    return known
