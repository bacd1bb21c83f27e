"""Signatures of array functions: `np:NAME` primitives, whose shapes follow from argument types.

A signature is the arrays, then the options with their defaults: `"a, b; axis=-1"`, `"*arrays; axis=0"`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

#: The number of arrays among the operands, where numbers that options refer to follow them.
COUNT = "count"

SIGNATURES: dict[str, str] = {
    "all": "a; axis=None, keepdims=False",
    "any": "a; axis=None, keepdims=False",
    "arange": "; start=0, stop=None, step=1, dtype=None",
    "argmax": "a; axis=None, keepdims=False",
    "argmin": "a; axis=None, keepdims=False",
    "argsort": "a; axis=None",
    "at_least": "a; rank=1",
    "atleast_1d": "a",
    "atleast_2d": "a",
    "atleast_3d": "a",
    "broadcast_part": "*arrays; index=0",
    "column_stack": "*arrays",
    "concatenate": "*arrays; axis=None",
    "convolve": "a, v; mode='full'",
    "count_nonzero": "a; axis=None, keepdims=False",
    "cross": "a, b",
    "cumprod": "a; axis=None",
    "cumsum": "a; axis=None",
    "delete": "arr; obj=0, axis=None",
    "diag": "v; k=0",
    "diagonal": "a; offset=0, axis1=0, axis2=1",
    "diff": "a; n=1, axis=-1",
    "dot": "a, b",
    "dstack": "*arrays",
    "einsum": "*arrays; subscripts=''",
    "expand_dims": "a; axis=0",
    "eye": "; N=1, M=None, k=0, dtype='float64'",
    "flip": "m; axis=None",
    "hstack": "*arrays",
    "inner": "a, b",
    "insert": "arr, values; obj=0, axis=None",
    "isfinite": "x",
    "kron": "a, b",
    "linspace": "start, stop; num=50, endpoint=True",
    "mean": "a; axis=None, keepdims=False",
    "max": "a; axis=None, keepdims=False",
    "median": "a; axis=None, keepdims=False",
    "meshgrid": "*arrays; index=0, indexing='xy'",
    "min": "a; axis=None, keepdims=False",
    "moveaxis": "a; source=0, destination=0",
    "nan_to_num": "x; nan=0.0",
    "nancumprod": "a; axis=None",
    "nancumsum": "a; axis=None",
    "nanmax": "a; axis=None, keepdims=False",
    "nanmean": "a; axis=None, keepdims=False",
    "nanmedian": "a; axis=None, keepdims=False",
    "nanmin": "a; axis=None, keepdims=False",
    "nanpercentile": "a; q=50, axis=None, keepdims=False",
    "nanprod": "a; axis=None, keepdims=False",
    "nanquantile": "a; q=0.5, axis=None, keepdims=False",
    "nanstd": "a; axis=None, ddof=0, keepdims=False",
    "nansum": "a; axis=None, keepdims=False",
    "nanvar": "a; axis=None, ddof=0, keepdims=False",
    "norm": "x; ord=None, axis=None, keepdims=False",
    "outer": "a, b",
    "pad": "a; pad_width=0, mode='constant', constant_values=0",
    "percentile": "a; q=50, axis=None, keepdims=False",
    "pick": "*arrays",
    "prod": "a; axis=None, keepdims=False",
    "ptp": "a; axis=None, keepdims=False",
    "quantile": "a; q=0.5, axis=None, keepdims=False",
    "ravel": "a",
    "reciprocal": "x",
    "repeat": "a; repeats=1, axis=None",
    "roll": "a; shift=0, axis=None",
    "rollaxis": "a; axis=0, start=0",
    "rot90": "m; k=1, axes=(0, 1)",
    "round": "a; decimals=0",
    "searchsorted": "a, v; side='left'",
    "setitem": "a, v; key=None",
    "sort": "a; axis=None",
    "split_part": "a; sections=1, index=0, axis=None, uneven=False",
    "squeeze": "a; axis=None",
    "std": "a; axis=None, ddof=0, keepdims=False",
    "sum": "a; axis=None, keepdims=False",
    "swapaxes": "a; axis1=0, axis2=1",
    "take": "a, indices; axis=None",
    "take_along_axis": "arr, indices; axis=None",
    "tensordot": "a, b; axes=2",
    "tile": "A; reps=1",
    "trace": "a; offset=0, axis1=0, axis2=1",
    "tri": "; N=1, M=None, k=0, dtype='float64'",
    "triangle_part": "; upper=False, index=0, n=1, k=0, m=None",
    "tril": "m; k=0",
    "triu": "m; k=0",
    "trunc": "x",
    "var": "a; axis=None, ddof=0, keepdims=False",
    "vstack": "*arrays",
}


@dataclass(frozen=True)
class Signature:
    """The arrays of a function, and its options with their defaults; `many`: one tuple of arrays."""

    arrays: tuple[str, ...]
    options: dict[str, Any]
    many: bool


@lru_cache(None)
def signature(name: str) -> Signature | None:
    """The signature of a function; None where there is none of the name."""
    text = SIGNATURES.get(name)
    if text is None:
        return None
    arrays, _, options = text.partition(";")
    names = tuple(a.strip() for a in arrays.split(",") if a.strip())
    many = names[:1] == ("*arrays",)
    call = ast.parse(f"f({options})", mode="eval").body
    assert isinstance(call, ast.Call)
    defaults = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg is not None}
    return Signature(() if many else names, defaults, many)
