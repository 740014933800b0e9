"""Every data set by its name or path: offline sets, published sets, the hub, own files."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

from headwise.data.answer_language import ANSWER_LANGUAGE, answer_language, base_task
from headwise.data.commands import open_commands
from headwise.data.dataset import Dataset
from headwise.data.folders import FOLDERS, open_folder, tasks_in
from headwise.data.hub import open_hub, tasks_on_hub
from headwise.data.lm_eval_tasks import PREFIX, open_harness, tasks_of_harness
from headwise.data.named import KINDS
from headwise.data.own import is_pattern, open_own
from headwise.data.phrasebook import open_phrasebook
from headwise.errors import HeadwiseError
from headwise.files import is_folder

#: The data sets that come with headwise, and the tasks of each.
OFFLINE = {"phrasebook": ("pos", "ner"), "commands": ("intents", "slots")}


def open_dataset(name: str | os.PathLike[str], task: str) -> Dataset:
    r"""Open a data set.

    Args:
        name: `phrasebook` or `commands`, which come with headwise; a file of your own (CSV, TSV, JSONL, CoNLL, text); a
            pattern for one file per language, such as `reviews.{language}.csv`; a folder of such files or of published
            data sets; `hub:NAME` for a declared set on the Hugging Face hub; a YAML file that declares one; or
            `lm-eval:NAME` for a task of lm-evaluation-harness.
        task: The task, one of `headwise.data.task_names.TASKS`.

    Raises:
        HeadwiseError: There is no such data set, it has nothing for the task, or its content does not fit.

    Example:
        >>> open_dataset("phrasebook", task="pos").examples("de", "dev")[0].words
        ('Liegt', 'das', 'Museum', 'in', 'der', 'Nähe', 'des', 'Bahnhofs', '?')
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "reviews.csv")
        ...     _ = path.write_text("text,label,language,split\nSehr gut!,good,de,test\nÇok kötü!,bad,tr,test\n")
        ...     reviews = open_dataset(path, task="classification")
        >>> reviews.languages
        ('de', 'tr')
    """
    return replace(_find(os.fspath(name), task)[0], task=task, source=os.fspath(name))


def open_and_guess(name: str | os.PathLike[str], task: str | None = None) -> tuple[Dataset, str, str]:
    """Open a data set as `open_dataset` does; without a task, guess it.

    Returns:
        The data set, the task and, if the task was guessed, the reason.

    Raises:
        HeadwiseError: As in `open_dataset`; or the data have several tasks, or fit none.
    """
    return _find(os.fspath(name), task)


def _find(name: str, task: str | None) -> tuple[Dataset, str, str]:
    if task == ANSWER_LANGUAGE:
        return answer_language(open_dataset(name, base_task(name))), task, ""
    if name in OFFLINE:
        return _with_task(name, task, OFFLINE[name], lambda chosen: _open_offline(name, chosen))
    if name.startswith(PREFIX):
        return _from_harness(name, task)
    if name.startswith("hub:") or name.endswith((".yaml", ".yml")):
        return _with_task(name, task, tasks_on_hub(name), lambda chosen: open_hub(name, chosen))
    if is_folder(name) and any(is_folder(Path(name) / folder) for folder in FOLDERS):
        tasks = tasks_in(name) if task is None else ()
        return _with_task(name, task, tasks, lambda chosen: open_folder(name, chosen))
    if not (is_pattern(name) or _exists(name)):
        raise HeadwiseError(f"{name}: no such file or folder: give {KINDS}")
    return open_own(name, task)


def _from_harness(name: str, task: str | None) -> tuple[Dataset, str, str]:
    """Open a task of lm-evaluation-harness; its kind says the task."""
    chosen = task or tasks_of_harness(name)[0]
    return open_harness(name, chosen), chosen, "" if task else "its kind in lm-evaluation-harness says so"


def _with_task(
    name: str, task: str | None, tasks: tuple[str, ...], load: Callable[[str], Dataset]
) -> tuple[Dataset, str, str]:
    """Open a data set that says which tasks it has."""
    if task is not None:
        return load(task), task, ""
    if len(tasks) != 1:
        raise HeadwiseError(f"{name} has data for several tasks: choose one of {', '.join(tasks)} with --task")
    return load(tasks[0]), tasks[0], "it has no other"


def _open_offline(name: str, task: str) -> Dataset:
    if task not in OFFLINE[name]:
        raise HeadwiseError(f"the data set {name!r} has no task {task!r}: it has {', '.join(OFFLINE[name])}")
    if name == "phrasebook":
        return open_phrasebook(cast(Literal["pos", "ner"], task))
    return open_commands(cast(Literal["intents", "slots"], task))


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:  # longer than the file system allows
        return False
