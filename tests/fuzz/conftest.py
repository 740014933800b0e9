import pytest


@pytest.fixture
def fuzz_seconds(request: pytest.FixtureRequest) -> float:
    """Seconds of computing time for each reader."""
    return float(request.config.getoption("--fuzz-seconds"))


@pytest.fixture
def fuzz_seed(request: pytest.FixtureRequest) -> int:
    """Another seed gives other files."""
    return int(request.config.getoption("--fuzz-seed"))
