from typing import Any

import pytest

from tests.pieces import xlmr_like


@pytest.fixture(scope="package")
def tokenizer() -> Any:
    """Like XLM-R's: words begin with a piece `▁` that may stand alone."""
    return xlmr_like()
