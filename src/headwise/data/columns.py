"""Entities and slots in IOB2: columns with a word a line, and MultiATIS++ tables."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwise.data.examples import Sentence, TextExample, WordExample
from headwise.data.ids import counted_id
from headwise.data.text import FilePath, read_blocks
from headwise.data.tsv import read_table
from headwise.errors import HeadwiseError

logger = logging.getLogger(__name__)

#: Label maps: what a data set calls an entity, and what headwise makes of it (`O`: no entity).
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


def repair_iob2(labels: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Well-formed IOB2: an `I-` that continues nothing becomes `B-`; also returns how many did.

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
    """See that a label is IOB2 and, where a map is given, that the map knows it.

    Raises:
        HeadwiseError: It is not, or the map does not.
    """
    if label == "O":
        return
    if label[:2] not in ("B-", "I-") or len(label) == 2:
        raise HeadwiseError(f"{path}, line {number}: label {label!r} is not IOB2: write O, B-<type> or I-<type>")
    if known is not None and label[2:] not in known:
        raise HeadwiseError(
            f"{path}, line {number}: unknown entity type in label {label!r}: "
            f"use one of {', '.join(known)}, or add it to the label map"
        )


def log_repairs(path: FilePath, repaired: int) -> None:
    """Say how many labels of a file `repair_iob2` changed, if any."""
    if repaired:
        logger.warning("%s: %d I- labels that continue nothing were read as B-", path, repaired)


def read_columns(
    path: FilePath, labels: Mapping[str, str], word: int = 0, tag: int = 1, width: int = 2
) -> tuple[WordExample, ...]:
    r"""Sentences of a CoNLL-like file: a word a line, tabs between columns, blank lines between sentences.

    Lines that begin with `# ` are comments; `# sent_id = ...` names a sentence, and one without has its number for an
    id (`#1`). Malformed IOB2 is mended as in `repair_iob2`, and the number of such labels logged as a warning.

    Args:
        path: The file.
        labels: What the file calls each entity type, and what to make of it; `O` drops the entity.
        word: The column of the words, from 0.
        tag: The column of the IOB2 labels, from 0.
        width: How many columns there are.

    Raises:
        HeadwiseError: A ragged line, a label that is not IOB2 or not in the map, a file without words.

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
            examples.append(WordExample(name or counted_id(len(examples) + 1), words, mapped))
    if not examples:
        raise HeadwiseError(f"{path}: comments but no words: fetch the file again or give another")
    log_repairs(path, repaired)
    return tuple(examples)


def read_uner(path: FilePath) -> tuple[WordExample, ...]:
    """Sentences of a Universal NER file: index, token, label and two columns of annotation; OTH becomes O."""
    return read_columns(path, UNER_LABELS, word=1, tag=2, width=5)


def read_atis(path: FilePath) -> tuple[tuple[TextExample, ...], tuple[WordExample, ...]]:
    """Intents and slots of a MultiATIS++ table with the columns id, utterance, slot_labels, intent.

    Raises:
        HeadwiseError: A column is missing, a row is ragged or has not one IOB2 label for each word.
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

    Universal NER numbers PUD anew: `n01002-0003` is the third sentence of document n01002, `n01002042` in the treebank;
    and its Chinese file counts batches, so that Chinese shares no id with the others. Ids of the first kind tell the
    sentence; sentences with other ids are found by their words.

    Returns:
        The renamed sentences in the treebank's order, or the examples as they were, with a warning, if some sentence
        is in no way found.
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


def _rows(path: FilePath, block: list[tuple[int, str]], width: int) -> tuple[str, list[tuple[int, list[str]]]]:
    """A sentence's `sent_id` (empty if it has none) and the cells of its lines."""
    name, rows = "", []
    for number, line in block:
        if line.startswith("# "):
            key, _, value = line[2:].partition("=")
            name = value.strip() if key.strip() == "sent_id" else name
            continue
        cells = line.split("\t")
        if len(cells) != width or not all(cell.strip() for cell in cells):
            raise HeadwiseError(
                f"{path}, line {number}: not {width} filled columns: separate the word and its labels by one tab each"
            )
        rows.append((number, cells))
    return name, rows


def _mapped(label: str, labels: Mapping[str, str]) -> str:
    name = "O" if label == "O" else labels[label[2:]]
    return "O" if name == "O" else f"{label[:2]}{name}"
