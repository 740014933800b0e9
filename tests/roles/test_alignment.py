"""Alignment heads: links between words, pairs of sentences in tokens, planted heads, and the plain loop."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from headwise.data.aligner import align_words
from headwise.data.examples import WordExample
from headwise.data.treebanks import open_treebank
from headwise.heads import find_heads
from headwise.roles.corpus import Corpus
from headwise.roles.measure import RolePass, measure_language
from headwise.roles.pairs import ParallelSentences, parallel_sentences, read_pairs
from headwise.roles.statistics.alignment import Alignment
from headwise.stats import bootstrap_interval
from tests.families import BY_NAME, ON_V4
from tests.roles.planted import Rule, plant
from tests.roles.test_measure import check
from tests.roles.test_planted import roles_of, value
from tests.roles.worlds import e5_tokenizer, pair_world, parallel


def test_words_are_linked_to_their_translations() -> None:
    draw = np.random.default_rng(0)
    texts = [draw.permutation(20)[: draw.integers(3, 8)] for _ in range(80)]
    orders = [draw.permutation(len(text)) for text in texts]
    first = [[f"a{word}" for word in text] for text in texts]
    second = [[f"B{text[place]}" for place in order] for text, order in zip(texts, orders, strict=True)]
    for order, links in zip(orders, align_words(first, second), strict=True):
        assert {tuple(link) for link in links.tolist()} == {(place, number) for number, place in enumerate(order)}


def test_words_that_cannot_be_told_apart_are_not_linked() -> None:
    assert [links.tolist() for links in align_words([["a", "b"], []], [["c", "d"], []])] == [[], []]


def test_links_of_the_phrasebook_follow_all_its_sentences_and_leave_copies_out() -> None:
    few, many = parallel(count=12), parallel(count=40)
    for one, other in zip(few.links, many.links, strict=False):
        np.testing.assert_array_equal(one, other)
    words = [
        (one.words[i].lower(), other.words[j].lower())
        for one, other, links in zip(many.first, many.second, many.links, strict=True)
        for i, j in links.tolist()
    ]
    assert {("i", "ich"), ("the", "die"), ("my", "meine")} <= set(words)
    assert all(one != other and one not in ",.?!" for one, other in words)


@pytest.mark.parametrize("pair", [("en", "de"), ("fr", "es")])
def test_linked_words_mostly_have_the_same_part_of_speech(pair: tuple[str, str]) -> None:
    """There are no gold links; parts of speech show that most of them are right."""
    found = parallel_sentences(open_treebank("phrasebook"), pair, "all")
    same = [
        one.upos[i] == other.upos[j]  # type: ignore[union-attr]
        for one, other, links in zip(found.first, found.second, found.links, strict=True)
        for i, j in links.tolist()
    ]
    assert len(same) > 400
    assert np.mean(same) > 0.8


def test_pairs_are_read_as_the_tokenizer_reads_two_texts() -> None:
    _, corpus = pair_world("bert")
    sentences, tokenizer = parallel(), e5_tokenizer()
    for number, encoded in enumerate(corpus.examples.encoded):
        one, other = sentences.first[number], sentences.second[number]
        expected = tokenizer([list(one.words)], [list(other.words)], is_split_into_words=True)
        assert list(encoded.ids) == expected["input_ids"][0]
        owners = [
            -1 if word is None else word + len(one.words) * (side or 0)
            for word, side in zip(expected.word_ids(0), expected.sequence_ids(0), strict=True)
        ]
        assert list(corpus.words[number]) == owners


def bert_tokenizer() -> Any:
    """Words as tokens, and `[CLS] A [SEP] B [SEP]` with token types, like BERT's."""
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "a", "b", "c", "d"]
    pieces = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=pieces, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


def words(text: str) -> WordExample:
    return WordExample("1", tuple(text.split()), ("X",) * len(text.split()))


def test_token_types_tell_the_sentences_apart_and_long_pairs_are_cut() -> None:
    model = BY_NAME["bert"].build()
    given = ParallelSentences((words("a b c"),), (words("d c"),), (np.array([[0, 1], [2, 0]]),))
    (encoded,) = read_pairs(model, find_heads(model), bert_tokenizer(), given).examples.encoded
    assert encoded.ids == (1, 4, 5, 6, 2, 7, 6, 2)
    assert [each.values for each in encoded.extra] == [(0, 0, 0, 0, 0, 1, 1, 1)]
    short = BY_NAME["bert"].build(max_position_embeddings=7)
    corpus = read_pairs(short, find_heads(short), bert_tokenizer(), given)
    assert corpus.examples.encoded[0].ids == (1, 4, 5, 2, 7, 6, 2)
    assert corpus.examples.cut == 1
    assert corpus.pairs[0].links.tolist() == [[0, 4]]  # the third word was cut off


