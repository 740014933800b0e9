"""Tasks: which piece carries a label, what is cut, what is measured."""

from typing import Any

import pytest
import torch
from transformers import BertForSequenceClassification, BertForTokenClassification

from headwise import HeadwiseError
from headwise.data.examples import UPOS, PairExample, TextExample, WordExample
from headwise.engine.evaluation import evaluate
from headwise.tasks import find_task, labels_of
from headwise.tasks.encoding import make_batch, pack_by_length
from headwise.tasks.task import ENTITIES
from tests.families import BY_NAME


def test_a_label_is_read_off_the_first_piece_that_carries_text(tokenizer: Any) -> None:
    sentence = WordExample("1", ("the", "cats", "中国人"), ("DET", "NOUN", "NOUN"))
    (encoded,), _ = find_task("pos").encode([sentence], tokenizer)
    # <s> ▁the ▁cat s ▁ 中国 人 </s>
    assert encoded.positions == (1, 2, 5)
    (usual,), _ = find_task("pos", piece="first").encode([sentence], tokenizer)
    assert usual.positions == (1, 2, 4)


def test_a_word_without_any_text_still_has_its_place(tokenizer: Any) -> None:
    (encoded,), _ = find_task("pos").encode([WordExample("1", ("▁", "cat"), ("X", "NOUN"))], tokenizer)
    assert encoded.positions[1] > encoded.positions[0] > 0


def test_what_is_too_long_is_cut_and_counted(tokenizer: Any) -> None:
    from dataclasses import replace

    long = WordExample("1", ("cat",) * 20, ("NOUN",) * 20)
    encoded, cut = replace(find_task("pos"), max_length=8).encode(
        [long, WordExample("2", ("cat",), ("NOUN",))], tokenizer
    )
    assert cut == 1
    assert len(encoded[0].ids) == 8
    assert encoded[0].positions[6:] == (-1,) * 14
    texts = [TextExample("1", "cat " * 20, "a"), TextExample("2", "cat", "b")]
    encoded, cut = replace(find_task("intents", ("a", "b")), max_length=8).encode(texts, tokenizer)
    assert (cut, len(encoded[0].ids)) == (1, 8)


def test_pairs_are_joined_as_the_model_expects(tokenizer: Any) -> None:
    (encoded,), _ = find_task("nli").encode([PairExample("1", "the cat", "cat", "neutral")], tokenizer)
    assert encoded.ids == (0, 5, 6, 2, 2, 6, 2)
    assert encoded.gold == (1,)


def test_an_unknown_label_is_named(tokenizer: Any) -> None:
    with pytest.raises(HeadwiseError, match="the label 'NOPE' is not one of the labels of pos: ADJ"):
        find_task("pos").encode([WordExample("1", ("cat",), ("NOPE",))], tokenizer)


def test_unknown_tasks_and_missing_labels_are_named() -> None:
    with pytest.raises(HeadwiseError, match="no task 'parsing': choose one of pos"):
        find_task("parsing")
    with pytest.raises(HeadwiseError, match="'slots' needs its labels"):
        find_task("slots")


def test_labels_are_found_in_the_examples() -> None:
    assert labels_of([TextExample("1", "x", "b"), TextExample("2", "y", "a")]) == ("a", "b")
    assert labels_of([WordExample("1", ("x", "y"), ("B-PER", "O"))]) == ("O", "B-PER", "I-PER")


def test_batches_lose_little_to_padding_and_keep_to_their_budget() -> None:
    lengths = [3, 50, 7, 8, 49, 3, 9, 51, 4]
    groups = list(pack_by_length(lengths, 100))
    assert sorted(i for group in groups for i in group) == list(range(9))
    assert all(max(lengths[i] for i in group) * len(group) <= 100 for group in groups)


def test_an_example_longer_than_the_budget_gets_a_batch_of_its_own() -> None:
    assert list(pack_by_length([500, 3], 100)) == [[0], [1]]


def test_evaluation_equals_one_example_at_a_time(tokenizer: Any) -> None:
    torch.manual_seed(0)
    config = BY_NAME["bert"].build().config
    config.num_labels, config.vocab_size = 17, 50
    model = BertForTokenClassification(config).eval()
    task = find_task("pos")
    sentences = [
        WordExample(str(n), ("cat", "中国人", "the")[: 1 + n % 3], ("NOUN", "PROPN", "DET")[: 1 + n % 3])
        for n in range(9)
    ]
    result = evaluate(model, task, sentences, tokenizer)
    right = total = 0
    for sentence in sentences:
        (encoded,), _ = task.encode([sentence], tokenizer)
        logits = model(make_batch([encoded], [0], 1).input_ids).logits[0]
        right += sum(int(logits[p].argmax()) == g for p, g in zip(encoded.positions, encoded.gold, strict=True))
        total += len(encoded.gold)
    assert result.value == pytest.approx(100 * right / total)
    assert result.low <= result.value <= result.high
    assert result.examples == 9


def test_sequences_are_evaluated_by_their_one_label(tokenizer: Any) -> None:
    torch.manual_seed(0)
    config = BY_NAME["bert"].build().config
    config.num_labels, config.vocab_size = 2, 50
    model = BertForSequenceClassification(config).eval()
    texts = [TextExample(str(n), "the cat sat"[: 4 + n], "ab"[n % 2]) for n in range(6)]
    result = evaluate(model, find_task("intents", ("a", "b")), texts, tokenizer)
    assert result.statistics[:, 1].tolist() == [1.0] * 6


def test_tags_and_entities_of_other_data_keep_their_labels() -> None:
    assert find_task("pos", ("NOUN", "VERB")).labels == UPOS
    assert find_task("pos", ("NN", "VB")).labels == ("NN", "VB")
    assert find_task("ner", ("O", "B-PER", "I-PER")).labels == ENTITIES
    assert find_task("ner", ("O", "B-DRUG", "I-DRUG")).labels == ("O", "B-DRUG", "I-DRUG")
