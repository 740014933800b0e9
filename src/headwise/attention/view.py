"""Attention of chosen heads on chosen sentences, as arrays and as a page with lines and matrices."""

import dataclasses
import html
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.attention.capture import capture_attention
from headwise.attention.tokens import TokenRow, token_row
from headwise.errors import FieldError
from headwise.files import write_bytes
from headwise.gates import gated
from headwise.heads import HeadMap, Site, base_model, find_heads
from headwise.means import MeanOutputs
from headwise.soft_masks import AnyMask, SoftMask
from headwise.support.display import shorten
from headwise.support.embedding import page_policy, page_script, safe_json

Array = NDArray[np.float32]
#: Maximum number of weights of a view; the page of so many has about 12 MB.
MOST_WEIGHTS = 4_000_000


@dataclass(frozen=True, eq=False)
class SentenceAttention:
    """The attention of all chosen heads on one sentence.

    Attributes:
        label: A label, such as the language; may be empty.
        source: The tokens of the sentence.
        target: The tokens that the decoder of a sequence-to-sequence model reads, if it ran.
        weights: The weights of each head by its name, (queries, keys).
    """

    label: str
    source: TokenRow
    target: TokenRow | None
    weights: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class AttentionView:
    """Attention weights that a notebook shows, and that `save` writes as one HTML file.

    Attributes:
        heads: Names of the heads.
        sentences: The attention on each sentence.
        gates: The gates of heads other than 1 under which the model ran.
        translates: Whether the model is a sequence-to-sequence model.
    """

    heads: tuple[str, ...]
    sentences: tuple[SentenceAttention, ...]
    gates: Mapping[str, float]
    translates: bool = False

    def weights(self, head: str, sentence: int = 0) -> Array:
        """The weights of a head on a sentence, (queries, keys).

        Raises:
            KeyError: The head was not chosen.
        """
        if head not in self.heads:
            raise KeyError(f"there is no head {head!r}: there are {shorten(self.heads)}")
        return self.sentences[sentence].weights[head]

    def tokens(self, head: str, sentence: int = 0) -> tuple[TokenRow, TokenRow]:
        """The tokens of the queries and of the keys of a head."""
        found = self.sentences[sentence]
        queries, keys = self.sides(head)
        rows = {"source": found.source, "target": found.target}
        query_row, key_row = rows[queries], rows[keys]
        assert query_row is not None
        assert key_row is not None
        return query_row, key_row

    def sides(self, head: str) -> tuple[str, str]:
        """Where the queries and the keys of a head come from: `source` or `target`."""
        return _sides(head.split(".")[0], self.translates)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the view as one HTML file that opens from disk and needs no network.

        Raises:
            HeadwiseError: The file cannot be written.
        """
        write_bytes(path, self.page().encode("utf-8", "replace"))

    def page(self) -> str:
        """The view as an HTML page."""
        style, script = page_sources()
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>\n'
            f'<meta http-equiv="Content-Security-Policy" content="{page_policy(style, script)}"/>\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
            f"<title>Attention</title>\n<style>{style}</style></head>\n"
            '<body><div id="bar"></div><div id="sentences" class="attention"></div><div id="tip" hidden></div>'
            '<svg width="0" height="0"></svg>\n'
            f'<script type="application/json" id="data">{safe_json(self._payload())}</script>\n'
            f"<script>{script}</script></body></html>\n"
        )

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style and script do not meet those of the notebook."""
        longest = max(len(row) for each in self.sentences for row in (each.source, each.target) if row is not None)
        height = min(160 + 22 * longest, 760)
        return (
            f'<iframe srcdoc="{html.escape(self.page())}" sandbox="allow-scripts" '
            f'style="width:100%;height:{height}px;border:0;resize:vertical"></iframe>'
        )

    def __repr__(self) -> str:
        sentences = f"{len(self.sentences)} sentence{'s' if len(self.sentences) > 1 else ''}"
        return f"AttentionView({sentences}, {len(self.heads)} heads: {shorten(self.heads)})"

    def _payload(self) -> dict[str, Any]:
        """Tokens, and weights in thousandths."""
        return {
            "heads": [
                {
                    "name": name,
                    "sides": self.sides(name),
                    "gate": round(float(self.gates.get(name, 1.0)), 3),
                }
                for name in self.heads
            ],
            "sentences": [
                {
                    "label": each.label,
                    "source": each.source.to_dict(),
                    "target": None if each.target is None else each.target.to_dict(),
                    "weights": [
                        (1000 * each.weights[name]).round().astype(int).ravel().tolist() for name in self.heads
                    ],
                }
                for each in self.sentences
            ],
        }


