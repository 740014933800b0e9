"""Rare words by the frequencies of a package: against a plain loop, and mistakes."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.roles.measure import measure_language
from headwise.roles.statistics.rare import rarest_words
from tests.roles.plain import Totals, all_maps, best
from tests.roles.worlds import world

pytest.importorskip("wordfreq")


def test_attention_to_rare_words_is_that_of_a_plain_loop() -> None:
    model, corpus = world("trees-en", attn_implementation="eager")
    model.double()
    rarest = rarest_words([each.words for each in corpus.sentences if each is not None], "en")
    assert (-1, -1) not in rarest[:4]
    corpus = replace(corpus, rarest=(*rarest[:-1], (-1, -1)))
    found = measure_language(model, corpus.heads, corpus)
    totals, maps = Totals(), all_maps(model, corpus)
    for number, each in enumerate(maps):
        rare = corpus.rarest[number // len(found.heads)] if corpus.rarest else ()
        for query, owner in enumerate(each.words):
            for count in (1, 2):
                wanted = {word for word in rare[:count] if word >= 0}
                if owner >= 0 and wanted:
                    key = best(each.weights[query], lambda key, each=each: each.words[key] >= 0)  # type: ignore[misc]
                    totals.add(f"rare:{count}", each.head, float(each.words[key] in wanted))
    for count in (1, 2):
        expected = [totals.value(f"rare:{count}", head) for head in found.heads]
        np.testing.assert_allclose(found[f"rare:{count}"], expected, atol=1e-12)
        assert found.count[0, found.place(f"rare:{count}")] == totals.counts[f"rare:{count}", found.heads[0]]


def test_unknown_words_are_the_rarest_and_punctuation_is_none() -> None:
    assert rarest_words([["The", "frumiousness", "of", "penguins", "?"], ["?"]], "en") == ((1, 3), (-1, -1))
    assert rarest_words([["Die", "Pinguine"]], "de_gsd") == ((1, 0),)


@pytest.mark.parametrize("language", ["zh", "ja", "ko"])
def test_languages_without_spaces_name_the_package_that_they_need(
    monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    name = "jieba" if language == "zh" else "MeCab"
    for module in ("wordfreq.chinese", "wordfreq.mecab"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        HeadwiseError, match=rf"frequencies of '{language}' need the package {name}: pip install 'headwise"
    ):
        rarest_words([["某某某词"]], language)
