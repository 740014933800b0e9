"""Rules for every sentence and every file of the phrasebook."""

from collections import Counter

from tools.phrasebook.inventory import (
    ENTITY_TYPES,
    LEAVES,
    RELATIONS,
    SUBTYPES,
    TAGS,
    TAGS_BY_LANGUAGE,
    UPOS,
)
from tools.phrasebook.reading import ID_PREFIX, Block, Report, Word

#: Minimum and maximum number of words, without punctuation, of a source sentence and of a translation.
SOURCE_LENGTHS = (4, 20)
TRANSLATION_LENGTHS = (3, 24)


def check_sentence(block: Block, language: str, lengths: tuple[int, int], report: Report) -> None:
    """Check one sentence."""
    check_labels(block, language, report)
    if check_tree(block, report):
        check_leaves(block, language, report)
    check_entities(block, report)
    check_text(block, lengths, report)


def check_labels(block: Block, language: str, report: Report) -> None:
    """Check tags, relations and their combinations."""
    allowed = SUBTYPES.get(language, SUBTYPES["th"])
    for word in block.words:
        where = (word.line, block.id)
        if word.upos not in UPOS:
            report.error(*where, f"unknown UPOS {word.upos}")
        if word.relation not in RELATIONS:
            report.error(*where, f"unknown relation {word.deprel}")
        elif ":" in word.deprel and word.deprel not in allowed:
            report.error(*where, f"relation {word.deprel} is not used in {language}")
        if (word.upos == "PUNCT") != (word.relation == "punct"):
            report.error(*where, f"{word.form}: PUNCT requires punct, and punct requires PUNCT")
        tags = TAGS_BY_LANGUAGE.get((language, word.relation), TAGS.get(word.relation, UPOS))
        # The first word of a fixed expression has the relation of the whole expression, but its own tag.
        if word.upos in UPOS - tags and not _heads_expression(block, word):
            report.error(*where, f"{word.form}: {word.deprel} cannot be {word.upos}")


def _heads_expression(block: Block, word: Word) -> bool:
    """Whether a word heads a fixed expression or a broken word."""
    index = block.words.index(word) + 1
    return any(other.head == index and other.relation in ("fixed", "goeswith") for other in block.words)


def check_tree(block: Block, report: Report) -> bool:
    """Check that the heads form one tree.

    Returns:
        Whether they do; the other rules of structure need a tree.
    """
    words, before = block.words, len(report.errors)
    roots = sum(word.head == 0 for word in words)
    if roots != 1:
        report.error(block.line, block.id, f"{roots} roots")
    for index, word in enumerate(words, start=1):
        where = (word.line, block.id)
        if (word.head == 0) != (word.deprel == "root"):
            report.error(*where, f"{word.form}: head 0 requires root, and root requires head 0")
        if word.head > len(words) or word.head == index:
            report.error(*where, f"{word.form}: bad head {word.head}")
    if len(report.errors) > before:
        return False
    for index, word in enumerate(words, start=1):
        seen, at = {index}, word.head
        while at and at not in seen:
            seen.add(at)
            at = words[at - 1].head
        if at:
            report.error(word.line, block.id, f"{word.form}: its heads form a cycle")
            return False
    return True


def check_leaves(block: Block, language: str, report: Report) -> None:
    """Check the children of function words and the word order."""
    for index, word in enumerate(block.words, start=1):
        if not word.head:
            continue
        head = block.words[word.head - 1]
        where = (word.line, block.id)
        if word.relation not in LEAVES.get(head.relation, RELATIONS):
            report.error(*where, f"{word.form} ({word.deprel}) under {head.form} ({head.deprel})")
        if word.relation in ("conj", "flat", "fixed", "appos", "goeswith") and word.head > index:
            report.error(*where, f"{word.form}: {word.deprel} must follow its head")
    check_subjects(block, language, report)
    check_punctuation(block, report)


