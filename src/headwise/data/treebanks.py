"""Treebanks: data sets whose examples are sentences with dependency trees."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from headwise.data.conllu import read_conllu
from headwise.data.dataset import Dataset
from headwise.data.examples import Example
from headwise.data.folders import FOLDERS, open_tree_folder
from headwise.data.own import find_files
from headwise.data.phrasebook import open_phrasebook_trees
from headwise.errors import HeadwiseError
from headwise.files import is_folder

#: The task of a data set of trees. No model is evaluated on it; it says what the examples are.
TREES = "trees"
_SPLITS = ("train", "dev", "test")
_KINDS = "'phrasebook', a .conllu file, a pattern such as trees.{language}.conllu, or a folder that contains ud/"


def open_treebank(name: str | os.PathLike[str]) -> Dataset:
    """Open a treebank.

    Args:
        name: `phrasebook`, which comes with headwise; a CoNLL-U file of your own, whose name says its language
            (`de.conllu`, `de.dev.conllu`); a pattern for several such files (`trees.{language}.conllu`); a folder of
            such files; or a folder of published data sets, whose treebanks are in `ud/`.

    Returns:
        A data set whose examples are `Sentence` objects. If own files do not say a split, every split is the whole
        file.

    Raises:
        HeadwiseError: There is no such treebank, or a file is not CoNLL-U.

    Example:
        >>> first = open_treebank("phrasebook").examples("de", "dev")[0]
        >>> first.words[2], first.relations[2], first.words[first.heads[2] - 1]
        ('Museum', 'nsubj', 'Liegt')
    """
    text = os.fspath(name)
    if text == "phrasebook":
        found = open_phrasebook_trees()
    elif is_folder(text) and any(is_folder(Path(text) / folder) for folder in FOLDERS):
        found = open_tree_folder(text)
    else:
        found = _open_files(text)
    return replace(found, task=TREES)


def _open_files(name: str) -> Dataset:
    """Own CoNLL-U files, by language and split."""
    if "{" not in name and not Path(name).exists():
        raise HeadwiseError(f"{name}: no such treebank: give {_KINDS}")
    files: dict[tuple[str, str], Path] = {}
    for path, language, split in find_files(name):
        if not path.name.removesuffix(".gz").endswith(".conllu"):
            continue
        if language is None:
            raise HeadwiseError(f"{path}: its name does not say its language: rename it, for example to de.conllu")
        for each in (split,) if split else _SPLITS:
            files[language, each] = path
    if not files:
        raise HeadwiseError(f"{name}: not a treebank: give {_KINDS}")
    languages = tuple(dict.fromkeys(language for language, _ in files))
    present = tuple(split for split in _SPLITS if any((code, split) in files for code in languages))
    return Dataset(Path(name).name, languages, (*present, "all"), partial(_load, files))


def _load(files: dict[tuple[str, str], Path], language: str, split: str) -> tuple[Example, ...]:
    """The sentences of a split; `all` is dev and test, each file once."""
    wanted = ("dev", "test") if split == "all" else (split,)
    paths = dict.fromkeys(files[language, each] for each in wanted if (language, each) in files)
    return tuple(sentence for path in paths for sentence in read_conllu(path))
