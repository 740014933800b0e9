"""Data sets of the Hugging Face hub, each declared in a YAML file and loaded by `datasets`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from headwise.data.columns import check_iob2, log_repairs, repair_iob2
from headwise.data.dataset import Dataset
from headwise.data.examples import UPOS, Example, PairExample, TextExample, WordExample
from headwise.data.folders import SPLITS
from headwise.data.ids import running_id
from headwise.data.languages import check_code
from headwise.data.massive import CHARACTER_LOCALES, parse_slots
from headwise.data.text import read_lines
from headwise.data.tsv import NLI_LABELS
from headwise.errors import HeadwiseError
from headwise.support.yaml_text import parse_yaml

HUB = "hub:"
#: The branch on which the hub keeps its own parquet copies of sets that are scripts. It has a folder for each config.
PARQUET_REVISION = "refs/convert/parquet"

_SETS = Path(__file__).with_name("hub_sets")
#: The groups of columns from which a task can be read; one complete group is enough.
_GROUPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "pos": (("words", "labels"),),
    "ner": (("words", "labels"),),
    "nli": (("first", "second", "label"),),
    "slots": (("annot_utt", "locale"), ("words", "labels")),
    "intents": (("text", "label"),),
    "classification": (("text", "label"), ("first", "second", "label")),
}
_KNOWN = {"pos": UPOS, "nli": tuple(dict.fromkeys(NLI_LABELS.values()))}
#: Parts of the messages of `datasets`, what they mean, and the fix; most of its errors have no type of their own.
_FAULTS = (
    ("is a gated dataset", "the set is gated", "ask for access on its page and `hf auth login`, or correct 'dataset'"),
    ("scripts are no longer", "the set is a script, which datasets does not run", "name a parquet copy of it"),
    ("Revision", "no such revision", "correct 'revision'"),
    ("exist on the Hub", "no such set", "correct 'dataset', or `hf auth login` if it is private"),
    ("Config", "not a config of the set", "correct 'config'"),
    ("any data file", "no data there", "correct 'dataset' or 'config'"),
    ("Unknown split", "no such split", "correct 'splits'"),
)


@dataclass(frozen=True)
class Declaration:
    """The fields of a YAML file that declares a set.

    | field | meaning |
    |---|---|
    | `dataset` | the name on the hub, or the folder of a local copy |
    | `revision` | branch, tag or commit; default `main` |
    | `task` | `pos`, `ner`, `nli`, `slots`, `intents` or `classification`, or a list of these |
    | `config` | a text such as `{language}_pud`, or a mapping from languages; omitted if the set has only one |
    | `languages` | a list; omitted if `config` is a mapping |
    | `splits` | a mapping from `train`, `dev`, `test`, `all` to the names of the set |
    | `columns` | a mapping to the columns of the set, from `id`; `text`, or `first` and `second`, and `label`; or |
    |           | `words` and `labels`; or, for slots in brackets as in MASSIVE, `annot_utt` and `locale` |
    | `labels` | a mapping from the labels of the set (names or numbers) to headwise's, or `names` to keep them |
    | `aligned` | `true` if there is no `id`, but a row is the same item in every language |
    | `note` | a remark that is shown with results |

    Without the column `id`, the id of an item is its row number from 1, which means another item in other languages
    (`#1`) unless `aligned` is true. Lines in messages are such rows. Malformed IOB2 is repaired as in `repair_iob2`.
    """

    dataset: str
    task: str | list[str]
    splits: dict[str, str]
    columns: dict[str, str]
    labels: str | dict[str | int, str]
    revision: str | None = None
    config: str | dict[str, str] | None = None
    languages: list[str] | None = None
    aligned: bool = False
    note: str = ""


@dataclass(frozen=True)
class HubSet:
    """A set of the hub as its file declares it, checked.

    Attributes:
        file: The YAML file.
        dataset: The name on the hub.
        revision: Branch, tag or commit.
        tasks: The columns that each task is read from.
        configs: The config of each language.
        splits: The set's name of each split.
        columns: The set's name of each column.
        labels: headwise's name of each label; None to keep the names.
        aligned: Whether a row is the same item in every language.
        note: A remark that is shown with results.
    """

    file: Path
    dataset: str
    revision: str | None
    tasks: Mapping[str, tuple[str, ...]]
    configs: Mapping[str, str | None]
    splits: Mapping[str, str]
    columns: Mapping[str, str]
    labels: Mapping[str, str] | None
    aligned: bool
    note: str


def open_hub(name_or_file: str, task: str) -> Dataset:
    """Open a data set of the Hugging Face hub; nothing is downloaded before examples are read.

    Args:
        name_or_file: One of the sets that headwise declares, such as `hub:xnli`, or your own YAML file (`Declaration`).
        task: The task.

    Raises:
        HeadwiseError: There is no such set, its file is not valid, or it has no such task; on loading: the hub, the
            set, or a column, split or label of the declaration does not exist.

    Example:
        >>> open_hub("hub:pawsx", "classification").languages
        ('de', 'en', 'es', 'fr', 'ja', 'ko', 'zh')
    """
    found = _find_set(name_or_file)
    if task not in found.tasks:
        raise HeadwiseError(f"{name_or_file} has no task {task!r}: it has {', '.join(found.tasks)}")
    languages = tuple(found.configs)
    variants = tuple(code for code in languages if "_" in code and code.partition("_")[0] in languages)
    return Dataset(name_or_file, languages, tuple(found.splits), partial(_load, found, task), found.note, variants)


def tasks_on_hub(name_or_file: str) -> tuple[str, ...]:
    """Return the tasks of a set as `open_hub` takes it."""
    return tuple(_find_set(name_or_file).tasks)


def _find_set(name_or_file: str) -> HubSet:
    name = name_or_file.removeprefix(HUB)
    declared = {path.stem: path for path in sorted(_SETS.glob("*.yaml"))}
    if not name.endswith((".yaml", ".yml")) and name not in declared:
        known = ", ".join(HUB + known for known in declared)
        raise HeadwiseError(f"no hub set {name!r} is declared: use one of {known}, or your own YAML file")
    return _read_set(declared.get(name) or Path(name))


def _import(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise HeadwiseError(f"the hub needs the package {module!r}: pip install 'headwise[hub]'") from None


def _read_set(file: Path) -> HubSet:
    found = _read_declaration(file)
    _only(file, "split in the field 'splits'", found.splits, SPLITS)
    configs = _configs(file, found)
    for language in configs:
        check_code(language, file)
    if isinstance(found.labels, str) and found.labels != "names":
        raise _fault(file, "labels", f"is {found.labels!r}", "write 'names' or a mapping from labels")
    return HubSet(
        file=file,
        dataset=found.dataset,
        revision=found.revision,
        tasks=_groups(file, found.columns, [found.task] if isinstance(found.task, str) else found.task),
        configs=configs,
        splits=found.splits,
        columns=found.columns,
        labels=None if isinstance(found.labels, str) else {str(key): label for key, label in found.labels.items()},
        aligned=found.aligned,
        note=found.note,
    )


def _read_declaration(file: Path) -> Declaration:
    msgspec = _import("msgspec")
    raw = _parse(file)
    _only(file, "field", raw, [each.name for each in fields(Declaration)])
    empty = next((name for name, value in raw.items() if value in ("", [], {})), None)
    if empty:
        raise _fault(file, empty, "is empty", "fill it or leave it out")
    try:
        declared: Declaration = msgspec.convert(raw, Declaration)
    except msgspec.ValidationError as error:  # such as: Expected `str`, got `float` - at `$.revision`
        said, _, place = str(error).replace("`", "'").replace("$.", "").partition(" - at ")
        said = said.replace("Object missing required field", "no field")
        where = f" in {place}" if place else ""
        raise HeadwiseError(
            f"{file}: {said}{where}: see the fields in docs/data.md (YAML reads an unquoted no or 2.10 not as text)"
        ) from None
    return declared


def _parse(file: Path) -> dict[Any, Any]:
    _import("yaml")
    raw = parse_yaml("\n".join(line for _, line in read_lines(file)), str(file))
    if not isinstance(raw, dict):
        raise HeadwiseError(f"{file}: no fields: write one `name: value` per line, as docs/data.md says")
    return raw


def _configs(file: Path, found: Declaration) -> dict[str, str | None]:
    if isinstance(found.config, dict):
        if found.languages is not None:
            raise _fault(file, "languages", "repeats the mapping 'config'", "leave one of them out")
        return dict(found.config)
    if found.languages is None:
        raise HeadwiseError(f"{file}: no field 'languages': add it, or make 'config' a mapping from languages")
    template = found.config
    if len(found.languages) > 1 and "{language}" not in (template or ""):
        raise _fault(file, "config", "is the same for all languages", "write {language} where they differ")
    # Not str.format, which would also read attributes.
    return {language: template and template.replace("{language}", language) for language in found.languages}


def _groups(file: Path, columns: Mapping[str, str], tasks: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the tasks, each with the columns from which it is read."""
    _only(file, "task in the field 'task'", tasks, _GROUPS)
    known = ["id", *(column for task in tasks for group in _GROUPS[task] for column in group)]
    _only(file, "column in the field 'columns'", columns, dict.fromkeys(known))
    found = {}
    for task in tasks:
        whole = [group for group in _GROUPS[task] if all(column in columns for column in group)]
        if not whole:
            choice = " or ".join(", ".join(group) for group in _GROUPS[task])
            raise _fault(file, "columns", f"has too few columns for the task {task!r}", f"give {choice}")
        found[task] = whole[0]
    return found


