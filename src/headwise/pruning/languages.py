"""Masks of many languages on one loaded model: each row of a batch uses the mask of its language."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import HeadwiseError
from headwise.files import read_json, write_json
from headwise.gates import gated
from headwise.heads import HeadMap, find_heads
from headwise.masks import HeadMask
from headwise.means import MeanOutputs
from headwise.soft_masks import AnyMask, SoftMask

_FORMAT = "headwise-language-masks"
_VERSION = 2


@dataclass(frozen=True)
class LanguageMasks:
    """One model, one mask per language.

    Attributes:
        model: The loaded model, which is not changed.
        masks: The mask of each language, hard or soft.
        default: The mask of every other language. Without it, another language raises an error.
        means: For mean ablation, the mean outputs of each language. With them every language needs means, and a default
            mask is not possible.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> model = BertModel(config).eval()
        >>> heads = find_heads(model)
        >>> masks = LanguageMasks(model, {"sw": HeadMask.without(heads, ["encoder.0.1"]), "zh": HeadMask.full(heads)})
        >>> with torch.no_grad(), masks.use(["sw", "zh"]):
        ...     model(torch.tensor([[1, 2], [3, 4]])).last_hidden_state.shape
        torch.Size([2, 2, 8])
    """

    model: nn.Module
    masks: Mapping[str, AnyMask]
    default: AnyMask | None = None
    means: Mapping[str, MeanOutputs] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "masks", dict(self.masks))  # a copy, since later changes would not be checked
        object.__setattr__(self, "means", dict(self.means))
        if self.means and self.default is not None:
            raise HeadwiseError("a default mask has no means, because it is for unknown languages: give masks only")
        if self.means and (missing := [language for language in self.masks if language not in self.means]):
            raise HeadwiseError(f"the language {missing[0]!r} has no means: compute them with headwise.mean_outputs")
        for mask in self._all_masks():
            mask.check(self._heads)
            if mask.kind != "heads":
                raise HeadwiseError(f"language masks must be masks of heads, not of {mask.kind}")

    @contextmanager
    def use(self, languages: str | Sequence[str]) -> Iterator[None]:
        """Run the model under the masks of the languages.

        Args:
            languages: One language for the whole batch, or one per row.

        Raises:
            HeadwiseError: A language has no mask and there is no default.
        """
        rows = self._row(languages) if isinstance(languages, str) else [self._row(language) for language in languages]
        gates = self._gates[rows]  # (heads,) or (rows, heads)
        with gated(self.model, gates, heads=self._heads, baseline=self._baseline(languages)):
            yield

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all masks as one small JSON file, atomically.

        Raises:
            HeadwiseError: There are means, which the file cannot hold.
        """
        if self.means:
            raise HeadwiseError("a file of language masks cannot hold means: save them with MeanOutputs.save")
        full = HeadMask.full(self._heads).to_dict()
        shared = {key: full[key] for key in ("players", "model", "fingerprint", "shape")}
        languages = {language: _values(mask) for language, mask in self.masks.items()}
        default = _values(self.default) if self.default is not None else None
        write_json(path, {"format": _FORMAT, "version": _VERSION, **shared, "languages": languages, "default": default})

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: nn.Module) -> "LanguageMasks":
        """Read masks written by `save`, for the model that they belong to."""
        data = read_json(path, _FORMAT, (1, _VERSION))
        languages = data.get("languages")
        if not isinstance(languages, dict):
            raise HeadwiseError(f"{path}: 'languages' must be an object of masks")
        masks = {
            language: _read_mask({**data, "language": language}, values, f"{path}, {language!r}")
            for language, values in languages.items()
        }
        default = data.get("default")
        return cls(model, masks, None if default is None else _read_mask(data, default, f"{path}, 'default'"))

    def _baseline(self, languages: str | Sequence[str]) -> MeanOutputs | list[MeanOutputs] | None:
        if not self.means:
            return None
        return self.means[languages] if isinstance(languages, str) else [self.means[each] for each in languages]

    @cached_property
    def _heads(self) -> HeadMap:
        return find_heads(self.model)

    @cached_property
    def _gates(self) -> Tensor:
        gates = [mask.tensor() for mask in self._all_masks()]  # booleans of hard masks, real numbers of soft masks
        real = any(each.is_floating_point() for each in gates)
        return torch.stack([each.float() if real else each for each in gates])  # (languages and default, heads)

    def _all_masks(self) -> list[AnyMask]:
        return [*self.masks.values(), *([self.default] if self.default is not None else [])]

    def _row(self, language: str) -> int:
        if language in self.masks:
            return list(self.masks).index(language)
        if self.default is not None:
            return len(self.masks)
        raise HeadwiseError(
            f"no mask for the language {language!r} (known: {', '.join(self.masks)}): add one or give a default"
        )


def _values(mask: AnyMask) -> dict[str, Any]:
    """The values of a mask in the file: the heads that are `off`, or the `gates` of a soft mask."""
    name = "gates" if isinstance(mask, SoftMask) else "off"
    return {name: mask.to_dict()[name]}


def _read_mask(shared: Mapping[str, Any], values: Any, source: str) -> AnyMask:
    """The inverse of `_values`. Files of version 1 have the heads that are off instead of an object with `off`."""
    if shared["version"] == 1:
        values = {"off": values}
    if not isinstance(values, dict) or values.keys() not in ({"off"}, {"gates"}):
        raise HeadwiseError(f"{source}: a mask must be an object with either 'off' or 'gates'")
    kind = SoftMask if "gates" in values else HeadMask
    return kind.from_dict({**shared, **values}, source)
