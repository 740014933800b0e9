"""From a model and data to a table of roles, in a run folder that can be resumed."""

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from headwise.data.catalog import open_dataset
from headwise.data.dataset import Dataset
from headwise.data.examples import Example, Sentence, WordExample
from headwise.data.selection import choose_examples, language_codes
from headwise.data.treebanks import TREES, open_treebank
from headwise.engine import EngineFactory, EngineSettings, LocalEngine
from headwise.engine.base import calls_at_once
from headwise.errors import FieldError, HeadwiseError, MissingPackageError
from headwise.files import hash_json
from headwise.heads import HeadMap, find_heads, hash_all_weights, hash_weights
from headwise.models import load_model, load_tokenizer
from headwise.roles.corpus import Corpus, read_corpus
from headwise.roles.measure import ROUND, language_steps
from headwise.roles.pairs import ParallelSentences, language_pairs, parallel_sentences, read_pairs
from headwise.roles.statistics import VERSION
from headwise.roles.statistics.rare import rarest_words
from headwise.roles.table import HeadRoles
from headwise.runs import Journal, open_run
from headwise.support.progress import Advance, showing
from headwise.support.steps import run_together

#: Where frequencies of words come from.
FREQUENCIES = ("data", "wordfreq")
#: Name of the table in a run folder, in each format.
TABLE = "roles"


def roles(
    model: Any,
    tokenizer: Any = None,
    data: Dataset | str = "phrasebook",
    *,
    task: str = "",
    languages: str | Sequence[str] | None = None,
    pairs: str | Sequence[str] = (),
    frequencies: str = "data",
    split: str = "dev",
    limit: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Advance | bool = True,
    settings: EngineSettings | None = None,
    make_engine: EngineFactory = LocalEngine,
) -> HeadRoles:
    """Measure what the heads of a model attend to in every language, in one pass over the data.

    Args:
        model: A transformers model, with or without a head for a task, a PEFT model around one, or the name of a model.
        tokenizer: Its tokenizer; by default the one that comes with the model of that name.
        data: A data set, or the name of one.
        task: What to read of the named data: by default the treebank of that name (`open_treebank`), which is needed
            for syntactic roles; otherwise a task of `open_dataset`, such as `nli`, `translation` or `lm`.
        languages: Codes, as a list or separated by commas, or `all`, which is the default if there are no pairs.
            Languages with the same items are aligned.
        pairs: Pairs of languages such as `en-de`, as a list or separated by commas. Their parallel sentences are read
            together, and the attention between words and their translations is measured (`alignment:…`).
        frequencies: Which tokens are rare: `data`, by the frequencies of the examples, or `wordfreq`, which words are
            rare by the frequencies of the package of that name (extra `wordfreq`).
        split: Which part of the data.
        limit: The maximum number of examples per language, the first ones; None for all.
        out: A run folder, which gets the table as `roles.parquet`, `roles.csv` and `roles.json`. The same call
            continues a stopped run. By default nothing is kept on disk.
        progress: Show progress; or a function that is called with steps done, all steps and a status.
        settings: Settings of the engine, such as the memory limit.
        make_engine: Creates engines; with `Cluster.make_engine`, the workers of a cluster measure.

    Returns:
        The statistics of each language, `found["de"]["previous"]`; `found.rows()` is a tidy table.

    Raises:
        HeadwiseError: The model and the data do not fit each other.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> from headwise.models import load_tokenizer
        >>> config = BertConfig(vocab_size=250_037, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> found = roles(BertModel(config), load_tokenizer("e5-small"), "phrasebook", languages="de", limit=4,
        ...               progress=False)
        >>> found.heads, found["de"]["confidence"].shape
        (('encoder.0.0', 'encoder.0.1'), (2,))
    """
    if frequencies not in FREQUENCIES:
        raise FieldError("frequencies", f"one of {', '.join(FREQUENCIES)}, not {frequencies!r}")
    dataset = _open(data, task)  # before the model, because it fails faster
    examples, parallel, note = _read(dataset, languages, pairs, split, limit)
    rarest = {code: _rarest(each, code) for code, each in examples.items()} if frequencies == "wordfreq" else {}
    loaded, tokenizer, name = _load(model, tokenizer)
    heads = find_heads(loaded)
    if not heads.players():
        raise HeadwiseError(f"{name or heads.model}: the model has no heads left, so there are no roles to measure")
    corpora = {
        code: replace(read_corpus(loaded, heads, tokenizer, each), rarest=rarest.get(code))
        for code, each in examples.items()
    }
    corpora |= {pair: read_pairs(loaded, heads, tokenizer, each) for pair, each in parallel.items()}
    about = {
        "model": name or heads.model, "fingerprint": heads.fingerprint, "data": dataset.name, "task": dataset.task,
        "split": split, "statistics": VERSION, "frequencies": frequencies,
        "notes": [line for line in (note, dataset.note) if line],
    }  # fmt: skip
    config = {
        **about, "study": "roles", "languages": list(examples), "pairs": list(parallel), "limit": limit, "round": ROUND,
        "seed": 0, "weights": hash_weights(loaded), "all_weights": hash_all_weights(loaded),
        "examples": {code: _fingerprint(each) for code, each in corpora.items()},
    }  # fmt: skip
    with showing(progress, "measuring roles") as advance, _journal(out, config) as journal:
        found = HeadRoles(_measure(loaded, heads, corpora, journal, advance, settings, make_engine), about)
        if out is not None:
            save_tables(found, Path(out))
    return found


