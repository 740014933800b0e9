"""Labels of words: files with one word per line, IOB2 labels, and MultiATIS++ tables."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headwise.data.examples import Sentence, TextExample, WordExample
from headwise.data.ids import running_id
from headwise.data.text import FilePath, read_blocks
from headwise.data.tsv import read_table
from headwise.errors import HeadwiseError

logger = logging.getLogger(__name__)

#: Label maps of published data sets: the name of an entity type there and in headwise (`O`: no entity).
CONLL_LABELS = {"PER": "PER", "ORG": "ORG", "LOC": "LOC", "MISC": "MISC"}
UNER_LABELS = {"PER": "PER", "ORG": "ORG", "LOC": "LOC", "OTH": "O"}
IL_NER_LABELS = {
    **{"NEP": "PER", "NEL": "LOC", "NEO": "ORG"},
    **dict.fromkeys(("NEN", "NETI", "NEAR", "NEU", "NED", "NET", "NIMI"), "O"),
}
TURKISH_WIKI_LABELS = {
    **{"PERSON": "PER", "ORG": "ORG", "GPE": "LOC", "LOC": "LOC"},
    **dict.fromkeys(("CARDINAL", "DATE", "EVENT", "FAC", "LANGUAGE", "LAW", "MONEY", "NORP", "ORDINAL"), "O"),
    **dict.fromkeys(("PERCENT", "PRODUCT", "QUANTITY", "TIME", "TITLE", "WORK_OF_ART"), "O"),
}


def is_iob(label: str) -> bool:
    """Return whether a label is `O`, `B-<type>` or `I-<type>`."""
    return label == "O" or (label[:2] in ("B-", "I-") and len(label) > 2)


def to_iob(labels: Sequence[str]) -> tuple[str, ...]:
    """Turn BIOES and BILOU labels into `B-` and `I-`; other labels stay as they are.

    Example:
        >>> to_iob(["S-PER", "O", "B-LOC", "E-LOC"])
        ('B-PER', 'O', 'B-LOC', 'I-LOC')
    """
    prefixes = {"S-": "B-", "U-": "B-", "E-": "I-", "L-": "I-"}
    return tuple(prefixes.get(label[:2], label[:2]) + label[2:] for label in labels)


def repair_iob2(labels: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Return well-formed IOB2 labels and the number of labels that were changed.

    An `I-` that does not continue an entity becomes `B-`. This also turns IOB1 into IOB2.

    Example:
        >>> repair_iob2(["O", "I-PER", "I-PER", "I-LOC"])
        (('O', 'B-PER', 'I-PER', 'B-LOC'), 2)
    """
    well_formed, repaired = [], 0
    previous = "O"
    for label in labels:
        if label.startswith("I-") and previous[1:] != label[1:]:
            label = f"B-{label[2:]}"
            repaired += 1
        well_formed.append(label)
        previous = label
    return tuple(well_formed), repaired


def check_iob2(path: FilePath, number: int, label: str, known: Mapping[str, str] | None = None) -> None:
    """Check that a label is IOB2 and, if a label map is given, that its entity type is in the map.

    Raises:
        HeadwiseError: It is not.
    """
    if not is_iob(label):
        raise HeadwiseError(f"{path}, line {number}: label {label!r} is not IOB2: write O, B-<type> or I-<type>")
    if known is not None and label != "O" and label[2:] not in known:
        raise HeadwiseError(
            f"{path}, line {number}: unknown entity type in label {label!r}: "
            f"use one of {', '.join(known)}, or add it to the label map"
        )


