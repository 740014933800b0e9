"""Examples as tokens with words and trees."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from headwise import HeadwiseError
from headwise.data.conllu import pos_examples
from headwise.data.examples import PairExample, Sentence, TextExample, TranslationExample
from headwise.data.phrasebook import phrasebook_sentences
from headwise.heads import find_heads
from headwise.roles.corpus import read_corpus
from headwise.tasks.encoding import Encoded
from headwise.tasks.task import find_task
from tests.families import BY_NAME
from tests.roles.worlds import bert, e5_tokenizer, word_tokenizer


@pytest.mark.parametrize("language", ["en", "zh", "ar", "ko"])
def test_sentences_are_read_as_for_parts_of_speech(language: str) -> None:
    sentences = phrasebook_sentences(language)[:20]
    model = bert()
    corpus = read_corpus(model, find_heads(model), e5_tokenizer(), sentences)
    expected, cut = find_task("pos").encode(pos_examples(sentences), e5_tokenizer())
    assert [each.ids for each in corpus.examples.encoded] == [each.ids for each in expected]
    assert corpus.examples.cut == cut == 0
    for sentence, words, ids in zip(sentences, corpus.words, corpus.examples.encoded, strict=True):
        assert len(words) == len(ids.ids)
        assert set(words) == {-1, *range(len(sentence.words))}
        assert words[0] == words[-1] == -1


def test_long_sentences_are_cut_and_keep_their_end() -> None:
    model = bert(positions=10)
    corpus = read_corpus(model, find_heads(model), e5_tokenizer(), phrasebook_sentences("de")[:3])
    assert corpus.examples.lengths.max() == 10
    assert corpus.examples.cut > 0
    assert all(each.ids[-1] == e5_tokenizer().eos_token_id for each in corpus.examples.encoded)


def byte_level() -> PreTrainedTokenizerFast:
    """Bytes as tokens, with the space before a word as a part of it, like GPT-2's."""
    alphabet = {byte: number for number, byte in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    pieces = Tokenizer(models.BPE(alphabet, []))
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=pieces, bos_token="!", eos_token="!")


def test_byte_level_tokenizers_read_the_text_with_its_spaces() -> None:
    text = "It's new, isn't it?"
    words = ("It", "'s", "new", ",", "is", "n't", "it", "?")
    sentence = Sentence("1", text, words, ("X",) * 8, (3, 3, 0, 3, 3, 3, 3, 3), ("dep",) * 8, ("O",) * 8)
    tokenizer, model = byte_level(), BY_NAME["llama"].build(vocab_size=300)
    corpus = read_corpus(model, find_heads(model), tokenizer, (sentence,))
    (encoded,) = corpus.examples.encoded
    assert encoded.ids[0] == tokenizer.bos_token_id
    assert tokenizer.decode(encoded.ids[1:]) == text
    assert [corpus.words[0].count(word) for word in range(8)] == [2, 2, 4, 1, 3, 3, 3, 1]


def test_chinese_has_no_spaces_in_byte_level_tokenizers() -> None:
    sentence = phrasebook_sentences("zh")[0]
    model = BY_NAME["llama"].build(vocab_size=300, max_position_embeddings=200)
    corpus = read_corpus(model, find_heads(model), byte_level(), (sentence,))
    assert byte_level().decode(corpus.examples.encoded[0].ids[1:]) == sentence.text


def test_causal_models_read_a_start_token_and_the_text() -> None:
    model = BY_NAME["gpt2"].build()
    corpus = read_corpus(model, find_heads(model), word_tokenizer(), (TextExample("1", "w0 w1 w0"),))
    assert corpus.examples.encoded == (Encoded((2, 4, 5, 4), (), (0,)),)


def test_pairs_of_texts_are_read_together() -> None:
    model = bert()
    corpus = read_corpus(model, find_heads(model), e5_tokenizer(), (PairExample("1", "Yes", "No", "neutral"),))
    (encoded,) = corpus.examples.encoded
    assert list(encoded.ids) == e5_tokenizer()("Yes", "No")["input_ids"]
    assert sum(token in corpus.separators for token in encoded.ids) == 3


def test_translation_models_read_single_sentences_with_their_encoder() -> None:
    model = BY_NAME["marian"].build()
    corpus = read_corpus(model, find_heads(model), word_tokenizer(), (TextExample("1", "w0 w1"),))
    assert {site.stack for site in corpus.heads.sites} == {"encoder"}
    assert not corpus.translates


def test_translations_need_a_translation_model() -> None:
    model = bert()
    with pytest.raises(HeadwiseError, match="translations need a sequence-to-sequence model"):
        read_corpus(model, find_heads(model), e5_tokenizer(), (TranslationExample("1", "a", "b"),))
    causal = BY_NAME["gpt2"].build()
    with pytest.raises(HeadwiseError, match="a causal model reads single texts"):
        read_corpus(causal, find_heads(causal), word_tokenizer(), (PairExample("1", "w0", "w1", "x"),))
