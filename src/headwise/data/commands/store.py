"""Caches generated sentences: one file of JSON lines per language, written when the language is first used."""

import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from headwise.data.commands.digest import fingerprint
from headwise.data.commands.generation import INTENTS, LANGUAGES, SIZES, Command, generate
from headwise.data.commands.lexicon import lexicon_text
from headwise.errors import HeadwiseError

FORMAT = "headwise commands"

#: Increased whenever the same templates and lexicons give other sentences.
RECIPE = 1


def read_commands(language: str, folder: Path) -> list[Command]:
    """Return the sentences of a language, from the folder or, if they are not there yet, from the templates.

    Args:
        language: One of `LANGUAGES`.
        folder: The folder of the files; files of an older headwise are written again.
    """
    path = folder / f"{language}.jsonl"
    key = fingerprint(str(RECIPE), json.dumps(SIZES), " ".join(INTENTS), lexicon_text(language))
    commands = _read(path, key)
    if commands is None:
        commands = _generate(language)
        _write(path, key, commands)
    return commands


def _generate(language: str) -> list[Command]:
    from home_assistant_intents import get_intents

    data = get_intents(LANGUAGES[language])
    if data is None:
        raise HeadwiseError(f"home-assistant-intents has no language {LANGUAGES[language]!r}: install another version")
    return generate(language, data)


def _read(path: Path, key: str) -> list[Command] | None:
    """Return the sentences of a file; None if it does not exist or this version did not write it."""
    try:
        header, *lines = path.read_text(encoding="utf-8").splitlines()
        if json.loads(header) != {"format": FORMAT, "key": key, "count": len(lines)}:
            return None
        return [_command(line) for line in lines]
    except (OSError, ValueError, TypeError):
        return None


def _command(line: str) -> Command:
    fields = json.loads(line)
    return Command(**{**fields, "words": tuple(fields["words"]), "labels": tuple(fields["labels"])})


def _write(path: Path, key: str, commands: list[Command]) -> None:
    """Write under a temporary name, then rename, so that a reader never sees an incomplete file."""
    header = {"format": FORMAT, "key": key, "count": len(commands)}
    lines = [json.dumps(one, ensure_ascii=False) for one in (header, *map(asdict, commands))]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            file.write("\n".join(lines) + "\n")
        Path(file.name).chmod(0o644)
        Path(file.name).replace(path)
    except OSError as error:
        raise HeadwiseError(
            f"{path}: cannot be written: {error.strerror}: set HEADWISE_CACHE to another folder"
        ) from None
