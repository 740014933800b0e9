"""Tasks of lm-evaluation-harness as data sets: multiple choice, log-likelihood, and rolling log-likelihood."""

import functools
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headwise.data.dataset import Dataset
from headwise.data.examples import ChoiceExample, Example, PromptExample, TextExample
from headwise.data.ids import running_id
from headwise.data.own import SPLITS, SplitLoader, is_pattern, match_pattern
from headwise.data.rows import Item
from headwise.data.splits import divide
from headwise.data.task_names import CHOICE_TASKS
from headwise.errors import HeadwiseError
from headwise.support.extras import require

#: How a data set of the harness is named: `lm-eval:xcopa_sw`, `lm-eval:xcopa_{language}`, `lm-eval:my_task.yaml`.
PREFIX = "lm-eval:"
#: The seed of few-shot examples in the harness's own command line.
FEWSHOT_SEED = 1234
#: The tasks of headwise for each kind of task of the harness, the default first.
KINDS = {
    "multiple_choice": tuple(name for name in CHOICE_TASKS if name != "minimal-pairs"),
    "loglikelihood": ("continuation",),
    "loglikelihood_rolling": ("lm",),
}
_NOTE = (
    "Splits are those of lm-evaluation-harness; where it has only one of validation and test, dev and test are random "
    "halves of it, and all is both."
)
_SUFFIX = re.compile(r"_([a-z]{2}|[a-z]{3}_[A-Z][a-z]{3})(?=_|$)")


def tasks_of_harness(name: str) -> tuple[str, ...]:
    """The tasks of headwise that a data set of the harness has examples for, the default first."""
    source = next(iter(_sources(name).values()))
    return KINDS[_kind(_load(source), source)]


def open_harness(name: str, task: str) -> Dataset:
    """Open a task of lm-evaluation-harness, or one task per language.

    A prompt with its few-shot examples, the choices and their delimiter are those that the harness gives to a model.

    Args:
        name: `lm-eval:` and the name of a task (`xcopa_sw`) or the path of a YAML file. `{language}` in either stands
            for the language: `lm-eval:xcopa_{language}`. Without it, the language is the code at the end of the task's
            name, or `und`.
        task: A task of headwise that fits: one of `tasks_of_harness(name)`.

    Raises:
        HeadwiseError: The harness is not installed, has no such task, or its task cannot be read or has another kind.
    """
    sources = _sources(name)

    @functools.cache
    def load(language: str) -> SplitLoader:
        source = sources[language]
        found = _load(source)
        kind = _kind(found, source)
        if task not in KINDS[kind]:
            raise HeadwiseError(f"{PREFIX}{source} is of the kind {kind}: use the task {' or '.join(KINDS[kind])}")
        return SplitLoader(divide(list(_items(found, language, source)), f"{PREFIX}{source}"))

    first = next(iter(sources))
    load(first)  # so that mistakes are found before a model is loaded
    return Dataset(name, tuple(sources), SPLITS, lambda language, split: load(language)(language, split), _NOTE)


def _sources(name: str) -> dict[str, str]:
    """The name or the path of the task of each language."""
    rest = name.removeprefix(PREFIX)
    require("lm_eval", "lm-eval", f"the data set {name}")
    if rest.endswith((".yaml", ".yml")):
        if is_pattern(rest):
            return {language or "und": str(path) for path, language, _ in match_pattern(rest)}
        if not Path(rest).is_file():
            raise HeadwiseError(f"{rest}: no such file: check the path of the task's YAML file")
        return {_language_of(Path(rest).stem): rest}
    if not is_pattern(rest):
        return {_language_of(rest): rest}
    expression = re.escape(rest).replace(re.escape("{language}"), "(?P<language>[A-Za-z_]+)")
    matches = ((task, re.fullmatch(expression, task)) for task in _manager(True).all_subtasks)
    found = {match["language"]: task for task, match in matches if match}
    if not found:
        raise HeadwiseError(
            f"{name}: lm-evaluation-harness has no task of this pattern: list them with lm-eval ls tasks"
        )
    return found


