"""A local folder of published data sets as one `Dataset` per task."""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path

from headwise.data.columns import IL_NER_LABELS, TURKISH_WIKI_LABELS, align_pud, read_atis, read_columns, read_uner
from headwise.data.conllu import pos_examples, read_conllu
from headwise.data.dataset import Dataset
from headwise.data.examples import Example, PairExample, TextExample
from headwise.data.ids import running_id
from headwise.data.massive import read_massive
from headwise.data.splits import MIN_DRAWN, SMALL, linked_pairs
from headwise.data.text import FilePath, read_lines
from headwise.data.tsv import NLI_LABELS, read_aligned, read_pairs, read_parallel, read_paws_x, read_xnli
from headwise.errors import HeadwiseError
from headwise.files import is_folder

logger = logging.getLogger(__name__)

SPLITS = ("train", "dev", "test", "all")
#: Corpora with the same items in every language: a plain language code takes its dev and test from them.
ALIGNED = ("pud", "xnli", "flores", "atis", "pawsx")
#: The subfolders that make a folder one of published data sets.
FOLDERS = ("ud", "ud-nc", "ner", "massive", "atis", "xnli", "mnli", "paws-x", "mt", "lm")
#: Of twenty groups of Tatoeba pairs the first is dev, the second test and the others train.
TATOEBA_CYCLE = 20
HALVES_NOTE = "Where the data have only one of dev and test (PUD, XNLI dev, FLORES), both are halves of it."

_UD = re.compile(r"(?P<language>[a-z]{2,3})(_(?P<name>[a-z0-9]+))?-ud-(?P<split>train|dev|test)\.(conllu|iob2)(\.gz)?")
_IL_NER = re.compile(r"(?P<language>Hindi|Odia|Telugu|Urdu)-(?P<split>train|dev|test)\.txt(\.gz)?")
_IL_CODES = {"Hindi": "hi", "Odia": "or", "Telugu": "te", "Urdu": "ur"}
_TURKISH = re.compile(r"(?P<split>train|dev|test)\.conll(\.gz)?")
_MASSIVE = re.compile(r"(?P<language>[a-z]{2,3})-(?P<name>[A-Z]{2})\.jsonl(\.gz)?")
_ATIS = re.compile(r"(?P<split>train|dev|test)_(?P<language>[A-Z]{2})\.tsv(\.gz)?")
_PAWS_X = re.compile(r"(translated_)?(?P<split>train|dev|test)(_2k)?\.tsv(\.gz)?")
_NLI = re.compile(r"(?:xnli|mnli)\.(?P<split>train|dev|test)\.tsv(\.gz)?")
_PARALLEL = re.compile(r"(?P<language>[a-z]{2,3}-[a-z]{2,3})\.tsv(\.gz)?")
_TEXTS = re.compile(r"(?P<language>[a-z]{2,3})\.(?P<split>train|dev|test)\.txt(\.gz)?")
#: Pairs without it are not part of `--languages all`.
_ENGLISH = "en"
_FLORES = re.compile(r"flores200\.(?P<language>[a-z]{2,3})\.txt(\.gz)?")

Loader = Callable[[], tuple[Example, ...]]


@dataclass(frozen=True)
class Corpus:
    """One source of examples in one language.

    Attributes:
        language: Its ISO code (for translation: two, `en-de`).
        name: A name that distinguishes it from the language's other corpora, such as `ewt`.
        splits: Functions that read `train`, `dev` and `test`, as far as it has them.
        group: Returns a key; examples with the same key stay together when dev and test are halves of one file.
    """

    language: str
    name: str
    splits: Mapping[str, Loader]
    group: Callable[[Example], str]


def default_folder() -> Path | None:
    """Return the data folder that the environment variable HEADWISE_DATA names; None if it is not set.

    Raises:
        HeadwiseError: The variable names no folder.
    """
    named = os.environ.get("HEADWISE_DATA")
    if named and not is_folder(named):
        raise HeadwiseError(f"{named}: no such folder: set HEADWISE_DATA to the data folder or unset it")
    return Path(named) if named else None


def tasks_in(path: FilePath) -> tuple[str, ...]:
    """Return the tasks for which a folder of published data sets has files; `lm` also stands for `masked-lm`."""
    return tuple(task for task, (find, _) in _TASKS.items() if task != "masked-lm" and find(Path(path)))


