"""Headwise against a plain transformers loop: every family with every classification head that it has."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import transformers as tf
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from torch import Tensor

from headwise import find_heads, gated
from headwise.data.examples import UPOS, Example, PairExample, TextExample, WordExample
from headwise.engine import EngineSettings, encode_examples, players_of
from headwise.engine.evaluation import measure
from headwise.engine.local import LocalEngine
from headwise.games import find_game
from headwise.scoring import fingerprint_examples
from headwise.tasks.dispatch import task_of
from headwise.tasks.encoding import Encoded, TokenInput, make_batch, pack_by_length, pad_id_of
from headwise.tasks.task import NLI
from headwise.tuning import TuningSettings, train_model
from tests.families import BY_NAME, CASES, Case, difference, enliven

#: Families whose tokenizers return token_type_ids.
TYPED = ("bert", "bert-causal", "electra", "deberta-v2", "deberta-v2-shared")
HEADS = {
    "classification": ("AutoModelForSequenceClassification", ("a", "b", "c", "d")),
    "nli": ("AutoModelForSequenceClassification", NLI),
    "pos": ("AutoModelForTokenClassification", UPOS),
}
LENGTHS = ((3, 2), (1, 5), (6, 6), (4, 1), (2, 2), (5, 3), (1, 1), (3, 6))


def build(case: Case, task: str) -> Any:
    """A tiny classifier of a family; skips the test if transformers has none."""
    auto, labels = HEADS[task]
    changes = {"type_vocab_size": 2} if case.name.startswith("deberta") else {}
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    own = {name: value for name, value in case.config.items() if name != "num_labels"}
    config = getattr(tf, case.config_class)(**{**own, **changes, **names})
    torch.manual_seed(0)
    try:
        model = getattr(tf, auto).from_config(config)
    except ValueError:
        pytest.skip(f"transformers has no {auto} for {case.name}")
    enliven(model)
    return model.eval()


def build_tokenizer(config: Any, typed: bool, pad_type: int = 0) -> Any:
    """A tokenizer of whole words with the special tokens of a config; `$B` has the type 1, as in BERT."""
    text = config.get_text_config()
    pad, start, stop = (getattr(text, f"{name}_token_id", None) for name in ("pad", "bos", "eos"))
    free = [i for i in range(4) if i not in (pad, start, stop)]
    pad = free.pop() if pad is None else pad
    start = free.pop() if start in (None, pad) else start
    stop = free.pop() if stop in (None, pad, start) else stop
    special = {pad: "<pad>", start: "<s>", stop: "</s>"}
    words = Tokenizer(WordLevel({special.get(i, f"w{i}"): i for i in range(50)}, unk_token="w10"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", start), ("</s>", stop)]
    )
    names = ["input_ids", *(["token_type_ids"] if typed else []), "attention_mask"]
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", model_input_names=names, pad_token_type_id=pad_type
    )


def sentences(task: str) -> tuple[list[list[str]], list[list[str]]]:
    """Words of sentences of different lengths; their partners too if the task is about pairs."""
    generator = torch.Generator().manual_seed(3)

    def draw(length: int) -> list[str]:
        return [f"w{i}" for i in torch.randint(10, 50, (length,), generator=generator)]

    pairs = [(draw(first), draw(second)) for first, second in LENGTHS]
    return [first for first, _ in pairs], [second for _, second in pairs] if task == "nli" else []


@torch.no_grad()
def plain_logits(model: Any, tokenizer: Any, task: str) -> list[Tensor]:
    """What anybody would write with transformers: logits of each sentence, or of each word."""
    first, second = sentences(task)
    texts = [[" ".join(words) for words in side] for side in (first, second) if side]
    if task != "pos":
        return list(model(**tokenizer(*texts, padding=True, return_tensors="pt")).logits)
    inputs = tokenizer(first, is_split_into_words=True, padding=True, return_tensors="pt")
    logits = model(**inputs).logits
    return [
        logits[row, [inputs.word_ids(row).index(word) for word in range(len(words))]] for row, words in enumerate(first)
    ]


def labelled(task: str, logits: Sequence[Tensor]) -> list[Example]:
    """Examples whose gold labels are the plain loop's answers."""
    names = HEADS[task][1]
    first, second = sentences(task)
    answers = [each.argmax(-1) for each in logits]
    if task == "nli":
        pairs = zip(first, second, answers, strict=True)
        return [PairExample(str(i), " ".join(a), " ".join(b), names[best]) for i, (a, b, best) in enumerate(pairs)]
    if task == "classification":
        return [
            TextExample(str(i), " ".join(a), names[best])
            for i, (a, best) in enumerate(zip(first, answers, strict=True))
        ]
    words = zip(first, answers, strict=True)
    return [WordExample(str(i), tuple(a), tuple(names[each] for each in best)) for i, (a, best) in enumerate(words)]


def headwise_logits(model: Any, task: Any, examples: Sequence[Example], tokenizer: Any) -> list[Tensor]:
    """The logits of each example that `evaluate` judges."""
    encoded, _ = task.encode(examples, tokenizer)
    found: dict[int, Tensor] = {}
    for index in pack_by_length([item.length for item in encoded], 64):
        batch = task.make_batch(model, encoded, index, pad_id_of(tokenizer))
        with torch.no_grad():
            chosen = task.select(model(**batch.inputs(torch.device("cpu"))).logits, batch)
        for row, example in enumerate(batch.index.tolist()):
            mine = chosen[batch.rows == row]
            found[example] = mine if task.kind == "words" else mine[0]
    return [found[place] for place in range(len(examples))]


