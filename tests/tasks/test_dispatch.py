"""Which task a model can do, and what it is measured by."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertLMHeadModel

from headwise import HeadwiseError
from headwise.data.examples import TextExample, WordExample
from headwise.engine.evaluation import evaluate, measure
from headwise.tasks import find_task
from headwise.tasks.causal import LanguageTask
from headwise.tasks.dispatch import fit_to, task_of
from headwise.tasks.encoding import usable_positions
from headwise.tasks.translation import TranslationTask
from tests.families import BY_NAME, Case


def test_every_family_gets_the_tasks_of_its_kind_and_no_others(case: Case) -> None:
    model = case.build()
    for task, able in (
        ("translation", case.seq2seq),
        ("lm", case.name == "bert-causal" or case.model_class.endswith(("ForCausalLM", "LMHeadModel"))),
    ):
        if able:
            assert task_of(model, task).name == task
        else:
            with pytest.raises(HeadwiseError, match=f"a {case.model_class} cannot do the task {task}: use a "):
                task_of(model, task)


def test_a_model_that_sees_what_comes_next_is_no_language_model() -> None:
    model = BertLMHeadModel(BertConfig(**BY_NAME["bert"].config))
    with pytest.raises(HeadwiseError, match="cannot do the task lm"):
        task_of(model, "lm")


def test_tasks_fit_the_model() -> None:
    assert task_of(BY_NAME["marian"].build(), "translation", beams=3) == TranslationTask(beams=3, max_length=64)
    assert task_of(BY_NAME["mt5"].build(), "translation") == TranslationTask(max_length=512)
    assert task_of(BY_NAME["llama"].build(), "lm") == LanguageTask(window=40)
    assert task_of(BY_NAME["llama"].build(), "lm", window=9) == LanguageTask(window=9)


@pytest.mark.parametrize("task", ["nli", "intents", "translation", "lm"])
def test_no_piece_of_a_word_can_be_chosen_where_there_are_no_words(task: str) -> None:
    model = BY_NAME["marian" if task == "translation" else "llama"].build()
    with pytest.raises(HeadwiseError, match=f"--piece is for tasks on words .*, not for {task}: leave it out"):
        task_of(model, task, piece="first")


def test_a_classifier_is_measured_by_its_tasks_metric(tokenizer: Any) -> None:
    labels = dict(enumerate("abcde"))
    model = BY_NAME["xlm-roberta"].build(id2label=labels, label2id={label: n for n, label in labels.items()})
    task = task_of(model, "slots", piece="first")
    assert task == replace(find_task("slots", tuple("abcde"), "first"), max_length=38)
    examples = [WordExample("1", ("the", "cat"), ("a", "b"))]
    found = measure(model, task, examples, tokenizer)
    assert [each.metric for each in found.results] == ["f1"]
    assert (
        found.results[0].value
        == evaluate(model, find_task("slots", tuple("abcde"), "first"), examples, tokenizer).value
    )
    with pytest.raises(HeadwiseError, match=r"has 5 labels \(a, b, c, d …\), not those of ner: tune it first"):
        task_of(model, "ner")
    # Tags may be any, so that only the data show that the model has others.
    with pytest.raises(
        HeadwiseError, match=r"the label 'NOUN' is not one of the labels of pos: a, .* tune the model on"
    ):
        task_of(model, "pos").encode([WordExample("1", ("cat",), ("NOUN",))], tokenizer)


@pytest.mark.parametrize("labels", [("LABEL_0", "LABEL_1"), ("O", "B-PER", "I-PER")])
def test_a_classifier_of_another_task_is_no_tagger(labels: tuple[str, ...]) -> None:
    numbered = dict(enumerate(labels))
    model = BY_NAME["xlm-roberta"].build(id2label=numbered, label2id={label: n for n, label in numbered.items()})
    with pytest.raises(HeadwiseError, match="not those of pos: tune it first"):
        task_of(model, "pos")


def test_examples_are_cut_to_what_the_model_can_read(case: Case) -> None:
    model = case.build()
    most = usable_positions(model)
    assert fit_to(find_task("pos"), model).max_length == (512 if most is None else most)
    if most is None:
        return
    offset = 2 if "roberta" in case.name or case.name == "camembert" else 0
    assert most == model.config.get_text_config().max_position_embeddings - offset
    tokens = {"input_ids": torch.full((1, most), 7)}
    more = {"decoder_input_ids": tokens["input_ids"]} if case.seq2seq else {}
    with torch.no_grad():
        model(**tokens, **more)


@pytest.mark.parametrize("family", ["xlm-roberta", "electra"])
def test_an_example_that_is_too_long_is_cut_and_counted(tokenizer: Any, family: str) -> None:
    labels = dict(enumerate("abcde"))
    model = BY_NAME[family].build(id2label=labels, label2id={label: n for n, label in labels.items()})
    examples = [WordExample("1", ("cat",) * 60, ("a",) * 60), WordExample("2", ("cat",), ("a",))]
    [found] = measure(model, task_of(model, "slots"), examples, tokenizer).results
    assert (found.examples, found.cut) == (2, 1)


def test_language_models_need_texts(tokenizer: Any) -> None:
    model = BY_NAME["llama"].build()
    assert measure(model, LanguageTask(window=8), [TextExample("1", "the cat")], tokenizer).results[0].value > 1
    with pytest.raises(HeadwiseError, match="needs plain texts"):
        measure(model, LanguageTask(window=8), [WordExample("1", ("the",), ("a",))], tokenizer)