def check_subjects(block: Block, language: str, report: Report) -> None:
    """Check that no word has two subjects (a warning in Japanese and Korean) or two objects."""
    soft = language in ("ja", "ko")
    for kind in (("nsubj", "csubj"), ("obj",)):
        heads = Counter(
            word.head for word in block.words if word.relation in kind and not word.deprel.endswith(":outer")
        )
        for head, count in heads.items():
            word = block.words[head - 1]
            tell = report.warn if soft and "nsubj" in kind else report.error
            if count > 1:
                tell(word.line, block.id, f"{word.form} has {count} {'/'.join(kind)}")


def check_punctuation(block: Block, report: Report) -> None:
    """Check that punctuation is attached projectively and does not split another arc."""
    above = [_ancestors(block, index) for index in range(len(block.words) + 1)]
    for index, word in enumerate(block.words, start=1):
        if word.relation != "punct":
            continue
        low, high = sorted((index, word.head))
        if any(word.head not in above[between] for between in range(low + 1, high)):
            report.error(word.line, block.id, f"{word.form} is attached over other words")
        for dependent, other in enumerate(block.words, start=1):
            low, high = sorted((dependent, other.head))
            loose = [between for between in range(low + 1, high) if other.head not in above[between]]
            if other.head and loose == [index]:
                report.error(word.line, block.id, f"{word.form} splits {other.form}'s arc")


def _ancestors(block: Block, index: int) -> set[int]:
    """The indices of all heads above the word at `index`, counted from 1."""
    found: set[int] = set()
    while index:
        index = block.words[index - 1].head
        found.add(index)
    return found


def check_entities(block: Block, report: Report) -> None:
    """Check that entity spans are well-formed IOB2."""
    previous = ""
    for word in block.words:
        mark, _, kind = word.entity.partition("-")
        if word.entity and (mark not in ("B", "I") or kind not in ENTITY_TYPES):
            report.error(word.line, block.id, f"bad entity tag {word.entity}")
        if mark == "I" and previous[2:] != kind:
            report.error(word.line, block.id, f"{word.entity} does not continue a span")
        previous = word.entity


def check_text(block: Block, lengths: tuple[int, int], report: Report) -> None:
    """Check the comments, the text, the ranges and the length."""
    where = (block.line, block.id)
    for key in ("sent_id", "text"):
        if not block.comments.get(key):
            report.error(*where, f"no # {key} line")
    if not block.id.startswith(ID_PREFIX):
        report.error(*where, f"sent_id does not start with {ID_PREFIX}")
    if block.text != block.rebuilt():
        report.error(*where, f"text differs from words: {block.rebuilt()!r}")
    end = 0
    for item in block.ranges:
        if item.start < end or item.start + item.size > len(block.words):
            report.error(*where, f"range {item.form} overlaps another one or exceeds the sentence")
        end = item.start + item.size
    length = sum(word.upos != "PUNCT" for word in block.words)
    if not lengths[0] <= length <= lengths[1]:
        report.error(*where, f"{length} words, expected {lengths[0]} to {lengths[1]}")


def check_repeats(blocks: list[Block], report: Report) -> None:
    """Check that identifiers and texts are not repeated."""
    for what in ("sent_id", "text"):
        seen: dict[str, str] = {}
        for block in blocks:
            key = block.comments.get(what, "").casefold()
            if key in seen:
                report.error(block.line, block.id, f"{what} repeats that of {seen[key]}")
            seen.setdefault(key, block.id)


def check_reference(blocks: list[Block], source: list[Block], report: Report) -> None:
    """Check identifiers and entities against those of the reference."""
    ids, wanted = [block.id for block in blocks], [block.id for block in source]
    for missing in wanted:
        if missing not in ids:
            report.error(0, missing, "sentence missing")
    for block in blocks:
        if block.id not in wanted:
            report.error(block.line, block.id, "not in the reference")
    if ids != wanted and sorted(ids) == sorted(wanted):
        report.error(0, "-", "sentences are not in the order of the reference")
    by_id = {block.id: block for block in source}
    for block in blocks:
        if block.id in by_id and block.entities() != by_id[block.id].entities():
            found, expected = dict(block.entities()), dict(by_id[block.id].entities())
            report.warn(block.line, block.id, f"entities {found}, reference {expected}")
