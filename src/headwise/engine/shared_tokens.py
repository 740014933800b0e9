"""Multiple choice in one row: the choices of an example share its prompt, as a tree of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from headwise.engine.examples import ExampleSet
from headwise.games.base import Answers
from headwise.heads import HeadMap, base_model
from headwise.tasks.choices import EncodedChoices
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
