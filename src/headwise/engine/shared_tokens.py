"""Shared prompts: the choices of an example, or examples with the same beginning and the same gates, are one row."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.engine.base import Values
from headwise.engine.examples import ExampleSet
from headwise.games.base import Answers, Array, Game, Labels
from headwise.heads import HeadMap, base_model
from headwise.tasks.choices import EncodedChoices
from headwise.tasks.encoding import Encoded
from headwise.tasks.token_trees import TokenTree

#: Implementations of attention that take a mask for every pair of tokens.
_WITH_MASKS = ("sdpa", "eager")


@dataclass(frozen=True)
class ChoiceTree(TokenTree):
    """The choices of an example as a tree.

    Attributes:
        lengths: What the log-likelihood of each choice is divided by.
        answer: The right choice.
    """

    lengths: tuple[float, ...] = field(kw_only=True)
    answer: int = field(kw_only=True)


def takes_trees(model: Any, heads: HeadMap) -> bool:
    """Whether a model reads trees of tokens: its positions are inputs, and its attention takes any mask."""
    return heads.family.token_trees and base_model(model).config._attn_implementation in _WITH_MASKS


def most_tree_tokens(model: Any) -> int | None:
    """Maximum number of tokens of a tree, or None if there is no maximum.

    The eager attention of GPT-2 in transformers 4 also applies a causal mask of its own, of the size of its positions.
    """
    base = base_model(model)
    own = [mask.shape[-1] for name, mask in base.named_buffers() if name.endswith("attn.bias")]
    return min(own) if own and base.config._attn_implementation == "eager" else None


def choice_trees(examples: ExampleSet) -> ExampleSet:
    """Examples of multiple choice as trees."""
    return replace(examples, encoded=tuple(map(_tree_of, examples.choices)))


def _tree_of(example: EncodedChoices) -> ChoiceTree:
    tree = TokenTree.of(example.choices)
    return ChoiceTree(**vars(tree), lengths=example.lengths, answer=example.gold[0])


def choice_answers(answers: Answers, trees: Sequence[ChoiceTree]) -> Answers:
    """Rows of trees as labels among choices: the logit of a choice is its log-likelihood, divided by its length.

    Args:
        answers: The answers to the tokens of all choices.
        trees: The tree of each row.
    """
    device = answers.logits.device
    choices = torch.tensor([len(tree.counts) for tree in trees], device=device)  # (rows,)
    counts = torch.tensor([count for tree in trees for count in tree.counts], device=device)  # (choices,)
    owner = torch.repeat_interleave(torch.arange(len(counts), device=device), counts)  # the choice of each label
    sums = torch.zeros(len(counts), device=device).index_add(0, owner[answers.index], answers.log_probabilities)
    scores = sums / torch.tensor([length for tree in trees for length in tree.lengths], device=device)
    present = torch.arange(int(choices.max()), device=device) < choices[:, None]
    logits = torch.full(present.shape, -torch.inf, device=device).masked_scatter(present, scores)
    each = torch.arange(len(trees), device=device)
    gold = torch.tensor([tree.answer for tree in trees], device=device)
    return Answers(logits, each, torch.zeros_like(each), torch.ones_like(each), gold)


@dataclass(frozen=True)
class SequencesGame:
    """The statistics of every sequence of a tree, one after the other, for the rows that a tree stands for.

    Attributes:
        game: The game of one sequence.
        most: Maximum number of sequences of a tree; the statistics of absent ones have no meaning.
    """

    game: Game
    most: int

    @property
    def name(self) -> str:
        """Name of the game of one sequence."""
        return self.game.name

    @property
    def statistics(self) -> int:
        """Number of statistics of a tree."""
        return self.game.statistics * self.most

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Bounds of the value of a sequence."""
        return self.game.bounds

    @property
    def differentiable(self) -> bool:
        """Whether the value of a sequence has a gradient."""
        return self.game.differentiable

    @property
    def labels(self) -> Labels:
        """The labels of a sequence."""
        return self.game.labels

    def measure(self, answers: Answers) -> Tensor:
        """The statistics of each tree, (trees, statistics); the rows of the answers are sequences."""
        return self.game.measure(answers).reshape(-1, self.statistics)

    def corpus(self, statistics: Array) -> float:
        """The value of sequences."""
        return self.game.corpus(statistics.reshape(-1, self.game.statistics))


def measure_trees(game: Game, answers: Answers, trees: Sequence[TokenTree]) -> Tensor:
    """The statistics of rows of trees, (rows, statistics), from the answers to the labels of all their sequences."""
    if isinstance(game, SequencesGame):
        return game.measure(_sequence_answers(answers, trees, game.most))
    return game.measure(choice_answers(answers, [tree for tree in trees if isinstance(tree, ChoiceTree)]))


