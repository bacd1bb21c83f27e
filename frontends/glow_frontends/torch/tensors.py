"""PyTorch's tensors and element types as NumPy's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from glow_dialects.core.types import Array
from glow_frontends.graph.errors import RuleError

#: Element types by PyTorch's name, `torch.float32` and so on.
DTYPES: dict[str, np.dtype] = {
    "bool": np.dtype(bool),
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    **{
        name: np.dtype(getattr(ml_dtypes, name))
        for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
    },
}


def numpy_dtype(dtype: Any) -> np.dtype:
    """The NumPy dtype of a `torch.dtype`; RuleError for one that no tensor of a graph has."""
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise RuleError(f"tensors of {name} are not known here")
    return DTYPES[name]


def array_of(tensor: Any) -> Array:
    """What a tensor holds, in the same memory where it lies on the host and its elements in a row."""
    dtype = numpy_dtype(tensor.dtype)
    plain = tensor.detach().resolve_conj().resolve_neg().cpu()
    if dtype.isbuiltin == 1:  # NumPy's own
        return plain.numpy()
    bits = {1: "uint8", 2: "int16"}[dtype.itemsize]
    import torch  # pyright: ignore[reportMissingImports]

    return plain.contiguous().view(getattr(torch, bits)).numpy().view(dtype)


def tensor_of(array: Array) -> Any:
    """An array as a tensor, in the same memory where that may be written."""
    import torch  # pyright: ignore[reportMissingImports]

    if not (array.flags.writeable and array.flags.c_contiguous):
        array = array.copy()
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    name = next(name for name, dtype in DTYPES.items() if dtype == array.dtype)
    bits = np.dtype("uint8") if array.dtype.itemsize == 1 else np.dtype("int16")
    return torch.from_numpy(array.view(bits)).view(getattr(torch, name))