def test_the_baseline_is_the_word_at_the_same_relative_position() -> None:
    model = BY_NAME["bert"].build()
    given = ParallelSentences((words("a b c"),), (words("d c"),), (np.array([[0, 0], [1, 1], [2, 0]]),))
    corpus = read_pairs(model, find_heads(model), bert_tokenizer(), given)
    found = {column.name: column.baseline for column in Alignment.of(corpus).columns}
    assert found["alignment:link:forward"] == pytest.approx(2 / 3)  # the diagonal is 0 → 0, 1 → 1, 2 → 1
    assert found["alignment:top:backward"] == pytest.approx(1 / 2)  # 0 → 0, 1 → 2


@pytest.mark.parametrize(("kind", "second"), [("bert", "de"), ("bert", "zh"), ("llama", "de"), ("marian", "de")])
def test_alignment_is_that_of_a_plain_loop(kind: str, second: str) -> None:
    model, corpus = pair_world(kind, second, attn_implementation="eager")
    model.double()
    found = measure_language(model, find_heads(model), corpus)
    defined = check(found, model, corpus)
    directions = ("backward",) if kind == "llama" else ("forward", "backward")
    names = ("link", "top", "weight", "shuffled")
    assert defined == {f"alignment:{name}:{direction}" for name in names for direction in directions}
    assert all(head.startswith("encoder") for head in found.heads) or kind == "llama"


def translating(corpus: Corpus, backward: bool = False) -> Rule:
    """Linked words attend to their translations, all others to the first token."""

    def rule(queries: Sequence[int], _keys: Sequence[int], number: int) -> list[int]:
        owners, links = corpus.words[number], dict(corpus.pairs[number].links.tolist())
        links = {other: one for one, other in links.items()} if backward else links
        return [owners.index(links[owners[query]]) if owners[query] in links else 0 for query in range(len(queries))]

    return rule


@pytest.mark.parametrize("family", ["bert", "marian"])
def test_planted_alignment_heads_are_found_and_no_others(family: str) -> None:
    if family == "bert" and ON_V4:
        pytest.skip("its attention cannot be replaced in this version of transformers")
    model, _ = pair_world(family)
    corpus = read_pairs(model, find_heads(model), e5_tokenizer(), parallel(count=60))
    plant(model, corpus, {"encoder.0.1": translating(corpus), "encoder.1.2": translating(corpus, backward=True)})
    found = measure_language(model, find_heads(model), corpus)
    for head, direction, other in (("encoder.0.1", "forward", "backward"), ("encoder.1.2", "backward", "forward")):
        for name in ("link", "top", "weight"):
            assert value(found, head, f"alignment:{name}:{direction}") == 1.0
            assert value(found, head, f"alignment:{name}:{other}") == 0.0
        assert value(found, head, f"alignment:shuffled:{direction}") < 0.3
        assert roles_of(found, head) == {"alignment": {f"alignment:link:{direction}"}}
    assert {head for head in found.heads if roles_of(found, head)} == {"encoder.0.1", "encoder.1.2"}
    uniform = found.heads.index("encoder.0.0")
    weight, shuffled = (found[f"alignment:{name}:forward"][uniform] for name in ("weight", "shuffled"))
    assert weight == pytest.approx(shuffled, rel=0.3)


def test_planted_alignment_heads_of_a_causal_model_look_back() -> None:
    model, _ = pair_world("llama")
    corpus = read_pairs(model, find_heads(model), e5_tokenizer(), parallel(count=40))
    plant(model, corpus, {"decoder.0.1": translating(corpus, backward=True)})
    found = measure_language(model, find_heads(model), corpus)
    assert value(found, "decoder.0.1", "alignment:link:backward") == 1.0
    assert np.isnan(value(found, "decoder.0.1", "alignment:link:forward"))
    assert roles_of(found, "decoder.0.1").keys() == {"alignment"}


def test_intervals_are_those_of_the_bootstrap_over_sentences() -> None:
    model, _ = pair_world("bert")
    corpus = read_pairs(model, find_heads(model), e5_tokenizer(), parallel(count=60))
    found = measure_language(model, find_heads(model), corpus)
    low, high = found.intervals()
    place = found.place("alignment:link:forward")
    assert place is not None
    head = int(np.nanargmax(found.value[:, place]))
    each = []
    for number in range(60):
        one = replace(
            corpus,
            examples=replace(corpus.examples, encoded=corpus.examples.encoded[number : number + 1]),
            words=corpus.words[number : number + 1], sentences=(None,), pairs=corpus.pairs[number : number + 1],
        )  # fmt: skip
        alone = RolePass(model, find_heads(model), one)
        alone.absorb(alone.measure(0))
        each.append([alone.sums.sums["s"][head, place], alone.sums.sums["n"][head, place]])
    drawn = bootstrap_interval(np.array(each), lambda totals: totals[..., 0] / totals[..., 1], 4000)
    np.testing.assert_allclose((low[head, place], high[head, place]), drawn, atol=0.02)
