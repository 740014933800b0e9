"""Heads that were planted are found, and no others: encoder, decoder and cross-attention."""

from collections.abc import Sequence

import numpy as np
import pytest

from headwise.data.examples import TranslationExample
from headwise.data.phrasebook import phrasebook_sentences
from headwise.heads import find_heads
from headwise.roles.corpus import Corpus, read_corpus
from headwise.roles.labels import label_heads
from headwise.roles.measure import measure_language
from headwise.roles.table import HeadRoles, LanguageRoles
from tests.families import BY_NAME, ON_V4
from tests.roles.plain import rare_by_side
from tests.roles.planted import Rule, plant
from tests.roles.worlds import bert, e5_tokenizer, pairs, texts, word_tokenizer

Ids = Sequence[int]


def previous(queries: Ids, _keys: Ids, _number: int) -> list[int]:
    return [max(0, query - 1) for query in range(len(queries))]


def following(queries: Ids, _keys: Ids, _number: int) -> list[int]:
    return [min(len(queries) - 1, query + 1) for query in range(len(queries))]


def itself(queries: Ids, _keys: Ids, _number: int) -> list[int]:
    return list(range(len(queries)))


def first(queries: Ids, _keys: Ids, _number: int) -> list[int]:
    return [0] * len(queries)


def last(queries: Ids, keys: Ids, _number: int) -> list[int]:
    return [len(keys) - 1] * len(queries)


def rarest_of(corpus: Corpus) -> Rule:
    rare = rare_by_side(corpus, "ids")

    def rule(queries: Ids, keys: Ids, number: int) -> list[int]:
        wanted = list(keys).index(rare[number][0]) if rare[number] else 0
        return [wanted] * len(queries)

    return rule


def dependency(corpus: Corpus, relation: str, upwards: bool) -> Rule:
    """Words attend to their head or dependent in a relation, all others to themselves."""

    def rule(queries: Ids, _keys: Ids, number: int) -> list[int]:
        words, tree = corpus.words[number], corpus.sentences[number]
        assert tree is not None
        chosen = list(range(len(queries)))
        for word, (head, found) in enumerate(zip(tree.heads, tree.relations, strict=True)):
            if head and found.split(":")[0] == relation:
                one, other = (word, head - 1) if upwards else (head - 1, word)
                for query, owner in enumerate(words):
                    if owner == one:
                        chosen[query] = words.index(other)
        return chosen

    return rule


def copying(queries: Ids, keys: Ids, _number: int) -> list[int]:
    """Attend to the last visible occurrence of the token that comes next, otherwise to the first token."""
    causal = list(queries) == list(keys)
    found = []
    for query in range(len(queries)):
        wanted = queries[query + 1] if query + 1 < len(queries) else None
        places = [k for k, key in enumerate(keys) if key == wanted and (not causal or k <= query)]
        found.append(places[-1] if places else 0)
    return found


def inducing(queries: Ids, _keys: Ids, _number: int) -> list[int]:
    """Attend to the token after an earlier occurrence of the same token, otherwise to the first token."""
    found = []
    for query, token in enumerate(queries):
        places = [k + 1 for k in range(query) if queries[k] == token and k + 1 < query]
        found.append(places[-1] if places else 0)
    return found


def doubling(queries: Ids, _keys: Ids, _number: int) -> list[int]:
    """Attend to an earlier occurrence of the same token, otherwise to the first token."""
    return [next((k for k in range(query) if queries[k] == token), 0) for query, token in enumerate(queries)]


def roles_of(found: LanguageRoles, head: str) -> dict[str, set[str]]:
    labels: dict[str, set[str]] = {}
    for label in label_heads(HeadRoles({"xx": found}, {})):
        if label.head == head:
            labels.setdefault(label.role, set()).add(label.statistic)
    return labels


def value(found: LanguageRoles, head: str, statistic: str) -> float:
    return float(found[statistic][found.heads.index(head)])


@pytest.mark.parametrize(("family", "language"), [("bert", "en"), ("marian", "de"), ("marian", "zh")])
def test_planted_heads_of_an_encoder_are_found(family: str, language: str) -> None:
    if family == "bert" and ON_V4:
        pytest.skip("its attention cannot be replaced in this version of transformers")
    model = bert() if family == "bert" else BY_NAME[family].build(vocab_size=250_037, max_position_embeddings=200)
    corpus = read_corpus(model, find_heads(model), e5_tokenizer(), phrasebook_sentences(language)[:60])
    rules = {
        "encoder.0.0": previous,
        "encoder.0.1": following,
        "encoder.0.2": rarest_of(corpus),
        "encoder.0.3": last,
        "encoder.1.0": dependency(corpus, "nsubj", upwards=True),
        "encoder.1.1": dependency(corpus, "obj", upwards=False),
        "encoder.1.2": first,
    }
    plant(model, corpus, rules)
    found = measure_language(model, find_heads(model), corpus)
    assert all(head.startswith("encoder") for head in found.heads)
    for head, statistic in (
        ("encoder.0.0", "offset:-1"), ("encoder.0.0", "previous"), ("encoder.0.1", "offset:+1"),
        ("encoder.0.1", "next"), ("encoder.0.2", "rare:1"), ("encoder.0.2", "rare:2"),
        ("encoder.0.3", "separator_top"), ("encoder.0.3", "separator_all"), ("encoder.0.3", "separator_weight"),
        ("encoder.1.0", "syntax:nsubj:head"), ("encoder.1.1", "syntax:obj:dependent"),
        ("encoder.1.2", "first"), ("encoder.1.3", "broad"),
    ):  # fmt: skip
        assert value(found, head, statistic) == 1.0, (head, statistic)
    assert roles_of(found, "encoder.0.0").keys() & {"positional", "syntactic"} >= {"positional"}
    assert roles_of(found, "encoder.0.0")["positional"] == {"offset:-1"}
    assert roles_of(found, "encoder.0.1")["positional"] == {"offset:+1"}
    assert "rare" in roles_of(found, "encoder.0.2")
    assert roles_of(found, "encoder.0.3").keys() == {"separator"}
    assert "syntax:nsubj:head" in roles_of(found, "encoder.1.0")["syntactic"]
    assert "syntax:obj:dependent" in roles_of(found, "encoder.1.1")["syntactic"]
    assert roles_of(found, "encoder.1.2").keys() == {"first"}
    assert roles_of(found, "encoder.1.3").keys() >= {"broad"}
    assert value(found, "encoder.0.3", "confidence") == 0.0  # attention to the end of a sentence is not confidence
    assert value(found, "encoder.0.3", "entropy") == 0.0


