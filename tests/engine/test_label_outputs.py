"""Logits only where a label is: the same answers, fewer outputs, no hook left."""

from typing import Any

import numpy as np
import pytest
import torch

from headwise.data.examples import PromptExample, TextExample
from headwise.engine import EngineSettings, LocalEngine, encode_examples
from headwise.engine.label_outputs import only_labels, output_layer
from headwise.games import LikelihoodGame
from headwise.tasks.causal import LanguageTask
from headwise.tasks.continuation import ContinuationTask
from headwise.tasks.encoding import Encoded, make_batch
from tests.engine.worlds import plain_values, random_rows, task_of
from tests.families import BY_NAME, CASES, Case, inputs_for, no_trace_left
from tests.pieces import one_token_a_word

WRITERS = [case for case in CASES if case.seq2seq or case.model_class.endswith(("LMHeadModel", "ForCausalLM"))]


@pytest.mark.parametrize("case", WRITERS, ids=lambda case: case.name)
def test_logits_of_labels_are_those_of_the_whole_output(case: Case) -> None:
    model = case.build()
    inputs = inputs_for(case)
    layer = output_layer(model, ContinuationTask())
    assert layer is not None
    encoded = [Encoded((5, 6, 7), (0, 2), (7, 8)), Encoded((5, 6), (1,), (9,)), Encoded((5, 6), (0, 1), (9, 9))]
    batch = make_batch(encoded, [0, 1, 2], 0)
    with torch.no_grad(), no_trace_left(model):
        whole = model(**inputs, use_cache=False).logits
        with only_labels(layer, batch):
            found = model(**inputs, use_cache=False).logits
    assert found.shape == (5, whole.shape[-1])
    assert torch.allclose(found, whole[batch.rows, batch.positions], atol=1e-5)


def test_classifiers_have_no_output_layer() -> None:
    case = BY_NAME["roberta"]
    assert output_layer(case.build(), task_of(case)) is None


def test_the_output_layer_reads_only_the_tokens_of_continuations() -> None:
    model, seen = BY_NAME["llama"].build(), []
    model.lm_head.register_forward_hook(lambda _m, inputs, _o: seen.append(tuple(inputs[0].shape[:-1])))
    examples = [PromptExample("1", "w5 w6 w7 w8 w9", "w10 w11"), PromptExample("2", "w5", "w6")]
    encoded = encode_examples(ContinuationTask(window=40), examples, one_token_a_word())
    engine: Any = LocalEngine(model, None, LikelihoodGame(), encoded)
    engine.values(np.ones((2, len(engine.players)), dtype=bool), np.arange(2))
    assert sum(shape[0] for shape in seen) == 3


def test_no_hook_is_left_after_an_error() -> None:
    model = BY_NAME["llama"].build()
    batch = make_batch([Encoded((5, 6), (1,), (9,))], [0], 0)
    with no_trace_left(model), pytest.raises(KeyboardInterrupt), only_labels(model.lm_head, batch):
        raise KeyboardInterrupt


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("case", [case for case in WRITERS if not case.seq2seq], ids=lambda case: case.name)
def test_texts_of_every_causal_family_are_valued_as_by_plain_passes(case: Case, reuse: bool) -> None:
    model, draw = case.build(), np.random.default_rng(0)
    texts = [TextExample(str(n), " ".join(f"w{word}" for word in draw.integers(4, 50, 3 + n))) for n in range(4)]
    examples = encode_examples(LanguageTask(window=16), texts, one_token_a_word())
    engine = LocalEngine(model, None, LikelihoodGame(), examples, settings=EngineSettings(reuse_prefixes=reuse))
    masks, index = random_rows(engine, 12)
    assert engine.values(masks, index).values.tolist() == pytest.approx(
        plain_values(engine, masks, index).tolist(), abs=1e-5
    )
