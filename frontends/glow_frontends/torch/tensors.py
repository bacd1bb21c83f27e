"""PyTorch's tensors and element types as NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from glow_dialects.core.element_types import by
from glow_dialects.core.types import Array
from glow_frontends.graph.errors import RuleError


def numpy_dtype(dtype: Any) -> np.dtype:
    """The NumPy dtype of a `torch.dtype`; RuleError for one that no tensor of a graph has."""
    name = str(dtype).removeprefix("torch.")
    if name not in by("torch"):
        raise RuleError(f"tensors of {name} are not known here")
    return by("torch")[name].dtype


def array_of(tensor: Any) -> Array:
    """What a tensor holds, in the same memory where it lies on the host and its elements in a row.

    A number is an array of rank 0.
    """
    if isinstance(tensor, int | float):
        return np.array(tensor, np.float64 if isinstance(tensor, float) else np.int64)
    dtype = numpy_dtype(tensor.dtype)
    if dtype.isbuiltin == 1:  # NumPy's own
        return tensor.numpy(force=True)
    bits = {1: "uint8", 2: "int16"}[dtype.itemsize]
    import torch  # pyright: ignore[reportMissingImports]

    plain = tensor.detach().resolve_neg().cpu().contiguous()
    return plain.view(getattr(torch, bits)).numpy().view(dtype)


def tensor_of(array: Array) -> Any:
    """An array as a tensor, in the same memory where that may be written."""
    import torch  # pyright: ignore[reportMissingImports]

    if not (array.flags.writeable and array.flags.c_contiguous):
        array = array.copy()
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    bits = np.dtype("uint8") if array.dtype.itemsize == 1 else np.dtype("int16")
    return torch.from_numpy(array.view(bits)).view(getattr(torch, array.dtype.name))
