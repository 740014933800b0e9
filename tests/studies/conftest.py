from pathlib import Path

import pytest

from tests.studies.planted import save_world


@pytest.fixture(scope="package")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger whose middle layer alone matters, and treebanks of five languages."""
    return save_world(tmp_path_factory.mktemp("planted"))