def log_repairs(path: FilePath, repaired: int) -> None:
    """Log a warning with the number of labels of a file that `repair_iob2` changed, if any."""
    if repaired:
        logger.warning("%s: %d I- labels that do not continue an entity were read as B-", path, repaired)


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence of a file with one word per line.

    Attributes:
        line: The line of its first word.
        id: Its `sent_id`, or its number in the file (`#1`).
        words: Its words.
        tags: Its tags by the name of their column: `labels`, and `pos_tags` if there are at least three columns.
    """

    line: int
    id: str
    words: tuple[str, ...]
    tags: Mapping[str, tuple[str, ...]]


def read_tagged(path: FilePath) -> Iterator[TaggedSentence]:
    r"""Read the sentences of any file with one word per line and blank lines between sentences.

    Columns are separated by tabs, or by spaces if the first line of words has no tab. The word comes first and its
    label last, as in CoNLL-2003 (word, part of speech, chunk, entity); a Universal NER file (number, word, label and
    two more columns) is recognised by its numbers. Lines that begin with `# ` are comments, except that
    `# sent_id = ...` gives the id; `-DOCSTART-` lines are skipped.

    Raises:
        HeadwiseError: A line has another number of columns than the first, or there are no words.

    Example:
        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "en.conll")
        ...     _ = path.write_text("-DOCSTART- -X- -X- O\n\nRome NNP B-NP B-LOC\n")
        ...     [(sentence.words, sentence.tags) for sentence in read_tagged(path)]
        [(('Rome',), {'labels': ('B-LOC',), 'pos_tags': ('NNP',)})]
    """
    separator: str | None = None
    width, count = 0, 0
    for block in read_blocks(path):
        block = [(number, line) for number, line in block if not line.startswith("-DOCSTART-")]
        first = next((line for _, line in block if not line.startswith("# ")), None)
        if first is None:
            continue
        if not width:
            separator = "\t" if "\t" in first else None
            width = len(first.split(separator))
        # Where spaces separate the columns, "# O" is the word "#" with its label and not a comment.
        name, lines = _comments(block, width if separator is None else 0)
        rows = [(number, line.strip(" \r\n").split(separator)) for number, line in lines]
        for number, cells in rows:
            if len(cells) != width or width < 2 or not all(cell.strip() for cell in cells):
                raise HeadwiseError(
                    f"{path}, line {number}: {len(cells)} columns where {max(width, 2)} are needed: give every word "
                    f"one line with its label, separated by {'one tab' if separator else 'spaces or one tab'}"
                )
        count += 1
        columns = tuple(zip(*(cells for _, cells in rows), strict=True))
        numbered = width == 5 and columns[0] == tuple(str(place) for place in range(1, len(rows) + 1))
        words, tags = (columns[1], columns[2]) if numbered else (columns[0], columns[-1])
        found = {"labels": tags} if numbered or width == 2 else {"labels": tags, "pos_tags": columns[1]}
        yield TaggedSentence(rows[0][0], name or running_id(count), words, found)
    if not count:
        raise HeadwiseError(f"{path}: no words: give a file with one word and its label per line")


def read_columns(
    path: FilePath, labels: Mapping[str, str], word: int = 0, tag: int = 1, width: int = 2
) -> tuple[WordExample, ...]:
    r"""Read the sentences of a published data set: one word per line, tabs between columns, IOB2 labels.

    Lines that begin with `# ` are comments; `# sent_id = ...` gives the id of a sentence, and a sentence without one
    gets its number (`#1`). Malformed IOB2 is repaired as in `repair_iob2`; a warning gives the number of such labels.

    Args:
        path: The file.
        labels: The entity types of the file and what each becomes; `O` drops the entity.
        word: The column of the words, from 0.
        tag: The column of the IOB2 labels, from 0.
        width: The number of columns.

    Raises:
        HeadwiseError: A line has another number of columns, a label is not IOB2 or not in the map, or there are no
            words.

    Example:
        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "tr.conll")
        ...     _ = path.write_text("Ankara\tB-GPE\n1920\tB-DATE\n")
        ...     read_columns(path, TURKISH_WIKI_LABELS)
        (WordExample(id='#1', words=('Ankara', '1920'), labels=('B-LOC', 'O')),)
    """
    examples: list[WordExample] = []
    repaired = 0
    for block in read_blocks(path):
        name, rows = _rows(path, block, width)
        for number, cells in rows:
            check_iob2(path, number, cells[tag], labels)
        whole, count = repair_iob2([cells[tag] for _, cells in rows])
        repaired += count
        if rows:
            words = tuple(cells[word] for _, cells in rows)
            mapped = tuple(_mapped(label, labels) for label in whole)
            examples.append(WordExample(name or running_id(len(examples) + 1), words, mapped))
    if not examples:
        raise HeadwiseError(f"{path}: comments but no words: download the file again or give another")
    log_repairs(path, repaired)
    return tuple(examples)


def read_uner(path: FilePath) -> tuple[WordExample, ...]:
    """Read a Universal NER file: number, word, label and two columns of annotation; OTH becomes O."""
    return read_columns(path, UNER_LABELS, word=1, tag=2, width=5)


def read_atis(path: FilePath) -> tuple[tuple[TextExample, ...], tuple[WordExample, ...]]:
    """Read the intents and slots of a MultiATIS++ table with the columns id, utterance, slot_labels, intent.

    Raises:
        HeadwiseError: A column is missing, a row has another number of columns than the header, or the number of
            IOB2 labels is not the number of words.
    """
    intents, slots = [], []
    repaired = 0
    for number, (name, text, tags, intent) in read_table(path, ("id", "utterance", "slot_labels", "intent")):
        words, labels = text.split(), tags.split()
        if len(words) != len(labels):
            raise HeadwiseError(
                f"{path}, line {number}: {len(words)} words but {len(labels)} slot labels: give one label for each word"
            )
        for label in labels:
            check_iob2(path, number, label)
        whole, count = repair_iob2(labels)
        repaired += count
        intents.append(TextExample(name, text, intent))
        slots.append(WordExample(name, tuple(words), whole))
    log_repairs(path, repaired)
    return tuple(intents), tuple(slots)


def align_pud(examples: Sequence[WordExample], treebank: Sequence[Sentence]) -> tuple[WordExample, ...]:
    """Give the sentences of a Universal NER PUD file the ids and the order of the same language's PUD treebank.

    Universal NER numbers the PUD sentences in its own way: `n01002-0003` is the third sentence of document n01002,
    which is `n01002042` in the treebank. Its Chinese file numbers batches, so that Chinese shares no id with the
    others. Ids of the first kind identify the sentence; sentences with other ids are found by their words.

    Returns:
        The sentences with new ids in the treebank's order; or, if a sentence is not found, the examples unchanged,
        with a warning.
    """
    by_rank: dict[str, str] = {}
    seen: dict[str, int] = {}
    for sentence in treebank:
        document = sentence.id[:6]
        seen[document] = seen.get(document, 0) + 1
        by_rank[f"{document}-{seen[document]:04}"] = sentence.id
    by_words = {sentence.words: sentence.id for sentence in treebank}
    found = {by_rank.get(example.id) or by_words.get(example.words): example for example in examples}
    if None in found or len(found) != len(examples):
        logger.warning("Universal NER's PUD sentences are not those of the treebank: they keep their own ids")
        return tuple(examples)
    return tuple(replace(found[sentence.id], id=sentence.id) for sentence in treebank if sentence.id in found)


def _comments(block: list[tuple[int, str]], width: int = 0) -> tuple[str, list[tuple[int, str]]]:
    """Return a sentence's `sent_id` (empty if it has none) and its lines without comments.

    A line that begins with `# ` is a comment unless it has no `=` and exactly `width` cells between spaces.
    """
    name, lines = "", []
    for number, line in block:
        if line.startswith("# ") and ("=" in line or len(line.split()) != width):
            key, _, value = line[2:].partition("=")
            name = value.strip() if key.strip() == "sent_id" else name
        else:
            lines.append((number, line))
    return name, lines


def _rows(path: FilePath, block: list[tuple[int, str]], width: int) -> tuple[str, list[tuple[int, list[str]]]]:
    """Return a sentence's `sent_id` (empty if it has none) and the cells of its lines."""
    name, lines = _comments(block)
    rows = [(number, line.split("\t")) for number, line in lines]
    for number, cells in rows:
        if len(cells) != width or not all(cell.strip() for cell in cells):
            raise HeadwiseError(
                f"{path}, line {number}: not {width} filled columns: separate the word and its labels by one tab each"
            )
    return name, rows


def _mapped(label: str, labels: Mapping[str, str]) -> str:
    name = "O" if label == "O" else labels[label[2:]]
    return "O" if name == "O" else f"{label[:2]}{name}"
