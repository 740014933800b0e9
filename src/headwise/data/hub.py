"""Data sets of the Hugging Face hub: each is declared in a YAML file and loaded by `datasets`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from headwise.data.columns import CONLL_LABELS, check_iob2, log_repairs, repair_iob2
from headwise.data.conllu import UPOS
from headwise.data.dataset import Dataset
from headwise.data.examples import Example, PairExample, TextExample, WordExample
from headwise.data.folders import SPLITS
from headwise.data.ids import running_id
from headwise.data.languages import check_code
from headwise.data.massive import CHARACTER_LOCALES, parse_slots
from headwise.data.text import read_lines
from headwise.data.tsv import NLI_LABELS
from headwise.errors import HeadwiseError

HUB = "hub:"
#: The branch on which the hub keeps its own parquet copies of sets that are scripts. It has a folder for each config.
PARQUET_REVISION = "refs/convert/parquet"

_SETS = Path(__file__).with_name("hub_sets")
_REQUIRED = ("dataset", "task", "splits", "columns", "labels")
_OPTIONAL = ("revision", "config", "languages", "aligned", "note")
#: The columns that a task can be read from: all of one of these groups.
_GROUPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "pos": (("words", "labels"),),
    "ner": (("words", "labels"),),
    "nli": (("first", "second", "label"),),
    "slots": (("annot_utt", "locale"), ("words", "labels")),
    "intents": (("text", "label"),),
    "classification": (("text", "label"), ("first", "second", "label")),
}
_KNOWN = {"pos": UPOS, "nli": tuple(dict.fromkeys(NLI_LABELS.values()))}
#: What `datasets` says, what it means, and the way out: it has no types of its own for most of these.
_FAULTS = (
    ("is a gated dataset", "the set is gated", "ask for access on its page and `hf auth login`, or mend 'dataset'"),
    ("scripts are no longer", "the set is a script, which datasets does not run", "name a parquet copy of it"),
    ("Revision", "no such revision", "mend 'revision'"),
    ("exist on the Hub", "no such set", "mend 'dataset', or `hf auth login` if it is private"),
    ("Config", "not a config of the set", "mend 'config'"),
    ("any data file", "no data there", "mend 'dataset' or 'config'"),
    ("Unknown split", "no such split", "mend 'splits'"),
)


@dataclass(frozen=True)
class HubSet:
    """What a YAML file declares.

    | field | |
    |---|---|
    | `dataset` | the set's name on the hub, or a local copy's folder |
    | `revision` | its branch, tag or commit, if not `main` |
    | `task` | `pos`, `ner`, `nli`, `slots`, `intents` or `classification`, or a list of these |
    | `config` | a text such as `{language}_pud`, or a mapping from languages; left out if the set has only one |
    | `languages` | a list; left out if `config` is a mapping |
    | `splits` | `train`, `dev`, `test`, `all`, as far as there are, and what the set calls each |
    | `columns` | what the set calls `id`; `text`, or `first` and `second`, and `label`; or `words` and `labels`; |
    |           | or for slots in brackets, as in MASSIVE, `annot_utt` and `locale` |
    | `labels` | a mapping from the set's labels (names or numbers) to headwise's, or `names`: they stay as they are |
    | `aligned` | `true` if there is no `id`, but a row is the same item in every language |
    | `note` | what must be said wherever results are shown, if anything |

    Without the column `id`, an item's id is its row number from 1, and other languages have other items (`#1`) unless
    `aligned` says otherwise. Where messages name a line, it is such a row. Malformed IOB2 is
    mended as in `repair_iob2`.
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
    """A data set of the Hugging Face hub, as a `HubSet` declares it; nothing is fetched before examples are wanted.

    Args:
        name_or_file: One of the sets that headwise declares, such as `hub:xnli`, or a YAML file of your own.
        task: The task whose examples are wanted.

    Raises:
        HeadwiseError: There is no such set, its file is faulty, or it is not for the task; on loading: the hub, the
            set or a field's column, split or label is not there.

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
        raise HeadwiseError(f"no hub set {name!r} is declared: use one of {known}, or a YAML file of your own")
    return _read_set(declared.get(name) or Path(name))


def _import(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise HeadwiseError(f"the hub needs the package {module!r}: pip install 'headwise[hub]'") from None


def _read_set(file: Path) -> HubSet:
    raw = _parse(file)
    _only(file, "field", raw, (*_REQUIRED, *_OPTIONAL))
    for field in _REQUIRED:
        if field not in raw:
            raise HeadwiseError(f"{file}: no field {field!r}: add it, as HubSet documents")
    tasks = _texts(file, "task", raw["task"] if isinstance(raw["task"], list) else [raw["task"]])
    columns = _mapping(file, "columns", raw["columns"])
    splits = _mapping(file, "splits", raw["splits"])
    _only(file, "split in the field 'splits'", splits, SPLITS)
    return HubSet(
        file=file,
        dataset=_text(file, "dataset", raw["dataset"]),
        revision=_text(file, "revision", raw["revision"]) if "revision" in raw else None,
        tasks=_groups(file, columns, tasks),
        configs=_checked(file, _configs(file, raw)),
        splits=splits,
        columns=columns,
        labels=None if raw["labels"] == "names" else _mapping(file, "labels", raw["labels"], numbers=True),
        aligned=_flag(file, "aligned", raw.get("aligned", False)),
        note=_text(file, "note", raw["note"]) if "note" in raw else "",
    )


def _parse(file: Path) -> dict[Any, Any]:
    yaml = _import("yaml")
    text = "\n".join(line for _, line in read_lines(file))
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise HeadwiseError(f"{file}{where}: not YAML ({getattr(error, 'problem', error)}): mend the line") from None
    except RecursionError:
        raise HeadwiseError(f"{file}: not YAML that anyone would write: give another file") from None
    if not isinstance(raw, dict):
        raise HeadwiseError(f"{file}: no fields: write one `name: value` a line, as HubSet documents")
    return raw


def _configs(file: Path, raw: Mapping[str, Any]) -> dict[str, str | None]:
    config = raw.get("config")
    if isinstance(config, dict):
        if "languages" in raw:
            raise _fault(file, "languages", "repeats the mapping 'config'", "leave one of them out")
        return dict(_mapping(file, "config", config))
    if "languages" not in raw:
        raise HeadwiseError(f"{file}: no field 'languages': add it, or make 'config' a mapping from languages")
    languages = _texts(file, "languages", raw["languages"])
    template = None if config is None else _text(file, "config", config)
    if len(languages) > 1 and "{language}" not in (template or ""):
        raise _fault(file, "config", "is the same for all languages", "write {language} where they differ")
    # Not str.format: whoever wrote the file may name no attributes of ours.
    return {language: template and template.replace("{language}", language) for language in languages}


def _checked(file: Path, configs: dict[str, str | None]) -> dict[str, str | None]:
    for language in configs:
        check_code(language, file)
    return configs


def _groups(file: Path, columns: Mapping[str, str], tasks: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The tasks, each with the columns it is read from."""
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


