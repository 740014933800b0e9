"""Treebanks in CoNLL-U, the format of Universal Dependencies."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headwise.data.columns import check_iob2, log_repairs, repair_iob2
from headwise.data.examples import UPOS, Sentence, WordExample
from headwise.data.ids import counted_id
from headwise.data.text import FilePath, read_blocks
from headwise.errors import HeadwiseError
from headwise.extras import require

#: Tags of UD 1.x that version 2 renamed.
V1_UPOS = {"CONJ": "CCONJ"}

#: Columns that nobody asks for here are not taken apart, which halves the time.
_UNREAD: dict[str, Callable[[list[str], int], Any]] = dict.fromkeys(("feats", "deps"), lambda _columns, _place: None)


def read_conllu(path: FilePath, v1: bool = False) -> tuple[Sentence, ...]:
    r"""The sentences of a CoNLL-U file.

    Multiword ranges and empty nodes are skipped. A sentence without `sent_id` has its number for an id (`#1`), one
    without `text` its words with spaces between. Entities are IOB2 labels under the MISC key `NER`; malformed IOB2
    is mended as in `repair_iob2`, and the number of such labels logged as a warning.

    Args:
        path: The file.
        v1: The file is of UD 1.x: read CONJ as CCONJ.

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
            sentence, count = _sentence(path, rows, metadata, counted_id(len(sentences) + 1), v1)
            sentences.append(sentence)
            repaired += count
    if not sentences:
        raise HeadwiseError(f"{path}: comments but no sentences: fetch the file again or give another")
    log_repairs(path, repaired)
    return tuple(sentences)


def pos_examples(sentences: Iterable[Sentence]) -> tuple[WordExample, ...]:
    """The sentences as words with parts of speech."""
    return tuple(WordExample(sentence.id, sentence.words, sentence.upos) for sentence in sentences)


def entity_examples(sentences: Iterable[Sentence]) -> tuple[WordExample, ...]:
    """The sentences as words with entity labels."""
    return tuple(WordExample(sentence.id, sentence.words, sentence.entities) for sentence in sentences)


def _parse(path: FilePath, block: list[tuple[int, str]]) -> tuple[list[tuple[int, Any]], Mapping[str, Any]]:
    """A block's word lines, parsed and numbered, and its comments."""
    conllu = _conllu()
    numbers, lines = [], []
    for number, line in block:
        if not line.startswith("#"):
            width = line.count("\t") + 1
            if width != 10:
                raise HeadwiseError(
                    f"{path}, line {number}: {width} columns instead of CoNLL-U's 10: separate columns by one tab each"
                )
            numbers.append(number)
            while "  " in line:  # the parser would take two spaces within a column for a tab
                line = line.replace("  ", " ")
        lines.append(line)
    try:
        parsed = conllu.parse_token_and_metadata("\n".join(lines), field_parsers=_UNREAD)
    except conllu.exceptions.ParseException as error:
        fault = str(error).rstrip(".")
        raise HeadwiseError(f"{path}, line {_faulty(block)}: not CoNLL-U ({fault}): mend the line") from None
    rows = [(number, token) for number, token in zip(numbers, parsed, strict=True) if isinstance(token["id"], int)]
    return rows, parsed.metadata


def _conllu() -> Any:
    return require("conllu", "tasks", "a treebank")


def _faulty(block: list[tuple[int, str]]) -> int:
    """The number of the line on which the parser stumbles."""
    conllu = _conllu()
    for number, line in block:
        try:
            conllu.parse_token_and_metadata(line, field_parsers=_UNREAD)
        except conllu.exceptions.ParseException:
            return number
    return block[0][0]


def _sentence(
    path: FilePath, rows: Sequence[tuple[int, Any]], metadata: Mapping[str, Any], running: str, v1: bool
) -> tuple[Sentence, int]:
    """A sentence, and how many of its entity labels were mended."""
    name = str(metadata.get("sent_id") or running)
    upos, entities = [], []
    for place, (number, token) in enumerate(rows, 1):
        if token["id"] != place:
            raise HeadwiseError(
                f"{path}, line {number}: word {token['id']} where word {place} of sentence {name!r} is due: "
                "number the words from 1"
            )
        if not token["form"].strip():
            raise HeadwiseError(f"{path}, line {number}: word {place} of sentence {name!r} is empty: fill its form")
        if token["head"] is None or not 0 <= token["head"] <= len(rows):
            raise HeadwiseError(
                f"{path}, line {number}: the head of word {place} of sentence {name!r} is not a word of it: "
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
