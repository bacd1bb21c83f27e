"""Arrays from users: subclasses of NumPy arrays with other semantics are refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from glow_dialects.core.errors import BindingError


def check_plain(what: str, value: Any) -> None:
    """BindingError where a value is, or a list holds, an array of a subclass; np.memmap is a plain one.

    The missing elements of a masked array would count, and products of matrices go element by element.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        if value and not isinstance(value[0], int | float):
            for item in value:
                check_plain(what, item)
        return
    if kind is np.ndarray or kind is np.memmap or not isinstance(value, np.ndarray):
        return
    masked = isinstance(value, np.ma.MaskedArray)
    instead = "x.filled(value), or its mask as an array" if masked else "np.asarray(x)"
    raise BindingError(
        f"{what} is a {kind.__module__}.{kind.__name__}, not an ordinary array; give {instead}"
    )


def as_plain(what: str, value: Any) -> Any:
    """The value as an array: an array or list, a tensor of PyTorch or JAX, what has DLPack's `__dlpack__`.

    BindingError for arrays of a subclass, lists of unequal parts, and what is no array at all.
    """
    if type(value) is np.ndarray:
        return value
    if value is None:
        raise BindingError(f"{what} is None, expected an array")
    check_plain(what, value)
    try:
        if type(value).__module__.partition(".")[0] == "torch":
            return _of_torch(what, value)
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return _of_dlpack(what, value)
        array = np.asarray(value)
    except ValueError:
        raise BindingError(f"{what} is a list with rows of different lengths, not a tensor") from None
    if array.dtype == object and array.ndim == 0 and not isinstance(value, np.generic | str | bytes):
        kind = type(value)
        named = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        raise BindingError(f"{what} is a {named}, expected an array")
    return array


def check_numbers(name: str, array: Any, dtype: np.dtype) -> None:
    """BindingError for texts and other objects in place of the numbers of an input."""
    if array is None or array.dtype.kind not in "OUS" or dtype == object:
        return
    first = next(iter(array.reshape(-1).tolist()), None)
    if isinstance(first, str | bytes):
        raise BindingError(f"input '{name}' is text ({first!r:.60}), expected an array of {dtype}")
    raise BindingError(f"input '{name}' is an array of Python objects, expected one of {dtype}")


def _of_torch(what: str, value: Any) -> Any:
    """A tensor of PyTorch: what its gradient is does not matter here, nor that NumPy has no bfloat16."""
    if not hasattr(value, "detach"):
        raise BindingError(f"{what} is a {type(value).__module__}.{type(value).__name__}, expected an array")
    plain = value.detach()
    try:
        if "float8" in str(plain.dtype) or "bfloat16" in str(plain.dtype):
            import torch  # pyright: ignore[reportMissingImports]

            from glow_dialects.core.element_types import dtype_named

            stored: Any = torch
            bits = stored.int16 if plain.element_size() == 2 else stored.uint8
            words = plain.cpu().contiguous().view(bits).numpy()
            return words.view(dtype_named(str(plain.dtype).removeprefix("torch.")))
        return plain.cpu().resolve_conj().resolve_neg().numpy()
    except (RuntimeError, TypeError, KeyError, NotImplementedError) as error:
        raise BindingError(
            f"{what}, a tensor of PyTorch, is no array: {str(error).splitlines()[0]}"
        ) from None


def _of_dlpack(what: str, value: Any) -> Any:
    try:
        return np.from_dlpack(value)
    except (RuntimeError, TypeError, BufferError, ValueError, AttributeError) as error:
        kind = type(value)
        name = f"{kind.__module__}.{kind.__name__}"
        raise BindingError(f"{what} is a {name}, whose __dlpack__ NumPy does not take: {error}") from None