def _only(file: Path, what: str, given: Iterable[object], known: Collection[str]) -> None:
    for each in given:
        if each not in known:
            raise HeadwiseError(f"{file}: unknown {what}, {each!r}: use {', '.join(known)}")


def _fault(file: Path, field: str, what: str, way_out: str) -> HeadwiseError:
    return HeadwiseError(f"{file}: the field {field!r} {what}: {way_out}")


def _load(found: HubSet, task: str, language: str, split: str) -> tuple[Example, ...]:
    where = f"{found.dataset} (config {found.configs[language]!r}, split {found.splits[split]!r})"
    data = _fetch(found, where, found.configs[language], found.splits[split])
    group = found.tasks[task]
    table = {ours: _column(found, where, data, ours) for ours in ("id", *group) if ours in found.columns}
    id_of = str if found.aligned or "id" in table else running_id
    ids = [id_of(number) for number in table.get("id") or range(1, len(data) + 1)]
    if "annot_utt" in group:
        rows = enumerate(zip(ids, table["annot_utt"], table["locale"], strict=True), 1)
        return tuple(
            WordExample(name, *parse_slots(where, row, annotated, locale in CHARACTER_LOCALES))
            for row, (name, annotated, locale) in rows
        )
    feature = data.features[found.columns[group[-1]]]
    if "words" in group:
        ours = _our_labels(found, task, where, feature.feature, table["labels"])
        return _word_examples(where, ids, table["words"], [[ours[label] for label in row] for row in table["labels"]])
    ours = _our_labels(found, task, where, feature, [[label] for label in table["label"]])
    labels = [ours[label] for label in table["label"]]
    if "text" in group:
        return tuple(map(TextExample, ids, table["text"], labels))
    return tuple(map(PairExample, ids, table["first"], table["second"], labels))


