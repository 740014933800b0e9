"""What users import is a promise: changing it is a decision, not an accident."""

import headwise


def test_the_public_names_are_these() -> None:
    assert headwise.__all__ == [
        "HeadMap", "HeadMask", "HeadScores", "HeadwiseError", "LanguageMasks", "Provenance", "Site",
        "find_heads", "fold", "gated", "load_pruned", "save_pruned", "shrink",
    ]  # fmt: skip
    assert all(hasattr(headwise, name) for name in headwise.__all__)


def test_every_public_name_is_documented() -> None:
    assert all(getattr(headwise, name).__doc__ for name in headwise.__all__)