def _read(
    dataset: Dataset, languages: str | Sequence[str] | None, pairs: str | Sequence[str], split: str, limit: int | None
) -> tuple[dict[str, tuple[Example, ...]], dict[str, ParallelSentences], str]:
    """The examples of each language, the sentences of each pair, and a note on the alignment of languages."""
    cached = replace(dataset, load=functools.cache(dataset.load))
    chosen = language_pairs(pairs, cached)
    wanted = languages if languages is not None else () if chosen else "all"
    codes = language_codes(wanted if isinstance(wanted, str) else ",".join(wanted), cached) if wanted else []
    examples, note = choose_examples(cached, codes, split, limit)
    return examples, {name: parallel_sentences(cached, pair, split, limit) for name, pair in chosen.items()}, note


def _rarest(examples: Sequence[Example], language: str) -> tuple[tuple[int, int], ...]:
    if not all(isinstance(each, Sentence | WordExample) for each in examples):
        raise FieldError("frequencies", "wordfreq needs data with words, such as a treebank: use 'data'")
    return rarest_words([cast(Sentence, each).words for each in examples], language)


def _measure(
    model: Any,
    heads: HeadMap,
    corpora: Mapping[str, Corpus],
    journal: Journal | None,
    advance: Advance,
    settings: EngineSettings | None,
    make_engine: EngineFactory,
) -> dict[str, Any]:
    """The roles of all languages and pairs; on a cluster, several languages at the same time."""
    total, done = sum(len(each.examples) for each in corpora.values()), dict.fromkeys(corpora, 0)

    def show(language: str, count: int) -> None:
        done[language] = count
        advance(sum(done.values()), total, language)

    tasks = {
        language: language_steps(
            model, heads, corpus, journal, language, functools.partial(show, language), settings, make_engine
        )
        for language, corpus in corpora.items()
    }
    found = {language: each.result() for language, each in run_together(tasks, calls_at_once(make_engine))}
    advance(total, total, "")
    return {language: found[language] for language in corpora}


def save_tables(found: HeadRoles, folder: Path) -> tuple[str, ...]:
    """Write the table in all formats; without pyarrow, return a note that the parquet file was not written."""
    found.save(folder / f"{TABLE}.json")
    found.save(folder / f"{TABLE}.csv")
    try:
        found.save(folder / f"{TABLE}.parquet")
    except MissingPackageError as error:
        return (f"{TABLE}.parquet is not written: {error}",)
    return ()


@contextmanager
def _journal(out: str | os.PathLike[str] | None, config: Mapping[str, Any]) -> Iterator[Journal | None]:
    """The journal of a run folder; None without a folder."""
    if out is None:
        yield None
        return
    with open_run(out, config) as run:
        yield run.journal


def _open(data: Dataset | str, task: str) -> Dataset:
    if isinstance(data, Dataset):
        return data
    if task and task != TREES:
        return open_dataset(data, task)
    try:
        return open_treebank(data)
    except HeadwiseError as error:
        if task == TREES:
            raise
        raise FieldError("data", f"{error}; for data without trees, also give the task, such as nli or lm") from None


def _load(model: Any, tokenizer: Any) -> tuple[Any, Any, str]:
    """The model, the tokenizer and the name of the model, if it was loaded by name."""
    name = ""
    if isinstance(model, str | os.PathLike):
        name = str(model)
        tokenizer = load_tokenizer(model) if tokenizer is None else tokenizer
        model = load_model(model, device="auto")
    if tokenizer is None:
        raise FieldError("tokenizer", "give the tokenizer of the model")
    return model, tokenizer, name


def _fingerprint(corpus: Corpus) -> str:
    """A hash of the tokens, trees and links of a language or pair."""
    trees = [None if each is None else (each.heads, each.relations) for each in corpus.sentences]
    links = [each.links.tolist() for each in corpus.pairs]
    encoded = [each.content() for each in corpus.examples.encoded]
    return hash_json([encoded, corpus.words, trees, links, corpus.rarest])
