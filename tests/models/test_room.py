"""Models that do not fit are refused with the arithmetic, before their weights are read."""

from pathlib import Path
from typing import Any

import pytest
import torch

from headwise import HeadwiseError
from headwise.models import load_model, room
from headwise.models.sources import build_skeleton
from tests.families import BY_NAME


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    BY_NAME["llama"].build().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_model_that_does_not_fit_is_refused_before_its_weights_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = BY_NAME["llama"].build()
    size = 4 * sum(each.numel() for each in model.parameters())
    monkeypatch.setattr(room, "free_bytes", lambda _device: size - 1)
    monkeypatch.setattr("headwise.models.loading.load_weights", lambda *_, **__: pytest.fail("weights were read"))
    with pytest.raises(HeadwiseError, match=r"the weights need 0\.0 GB \(0 million parameters × 4 bytes of float32\)"):
        load_model(folder, dtype="float32")


def test_a_model_that_fits_in_half_precision_is_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 2 * sum(each.numel() for each in BY_NAME["llama"].build().parameters())
    monkeypatch.setattr(room, "free_bytes", lambda _device: size)
    assert load_model(folder, dtype="bfloat16").dtype == torch.bfloat16
    with pytest.raises(HeadwiseError, match=r"use --dtype bfloat16 \(0\.0 GB\)"):
        load_model(folder, dtype="float32")


def test_the_message_has_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    config = BY_NAME["llama"].build().config
    skeleton: Any = build_skeleton(type(BY_NAME["llama"].build()), config, False)
    monkeypatch.setattr(skeleton, "parameters", lambda: [torch.empty(7_000_000_000, device="meta")])
    monkeypatch.setattr(room, "free_bytes", lambda _device: int(12.5e9))
    with pytest.raises(HeadwiseError) as error:
        room.check_room("org/model", skeleton, torch.float32, torch.device("cpu"))
    assert str(error.value).startswith(
        "org/model: the weights need 28.0 GB (7,000 million parameters × 4 bytes of float32), "
        "but 12.5 GB are free on cpu"
    )
    assert "bfloat16 (14.0 GB)" in str(error.value)


def test_unknown_memory_refuses_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "free_bytes", lambda _device: None)
    assert load_model(folder) is not None


def test_free_memory_is_read_from_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable:   42 kB\n")
    monkeypatch.setattr(room, "_MEMORY", tmp_path / "meminfo")
    assert room.free_bytes(torch.device("cpu")) == 42 * 1024
    assert room.free_bytes(torch.device("meta")) is None
