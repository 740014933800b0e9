"""F1 of entities and slots, counted for all rows at once."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headwise.games.base import Answers, Array, best_labels
from headwise.tasks.metrics import EntityF1


@dataclass(frozen=True)
class EntityGame:
    """F1 of whole entities in IOB2, micro-averaged, as seqeval counts them.

    Attributes:
        labels: The labels in the order of the classifier's outputs.

    Example:
        >>> game = EntityGame(("O", "B-PER", "I-PER"))
        >>> gold, predicted = torch.tensor([1, 2, 0, 1]), torch.tensor([1, 2, 1, 1])
        >>> game.count(predicted, gold, torch.tensor([0, 0, 0, 0]), rows=1)
        tensor([[2., 3., 2.]])
    """

    labels: tuple[str, ...]
    name: str = "f1"
    statistics: int = 3
    bounds: tuple[float, float] | None = None
    differentiable: bool = False

    def measure(self, answers: Answers) -> Tensor:
        """Right, predicted and gold entities of each row, (rows, 3); a word without an answer is outside."""
        predicted = torch.full_like(answers.gold, self.labels.index("O"))
        predicted[answers.index] = best_labels(answers)
        rows = torch.repeat_interleave(torch.arange(len(answers.counts), device=predicted.device), answers.counts)
        return self.count(predicted, answers.gold, rows, len(answers.counts))

    def count(self, predicted: Tensor, gold: Tensor, row: Tensor, rows: int) -> Tensor:
        """Right, predicted and gold entities of each row, (rows, 3), out of labels one row after the other."""
        found, found_ends = self._entities(predicted, row)
        true, true_ends = self._entities(gold, row)
        types = self._types.to(gold.device)
        right = found & true & (types[predicted] == types[gold]) & (found_ends == true_ends)
        counted = torch.stack([right, found, true], dim=1).float()  # (labels, 3)
        return counted.new_zeros(rows, 3).index_add(0, row, counted)

    def corpus(self, statistics: Array) -> float:
        """F1 of summed counts, from 0 to 1."""
        return float(EntityF1().value(statistics.sum(0))) / 100

    def _entities(self, labels: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        """Where entities start, and for every place where the stretch that it lies in ends, (labels,) each."""
        types, begins = self._types.to(labels.device)[labels], self._begins.to(labels.device)[labels]
        inside = types >= 0
        # A label goes on with the entity before it if it is an I- of the same type in the same row.
        goes_on = torch.zeros_like(inside)
        goes_on[1:] = inside[1:] & ~begins[1:] & (types[1:] == types[:-1]) & (row[1:] == row[:-1])
        stretch = torch.cumsum(~goes_on, 0) - 1
        return inside & ~goes_on, torch.bincount(stretch).cumsum(0)[stretch]

    @cached_property
    def _types(self) -> Tensor:
        """The type of each label as a number, -1 for `O`."""
        names = sorted({label.partition("-")[2] for label in self.labels})
        return torch.tensor([-1 if label == "O" else names.index(label.partition("-")[2]) for label in self.labels])

    @cached_property
    def _begins(self) -> Tensor:
        return torch.tensor([label.startswith("B-") for label in self.labels])
