import os

# Before transformers is imported anywhere: tests build what they need and never ask the hub.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Before torch and numpy are imported: one thread per process, also in the processes that tests start. pytest-xdist
# keeps all cores busy, and threads that wait for each other make the tests many times slower.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pytest
import torch

from tests.families import CASES, Case


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz-seconds", default="1", help="CPU seconds for each reader in tests/fuzz (marked slow)")
    parser.addoption("--fuzz-seed", default="0", help="seed of the files that tests/fuzz makes")


def pytest_configure(config: pytest.Config) -> None:
    torch.set_num_threads(1)


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    """Each family in turn."""
    found: Case = request.param
    return found