def open_folder(path: FilePath, task: str) -> Dataset:
    """Open the data of one task in a folder of published data sets.

    Layout (each file plain or with `.gz`; folders that are missing are ignored):

    | task | files |
    |---|---|
    | `pos` | `ud/` and `ud-nc/` `<language>_<treebank>-ud-<split>.conllu`; without `_<treebank>`: UD 1.x |
    | `ner` | `ner/<language>_<treebank>-ud-<split>.iob2`, `ner/il-ner/<Language>-<split>.txt`, |
    |       | `ner/turkish-wiki-ner/<split>.conll` |
    | `intents`, `slots` | `massive/<locale>.jsonl`; `atis/<split>_<LANGUAGE>.tsv` (MultiATIS++) |
    | `nli` | `xnli/xnli.<split>.tsv`; `mnli/mnli.<split>.tsv` (English) |
    | `classification` | `paws-x/<language>/{train,translated_train,dev_2k,test_2k}.tsv` |
    | `translation` | `mt/<source>-<target>.tsv` (Tatoeba), `mt/flores200.<language>.txt` |
    | `lm` | `mt/flores200.<language>.txt`; `lm/<language>.<split>.txt`, your own texts, one per line |

    **Languages** are ISO codes (`zh`; for translation pairs, `en-de`). If a language has several corpora, each also
    has its own name: `en_ewt`, `zh_gsd`, `en_mnli`, `en-de_tatoeba`, and `zh_v1` for UD 1.x, whose tags differ too much
    from those of UD 2. The plain code then means: dev, test and all from the aligned corpus (PUD, XNLI, FLORES,
    MultiATIS++, PAWS-X) or else from the first by name; train from the first by name that has it. So `en` is trained on
    EWT and measured on PUD, and `en_ewt` is trained and measured on EWT.

    **Splits** are `train`, `dev`, `test` as published, and `all`: dev and test together. If there is only one of dev
    and test (PUD, XNLI dev), `dev` is its items at even positions and `test` those at odd ones, and `all` the whole
    file: the same items in every language of an aligned corpus. Pairs with the same premise stay together. Tatoeba has
    no splits: of every 20 groups of pairs (pairs that share a sentence are one group) one is dev and one test.

    Universal NER's PUD sentences get the treebank's ids and order if `ud/` has that language's PUD, so that all its
    languages are aligned (Chinese has other ids) and its halves are those of `pos`.

    Args:
        path: The folder.
        task: One of the tasks above.

    Raises:
        HeadwiseError: There is no such folder or task, or the folder has no files for it.
    """
    if task not in _TASKS:
        raise HeadwiseError(f"no data for a task {task!r}: choose one of {', '.join(_TASKS)}")
    return _open(Path(path), task, *_TASKS[task])


def open_tree_folder(path: FilePath) -> Dataset:
    """Open the treebanks of a folder of published data sets as sentences with their trees.

    Files, languages and splits are those of the task `pos`; see `open_folder`.

    Raises:
        HeadwiseError: There is no such folder, or it has no treebanks.
    """
    return _open(Path(path), "trees", partial(_find_ud, read=read_conllu), "ud/ or ud-nc/")


def _open(root: Path, task: str, find: Callable[[Path], list[Corpus]], folders: str) -> Dataset:
    if not is_folder(root):
        raise HeadwiseError(
            f"{root}: no such folder: give the folder that contains {', '.join(f'{name}/' for name in FOLDERS)}"
        )
    corpora = sorted(find(root), key=lambda corpus: (corpus.language, corpus.name))
    if not corpora:
        raise HeadwiseError(f"{root}: no files for the task {task!r}: put them into {folders} as open_folder documents")
    named, variants = _named(corpora)
    splits = SPLITS if any("train" in corpus.splits for corpus in corpora) else SPLITS[1:]
    note = HALVES_NOTE if any(len(corpus.splits.keys() - {"train"}) == 1 for corpus in named.values()) else ""
    return Dataset(
        f"{task} in {root}", tuple(named), splits, lambda code, split: _load(named[code], split), note, variants
    )


def _named(corpora: list[Corpus]) -> tuple[dict[str, Corpus], tuple[str, ...]]:
    """Return the corpora by all their names, plain codes first, and the names that are not plain codes."""
    by_language: dict[str, list[Corpus]] = {}
    for corpus in corpora:
        by_language.setdefault(corpus.language, []).append(corpus)
    plain = {language: _plain(found) for language, found in by_language.items()}
    several = (corpus for found in by_language.values() if len(found) > 1 for corpus in found)
    variants = {f"{corpus.language}_{corpus.name}": corpus for corpus in several}
    rare = [code for code in plain if "-" in code and _ENGLISH not in code.split("-")]  # pairs without English
    return plain | variants, (*rare, *variants)


