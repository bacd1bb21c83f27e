"""Common parts of gathers and scatters: checks of indices, reductions of scatters, cotangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.errors import GlowError
from glow_dialects.core.properties import opt_str_prop
from glow_dialects.core.types import Array, dtype_of, typed
from glow_dialects.ops.elementwise import widen

#: How a scatter joins an update with the value in its place.
REDUCTIONS = ("none", "add", "mul", "max", "min")

_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def check_indices(op: str, indices: SSAValue) -> None:
    """Raise unless the element type is an integer type."""
    if dtype_of(typed(indices)).kind not in "iu":
        raise VerifyException(f"{op}: indices must be integers, got {indices.type}")


def checked_prop() -> str | None:
    """`checked`: the operator's name in the error for an index out of range at run time.

    A text that ends in a full stop is the whole message. Without it such an index is a mistake of the
    caller: machine code brings it into range.
    """
    return opt_str_prop()


def out_of_range(what: str, index: int, limit: int) -> GlowError:
    """The error of an index outside an axis of `limit` elements."""
    if what.endswith("."):
        return GlowError(what[:-1])
    return GlowError(f"{what}: index {index} is out of range for {limit} elements")


def wrapped(op: Any, indices: Array, limit: int) -> Array:
    """int64 indices with negative ones counted from the end; a GlowError where one is out of range."""
    wide = indices.astype(np.int64)
    if wide.size and (wide.min() < -limit or wide.max() >= limit):
        bad = wide[(wide < -limit) | (wide >= limit)].flat[0]
        raise out_of_range(op.checked or op.name, int(bad), limit)
    return np.where(wide < 0, wide + limit, wide)


def grid(shape: Sequence[int], axes: int | None = None) -> list[Array]:
    """Index arrays of the first `axes` axes (all by default) that broadcast over `shape`."""
    count = len(shape) if axes is None else axes
    return [
        np.arange(shape[i]).reshape([-1 if j == i else 1 for j in range(len(shape))]) for i in range(count)
    ]


def scatter(result: Array, data: Array, where: tuple[Array, ...], updates: Array, reduction: str) -> None:
    """result = data, joined with updates at index arrays; the last of equal places wins for "none"."""
    if not where:  # index tuples of no indices name the whole tensor, one after another
        rows = updates.reshape(-1, *data.shape) if data.size else updates[:0].reshape(0, *data.shape)
        return scatter(result[None], data[None], (np.zeros(len(rows), np.int64),), rows, reduction)
    place: Any = where
    if reduction == "none":
        result[...] = data
        result[place] = updates
        return
    total = widen(data).copy()
    with np.errstate(all="ignore"):
        _UFUNCS[reduction].at(total, place, widen(updates))
        result[...] = total