@pytest.mark.parametrize("task", HEADS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_evaluation_is_that_of_a_plain_loop(case: Case, task: str) -> None:
    model = build(case, task)
    tokenizer = build_tokenizer(model.config, case.name in TYPED)
    expected = plain_logits(model, tokenizer, task)
    examples, chosen = labelled(task, expected), task_of(model, task)
    for mine, plain in zip(headwise_logits(model, chosen, examples, tokenizer), expected, strict=True):
        assert difference(mine, plain) < 1e-4
    assert measure(model, chosen, examples, tokenizer).results[0].value == 100


@pytest.mark.parametrize("name", ["bert", "electra", "deberta-v2"])
def test_token_types_matter_to_the_models_above(name: str) -> None:
    model = build(BY_NAME[name], "nli")
    with_types, without = (plain_logits(model, build_tokenizer(model.config, typed), "nli") for typed in (True, False))
    assert max(difference(one, other) for one, other in zip(with_types, without, strict=True)) > 0.01


def test_inputs_that_the_model_does_not_take_are_left_out() -> None:
    model = build(BY_NAME["distilbert"], "nli")
    expected = plain_logits(model, build_tokenizer(model.config, typed=False), "nli")
    typed = build_tokenizer(model.config, typed=True)
    found = headwise_logits(model, task_of(model, "nli"), labelled("nli", expected), typed)
    assert max(difference(one, other) for one, other in zip(found, expected, strict=True)) < 1e-4


def test_batches_are_padded_as_the_tokenizer_pads() -> None:
    model = build(BY_NAME["bert"], "nli")
    tokenizer = build_tokenizer(model.config, typed=True, pad_type=1)
    first, second = ([" ".join(words) for words in side] for side in sentences("nli"))
    expected = tokenizer(first, second, padding=True, return_tensors="pt")
    task = task_of(model, "nli")
    encoded, _ = task.encode(labelled("nli", plain_logits(model, tokenizer, "nli")), tokenizer)
    inputs = task.make_batch(model, encoded, range(len(encoded)), pad_id_of(tokenizer)).inputs(model.device)
    assert {name: tensor.tolist() for name, tensor in inputs.items()} == {
        name: tensor.tolist() for name, tensor in expected.items()
    }


@pytest.mark.parametrize("reuse", [True, False])
def test_the_engine_reads_what_a_plain_loop_reads(reuse: bool) -> None:
    model = build(BY_NAME["bert"], "nli")
    tokenizer = build_tokenizer(model.config, typed=True)
    examples = labelled("nli", plain_logits(model, tokenizer, "nli"))
    heads, task = find_heads(model), task_of(model, "nli")
    game, settings = find_game("probability"), EngineSettings(reuse_prefixes=reuse)
    engine = LocalEngine(model, heads, game, encode_examples(task, examples, tokenizer), players_of(heads), settings)
    masks = torch.rand(24, 12, generator=torch.Generator().manual_seed(0)) < 0.7
    index = torch.arange(24) % len(examples)
    values, again = engine.values(masks, index).values, engine.gradients(masks, index).values
    for mask, i, value, other in zip(masks, index, values, again, strict=True):
        pair = examples[int(i)]
        assert isinstance(pair, PairExample)
        with torch.no_grad(), gated(model, mask.float()):
            logits = model(**tokenizer(pair.first, pair.second, return_tensors="pt")).logits[0]
        expected = logits.softmax(-1)[NLI.index(pair.label)]
        assert float(value) == pytest.approx(float(expected), abs=1e-5)
        assert float(other) == pytest.approx(float(expected), abs=1e-5)


def test_tuning_reads_token_types() -> None:
    model = build(BY_NAME["bert"], "nli")
    tokenizer = build_tokenizer(model.config, typed=True)
    examples = labelled("nli", plain_logits(model, tokenizer, "nli"))
    seen: list[int] = []
    model.register_forward_pre_hook(
        lambda _, __, kwargs: seen.append(int(kwargs["token_type_ids"].max())) if model.training else None,
        with_kwargs=True,
    )
    train_model(model, task_of(model, "nli"), examples, examples, tokenizer, TuningSettings(epochs=1))
    assert seen
    assert set(seen) == {1}


def test_fingerprints_change_with_token_types_and_only_with_them() -> None:
    example = TextExample("1", "hello", "greet")
    plain = fingerprint_examples([example], [Encoded((5, 9), (), (0,))])
    zeros, ones = (Encoded((5, 9), (), (0,), extra=(TokenInput("token_type_ids", (0, n)),)) for n in (0, 1))
    assert plain == "0815eac411eaa637"
    assert fingerprint_examples([example], [zeros]) == plain
    assert fingerprint_examples([example], [ones]) != plain


def test_a_tokenizer_without_a_padding_token_pads_with_the_first(tokenizer: Any) -> None:
    assert pad_id_of(tokenizer) == 1
    tokenizer = build_tokenizer(BY_NAME["bert"].build().config, typed=True)
    tokenizer.pad_token = None
    assert pad_id_of(tokenizer) == 0
    assert make_batch([Encoded((5, 6), (), (0,)), Encoded((5,), (), (0,))], [0, 1], 0).input_ids.tolist()[1] == [5, 0]
