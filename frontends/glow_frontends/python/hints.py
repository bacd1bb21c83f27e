"""Hints: replacements of Python that cannot be compiled."""

from __future__ import annotations

import ast
from typing import Any

INSTEAD: dict[type[ast.AST], str] = {
    ast.Try: "test the condition with if before the operation",
    ast.With: "call the functions of the context yourself, outside",
    ast.ClassDef: "use tuples and functions; define classes outside",
    ast.Global: "pass the value as an argument and return the new one",
    ast.Nonlocal: "pass the value as an argument and return the new one: closures only read names",
    ast.Import: "import at the top of the file",
    ast.ImportFrom: "import at the top of the file",
    ast.AsyncFunctionDef: "write a plain def",
    ast.AsyncFor: "write a plain for",
    ast.AsyncWith: "write plain calls",
    ast.Await: "write plain calls",
    ast.Yield: "return a tuple",
    ast.YieldFrom: "return a tuple",
    ast.Set: "use a tuple",
    ast.SetComp: "use a tuple",
    ast.JoinedStr: "build texts outside",
    ast.Match: "write values, tuples, classes and | of values as patterns, or if and elif",
    ast.Subscript: "build a new tuple or array: values do not change",
    ast.Attribute: "return the new value: objects do not change",
}


def instead_of(node: ast.AST) -> str:
    """The advice for a construct."""
    return INSTEAD.get(type(node), "use numbers, tuples, arrays and functions")


_COUNTS = "write sums of masks for a fixed number of values: (x[:, None] == np.arange(n)).sum(0)"
_REAL = "use real ones: np.linalg.eigh of symmetric matrices, np.linalg.svd, sums with np.cos and np.sin"
_COMPLEX = "complex numbers are not compiled"
#: Names of NumPy by what keeps them from being compiled, with what to write instead.
_REFUSED: tuple[tuple[str, str, str], ...] = (
    (
        "nonzero argwhere flatnonzero extract compress trim_zeros unique unique_all unique_counts "
        "unique_inverse unique_values setdiff1d setxor1d intersect1d union1d",
        "the length of the result depends on values, and no shape tells it",
        "write np.where(mask, a, b), sums of masks, np.isin, or a fixed number of elements of np.sort(x)",
    ),
    ("bincount", "the length of the result depends on the largest value, whatever minlength is", _COUNTS),
    (
        "eig eigvals roots poly iscomplex isreal angle real_if_close complex64 complex128 fft ifft rfft "
        "irfft fft2 ifft2 fftn ifftn rfft2 irfft2 rfftn irfftn hfft ihfft",
        _COMPLEX,
        _REAL,
    ),
    (
        "copyto put putmask place put_along_axis fill_diagonal",
        "functions that change their argument are not compiled",
        "assign: a[i] = v, a[mask] = v or a[i, j] = v",
    ),
)


def refusal(thing: Any, called: str = "") -> tuple[str, str]:
    """Why an object cannot be called in a compiled function, and the advice; `called`: as which text."""
    name = getattr(thing, "__qualname__", None) or repr(thing)
    module = getattr(thing, "__module__", None) or ""
    if thing is complex:
        return f"complex: {_COMPLEX}", _REAL
    if module.split(".")[0] == "numpy":
        for names, what, instead in _REFUSED:
            if name in names.split():
                return f"{called or f'{module}.{name}'.replace('numpy', 'np', 1)}: {what}", instead
    shown = f"{module}.{name}" if module not in ("", "builtins") else name
    return f"{shown} cannot be compiled", "use Python functions, math, numpy and glow.ops"
