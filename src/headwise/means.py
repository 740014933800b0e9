"""Mean outputs of heads and feed-forward blocks: what mean ablation puts in the place of those that are off."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from headwise.activations import TokenBatch, evaluating
from headwise.architectures import Stack
from headwise.errors import HeadwiseError, MaskMismatchError
from headwise.files import write_bytes
from headwise.heads import HeadMap, PlayerKind, base_model, find_heads
from headwise.masks import describe_shape, group_players, ungroup_players

_FORMAT = "headwise-means"
_VERSION = 1


@dataclass(frozen=True, eq=False, repr=False)
class MeanOutputs:
    """The mean output of every head and of every feed-forward block over the tokens of some examples.

    The output of a head is its part of the input of the site's output projection. The mean is over all tokens of the
    examples, special tokens included and padding excluded: tokens of the source in an encoder, and tokens of the target
    (the decoder's inputs) in a decoder and its cross-attention.

    Attributes:
        values: By site (`encoder.5`), the means of its heads, (heads·width,); by feed-forward block
            (`encoder.ffn.5`), the mean of what it adds, (features,).
        players: The heads of the model, in order.
        model: Display name of the model.
        fingerprint: Fingerprint of its weights; None fits any weights of this shape.
        language: Language of the examples, if any.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> model, ids = BertModel(config), torch.tensor([[1, 2, 3]])
        >>> tokens = torch.ones(1, 3, dtype=torch.bool)
        >>> batch = TokenBatch({"input_ids": ids}, {"encoder": tokens}, torch.tensor([0]))
        >>> means = collect_means(model, [batch], language="en")
        >>> means, means.values["encoder.0"].shape
        (MeanOutputs(2 heads and 1 feed-forward blocks, BertModel, en), torch.Size([8]))
    """

    values: Mapping[str, Tensor]
    players: tuple[str, ...]
    model: str = ""
    fingerprint: str | None = None
    language: str | None = None

    def __repr__(self) -> str:
        blocks = len(self.values) - len(group_players(self.players))
        about = ", ".join(each for each in (self.model, self.language) if each)
        return f"MeanOutputs({len(self.players)} heads and {blocks} feed-forward blocks{about and f', {about}'})"

    def check(self, heads: HeadMap) -> None:
        """Check that the means belong to a model.

        Raises:
            MaskMismatchError: The model has other heads or other weights.
        """
        widths = {site.name: len(site.heads) * site.head_width for site in heads.sites if site.heads}
        mine = {name: len(self.values.get(name, ())) for name in widths}
        if self.players != heads.players() or mine != widths:
            raise MaskMismatchError(
                f"the means are for {self.model or 'a model'} with {describe_shape(self.players)}, but "
                f"{heads.model} has {describe_shape(heads.players())} or heads of another width"
            )
        if None not in (self.fingerprint, heads.fingerprint) and self.fingerprint != heads.fingerprint:
            raise MaskMismatchError(
                f"the means are for the weights {self.fingerprint} ({self.model}), but {heads.model} has the weights "
                f"{heads.fingerprint}: compute the means again with headwise.mean_outputs"
            )

    def restricted_to(self, heads: HeadMap) -> "MeanOutputs":
        """The means of the heads that a shrunk copy of the model still has."""
        kept, values = set(heads.players()), dict(self.values)
        for site in heads.sites:
            every = [name for name in self.players if name.rpartition(".")[0] == site.name]
            if every:
                on = torch.tensor([name in kept for name in every])
                values[site.name] = self.values[site.name].view(len(every), -1)[on].flatten()
        return MeanOutputs(values, heads.players(), heads.model, heads.fingerprint, self.language)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the means as a safetensors file, atomically."""
        about = {
            "format": _FORMAT,
            "version": _VERSION,
            "model": self.model,
            "fingerprint": self.fingerprint,
            "language": self.language,
            "heads": group_players(self.players),
        }
        tensors = {name: tensor.contiguous() for name, tensor in self.values.items()}
        write_bytes(path, save(tensors, metadata={"headwise": json.dumps(about)}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "MeanOutputs":
        """Read means that `save` wrote.

        Raises:
            HeadwiseError: The file is missing or does not contain means.
        """
        try:
            with safe_open(os.fspath(path), "pt") as file:
                about: Any = json.loads((file.metadata() or {}).get("headwise", "null"))
                values = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no mapping
        except (OSError, SafetensorError, ValueError, RecursionError) as error:
            raise HeadwiseError(f"{path}: cannot be read as mean outputs: {error}") from None
        if not isinstance(about, dict) or about.get("format") != _FORMAT:
            raise HeadwiseError(f"{path}: has no mean outputs: give a file written by headwise.mean_outputs")
        if about.get("version") != _VERSION:
            raise HeadwiseError(f"{path}: version {about.get('version')!r} is not known: update headwise")
        for field in ("fingerprint", "language"):
            if not isinstance(about.get(field), str | None):
                raise HeadwiseError(f"{path}: {field!r} must be text or null, not {about[field]!r}")
        if wrong := [name for name, each in values.items() if not each.is_floating_point() or each.dim() != 1]:
            raise HeadwiseError(f"{path}: {wrong[0]!r} is not a list of real numbers, so it is no mean output")
        players = ungroup_players(about.get("heads"), f"{path}: 'heads'", counts=False)
        return cls(values, players, str(about.get("model") or ""), about.get("fingerprint"), about.get("language"))


def require_means(players: PlayerKind) -> None:
    """Check that mean ablation is defined for a kind of players.

    Raises:
        HeadwiseError: The players are layers.
    """
    if players == "layers":
        raise HeadwiseError("a layer that is off is skipped, so it has no mean output: use the baseline 'zero'")


def collect_means(
    model: nn.Module, batches: Iterable[TokenBatch], heads: HeadMap | None = None, language: str | None = None
) -> MeanOutputs:
    """Compute mean outputs in one pass over batches.

    Args:
        model: A transformers model, or a PEFT model around one.
        batches: The batches.
        heads: The model's head map; found by `find_heads` by default.
        language: Language of the examples.

    Raises:
        HeadwiseError: There are no batches, or a mean is not a finite number.
    """
    heads, sums = heads or find_heads(model), _Sums()
    base: Any = base_model(model)
    with ExitStack() as stack, evaluating(model), torch.inference_mode():
        for site in heads.sites:
            if site.heads:
                add = sums.of_input(site.name, site.stack)
                stack.callback(base.get_submodule(site.output).register_forward_pre_hook(add).remove)
        for block in heads.feed_forward:
            add_output = sums.of_output(block.name, block.stack)
            stack.callback(base.get_submodule(block.path).register_forward_hook(add_output).remove)
        for batch in batches:
            sums.batch = batch
            model(**batch.inputs)
    values = sums.means()
    values |= {site.name: torch.zeros(0) for site in heads.sites if not site.heads}
    return MeanOutputs(values, heads.players(), heads.model, heads.fingerprint, language)


class _Sums:
    """Sums of activations over tokens, in double precision."""

    def __init__(self) -> None:
        self.batch: TokenBatch | None = None
        self.sums: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}

    def of_input(self, name: str, stack: Stack) -> Callable[..., None]:
        """A pre-hook that adds the input of a module."""
        return lambda _module, args: self._add(name, stack, args[0])

    def of_output(self, name: str, stack: Stack) -> Callable[..., None]:
        """A hook that adds the output of a module."""
        return lambda _module, _args, output: self._add(name, stack, output)

    def _add(self, name: str, stack: Stack, activations: Tensor) -> None:
        assert self.batch is not None
        chosen = self.batch.select(activations, stack).double()
        self.sums[name] = self.sums.get(name, 0) + chosen.sum(0).cpu()
        self.counts[name] = self.counts.get(name, 0) + len(chosen)

    def means(self) -> dict[str, Tensor]:
        """The means in single precision."""
        found = {name: (total / max(self.counts[name], 1)).float() for name, total in self.sums.items()}
        if not found:
            raise HeadwiseError("mean outputs need at least one example")
        for name, mean in found.items():
            if not mean.isfinite().all():
                raise HeadwiseError(f"the mean output of {name} is NaN or infinite: check the weights of the model")
        return found


def load_means(folder: str | os.PathLike[str]) -> dict[str, MeanOutputs]:
    """The means in a folder by the names of their files, which are languages."""
    return {path.stem: MeanOutputs.load(path) for path in sorted(Path(folder).glob("*.safetensors"))}
