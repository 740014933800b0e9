"""Any data set by one word: `phrasebook`, `commands`, a folder, or a set on the hub."""

from typing import Literal, cast

from headwise.data.commands import open_commands
from headwise.data.dataset import Dataset
from headwise.data.folders import open_folder
from headwise.data.hub import open_hub
from headwise.data.phrasebook import open_phrasebook
from headwise.errors import HeadwiseError
from headwise.files import is_folder

PHRASEBOOK = "phrasebook"
COMMANDS = "commands"


def open_dataset(name: str, task: str) -> Dataset:
    """Open a data set.

    Args:
        name: `phrasebook` or `commands`, the two sets that every machine has; the path of a folder; `hub:NAME` for a
            declared set on the hub, or the path of a YAML file that declares one.
        task: The task whose examples are wanted.

    Raises:
        HeadwiseError: There is no such set, or it has nothing for the task.
    """
    match name:
        case "phrasebook":
            _require(task, ("pos", "ner"), name)
            return open_phrasebook(cast(Literal["pos", "ner"], task))
        case "commands":
            _require(task, ("intents", "slots"), name)
            return open_commands(cast(Literal["intents", "slots"], task))
    if name.startswith("hub:") or name.endswith((".yaml", ".yml")):
        return open_hub(name, task)
    if not is_folder(name):
        raise HeadwiseError(
            f"{name}: no such folder: --data takes a folder, '{PHRASEBOOK}', '{COMMANDS}', 'hub:NAME' or a YAML file"
        )
    return open_folder(name, task)


def _require(task: str, tasks: tuple[str, ...], name: str) -> None:
    if task not in tasks:
        raise HeadwiseError(f"the data set {name!r} has no task {task!r}: it has {', '.join(tasks)}")
