"""Attention and relations in the data of the page: which heads, how exactly, and for which players."""

import base64

import numpy as np

from headwise.report.attended import attention_payload, notable_heads, packed
from headwise.report.relations import best_relations
from headwise.roles.statistics.base import Column
from headwise.roles.table import HeadRoles, LanguageRoles
from headwise.scores import HeadScores, Provenance
from tests.report.samples import HEADS, sample_attention, sample_scores, scores_of


def unpacked(text: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return (np.frombuffer(base64.b64decode(text), dtype=np.uint8) / 255.0) ** 2


def test_stored_weights_are_within_half_a_percent() -> None:
    weights = np.random.default_rng(0).dirichlet(np.full(30, 0.2), 30).astype(np.float32)
    found = unpacked(packed(weights)).reshape(30, 30)
    assert np.abs(found - weights).max() < 0.004
    small = weights < 0.01
    assert np.abs(found - weights)[small].max() < 0.0005


def test_every_sentence_has_the_weights_of_every_head() -> None:
    view = sample_attention(["zh", "ar"])
    data = attention_payload(view)
    assert [head["name"] for head in data["heads"]] == list(view.heads)
    assert [each["language"] for each in data["sentences"]] == ["zh", "zh", "ar", "ar"]
    np.testing.assert_allclose(
        unpacked(data["sentences"][2]["weights"][1]), view.weights(view.heads[1], 2).ravel(), atol=0.004
    )


def test_languages_take_turns_with_their_lowest_and_highest_heads() -> None:
    scores = {"a": scores_of([5.0, 1.0, 9.0, 2.0]), "b": scores_of([1.0, 9.0, 5.0, 4.0])}
    assert notable_heads(scores, 2) == ("encoder.0.1", "encoder.0.2")
    assert notable_heads(scores, 3) == ("encoder.0.0", "encoder.0.1", "encoder.0.2")
    assert notable_heads(scores, 99) == tuple(f"encoder.0.{head}" for head in range(4))


def test_as_many_heads_are_chosen_as_allowed() -> None:
    scores = sample_scores(["zh", "tr", "ar"])
    for most in (1, 7, 50):
        found = notable_heads(scores, most)
        assert len(found) == most
        assert list(found) == sorted(found, key=HEADS.index)
    extreme = {name for each in scores.values() for name in (each.ranked()[0], each.ranked()[-1])}
    assert set(notable_heads(scores, len(extreme))) == extreme


def test_all_heads_of_a_group_are_chosen() -> None:
    groups = (("decoder.0.0", "decoder.0.1"), ("decoder.0.2", "decoder.0.3"))
    scores = HeadScores(
        ("decoder.0.kv0", "decoder.0.kv1"), (0.1, 0.2), (0.1,) * 2, (9,) * 2, ("undecided",) * 2,
        Provenance("stars", "full"), members=groups,
    )  # fmt: skip
    assert notable_heads({"zh": scores}, 3) == groups[0]


def roles_of(values: list[list[float]], columns: tuple[Column, ...], count: int = 400) -> HeadRoles:
    shape = (len(values), len(columns))
    names = tuple(f"encoder.0.{head}" for head in range(len(values)))
    one = LanguageRoles(names, columns, np.array(values), np.zeros(shape), np.full(shape, count), 100, 0, 100.0)
    return HeadRoles({"zh": one}, {})


COLUMNS = (
    Column("syntax:nsubj:head", True, 0.3), Column("syntax:obj:dependent", True, 0.6), Column("self"),
    Column("syntax:punct:head", True, 0.0),
)  # fmt: skip


def test_the_best_relation_exceeds_its_offset_by_most() -> None:
    values = [[0.5, 0.7, 0.9, 0.9], [0.3, 0.65, 0.1, 0.9], [0.2, 0.5, 0.9, 0.9]]
    found = best_relations(roles_of(values, COLUMNS), {"zh": scores_of([0.1] * 3)})
    # Head 0: +20 points over nsubj, +10 over obj. Head 1: +5 over obj. Head 2: none, punctuation does not count.
    assert found == {
        "names": ["nsubj → head", "head → obj"],
        "rows": {"zh": [[0, 0, 50], [1, 1, 65]]},
        "offsets": {"zh": {0: 30, 1: 60}},
    }


def test_rare_relations_and_other_languages_have_no_best_relation() -> None:
    values = [[0.5, 0.7, 0.9, 0.9]]
    scores = {"zh": scores_of([0.1])}
    assert best_relations(roles_of(values, COLUMNS, count=19), scores) == {}
    assert best_relations(roles_of(values, COLUMNS), {"de": scores_of([0.1])}) == {}
    assert best_relations(roles_of([[0.9]], (Column("self"),)), scores) == {}