def test_planted_heads_of_a_decoder_are_found() -> None:
    model = BY_NAME["llama"].build()
    corpus = read_corpus(model, find_heads(model), word_tokenizer(), texts(40))
    plant(
        model, corpus,
        {"decoder.0.0": previous, "decoder.0.1": copying, "decoder.0.2": inducing, "decoder.0.3": doubling,
         "decoder.1.0": first, "decoder.1.1": itself},
    )  # fmt: skip
    found = measure_language(model, find_heads(model), corpus)
    assert value(found, "decoder.0.0", "offset:-1") == value(found, "decoder.0.0", "previous") == 1.0
    assert value(found, "decoder.0.1", "retrieval") == 1.0
    assert value(found, "decoder.0.2", "induction") > 0.99  # the token after the only duplicate may be the token itself
    assert value(found, "decoder.0.3", "duplicate") == 1.0
    assert value(found, "decoder.1.0", "first") == value(found, "decoder.1.1", "self") == 1.0
    assert roles_of(found, "decoder.0.0").keys() >= {"positional"}
    assert "retrieval" in roles_of(found, "decoder.0.1")
    assert "induction" in roles_of(found, "decoder.0.2")
    assert "duplicate" in roles_of(found, "decoder.0.3")
    assert roles_of(found, "decoder.1.0").keys() == {"first"}


def test_planted_heads_of_cross_attention_are_found() -> None:
    model = BY_NAME["marian"].build()
    corpus = read_corpus(model, find_heads(model), word_tokenizer(), pairs(40))
    plant(
        model, corpus,
        {"cross.0.0": copying, "cross.0.1": last, "cross.1.0": rarest_of(corpus), "decoder.0.0": previous,
         "encoder.0.0": following},
    )  # fmt: skip
    found = measure_language(model, find_heads(model), corpus)
    assert value(found, "cross.0.0", "retrieval") == 1.0
    assert value(found, "cross.0.1", "end_weight") == value(found, "cross.0.1", "separator_all") == 1.0
    assert value(found, "cross.1.0", "rare:1") == 1.0
    assert value(found, "cross.1.0", "alignment_entropy") == 0.0
    assert value(found, "cross.0.2", "alignment_entropy") > 1.0  # attends to all tokens alike
    assert value(found, "decoder.0.0", "offset:-1") == value(found, "encoder.0.0", "offset:+1") == 1.0
    assert roles_of(found, "cross.0.0").keys() >= {"retrieval"}
    assert roles_of(found, "cross.0.1").keys() == {"separator"}
    assert "retrieval" not in roles_of(found, "cross.0.1")


def test_heads_that_attend_to_the_translated_token_are_found() -> None:
    draw = np.random.default_rng(0)
    orders = [draw.permutation(12)[: int(draw.integers(3, 9))] for _ in range(60)]
    examples = tuple(
        TranslationExample(str(number), " ".join(f"w{word}" for word in order),
                           " ".join(f"w{word + 20}" for word in draw.permutation(order)))
        for number, order in enumerate(orders)
    )  # fmt: skip
    model = BY_NAME["marian"].build()
    corpus = read_corpus(model, find_heads(model), word_tokenizer(), examples)

    def translating(queries: Ids, keys: Ids, _number: int) -> list[int]:
        following = [*queries[1:], 0]
        return [list(keys).index(token - 20) if token - 20 in keys else 0 for token in following]

    plant(model, corpus, {"cross.0.0": translating, "cross.0.1": first})
    found = measure_language(model, find_heads(model), corpus)
    assert value(found, "cross.0.0", "transition") > 0.95  # the model of alignment may be wrong on rare words
    assert value(found, "cross.0.1", "transition") < 0.4
    assert found.count[found.heads.index("cross.0.0"), found.place("transition")] > 200
    assert "transition" in roles_of(found, "cross.0.0")
    assert found.count[found.heads.index("cross.0.0"), found.place("retrieval")] == 0
