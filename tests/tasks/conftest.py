from typing import Any

import pytest

from tests.pieces import one_token_a_word, xlmr_like


@pytest.fixture(scope="package")
def tokenizer() -> Any:
    """Like XLM-R's: words begin with a piece `▁` that may stand alone."""
    return xlmr_like()


@pytest.fixture(scope="package")
def words() -> Any:
    """One token a word: `w7` is 7."""
    return one_token_a_word()