def _fetch(found: HubSet, where: str, config: str | None, split: str) -> Any:
    datasets = _import("datasets")
    # The parquet branch has no card with the names of its configs: `datasets` finds them only as folders.
    place = {"data_dir": config} if found.revision == PARQUET_REVISION else {"name": config}
    try:
        return datasets.load_dataset(found.dataset, split=split, revision=found.revision, **place)
    except Exception as error:  # `datasets` passes on the errors of its readers, of arrow and of the network
        wrapped = isinstance(error, datasets.exceptions.DatasetGenerationError)
        cause = (error.__cause__ if wrapped else None) or error
        said = " ".join(str(cause).split()).rstrip(".").replace(". ", ", ")[:300]
        faults = (fault[1:] for fault in _FAULTS if fault[0] in said)
        what, way_out = next(faults, ("cannot be loaded", "try again, or correct the declaration"))
        if isinstance(cause, ConnectionError):
            what, way_out = "the hub cannot be reached", "check the network, or name a local copy as 'dataset'"
        raise HeadwiseError(f"{where}: {what} ({said}): {way_out} in {found.file}") from error


def _column(found: HubSet, where: str, data: Any, ours: str) -> list[Any]:
    """Return the cells of a column, checked to have the type that the task needs."""
    column = found.columns[ours]
    if column not in data.column_names:
        there = ", ".join(data.column_names)
        raise HeadwiseError(f"{where}: no column {column!r} for 'columns: {ours}' in {found.file}: it has {there}")
    cells: list[Any] = data.select_columns([column]).to_dict()[column]
    kind = int | str if ours in ("id", "label", "labels") else str
    for row, cell in enumerate(cells, 1):
        values = cell if ours in ("words", "labels") else [cell]
        if not isinstance(values, list) or not values or not all(isinstance(value, kind) for value in values):
            raise HeadwiseError(
                f"{where}, line {row}: no {ours} in column {column!r}: correct 'columns' in {found.file}"
            )
    return cells


def _our_labels(found: HubSet, task: str, where: str, feature: Any, rows: Sequence[list[Any]]) -> dict[Any, str]:
    """Return headwise's name of each label that occurs."""
    names: Sequence[str] = getattr(feature, "names", None) or ()
    ours: dict[Any, str] = {}
    for row, value in ((row, value) for row, values in enumerate(rows, 1) for value in values if value not in ours):
        theirs = names[value] if isinstance(value, int) and 0 <= value < len(names) else value
        if found.labels is not None:
            label = found.labels.get(str(theirs)) or found.labels.get(str(value))
        else:  # a number has no name
            label = theirs if isinstance(theirs, str) else None
        known = _KNOWN.get(task)
        if not label or (known and label not in known):
            to = f" to one of {', '.join(known)}" if known else ""
            way_out = f"map it{to} in the field 'labels' of {found.file}"
            raise HeadwiseError(f"{where}, line {row}: unknown label {theirs!r}: {way_out}")
        if task in ("ner", "slots"):
            check_iob2(where, row, label)
        ours[value] = label
    return ours


def _word_examples(
    where: str, ids: Sequence[str], words: Sequence[list[str]], labels: Sequence[list[str]]
) -> tuple[WordExample, ...]:
    examples, repaired = [], 0
    for row, (name, sentence, given) in enumerate(zip(ids, words, labels, strict=True), 1):
        if len(given) != len(sentence):
            raise HeadwiseError(f"{where}, line {row}: not one label for each word: choose columns of the same words")
        whole, count = repair_iob2(given)  # parts of speech stay unchanged
        repaired += count
        examples.append(WordExample(name, tuple(sentence), whole))
    log_repairs(where, repaired)
    return tuple(examples)