def _language_of(task: str) -> str:
    """The language code in a task's name; `und` (undetermined) if there is none.

    Example:
        >>> _language_of("xcopa_sw"), _language_of("belebele_swh_Latn"), _language_of("hellaswag")
        ('sw', 'swh_Latn', 'und')
    """
    codes = _SUFFIX.findall(task)
    return codes[-1] if codes else "und"


@functools.cache
def _manager(defaults: bool) -> Any:
    """The harness's index of tasks: its own if `defaults`, which takes seconds to read."""
    return require("lm_eval.tasks", "lm-eval", "the bridge to lm-evaluation-harness").TaskManager(
        include_defaults=defaults
    )


def _load(source: str) -> Any:
    """A task of the harness by its name or path."""
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    manager = _manager(not source.endswith((".yaml", ".yml")))
    try:
        tasks = manager.load(source)["tasks"]
    except KeyError:
        raise HeadwiseError(
            f"lm-evaluation-harness has no task {source!r}: list its tasks with lm-eval ls tasks"
        ) from None
    except Exception as error:  # a task can fail anywhere: in its YAML, its functions, or the download of its data
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise HeadwiseError(f"{PREFIX}{source}: lm-evaluation-harness cannot load the task: {reason}") from error
    if len(tasks) != 1:
        raise HeadwiseError(
            f"{source!r} is a group of {len(tasks)} tasks: give one task, or a pattern such as {source}_{{language}}"
        )
    return next(iter(tasks.values()))


def _kind(task: Any, source: str) -> str:
    kind = str(task.OUTPUT_TYPE)
    if kind not in KINDS:
        raise HeadwiseError(
            f"{PREFIX}{source} is of the kind {kind}, which has no log-likelihood: use a task of the kind "
            f"{', '.join(KINDS)}"
        )
    return kind


def _items(task: Any, language: str, source: str) -> Iterator[Item]:
    """The examples of all splits of a task."""
    splits = {
        "train": task.training_docs if task.has_training_docs() else None,
        "dev": task.validation_docs if task.has_validation_docs() else None,
        "test": task.test_docs if task.has_test_docs() else None,
    }
    for split, documents in splits.items():
        if documents is None:
            continue
        task.set_fewshot_seed(FEWSHOT_SEED)
        for number, document in enumerate(documents(), 1):
            where = f"{PREFIX}{source}, {split} document {number}"
            yield Item(language, split, _example(task, document, number, where))


def _example(task: Any, document: Any, number: int, where: str) -> Example:
    """A document as the harness would present it to a model."""
    named = document.get("id", document.get("idx")) if isinstance(document, Mapping) else None
    name = running_id(number) if named is None else str(named)
    prefix = task.doc_to_prefix(document) if hasattr(task, "doc_to_prefix") else None
    more = {} if prefix is None else {"gen_prefix": prefix}
    context = task.fewshot_context(document, num_fewshot=task.config.num_fewshot or 0, **more)
    match task.OUTPUT_TYPE:
        case "loglikelihood_rolling":
            return TextExample(name, str(task.doc_to_target(document)))
        case "loglikelihood":
            return PromptExample(name, context, str(task.doc_to_target(document)), separator="")
    choices, delimiter = tuple(task.doc_to_choice(document)), str(task.config.target_delimiter)
    if task.multiple_input:  # one context per choice, all with the same continuation
        answer = _answer(task.doc_to_text(document), choices, where)
        same = (str(task.doc_to_target(document)),) * len(context)
        return ChoiceExample(name, "", same, answer, delimiter, tuple(context))
    return ChoiceExample(name, context, choices, _answer(task.doc_to_target(document), choices, where), delimiter)


def _answer(gold: Any, choices: tuple[str, ...], where: str) -> int:
    if isinstance(gold, str) and gold in choices:
        return choices.index(gold)
    if type(gold) is not int or not 0 <= gold < len(choices):
        raise HeadwiseError(f"{where}: the answer is {gold!r}, not one of its {len(choices)} choices")
    return gold