def attention(
    model: nn.Module,
    tokenizer: Any,
    sentences: str | Sequence[str] | Mapping[str, str],
    heads: Sequence[str] | None = None,
    *,
    targets: str | Sequence[str] | None = None,
    mask: AnyMask | None = None,
    baseline: MeanOutputs | None = None,
) -> AttentionView:
    """Look at the attention of heads on some sentences, side by side.

    In a notebook the result is shown as a page with three views: lines between tokens, the strongest key of every
    token, and the matrix of weights. Sub-words can be merged into words (the mean over the sub-words of a query, the
    sum over those of a key), and special tokens can be hidden. `view.save("a.html")` writes the page,
    `view.weights("encoder.3.5")` gives the numbers.

    Args:
        model: A transformers model whose attention can be captured (`capture_attention`).
        tokenizer: Its tokenizer.
        sentences: The sentences; a map gives each a label, such as its language.
        heads: Names of heads such as `encoder.3.5`, `decoder.0.1` or `cross.2.7`; by default all that run.
        targets: For sequence-to-sequence models, what the decoder reads for each sentence. Without targets, only the
            encoder runs.
        mask: Run the model under this mask, hard or soft.
        baseline: Mean outputs that replace the heads that are off; by default 0.

    Raises:
        HeadwiseError: A head does not exist or does not run, the numbers of sentences and targets differ, the view
            would be too large, or the attention of the model cannot be captured.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> from headwise.models import load_tokenizer
        >>> config = BertConfig(vocab_size=250_037, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> sentences = {"de": "Der Hund schläft.", "zh": "狗在睡觉。"}
        >>> view = attention(BertModel(config), load_tokenizer("e5-small"), sentences, heads=["encoder.1.0"])
        >>> view
        AttentionView(2 sentences, 1 heads: encoder.1.0)
        >>> view.weights("encoder.1.0", sentence=1).sum(1).round(3).tolist()[:2]
        [1.0, 1.0]
    """
    labelled = _labelled(sentences)
    wanted_targets = _targets(targets, len(labelled))
    found = find_heads(model)
    seq2seq = any(site.stack == "cross" for site in found.sites)
    if wanted_targets and not seq2seq:
        raise FieldError("targets", "only sequence-to-sequence models have targets: leave them out")
    runs = [site for site in found.sites if wanted_targets or not seq2seq or site.stack == "encoder"]
    names = _chosen(heads, found, runs)
    reader = _Reader(model, tokenizer, dataclasses.replace(found, sites=tuple(_with(runs, names))), names)
    with ExitStack() as stack:
        if mask is not None:
            stack.enter_context(gated(model, mask, heads=found, baseline=baseline))
        stack.enter_context(_evaluating(model))
        read = tuple(
            reader.read(label, text, wanted_targets[place] if wanted_targets else None)
            for place, (label, text) in enumerate(labelled)
        )
    return AttentionView(names, read, _gates(mask), seq2seq)


