"""Models as a small pickle and arrays of their tensors.

Ray stores arrays once per machine, and all processes of the machine read them without a copy. A model pickled as a
whole would be copied into every process.
"""

import io
import pickle
import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.errors import HeadwiseError

#: A model without its tensors, and the bytes of its tensors.
Shipped = tuple[bytes, list[NDArray[np.uint8]]]


def ship_model(model: nn.Module, pickler: type[pickle.Pickler] = pickle.Pickler) -> Shipped:
    """A model as a pickle without tensors, and the bytes of each tensor.

    Args:
        model: The model.
        pickler: The pickler; Ray's own can also pickle classes that the receiver cannot import.

    Raises:
        HeadwiseError: The model is inside `gated(...)` or another context of headwise that changes it.

    Example:
        >>> layer = nn.Linear(2, 3)
        >>> torch.equal(unship_model(ship_model(layer)).weight, layer.weight)
        True
    """
    _check_plain(model)
    tensors: dict[int, tuple[int, Tensor]] = {}

    class Packer(pickler):  # type: ignore[misc, valid-type]
        def persistent_id(self, value: Any) -> Any:
            if not isinstance(value, Tensor):
                return None
            place, _ = tensors.setdefault(id(value), (len(tensors), value))
            return place, isinstance(value, nn.Parameter), value.requires_grad, value.dtype, tuple(value.shape)

    skeleton = io.BytesIO()
    Packer(skeleton, protocol=5).dump(model)
    return skeleton.getvalue(), [_bytes_of(tensor) for _, tensor in tensors.values()]


def unship_model(shipped: Shipped) -> Any:
    """The model of `ship_model`. Its weights share the memory of the arrays, so they must not be changed."""
    skeleton, arrays = shipped
    known: dict[int, Tensor] = {}

    class Unpacker(pickle.Unpickler):
        def persistent_load(self, key: Any) -> Tensor:
            place, is_parameter, requires_grad, dtype, shape = key
            if place not in known:  # tied weights are one tensor
                tensor = _tensor_of(arrays[place]).view(dtype).reshape(shape)
                known[place] = nn.Parameter(tensor, requires_grad) if is_parameter else tensor
            return known[place]

    return Unpacker(io.BytesIO(skeleton)).load()


def _bytes_of(tensor: Tensor) -> NDArray[np.uint8]:
    found: NDArray[np.uint8] = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return found


def _tensor_of(array: NDArray[np.uint8]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _check_plain(model: nn.Module) -> None:
    """Raise an error if headwise has hooks in the model: workers would go on using them after they are removed here."""
    for module in model.modules():
        for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values()):
            if (getattr(hook, "__module__", None) or type(hook).__module__).startswith("headwise."):
                raise HeadwiseError(
                    "a model inside gated(...) cannot be sent to workers: leave the block first, or use LocalEngine"
                )
