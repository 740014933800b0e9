"""Converted models in the cache: written once, and served from a cache that cannot be written."""

from pathlib import Path

import pytest

from headwise import HeadwiseError
from headwise.models import cached
from headwise.models.cached import cached_model


def write(draft: Path) -> None:
    (draft / "config.json").write_text("{}")


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(cached, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def fail(*_: object) -> None:
    raise AssertionError("not needed")


def test_a_complete_model_is_served_without_a_lock(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cached_model("tiny-1", write)
    assert (folder / "config.json").is_file()
    monkeypatch.setattr(cached, "FileLock", fail)
    assert cached_model("tiny-1", fail) == folder == cache / "models" / "tiny-1"


def test_a_cache_that_cannot_be_written_is_named(cache: Path) -> None:
    cache.write_text("a file, not a folder")
    with pytest.raises(HeadwiseError, match=r"cannot be written \(.*\): set HEADWISE_CACHE to another folder"):
        cached_model("tiny-1", write)
