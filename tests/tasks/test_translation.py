"""Translation: what is scored, what is written, and that neither depends on who else is in the batch."""

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from headwise import HeadwiseError, find_heads, gated, shrink
from headwise.data.examples import TextExample, TranslationExample
from headwise.tasks import likelihood, translation
from headwise.tasks.likelihood import sum_rows
from headwise.tasks.protocol import gold_log_probabilities
from headwise.tasks.text_metrics import Bleu
from headwise.tasks.translation import (
    EncodedPair,
    TranslationTask,
    evaluate_translation,
    make_pair_batch,
    score_references,
    translate,
)
from tests.families import BY_NAME, no_trace_left, random_mask, uneven_mask

FAMILIES = ["marian", "m2m_100", "mbart", "bart", "t5", "mt5"]
IDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
TASK = TranslationTask(max_length=60)


@pytest.fixture(scope="module")
def words() -> Any:
    """One token a word, so that what a random model writes can be read; all 50 numbers have a word."""
    names = ["<s>", "<pad>", "</s>", "<unk>", "__de__", *(f"w{n}" for n in range(5, 50))]
    base = Tokenizer(WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    base.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    base.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=base,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        additional_special_tokens=["__de__"],
    )


def build(name: str) -> Any:
    model = BY_NAME[name].build(**IDS)
    # Tiny random models repeat themselves; without repetition every step depends on the source and on the heads.
    model.generation_config.no_repeat_ngram_size = 1
    return model


