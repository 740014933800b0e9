"""Models under masks for lm-evaluation-harness."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from headwise.gates import gated
from headwise.means import MeanOutputs
from headwise.soft_masks import AnyMask
from headwise.support.extras import require


def harness_model(
    model: Any,
    tokenizer: Any,
    mask: AnyMask | None = None,
    *,
    baseline: MeanOutputs | None = None,
    batch_size: int = 8,
    **options: Any,
) -> Any:
    """A model as an `LM` of lm-evaluation-harness, under a mask or not.

    Results are those of the harness's own command line on the folded checkpoint of the mask.

    Args:
        model: A causal or sequence-to-sequence model: plain, shrunk, or with an adapter merged.
        tokenizer: Its tokenizer.
        mask: A hard or soft mask; the model's forward passes run under it. None for the model as it is.
        baseline: The mean outputs that replace what is off; by default it becomes 0.
        batch_size: Number of requests in a batch.
        options: Other arguments of the harness's `HFLM`, such as `max_length`.

    Returns:
        An `HFLM` for `lm_eval.simple_evaluate(model=...)`.

    Raises:
        MissingPackageError: The harness is not installed.
        MaskMismatchError: The mask belongs to another model.
    """
    base: Any = require("lm_eval.models.huggingface", "lm-eval", "the bridge to lm-evaluation-harness").HFLM

    class MaskedLM(base):  # type: ignore[misc]
        """Runs all forward passes of the model under the mask."""

        def _model_call(self, *arguments: Any, **named: Any) -> Any:
            with under():
                return super()._model_call(*arguments, **named)

        def _model_generate(self, *arguments: Any, **named: Any) -> Any:
            with under():
                return super()._model_generate(*arguments, **named)

    def under() -> AbstractContextManager[None]:
        return nullcontext() if mask is None else gated(model, mask, baseline=baseline)

    with under():  # a mask of another model is an error before anything is computed
        pass
    return MaskedLM(pretrained=model, tokenizer=tokenizer, batch_size=batch_size, **options)