def _text(file: Path, field: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        # YAML reads an unquoted no as false and 2.10 as a number.
        raise _fault(file, field, f"has {value!r} where text is due", "write text, in quotes if need be")
    return value


def _flag(file: Path, field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _fault(file, field, f"has {value!r} where true or false is due", "write one of them")
    return value


def _texts(file: Path, field: str, values: object) -> list[str]:
    if not isinstance(values, list) or not values:
        raise _fault(file, field, "is not a list", "write [one, two]")
    return [_text(file, field, value) for value in values]


def _mapping(file: Path, field: str, values: object, numbers: bool = False) -> dict[str, str]:
    if not isinstance(values, dict) or not values:
        raise _fault(file, field, "is not a mapping", "write {one: two}")
    keys = [str(key) if numbers and type(key) is int else _text(file, field, key) for key in values]
    return {key: _text(file, field, value) for key, value in zip(keys, values.values(), strict=True)}


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
    # The parquet branch has no card that would name its configs: `datasets` finds them there as folders only.
    place = {"data_dir": config} if found.revision == PARQUET_REVISION else {"name": config}
    try:
        return datasets.load_dataset(found.dataset, split=split, revision=found.revision, **place)
    except Exception as error:  # `datasets` passes on whatever its readers, arrow and the network raise
        wrapped = isinstance(error, datasets.exceptions.DatasetGenerationError)
        cause = (error.__cause__ if wrapped else None) or error
        said = " ".join(str(cause).split()).rstrip(".").replace(". ", ", ")[:300]
        faults = (fault[1:] for fault in _FAULTS if fault[0] in said)
        what, way_out = next(faults, ("cannot be loaded", "try again, or mend the declaration"))
        if isinstance(cause, ConnectionError):
            what, way_out = "the hub cannot be reached", "check the network, or name a local copy as 'dataset'"
        raise HeadwiseError(f"{where}: {what} ({said}): {way_out} in {found.file}") from error


def _column(found: HubSet, where: str, data: Any, ours: str) -> list[Any]:
    """The cells of a column, seen to be what the column is declared to hold."""
    column = found.columns[ours]
    if column not in data.column_names:
        there = ", ".join(data.column_names)
        raise HeadwiseError(f"{where}: no column {column!r} for 'columns: {ours}' in {found.file}: it has {there}")
    cells: list[Any] = data.select_columns([column]).to_dict()[column]
    kind = int | str if ours in ("id", "label", "labels") else str
    for row, cell in enumerate(cells, 1):
        values = cell if ours in ("words", "labels") else [cell]
        if not isinstance(values, list) or not values or not all(isinstance(value, kind) for value in values):
            raise HeadwiseError(f"{where}, line {row}: no {ours} in column {column!r}: mend 'columns' in {found.file}")
    return cells


def _our_labels(found: HubSet, task: str, where: str, feature: Any, rows: Sequence[list[Any]]) -> dict[Any, str]:
    """What headwise calls each label that occurs."""
    names: Sequence[str] = getattr(feature, "names", None) or ()
    ours: dict[Any, str] = {}
    for row, value in ((row, value) for row, values in enumerate(rows, 1) for value in values if value not in ours):
        theirs = names[value] if isinstance(value, int) and 0 <= value < len(names) else value
        if found.labels is not None:
            label = found.labels.get(str(theirs)) or found.labels.get(str(value))
        else:  # a number has no name to take
            label = theirs if isinstance(theirs, str) else None
        known = _KNOWN.get(task)
        if not label or (known and label not in known):
            to = f" to one of {', '.join(known)}" if known else ""
            way_out = f"map it{to} in the field 'labels' of {found.file}"
            raise HeadwiseError(f"{where}, line {row}: unknown label {theirs!r}: {way_out}")
        if task in ("ner", "slots"):
            check_iob2(where, row, label, CONLL_LABELS if task == "ner" else None)
        ours[value] = label
    return ours


def _word_examples(
    where: str, ids: Sequence[str], words: Sequence[list[str]], labels: Sequence[list[str]]
) -> tuple[WordExample, ...]:
    examples, repaired = [], 0
    for row, (name, sentence, given) in enumerate(zip(ids, words, labels, strict=True), 1):
        if len(given) != len(sentence):
            raise HeadwiseError(f"{where}, line {row}: not one label for each word: name columns that fit together")
        whole, count = repair_iob2(given)  # which leaves parts of speech alone
        repaired += count
        examples.append(WordExample(name, tuple(sentence), whole))
    log_repairs(where, repaired)
    return tuple(examples)