def pairs(count: int = 9, seed: int = 0) -> list[TranslationExample]:
    """Sources of 1 to 40 words, so that limits and batches differ."""
    generator = np.random.default_rng(seed)
    lengths = np.linspace(1, 40, count).astype(int)
    generator.shuffle(lengths)

    def text(length: int) -> str:
        return " ".join(f"w{n}" for n in generator.integers(5, 50, length))

    return [TranslationExample(str(n), text(length), text(1 + length // 2)) for n, length in enumerate(lengths)]


def gates_for(model: Any, rows: int) -> Tensor:
    return torch.stack([random_mask(find_heads(model), seed).tensor() for seed in range(rows)])


def test_pairs_are_encoded_and_what_is_too_long_is_counted(words: Any) -> None:
    examples = [TranslationExample("1", "w5 w6 w7 w8", "w9"), TranslationExample("2", "w5", "w6 w7 w8 w9 w10")]
    encoded, cut = TASK.encode(examples, words)
    assert (encoded[0], cut) == (EncodedPair((5, 6, 7, 8, 2), (0, 1), (9, 2), (9, 2)), 0)
    encoded, cut = replace(TASK, max_length=4).encode(examples, words)
    assert cut == 2
    assert encoded[0].ids == (5, 6, 7, 2)
    assert encoded[1].target == (6, 7, 8, 2)
    assert replace(TASK, max_length=5).encode(examples, words)[1] == 1


def test_other_examples_are_refused(words: Any) -> None:
    with pytest.raises(HeadwiseError, match="translation needs pairs"):
        TASK.encode([TextExample("1", "w5", "a")], words)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_likelihood_of_a_reference_is_the_models_own_loss(name: str, words: Any) -> None:
    model = build(name)
    encoded, _ = TASK.encode(pairs(), words)
    found = score_references(model, encoded, 1)
    assert found.tokens.tolist() == [len(pair.target) for pair in encoded]
    for pair, log, probability in zip(encoded, found.log_likelihood, found.probability, strict=True):
        source, target = torch.tensor([pair.ids]), torch.tensor([pair.target])
        # mBART's loss starts from the last token, </s>, which is the start token here.
        with torch.no_grad():
            output = model(input_ids=source, labels=target)
        assert log == pytest.approx(-float(output.loss) * len(pair.target), rel=1e-5)
        each = output.logits[0].softmax(-1)[torch.arange(len(pair.target)), target[0]]
        assert probability == pytest.approx(float(each.mean()), abs=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_padding_has_no_influence_on_likelihoods(name: str, words: Any) -> None:
    model = build(name)
    encoded, _ = TASK.encode(pairs(), words)
    together = score_references(model, encoded, 1)
    alone = [score_references(model, [pair], 1) for pair in encoded]
    np.testing.assert_allclose(together.log_likelihood, [each.log_likelihood[0] for each in alone], rtol=1e-5)
    np.testing.assert_allclose(together.probability, [each.probability[0] for each in alone], atol=1e-5)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("name", ["marian", "m2m_100", "mbart", "mt5"])
def test_what_is_written_does_not_depend_on_the_batch(name: str, beams: int, words: Any) -> None:
    model, task = build(name), replace(TASK, beams=beams)
    encoded, _ = task.encode(pairs(), words)
    together = translate(model, task, encoded, words)
    assert together == tuple(translate(model, task, [pair], words)[0] for pair in encoded)
    assert len(set(together)) > 3
    # No more than the limit, and the limits differ.
    assert all(len(text.split()) <= task.limit(len(pair.ids)) for text, pair in zip(together, encoded, strict=True))
    assert len({task.limit(len(pair.ids)) for pair in encoded}) > 1


@pytest.mark.parametrize("budget", [1, 300, 10**6])
def test_batches_may_be_of_any_size(budget: int, words: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("marian")
    encoded, _ = TASK.encode(pairs(), words)
    expected = translate(model, TASK, encoded, words), score_references(model, encoded, 1).log_likelihood
    monkeypatch.setattr(translation, "WRITING_BUDGET", budget)
    monkeypatch.setattr(likelihood, "TOKEN_BUDGET", budget)
    done: list[int] = []
    assert translate(model, TASK, encoded, words, progress=done.append) == expected[0]
    assert sum(done) == len(encoded)
    assert (budget > 1) or done == [1] * len(encoded)
    np.testing.assert_allclose(score_references(model, encoded, 1).log_likelihood, expected[1], rtol=1e-5)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("name", ["marian", "mt5"])
def test_every_pair_runs_under_its_own_gates(name: str, beams: int, words: Any) -> None:
    model, task = build(name), replace(TASK, beams=beams)
    encoded, _ = task.encode(pairs(), words)
    gates = gates_for(model, len(encoded))

    def gating(rows: list[int]) -> AbstractContextManager[None]:
        return gated(model, gates[rows])

    with no_trace_left(model):
        written = translate(model, task, encoded, words, gating)
        scores = score_references(model, encoded, 1, gating).log_likelihood
    for row, pair in enumerate(encoded):
        with gated(model, gates[row]):
            assert translate(model, task, [pair], words)[0] == written[row]
            assert score_references(model, [pair], 1).log_likelihood[0] == pytest.approx(scores[row], rel=1e-5)
    assert written != translate(model, task, encoded, words)


def test_under_gates_around_everything_the_rows_of_one_batch_are_the_examples_in_order(words: Any) -> None:
    model = build("marian")
    encoded, _ = TASK.encode([pair for pair in pairs(12) if len(pair.source.split()) < 15], words)
    assert len({len(pair.ids) for pair in encoded}) > 2
    gates = gates_for(model, len(encoded))
    with gated(model, gates):
        written = translate(model, TASK, encoded, words)
        scores = score_references(model, encoded, 1).log_likelihood
    assert written == translate(model, TASK, encoded, words, lambda rows: gated(model, gates[rows]))
    expected = score_references(model, encoded, 1, lambda rows: gated(model, gates[rows])).log_likelihood
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["marian", "mt5"])
def test_cut_and_gated_models_translate_alike(name: str, words: Any) -> None:
    model = build(name)
    mask = uneven_mask(find_heads(model))
    with gated(model, mask):
        expected = evaluate_translation(model, TASK, pairs(), words)
    found = evaluate_translation(shrink(model, mask), TASK, pairs(), words)
    assert found.translations == expected.translations
    assert found.translations != evaluate_translation(model, TASK, pairs(), words).translations


def test_likelihoods_can_be_differentiated_by_the_gates(words: Any) -> None:
    model = build("marian")
    encoded, _ = TASK.encode(pairs(4), words)
    gates = gates_for(model, 4).float().requires_grad_()
    batch = make_pair_batch(model, encoded, range(4), 1)
    with gated(model, gates):
        logits = model(**batch.inputs(torch.device("cpu"))).logits
    sum_rows(gold_log_probabilities(TASK, logits, batch), batch)[2].backward()
    assert gates.grad is not None
    assert gates.grad[2].abs().sum() > 0
    assert gates.grad[[0, 1, 3]].abs().sum() == 0


def test_translations_are_measured_as_sacrebleu_does(words: Any) -> None:
    model, examples = build("marian"), pairs()
    own = translate(model, TASK, TASK.encode(examples, words)[0], words)
    # Half of the references are what the model writes, so that the figures are neither 0 nor 100.
    examples = [replace(pair, target=own[n]) if n % 2 else pair for n, pair in enumerate(examples)]
    found = evaluate_translation(model, replace(TASK, metrics=(Bleu("none"), *TASK.metrics[1:])), examples, words)
    references = [[pair.target for pair in examples]]
    bleu, chrf = found.results["bleu"], found.results["chrf"]
    assert bleu.value == pytest.approx(BLEU(tokenize="none").corpus_score(list(own), references).score, abs=1e-9)
    assert chrf.value == pytest.approx(CHRF().corpus_score(list(own), references).score, abs=1e-9)
    assert 0 <= bleu.low < bleu.value < bleu.high <= 100
    assert bleu.statistics.shape == (9, 10)
    assert chrf.statistics.shape == (9, 18)
    assert (bleu.examples, bleu.cut, found.cut) == (9, 0, 0)
    assert "tok:none" in found.signatures["bleu"]
    assert found.translations == own


def test_what_was_cut_is_reported(words: Any) -> None:
    short = replace(TASK, max_length=20)
    longer = sum(len(pair.source.split()) >= 20 for pair in pairs())
    assert evaluate_translation(build("marian"), short, pairs(), words).cut == longer > 0


def test_the_first_token_is_given_and_does_not_count(words: Any) -> None:
    model, task = build("m2m_100"), replace(TASK, first_token="__de__")
    plain = TASK.encode(pairs(), words)[0]
    examples = [replace(pair, target=f"__de__ {pair.target}") for pair in pairs()]
    encoded, _ = task.encode(examples, words)
    assert [pair.gold for pair in encoded] == [pair.gold for pair in plain]
    assert all(pair.target[0] == 4 and pair.positions[0] == 1 for pair in encoded)
    scores = score_references(model, encoded, 1)
    assert scores.tokens.tolist() == [len(pair.gold) for pair in plain]
    with torch.no_grad():
        logits = model(
            input_ids=torch.tensor([encoded[0].ids]), decoder_input_ids=torch.tensor([[2, *encoded[0].target[:-1]]])
        ).logits
    expected = logits[0, 1:].log_softmax(-1)[torch.arange(len(encoded[0].gold)), torch.tensor(encoded[0].gold)].sum()
    assert scores.log_likelihood[0] == pytest.approx(float(expected), rel=1e-5)
    limit = task.limit(len(encoded[0].ids))
    forced = model.generate(input_ids=torch.tensor([encoded[0].ids]), forced_bos_token_id=4, max_new_tokens=limit)
    assert translate(model, task, encoded[:1], words)[0] == words.decode(forced[0], skip_special_tokens=True).strip()
    assert translate(model, task, encoded, words) != translate(model, TASK, encoded, words)


def test_an_unknown_first_token_is_named(words: Any) -> None:
    with pytest.raises(HeadwiseError, match="no token '__xx__'"):
        replace(TASK, first_token="__xx__").encode(pairs(2), words)


def test_the_models_own_limits_give_way_and_stay_as_they_are(words: Any, caplog: pytest.LogCaptureFixture) -> None:
    model = build("marian")
    encoded, _ = TASK.encode(pairs(), words)
    expected = translate(model, TASK, encoded, words)
    model.generation_config.max_length, model.generation_config.num_beams = 3, 4
    assert translate(model, TASK, encoded, words) == expected
    assert "max_" not in caplog.text  # transformers is not given two limits to choose from
    model.generation_config.max_new_tokens = 2
    assert translate(model, TASK, encoded, words) == expected
    assert (model.generation_config.max_length, model.generation_config.max_new_tokens) == (3, 2)