def _plain(found: list[Corpus]) -> Corpus:
    """Return the corpus that a plain language code means; see `open_folder`."""
    ordered = sorted(found, key=lambda corpus: (corpus.name not in ALIGNED, corpus.name == "v1"))
    measured = next((corpus for corpus in ordered if corpus.splits.keys() - {"train"}), ordered[0])
    splits = {split: load for split, load in measured.splits.items() if split != "train"}
    for corpus in ordered:
        if "train" in corpus.splits and (corpus.name != "v1" or len(found) == 1):
            splits.setdefault("train", corpus.splits["train"])
    return Corpus(measured.language, measured.name, splits, measured.group)


def _load(corpus: Corpus, split: str) -> tuple[Example, ...]:
    measured = [each for each in ("dev", "test") if each in corpus.splits]
    if split == "all" and measured:
        return tuple(example for each in measured for example in corpus.splits[each]())
    if split in corpus.splits and (split == "train" or len(measured) == 2):
        return corpus.splits[split]()
    if split == "train" or not measured:
        there = ", ".join(("dev", "test", "all") if measured else corpus.splits)
        raise HeadwiseError(f"{corpus.language}_{corpus.name} has no split {split!r}: ask for one of {there}")
    examples = corpus.splits[measured[0]]()
    places = {group: place for place, group in enumerate(dict.fromkeys(map(corpus.group, examples)))}
    return tuple(example for example in examples if places[corpus.group(example)] % 2 == (split == "test"))


def _matches(folder: Path, pattern: re.Pattern[str]) -> Iterator[tuple[Path, re.Match[str]]]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if match := pattern.fullmatch(path.name):
            yield path, match


def _own_id(example: Example) -> str:
    return example.id


def _prompt(example: Example) -> str:
    return example.id.partition(".")[0]


def _premise(example: Example) -> str:
    assert isinstance(example, PairExample)
    return example.first


def _collect(found: list[tuple[str, str, str, Loader]]) -> list[Corpus]:
    """Make corpora of (language, name, split, loader) rows."""
    splits: dict[tuple[str, str], dict[str, Loader]] = {}
    for language, name, split, load in found:
        splits.setdefault((language, name), {})[split] = load
    return [Corpus(language, name, loaders, _own_id) for (language, name), loaders in splits.items()]


def _find_ud(root: Path, read: Callable[[Path, bool], tuple[Example, ...]]) -> list[Corpus]:
    return _collect(
        [
            (match["language"], match["name"] or "v1", match["split"], partial(read, path, not match["name"]))
            for folder in ("ud", "ud-nc")
            for path, match in _matches(root / folder, _UD)
        ]
    )


def _read_pos(path: Path, v1: bool) -> tuple[Example, ...]:
    return pos_examples(read_conllu(path, v1=v1))


def _find_ner(root: Path) -> list[Corpus]:
    pud = {match["language"]: path for path, match in _matches(root / "ud", _UD) if match["name"] == "pud"}
    found: list[tuple[str, str, str, Loader]] = []
    for path, match in _matches(root / "ner", _UD):
        language, name = match["language"], match["name"] or "uner"
        treebank = pud.get(language) if name == "pud" else None
        found.append((language, name, match["split"], partial(_read_uner, path, treebank)))
    for path, match in _matches(root / "ner" / "il-ner", _IL_NER):
        load = partial(read_columns, path, IL_NER_LABELS)
        found.append((_IL_CODES[match["language"]], "ilner", match["split"], load))
    for path, match in _matches(root / "ner" / "turkish-wiki-ner", _TURKISH):
        found.append(("tr", "wiki", match["split"], partial(read_columns, path, TURKISH_WIKI_LABELS)))
    return _collect(found)


def _read_uner(path: Path, treebank: Path | None) -> tuple[Example, ...]:
    return read_uner(path) if treebank is None else align_pud(read_uner(path), read_conllu(treebank))


def _find_commands(root: Path, which: int) -> list[Corpus]:
    massive: list[tuple[str, str, str, Loader]] = [
        (match["language"], match["name"].lower(), split, partial(_read_massive, path, split, which))
        for path, match in _matches(root / "massive", _MASSIVE)
        for split in ("train", "dev", "test")
    ]
    atis: list[tuple[str, str, str, Loader]] = [
        (match["language"].lower(), "atis", match["split"], partial(_read_atis, path, which))
        for path, match in _matches(root / "atis", _ATIS)
    ]
    return _collect(massive + atis)


