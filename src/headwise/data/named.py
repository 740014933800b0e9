"""The data sets that have a name: those that come with headwise, and those of the hub that it describes."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: What a data set can be, for messages and help texts.
KINDS = "a CSV, TSV, JSONL or CoNLL file, a folder, 'phrasebook', 'commands', 'hub:NAME', 'lm-eval:NAME' or a YAML file"
_HUB_SETS = Path(__file__).with_name("hub_sets")


@dataclass(frozen=True)
class NamedSet:
    """A data set that `--data` takes by name.

    Attributes:
        name: The name.
        tasks: The tasks that it has examples for.
        languages: How many languages it has.
        about: What it is and where it comes from.
    """

    name: str
    tasks: tuple[str, ...]
    languages: int
    about: str


def named_sets() -> tuple[NamedSet, ...]:
    """All data sets that have a name, the built-in ones first.

    Example:
        >>> [each.name for each in named_sets()][:3]
        ['phrasebook', 'commands', 'hub:massive']
    """
    from headwise.data.commands.generation import LANGUAGES as COMMAND_LANGUAGES
    from headwise.data.phrasebook import LANGUAGES as PHRASEBOOK_LANGUAGES

    phrases = "built in: parallel sentences with trees and entities (needs headwise[tasks])"
    commands = "built in: commands to a voice assistant, generated (needs headwise[offline])"
    hub = (_describe_hub(path) for path in sorted(_HUB_SETS.glob("*.yaml")))
    return (
        NamedSet("phrasebook", ("pos", "ner"), len(PHRASEBOOK_LANGUAGES), phrases),
        NamedSet("commands", ("intents", "slots"), len(COMMAND_LANGUAGES), commands),
        *hub,
    )


def _describe_hub(path: Path) -> NamedSet:
    """A set of the hub, as its YAML file declares it."""
    declared: dict[str, Any] = importlib.import_module("yaml").safe_load(path.read_text(encoding="utf-8"))
    tasks = declared["task"] if isinstance(declared["task"], list) else [declared["task"]]
    languages = len(declared.get("languages") or declared["config"])
    return NamedSet(f"hub:{path.stem}", tuple(tasks), languages, f"Hugging Face hub: {declared['dataset']}")
