"""Refuse models that do not fit into memory, with the arithmetic, before their weights are read."""

import os
from pathlib import Path
from typing import Any

import torch

from headwise.errors import HeadwiseError

_GB = 1e9
_MEMORY = Path("/proc/meminfo")


def free_bytes(device: torch.device) -> int | None:
    """Bytes of memory that are free on a device; None if it is not known.

    Example:
        >>> found = free_bytes(torch.device("cpu"))
        >>> found is None or found > 0
        True
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type != "cpu":
        return None
    if _MEMORY.is_file():  # Linux
        lines = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines() if ":" in line)
        if "MemAvailable" in lines:
            return int(lines["MemAvailable"].split()[0]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_room(name: object, skeleton: Any, dtype: torch.dtype, device: torch.device) -> None:
    """Check that the weights of a model fit into the free memory of a device.

    Args:
        name: Name of the model, for the message.
        skeleton: The model's modules without weights.
        dtype: The type of the weights.
        device: The device.

    Raises:
        HeadwiseError: They do not fit.
    """
    free = free_bytes(device)
    parameters = sum(each.numel() for each in skeleton.parameters())
    needed = parameters * dtype.itemsize
    if free is None or needed <= free:
        return
    smaller = f"--dtype bfloat16 ({parameters * 2 / _GB:.1f} GB), " if dtype.itemsize > 2 else ""
    raise HeadwiseError(
        f"{name}: the weights need {needed / _GB:.1f} GB ({parameters / 1e6:,.0f} million parameters × "
        f"{dtype.itemsize} bytes of {str(dtype).removeprefix('torch.')}), but {free / _GB:.1f} GB are free on "
        f"{device}: use {smaller}a "
        "smaller model or a device with more memory, or in Python device_map='auto' for several GPUs"
    )