def _read_massive(path: Path, split: str, which: int) -> tuple[Example, ...]:
    return read_massive(path, split)[which]


def _read_atis(path: Path, which: int) -> tuple[Example, ...]:
    return read_atis(path)[which]


def _find_paraphrases(root: Path) -> list[Corpus]:
    folder = root / "paws-x"
    return _collect(
        [
            (language.name, "pawsx", match["split"], partial(read_paws_x, path))
            for language in (sorted(folder.iterdir()) if folder.is_dir() else ())
            for path, match in _matches(language, _PAWS_X)
        ]
    )


def _given(examples: tuple[Example, ...]) -> tuple[Example, ...]:
    return examples


def _find_nli(root: Path) -> list[Corpus]:
    splits: dict[str, dict[str, Loader]] = {}
    for path, match in _matches(root / "xnli", _NLI):
        for language, examples in read_xnli(path).items():
            splits.setdefault(language, {})[match["split"]] = partial(_given, examples)
    corpora = [Corpus(language, "xnli", loaders, _prompt) for language, loaders in splits.items()]
    columns = ("sentence1", "sentence2", "gold_label", "pairID", NLI_LABELS)
    english: dict[str, Loader] = {
        match["split"]: partial(read_pairs, path, *columns) for path, match in _matches(root / "mnli", _NLI)
    }
    return [*corpora, Corpus("en", "mnli", english, _premise)] if english else corpora


def _find_translation(root: Path) -> list[Corpus]:
    found: list[tuple[str, str, str, Loader]] = [
        (match["language"], "tatoeba", split, partial(_read_tatoeba, path, split))
        for path, match in _matches(root / "mt", _PARALLEL)
        for split in ("train", "dev", "test")
    ]
    flores = {match["language"]: path for path, match in _matches(root / "mt", _FLORES)}
    for one, other in permutations(flores, 2):
        found.append((f"{one}-{other}", "flores", "test", partial(read_aligned, flores[one], flores[other])))
    return _collect(found)


def _find_texts(root: Path) -> list[Corpus]:
    flores: list[tuple[str, str, str, Loader]] = [
        (match["language"], "flores", "test", partial(_read_texts, path))
        for path, match in _matches(root / "mt", _FLORES)
    ]
    own: list[tuple[str, str, str, Loader]] = [
        (match["language"], "own", match["split"], partial(_read_texts, path, running_id))
        for path, match in _matches(root / "lm", _TEXTS)
    ]
    return _collect(flores + own)


def _read_texts(path: Path, id_of: Callable[[int], str] = str) -> tuple[Example, ...]:
    """Read the lines of a file as texts. Plain numbers as ids mean that a line is the same item in every language."""
    examples = []
    for number, line in read_lines(path):
        if not line.strip():
            raise HeadwiseError(f"{path}, line {number}: the line is empty: fill it or delete it")
        examples.append(TextExample(id_of(number), line))
    return tuple(examples)


def _read_tatoeba(path: Path, split: str) -> tuple[Example, ...]:
    examples = read_parallel(path)
    groups = linked_pairs(examples)
    places = {group: place % TATOEBA_CYCLE for place, group in enumerate(dict.fromkeys(groups))}
    wanted = {"dev": {0}, "test": {1}}.get(split, set(range(2, TATOEBA_CYCLE)))
    chosen = tuple(example for example, group in zip(examples, groups, strict=True) if places[group] in wanted)
    if len(chosen) < MIN_DRAWN:
        raise HeadwiseError(
            f"{path}: its {len(examples)} pairs give only {len(chosen)} for {split}: add pairs, or give a file with "
            "the columns source, target, language and split"
        )
    if split != "train" and len(chosen) < SMALL:
        logger.warning("%s: only %d of its %d pairs are for %s", path, len(chosen), len(examples), split)
    return chosen


#: The function that finds a task's corpora, and the folders in which it looks.
_TASKS: dict[str, tuple[Callable[[Path], list[Corpus]], str]] = {
    "pos": (partial(_find_ud, read=_read_pos), "ud/ or ud-nc/"),
    "ner": (_find_ner, "ner/"),
    "intents": (partial(_find_commands, which=0), "massive/ or atis/"),
    "slots": (partial(_find_commands, which=1), "massive/ or atis/"),
    "nli": (_find_nli, "xnli/ or mnli/"),
    "classification": (_find_paraphrases, "paws-x/"),
    "translation": (_find_translation, "mt/"),
    "lm": (_find_texts, "mt/ or lm/"),
    "masked-lm": (_find_texts, "mt/ or lm/"),
}
