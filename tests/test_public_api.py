"""What users import is a promise: changing it is a decision, not an accident."""

import subprocess
import sys

import headwise


def test_the_public_names_are_these() -> None:
    assert headwise.__all__ == [
        "CheckpointError", "HeadMap", "HeadMask", "HeadScores", "HeadwiseError", "LanguageMasks", "MaskMismatchError",
        "MeanOutputs", "Provenance", "Site", "SoftMask", "UnknownFamilyError", "attention", "best_mask", "dataset",
        "evaluate", "explore", "find_heads", "fold", "gated", "learn_gates", "load", "load_mask", "load_pruned",
        "mean_outputs", "open_dataset", "open_treebank", "refine", "repair", "roles", "safe_mask", "save_pruned",
        "score", "shrink", "shrink_to_mean", "tune",
    ]  # fmt: skip
    assert all(hasattr(headwise, name) for name in headwise.__all__)


def test_every_public_name_is_documented() -> None:
    assert all(getattr(headwise, name).__doc__ for name in headwise.__all__)


def test_importing_is_quick_and_names_are_there_when_used() -> None:
    code = "import sys, headwise; print('torch' in sys.modules, headwise.gated.__name__, 'torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["False", "gated", "True"]


def test_other_names_are_not_there() -> None:
    assert set(headwise.__all__) <= set(dir(headwise))
    assert not hasattr(headwise, "nothing")
