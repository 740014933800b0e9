"""Check the phrasebook's CoNLL-U files against UD's rules and the English file.

Usage: python -m tools.phrasebook.check [FILE …] [--reference FILE] [--language xx] [--quiet]

By default, all files of the package are checked. The language is the part of a file's name before the first dot. The
reference, by default the package's English file, defines identifiers, order and entities. The exit code is 0 if there
are no errors. Warnings (entities that differ from English, two subjects in Japanese or Korean) need a manual check.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import headwise.data.phrasebook
from tools.phrasebook.reading import Block, Report, read
from tools.phrasebook.rules import (
    SOURCE_LENGTHS,
    TRANSLATION_LENGTHS,
    check_reference,
    check_repeats,
    check_sentence,
)

PACKAGE = Path(headwise.data.phrasebook.__file__).parent
REFERENCE = PACKAGE / "en.conllu"


def check_file(path: Path, reference: Path = REFERENCE, language: str | None = None) -> tuple[list[Block], Report]:
    """Check one file.

    Args:
        path: A CoNLL-U file.
        reference: The file that defines identifiers, order and entities; may be `path` itself.
        language: The language's code; by default the part of the file's name before the first dot.

    Returns:
        The sentences and the report of errors and warnings.
    """
    report = Report(str(path))
    blocks = read(path, report)
    code = language or path.name.split(".")[0]
    is_source = path.resolve() == reference.resolve()
    for block in blocks:
        check_sentence(block, code, SOURCE_LENGTHS if is_source else TRANSLATION_LENGTHS, report)
    check_repeats(blocks, report)
    if not is_source:
        check_reference(blocks, read(reference, Report(str(reference))), report)
    return blocks, report


def summarise(blocks: list[Block]) -> str:
    """Counts of sentences, words, tags, relations and entities."""
    words = [word for block in blocks for word in block.words]
    real = sum(word.upos != "PUNCT" for word in words)
    named = sum(bool(block.entities()) for block in blocks)
    spans: Counter[str] = sum((block.entities() for block in blocks), Counter())
    lines = [
        f"{len(blocks)} sentences, {len(words)} words, {real} without punctuation",
        f"mean length {real / max(len(blocks), 1):.1f}; {named} sentences with entities: {dict(spans)}",
    ]
    for name, values in (("UPOS", [word.upos for word in words]), ("DEPREL", [word.deprel for word in words])):
        lines.append(" ".join((name, *(f"{key}={count}" for key, count in Counter(values).most_common()))))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checker.

    Returns:
        1 when there are errors, otherwise 0.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tools.phrasebook.check", description="Check phrasebook files against UD's rules."
    )
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="CoNLL-U files; default: all of the package"
    )
    parser.add_argument("--reference", type=Path, default=REFERENCE, help="file with the identifiers and entities")
    parser.add_argument("--language", help="code of the language; default: from the file's name")
    parser.add_argument("--quiet", action="store_true", help="do not print a summary")
    options = parser.parse_args(arguments)
    errors = 0
    for path in options.files or sorted(PACKAGE.glob("*.conllu")):
        blocks, report = check_file(path, options.reference, options.language)
        print(*report.errors, *report.warnings, sep="\n", end="\n" if report.errors or report.warnings else "")
        if not options.quiet:
            print(f"{path.name}: {summarise(blocks)}")
        print(f"{path.name}: {len(report.errors)} errors, {len(report.warnings)} warnings")
        errors += len(report.errors)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
