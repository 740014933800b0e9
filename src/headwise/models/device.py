"""Choose the device of a model and the type of its weights by name."""

from typing import Literal

import torch

from headwise.errors import HeadwiseError

DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = ("auto", "float32", "bfloat16", "float16")


def choose_device(device: str | torch.device) -> torch.device:
    """The device with this name.

    Args:
        device: `cpu`, `cuda`, `mps`, or `auto` for the first of CUDA, MPS and the CPU that is available. A
            `torch.device` is returned unchanged.

    Raises:
        HeadwiseError: The name is unknown, or the device is not available.

    Example:
        >>> choose_device("cpu")
        device(type='cpu')
    """
    if isinstance(device, torch.device):
        return device
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return torch.device(next(name for name, here in present.items() if here))
    if device not in present:
        raise HeadwiseError(f"device: must be one of {', '.join(DEVICES)}, not {device!r}")
    if not present[device]:
        raise HeadwiseError(f"device: {device} is not available on this machine: use cpu or auto")
    return torch.device(device)


def choose_dtype(dtype: str | torch.dtype) -> torch.dtype | Literal["auto"]:
    """The type of weights with this name.

    Args:
        dtype: `float32`, `bfloat16`, `float16`, or `auto` for the type of the saved checkpoint. A `torch.dtype` is
            returned unchanged.

    Returns:
        The type, or `auto`, as the `dtype` of `from_pretrained`.

    Raises:
        HeadwiseError: The name is unknown.

    Example:
        >>> choose_dtype("bfloat16")
        torch.bfloat16
    """
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype not in DTYPES:
        raise HeadwiseError(f"dtype: must be one of {', '.join(DTYPES)}, not {dtype!r}")
    return "auto" if dtype == "auto" else getattr(torch, dtype)
