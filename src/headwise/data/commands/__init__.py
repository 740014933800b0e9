"""`commands`: commands to a voice assistant at home, in 20 languages, with intents and slots.

The sentences are generated from the templates of the PyPI package `home-assistant-intents` (Apache-2.0, CC BY 4.0),
written by native speakers, and from our own lexicons of rooms and devices (CC0), with the same concepts in every
language. Train, dev and test use different templates, and train uses other words than dev and test: with a random split
any model would be near 100%.
"""

from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from headwise.data.commands.generation import INTENTS, LANGUAGES, Command
from headwise.data.commands.sentences import SLOTS
from headwise.data.commands.store import read_commands
from headwise.data.commands.template_splits import SPLITS
from headwise.data.dataset import Dataset
from headwise.data.examples import Example, TextExample, WordExample
from headwise.errors import HeadwiseError
from headwise.files import cache_folder

__all__ = ["INTENTS", "LANGUAGES", "SLOTS", "SLOT_LABELS", "open_commands"]

#: The labels of the slots task. A language may lack some of them: English has no colour with two words.
SLOT_LABELS = ("O", *(f"{place}-{slot}" for slot in SLOTS for place in "BI"))


def open_commands(task: Literal["intents", "slots"], cache: Path | None = None) -> Dataset:
    """Open the data set; a language is generated when it is first used, and cached.

    Args:
        task: `intents` for sentences with their intent (`INTENTS`), `slots` for words with their slot in IOB2
            (`SLOT_LABELS`).
        cache: The folder for generated files; by default `commands/<version of the package>` in headwise's cache.

    Raises:
        HeadwiseError: There is no such task, or the packages of `headwise[offline]` are not installed.

    Example:
        >>> open_commands("intents").languages[:4]
        ('ar', 'bg', 'cs', 'de')
    """
    if task not in ("intents", "slots"):
        raise HeadwiseError(f"commands has no task {task!r}: it has intents, slots")
    try:
        import_module("hassil")
        import_module("home_assistant_intents")
    except ImportError:
        raise HeadwiseError(
            "commands needs the packages hassil and home-assistant-intents: pip install 'headwise[offline]'"
        ) from None
    folder = cache or cache_folder() / "commands" / version("home-assistant-intents")
    loaded: dict[str, list[Command]] = {}

    def load(language: str, split: str) -> tuple[Example, ...]:
        if language not in loaded:
            loaded[language] = read_commands(language, folder)
        return tuple(_example(command, task) for command in loaded[language] if command.split == split)

    return Dataset(
        "commands", tuple(LANGUAGES), SPLITS, load, note="generated from templates of home-assistant-intents"
    )


def _example(command: Command, task: Literal["intents", "slots"]) -> Example:
    if task == "intents":
        return TextExample(command.id, command.text, command.intent)
    return WordExample(command.id, command.words, command.labels)
