"""Statistics of attention by a plain loop that keeps every map: the oracle of the streaming pass."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from headwise.data.examples import Sentence
from headwise.roles.corpus import Corpus, PairLinks


@dataclass
class Map:
    """The attention of one head on one example, unpadded."""

    head: str
    stack: str
    weights: list[list[float]]
    queries: list[int]
    keys: list[int]
    words: tuple[int, ...]
    tree: Sentence | None
    rarest: dict[str, list[int]]  # by side, the rarest first
    aligned: list[int | None]  # the source token of each token of the translation
    pair: PairLinks | None  # the links of two sentences that are read together


@dataclass
class Totals:
    """Sums and counts of each statistic and head."""

    sums: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    counts: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def add(self, statistic: str, head: str, value: float) -> None:
        self.sums[statistic, head] += value
        self.counts[statistic, head] += 1

    def value(self, statistic: str, head: str) -> float:
        count = self.counts.get((statistic, head), 0)
        return self.sums[statistic, head] / count if count else math.nan


def all_maps(model: Any, corpus: Corpus) -> list[Map]:
    """Every map of every head, by eager attention of one example at a time."""
    found = []
    rarest = [rare_by_side(corpus, side) for side in ("ids", "target")]
    aligned = plain_alignment(corpus)
    examples = corpus.examples
    for number, encoded in enumerate(examples.encoded):
        batch = examples.task.make_batch(model, examples.encoded, [number], examples.pad_id)
        inputs = batch.inputs(torch.device("cpu"))
        with torch.no_grad():
            output = model(**inputs, output_attentions=True)
        source = list(encoded.ids)
        target = inputs["decoder_input_ids"][0].tolist() if "decoder_input_ids" in inputs else source
        for site in corpus.heads.sites:
            names = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
            maps = output[names[site.stack]] if "decoder_input_ids" in inputs else output.attentions
            queries = source if site.stack == "encoder" else target
            keys = target if site.stack == "decoder" else source
            for head, weights in zip(site.players, maps[site.layer][0], strict=True):
                side = 1 if site.stack == "decoder" and "decoder_input_ids" in inputs else 0
                found.append(
                    Map(head, site.stack, weights.tolist(), queries, keys, corpus.words[number],
                        corpus.sentences[number], {"keys": rarest[side][number]}, aligned[number],
                        corpus.pairs[number] if corpus.pairs else None)
                )  # fmt: skip
    return found


def rare_by_side(corpus: Corpus, side: str) -> list[list[int]]:
    special = set(corpus.examples.special_ids)
    texts = [[t for t in getattr(each, side, ()) if t not in special] for each in corpus.examples.encoded]
    counts = Counter(token for text in texts for token in text)
    ordered = sorted(counts, key=lambda token: (-counts[token], token))
    frequent = set(ordered[: min(500, len(ordered) // 2)])
    found = []
    for text in texts:
        rare = sorted(set(text), key=lambda token: (counts[token], -token))[:2]
        found.append([] if not rare or rare[0] in frequent else rare)
    return found


def plain_alignment(corpus: Corpus) -> list[list[int | None]]:
    """The most likely source token of each token of a translation by ten rounds of IBM model 1, in plain loops."""
    special = set(corpus.examples.special_ids)
    pairs = [
        ([None, *(t for t in each.ids if t not in special)], [None if t in special else t for t in target])
        for each in corpus.examples.encoded
        for target in [getattr(each, "target", ())]
    ]
    table: dict[tuple[int, int | None], float] = defaultdict(lambda: 1.0)
    for _ in range(10):
        counts: dict[tuple[int, int | None], float] = defaultdict(float)
        totals: dict[int | None, float] = defaultdict(float)
        for source, target in pairs:
            for word in target:
                if word is not None:
                    norm = sum(table[word, token] for token in source)
                    for token in source:
                        counts[word, token] += table[word, token] / norm
                        totals[token] += table[word, token] / norm
        table.update({(word, token): count / totals[token] for (word, token), count in counts.items()})
    return [[_aligned(table, source, word) for word in target] for source, target in pairs]


def _aligned(table: Any, source: Sequence[int | None], word: int | None) -> int | None:
    if word is None:
        return None
    norm = sum(table[word, token] for token in source)
    shares: dict[int | None, float] = defaultdict(float)
    for token in source:
        shares[token] += table[word, token] / norm
    return next((t for t, share in shares.items() if share >= 0.5 and t is not None and t != word), None)


def plain_statistics(maps: Sequence[Map], corpus: Corpus) -> Totals:
    """All statistics, token by token."""
    totals, special = Totals(), set(corpus.examples.special_ids)
    for each in maps:
        if each.pair is not None:
            _alignment(each, each.pair, totals)
            continue
        _shape(each, special, totals)
        _positions(each, special, totals)
        _special(each, special, corpus, totals)
        _repeats(each, special, totals)
        _rare(each, special, totals)
        if each.tree is not None and each.stack != "cross":
            _syntax(each, each.tree, totals)
    return totals


def seen(each: Map, query: int, key: int) -> bool:
    return each.stack != "decoder" or key <= query


def best(weights: Sequence[float], allowed: Callable[[int], bool] = lambda _key: True) -> int:
    return max((key for key in range(len(weights)) if allowed(key)), key=lambda key: (weights[key], -key))


def entropy_of(weights: Sequence[float]) -> float:
    return -sum(w * math.log(w) for w in weights if w > 0)


def _shape(each: Map, special: set[int], totals: Totals) -> None:
    for query, token in enumerate(each.queries):
        row = each.weights[query]
        totals.add("entropy", each.head, entropy_of(row))
        if token in special:
            continue
        text = [w for w, key in zip(row, each.keys, strict=True) if key not in special]
        totals.add("confidence", each.head, max(text))
        visible = sum(seen(each, query, key) for key in range(len(row)))
        if visible > 1:
            totals.add("broad", each.head, float(entropy_of(row) >= 0.9 * math.log(visible)))
        if each.stack == "cross":
            totals.add("alignment_entropy", each.head, entropy_of([w / sum(text) for w in text]))


def _positions(each: Map, special: set[int], totals: Totals) -> None:
    for query, token in enumerate(each.queries):
        if token in special:
            continue
        row = each.weights[query]
        totals.add("first", each.head, row[0])
        if each.stack == "cross":
            continue
        for name, offset in (("self", 0), ("previous", -1), ("next", 1)):
            if 0 <= query + offset < len(row) and seen(each, query, query + offset):
                totals.add(name, each.head, row[query + offset])
        for offset in [*range(-8, 0), *range(1, 9)]:
            if 0 <= query + offset < len(row):
                totals.add(f"offset:{offset:+d}", each.head, float(best(row) == query + offset))


def _special(each: Map, special: set[int], corpus: Corpus, totals: Totals) -> None:
    hits = []
    for query, token in enumerate(each.queries):
        if token in special:
            continue
        row = each.weights[query]
        for name, wanted in (("separator_weight", corpus.separators), ("end_weight", corpus.ends)):
            places = [key for key, key_id in enumerate(each.keys) if key_id in wanted and seen(each, query, key)]
            if places and (name == "separator_weight" or each.stack != "encoder"):
                totals.add(name, each.head, sum(row[key] for key in places))
            if places and name == "separator_weight":
                hits.append(best(row) in places)
                totals.add("separator_top", each.head, float(hits[-1]))
    if hits:
        totals.add("separator_all", each.head, float(all(hits)))


def _repeats(each: Map, special: set[int], totals: Totals) -> None:
    text = [key for key, key_id in enumerate(each.keys) if key_id not in special]
    for query, token in enumerate(each.queries):
        row = each.weights[query]
        if each.stack != "cross" and token not in special:
            others = [k for k in text if k != query and each.keys[k] == token and seen(each, query, k)]
            after = [k + 1 for k in others if k + 1 in text and k + 1 != query and seen(each, query, k + 1)]
            for name, places in (("duplicate", others), ("induction", after)):
                if places:
                    totals.add(name, each.head, sum(row[key] for key in places))
        if each.stack != "encoder" and query + 1 < len(each.queries) and each.queries[query + 1] not in special:
            copies = [k for k in text if each.keys[k] == each.queries[query + 1] and seen(each, query, k)]
            if copies:
                totals.add("retrieval", each.head, float(best(row) in copies))
        if each.stack == "cross" and each.aligned[query] is not None:
            totals.add("transition", each.head, float(each.keys[best(row)] == each.aligned[query]))


def _rare(each: Map, special: set[int], totals: Totals) -> None:
    for query, token in enumerate(each.queries):
        if token in special:
            continue
        for count in (1, 2):
            rare = each.rarest["keys"][:count]
            if any(key_id in rare and seen(each, query, key) for key, key_id in enumerate(each.keys)):
                chosen = best(each.weights[query], lambda key: each.keys[key] not in special)
                totals.add(f"rare:{count}", each.head, float(each.keys[chosen] in rare))


def _syntax(each: Map, tree: Sentence, totals: Totals) -> None:
    pieces = pieces_of(each)

    def attended(word: int) -> int:
        received = word_weights(each, word)
        return max(sorted(received), key=lambda other: received[other])

    dependents: dict[tuple[int, str], list[int]] = defaultdict(list)
    for word, (head, full) in enumerate(zip(tree.heads, tree.relations, strict=True)):
        relation = full.split(":")[0]
        if head and word in pieces and head - 1 in pieces:
            totals.add(f"syntax:{relation}:head", each.head, float(attended(word) == head - 1))
            dependents[head - 1, relation].append(word)
    for (head, relation), words in dependents.items():
        totals.add(f"syntax:{relation}:dependent", each.head, float(attended(head) in words))


def pieces_of(each: Map) -> dict[int, list[int]]:
    return {w: [t for t, word in enumerate(each.words) if word == w] for w in set(each.words) - {-1}}


def word_weights(each: Map, word: int) -> dict[int, float]:
    """The attention of a word to all words."""
    pieces = pieces_of(each)
    return {
        other: float(np.mean([sum(each.weights[q][k] for k in places) for q in pieces[word]]))
        for other, places in pieces.items()
    }


def _alignment(each: Map, pair: PairLinks, totals: Totals) -> None:
    for direction, side in (("forward", 0), ("backward", 1)):
        links: dict[int, set[int]] = defaultdict(set)
        for link in pair.links.tolist():
            if each.stack != "decoder" or side == 1:
                links[link[side]].add(link[1 - side])
        for word, wanted in links.items():
            received = word_weights(each, word)
            across = {other: w for other, w in received.items() if (other < pair.first) != (word < pair.first)}
            for name, found in (("link", across), ("top", received)):
                best_word = max(sorted(found), key=lambda other: found[other])
                totals.add(f"alignment:{name}:{direction}", each.head, float(best_word in wanted))
            totals.add(f"alignment:weight:{direction}", each.head, sum(received[other] for other in wanted))
            totals.add(f"alignment:shuffled:{direction}", each.head, float(np.mean(list(across.values()))))
