"""The examples of a game: with the labels of the data, with answers of the model as labels, or without labels.

For `agreement`, the whole model answers the same items in the source language. If a label belongs to a whole text, the
answer is the label of the item in every language. If labels belong to words, they are carried over to the words of the
translation that are linked by a word alignment, and the other words have no label.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from headwise.data.aligner import Links, align_words
from headwise.data.examples import Example, WordExample
from headwise.data.ids import identifies_item
from headwise.engine import EngineSettings, ExampleSet, players_of
from headwise.errors import FieldError, HeadwiseError
from headwise.games import AgreementGame, Game
from headwise.games.unlabelled import AnswerGame
from headwise.scoring.setting import Setting, fingerprint_examples
from headwise.tasks.encoding import Encoded
from headwise.tasks.task import Task


@dataclass(frozen=True)
class GameExamples:
    """The examples of one language for a game.

    Attributes:
        language: The language.
        encoded: The examples in tokens, with the labels of the game.
        fingerprint: A hash of all that was read from the data.
    """

    language: str
    encoded: ExampleSet
    fingerprint: str


def game_examples(
    setting: Setting,
    game: Game,
    examples: Mapping[str, Sequence[Example]],
    split: str,
    settings: EngineSettings,
) -> tuple[dict[str, GameExamples], tuple[str, ...]]:
    """The examples of every language for a game, and notes to print with results on them.

    Args:
        setting: The model and the data.
        game: The game.
        examples: The examples of each language.
        split: The split that they are from.
        settings: Settings of the engine that answers the items in the source language.

    Raises:
        HeadwiseError: The game is `agreement`, and the task does not allow it, or a language shares no item with the
            source language.
    """
    if isinstance(game, AgreementGame):
        return _agreement(setting, game, examples, split, settings)
    found = {}
    for language, each in examples.items():
        bare = game.labels == "none" and isinstance(setting.task, Task)
        read = cast(Task, setting.task).without_labels(each) if bare else each
        encoded = setting.encode(read)
        found[language] = GameExamples(language, encoded, fingerprint_examples(read, encoded.encoded))
    return found, ()


def _agreement(
    setting: Setting, game: AgreementGame, examples: Mapping[str, Sequence[Example]], split: str, engine: EngineSettings
) -> tuple[dict[str, GameExamples], tuple[str, ...]]:
    task = _check_task(setting)
    source = {each.id: each for each in setting.dataset.examples(game.source, split) if identifies_item(each.id)}
    kept = {language: [each for each in own if each.id in source] for language, own in examples.items()}
    if missing := [language for language, own in kept.items() if not own]:
        raise FieldError(
            "game", f"{missing[0]} shares no item with {game.source}: use data with the same ids in both languages"
        )
    items = {each.id: source[each.id] for own in kept.values() for each in own}
    answers = dict(zip(items, _answers(setting, task, tuple(items.values()), engine), strict=True))
    found, notes = {}, []
    for language, own in kept.items():
        originals, read = [items[each.id] for each in own], task.without_labels(own)
        encoded = setting.encode(read)
        labels = [answers[each.id] for each in own]
        links = _links(originals, own) if task.kind == "words" else [None] * len(own)
        labelled = tuple(map(_with_answers, encoded.encoded, labels, links))
        both, codes = [*task.without_labels(originals), *read], encoded.encoded
        about = fingerprint_examples(both, [*setting.encode(both[: len(own)]).encoded, *codes])
        found[language] = GameExamples(language, replace(encoded, encoded=labelled), about)
        if len(own) < len(examples[language]):
            notes.append(f"{language}: only {len(own)} of {len(examples[language])} items are also in {game.source}.")
    if game.source in found:
        notes.append(f"{game.source} is the source of agreement: it is compared with itself, which shows little.")
    return found, tuple(notes)


def _check_task(setting: Setting) -> Task:
    task = setting.task
    if not isinstance(task, Task) or (task.kind == "words" and "O" in task.labels):
        raise FieldError(
            "game",
            f"agreement is for labels of whole texts and for parts of speech, not for {task.name}: use top-probability "
            "or negative-entropy",
        )
    return task


def _answers(setting: Setting, task: Task, examples: tuple[Example, ...], settings: EngineSettings) -> list[list[int]]:
    """The labels that the whole model gives to each example; -1 for a word without a token."""
    encoded = setting.encode(task.without_labels(examples))
    game, players = AnswerGame(statistics=int(encoded.counts.max())), players_of(setting.heads)
    engine = setting.make_engine(setting.model, setting.heads, game, encoded, players, settings)
    on = np.ones((len(encoded), len(players)), dtype=bool)
    values = engine.values(on, np.arange(len(encoded))).values.reshape(len(encoded), -1).long().tolist()
    return [found[:count] for found, count in zip(values, encoded.counts.tolist(), strict=True)]


def _links(originals: Sequence[Example], own: Sequence[Example]) -> tuple[Links, ...]:
    """The linked words of the same items in two languages."""
    first, second = ([cast(WordExample, each).words for each in side] for side in (originals, own))
    links = align_words(first, second)
    if not any(map(len, links)):
        raise HeadwiseError(
            "no word of a sentence can be linked to a word of its translation: use a game without labels"
        )
    return links


def _with_answers(encoded: Encoded, answers: Sequence[int], links: Links | None) -> Encoded:
    """An example with answers as its labels: only those of linked words, if there are links."""
    if links is None:
        return replace(encoded, gold=tuple(answers))
    linked = [(encoded.positions[to], answers[by]) for by, to in sorted(links.tolist(), key=lambda link: link[1])]
    known = [(position, answer) for position, answer in linked if answer >= 0] or [(-1, 0)]
    positions, gold = zip(*known, strict=True)
    return replace(encoded, positions=positions, gold=gold)