def _sequence_answers(answers: Answers, trees: Sequence[TokenTree], most: int) -> Answers:
    """Sequences as rows: `most` rows for each tree, of which those of absent sequences have no labels."""
    counts = torch.zeros(len(trees), most, dtype=torch.long)
    sizes = torch.zeros(len(trees), most, 2, dtype=torch.long)
    for row, tree in enumerate(trees):
        counts[row, : len(tree.counts)] = torch.tensor(tree.counts)
        if isinstance(tree, PromptTree):
            sizes[row, : len(tree.sizes)] = torch.tensor(tree.sizes).reshape(-1, 2)
    counts = counts.flatten().to(answers.logits.device)
    owner = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)[answers.index]
    places = answers.index - (counts.cumsum(0) - counts)[owner]
    known = sizes.flatten(0, 1).to(counts.device) if bool(sizes.any()) else None
    return replace(answers, rows=owner, places=places, counts=counts, sizes=known)


@dataclass(frozen=True)
class PromptTree(TokenTree):
    """Examples with the same beginning as a tree.

    Attributes:
        sizes: Bytes and characters of the text that the labels of each sequence spell; empty if they spell none.
    """

    sizes: tuple[tuple[int, int], ...] = field(kw_only=True)

    @classmethod
    def of_examples(cls, sequences: Sequence[Encoded]) -> "PromptTree":
        """The tree of some examples."""
        sizes = tuple((each.size.bytes, each.size.characters) for each in sequences if each.size is not None)
        return cls(**vars(TokenTree.of(sequences)), sizes=sizes)


@dataclass(frozen=True)
class SharedPrompts:
    """Groups of examples that begin with the same tokens.

    Attributes:
        examples: The examples.
        group: The group of each example, (examples,).
    """

    examples: ExampleSet
    group: NDArray[np.int64]

    @classmethod
    def find(cls, examples: ExampleSet, most_tokens: int) -> "SharedPrompts | None":
        """Groups in which each example shares at least half of its tokens with the one before it; None without any.

        Args:
            examples: The examples.
            most_tokens: Maximum number of tokens of a group.
        """
        ids = [each.ids for each in examples.encoded]
        group, before = np.zeros(len(ids), dtype=np.int64), tuple[int, ...]()
        number, tokens = -1, 0
        for place in sorted(range(len(ids)), key=ids.__getitem__):
            common = _common(before, ids[place])
            tokens += len(ids[place]) - common
            if number < 0 or 2 * common < max(len(before), len(ids[place])) or tokens > most_tokens:
                number, tokens = number + 1, len(ids[place])
            group[place], before = number, ids[place]
        return cls(examples, group) if number + 1 < len(ids) else None

    def merge(self, gates: NDArray[Any], index: NDArray[np.int64]) -> "MergedRows | None":
        """Rows of a group with the same gates as one row.

        Rows are only merged if this leaves every example in one tree. Otherwise, rows of one example would be in
        several trees, which do not share layers.

        Args:
            gates: The gates of rows, (rows, players).
            index: The example of each row, (rows,).
        """
        keys = np.column_stack([self.group[index], np.unique(gates, axis=0, return_inverse=True)[1].ravel()])
        _, first, row = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        members: list[set[int]] = [set() for _ in first]
        for merged, example in zip(row.ravel(), index, strict=True):
            members[merged].add(int(example))
        found = [tuple(sorted(each)) for each in members]
        number = {tree: place for place, tree in enumerate(dict.fromkeys(found))}
        shared = {example for tree in number for example in tree}
        if len(number) == len(shared) or sum(map(len, number)) > len(shared):
            return None
        return MergedRows(list(number), first, row.ravel(), np.array([number[tree] for tree in found]))


@dataclass(frozen=True)
class MergedRows:
    """Rows of trees that stand for rows of examples.

    Attributes:
        trees: The examples of each tree.
        first: For each merged row, the first of its rows, whose gates are those of all, (merged rows,).
        row: The merged row of each row, (rows,).
        tree: The tree of each merged row, (merged rows,).
    """

    trees: list[tuple[int, ...]]
    first: NDArray[np.int64]
    row: NDArray[np.int64]
    tree: NDArray[np.int64]

    @property
    def most(self) -> int:
        """Maximum number of sequences of a tree."""
        return max(map(len, self.trees))

    def examples(self, examples: ExampleSet) -> ExampleSet:
        """The trees as examples."""
        trees = (PromptTree.of_examples([examples.encoded[each] for each in tree]) for tree in self.trees)
        return replace(examples, encoded=tuple(trees))

    def split(self, found: Values, examples: ExampleSet, index: NDArray[np.int64], statistics: int) -> Values:
        """The values of rows from those of merged rows.

        Args:
            found: The values of merged rows, with the statistics of all sequences of a tree.
            examples: The examples.
            index: The example of each row, (rows,).
            statistics: Number of statistics of an example.
        """
        place = [self.trees[self.tree[merged]].index(int(each)) for merged, each in zip(self.row, index, strict=True)]
        values = found.values.reshape(len(self.first), -1, statistics)[self.row, place]
        units = len(index) * found.cost.tokens / float(examples.lengths[index].sum())
        return Values(values[:, 0] if statistics == 1 else values, replace(found.cost, rows=len(index), units=units))


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Number of tokens at the beginning of two sequences that are the same."""
    differs = (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    return next(differs, min(len(one), len(other)))