@dataclass(frozen=True, eq=False)
class _Reader:
    """Runs a model on one sentence after the other and keeps the weights of the chosen heads."""

    model: Any
    tokenizer: Any
    heads: HeadMap
    names: tuple[str, ...]

    def read(self, label: str, text: str, target: str | None) -> SentenceAttention:
        device = next(self.model.parameters()).device
        encoding, ids = self._encode(text=text)
        inputs = {"input_ids": ids.to(device), "attention_mask": torch.ones_like(ids).to(device)}
        source = token_row(self.tokenizer, encoding, text, ids[0].tolist())
        target_row: TokenRow | None = None
        run = self.model
        if any(site.stack == "cross" for site in find_heads(self.model).sites):
            if target is None:
                run = base_model(self.model).get_encoder()
            else:
                read = self._decoder_input(target)
                inputs["decoder_input_ids"] = read.to(device)
                target_row = self._target_row(target, read)
        self._check_size(max(len(source), 0 if target_row is None else len(target_row)))
        kept: dict[str, Array] = {}

        def keep(site: Site, weights: Tensor) -> None:
            for place, name in enumerate(site.players):
                if name in self.names:
                    kept[name] = weights[0, place].float().cpu().numpy()

        with torch.no_grad(), capture_attention(self.model, keep, self.heads):
            run(**inputs)
        return SentenceAttention(label, source, target_row, kept)

    def _encode(self, **text: str) -> tuple[Any, Tensor]:
        offsets = {"return_offsets_mapping": True} if getattr(self.tokenizer, "is_fast", False) else {}
        encoding = self.tokenizer(**text, return_tensors="pt", **offsets)
        if not encoding["input_ids"].shape[1]:
            raise FieldError("sentences", f"{next(iter(text.values()))!r} has no tokens: give a text")
        return encoding, encoding["input_ids"].long()

    def _decoder_input(self, target: str) -> Tensor:
        """What the decoder reads to write a target: its tokens, shifted as in training."""
        _, ids = self._encode(text_target=target)
        shift = getattr(base_model(self.model), "prepare_decoder_input_ids_from_labels", None)
        shifted: Tensor = ids if shift is None else shift(labels=ids)
        return shifted

    def _target_row(self, target: str, read: Tensor) -> TokenRow:
        """The tokens of the target as the decoder reads them: a start token, and all but the last of the target."""
        encoding, ids = self._encode(text_target=target)
        row = token_row(self.tokenizer, encoding, target, ids[0].tolist())
        if torch.equal(read, ids):
            return row
        first = str(self.tokenizer.convert_ids_to_tokens(int(read[0, 0])))
        words = tuple(word + 1 for word in row.words[:-1])
        return TokenRow((first, *row.tokens[:-1]), (0, *words), (True, *row.special[:-1]))

    def _check_size(self, tokens: int) -> None:
        if len(self.names) * tokens**2 > MOST_WEIGHTS:
            raise FieldError(
                "heads", f"{len(self.names)} heads on {tokens} tokens are too many for a page: choose some heads"
            )


def _labelled(sentences: str | Sequence[str] | Mapping[str, str]) -> list[tuple[str, str]]:
    if isinstance(sentences, str):
        return [("", sentences)]
    pairs = list(sentences.items()) if isinstance(sentences, Mapping) else [("", text) for text in sentences]
    if not pairs:
        raise FieldError("sentences", "give at least one sentence")
    return pairs


def _targets(targets: str | Sequence[str] | None, sentences: int) -> list[str]:
    found = [] if targets is None else [targets] if isinstance(targets, str) else list(targets)
    if targets is not None and len(found) != sentences:
        raise FieldError("targets", f"give one for each of the {sentences} sentences, not {len(found)}")
    return found


def _chosen(heads: Sequence[str] | None, found: HeadMap, runs: Sequence[Site]) -> tuple[str, ...]:
    running = [name for site in runs for name in site.players]
    if heads is None:
        return tuple(running)
    for name in heads:
        if name not in found.players():
            raise FieldError("heads", f"there is no head {name!r}: there are {shorten(found.players())}")
        if name not in running:
            raise FieldError("heads", f"{name} belongs to the decoder, which runs only with targets: give targets")
    if not heads:
        raise FieldError("heads", "give at least one head")
    return tuple(dict.fromkeys(heads))


def _with(sites: Sequence[Site], names: Sequence[str]) -> Iterator[Site]:
    """The sites that have one of the heads."""
    wanted = set(names)
    return (site for site in sites if wanted & set(site.players))


def _sides(stack: str, translates: bool) -> tuple[str, str]:
    """Where the queries and the keys of a stack come from."""
    if not translates or stack == "encoder":
        return "source", "source"
    return ("target", "source") if stack == "cross" else ("target", "target")


def _gates(mask: AnyMask | None) -> dict[str, float]:
    """The gates of heads other than 1."""
    if mask is None or mask.kind != "heads":
        return {}
    gates = mask.gates if isinstance(mask, SoftMask) else tuple(float(on) for on in mask.on)
    return {name: float(gate) for name, gate in zip(mask.players, gates, strict=True) if gate != 1}


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout off, and restore the mode at the end."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def page_sources() -> tuple[str, str]:
    """The style sheet and the script of the page of every view."""
    return f"{_file('view.css')}{_file('drawing.css')}", page_script(_file("drawing.js"), _file("view.js"))


def _file(name: str) -> str:
    return files("headwise.attention").joinpath(name).read_text(encoding="utf-8")
