"""`glow.vmap` row by row, `glow.vjp` and Jacobians, written in Python; compiled like the user's functions."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glow_dialects.fn.primitives.linear import Basis, Inner, IsWide, ShapedFirst, ShapedLast
from glow_dialects.fn.primitives.mapped_rows import (
    BlockSize,
    Merged,
    NewRows,
    RowCount,
    RowOf,
    SetRows,
    Turned,
)


class Marker:
    """A primitive, or a transform of `glow`, as a function for the functions below."""

    def __init__(self, card: Any = None, transform: str = "") -> None:
        self.glow_primitive = card
        if transform:
            self.glow_transform = transform

    def __call__(self, *values: Any, **options: Any) -> Any:
        """For compiled functions only."""
        raise AssertionError(self.glow_primitive)


row_count, row_of, new_rows, set_rows, turned = map(Marker, (RowCount, RowOf, NewRows, SetRows, Turned))
block_size, merged = map(Marker, (BlockSize, Merged))
inner, basis, is_wide, shaped_last, shaped_first = map(
    Marker, (Inner, Basis, IsWide, ShapedLast, ShapedFirst)
)
grad, jvp, vmap = (Marker(transform=name) for name in ("grad", "jvp", "vmap"))

Pull = Callable[[Any], tuple[Any, ...]]


def by_rows(f: Any, args: Any, in_axes: str, out_axes: str, names: str) -> Any:
    """f for each row, one after another; results are collected in blocks, the last one filled up."""
    count = row_count(args, in_axes, names)
    size = block_size(count)

    def block(start: int) -> Any:
        rows = new_rows(f(*row_of(args, start, in_axes)), size)
        for i in range(1, size):
            rows = set_rows(rows, i, f(*row_of(args, min(start + i, count - 1), in_axes)))
        return rows

    blocks = (count + size - 1) // size
    whole = new_rows(block(0), blocks)
    for j in range(1, blocks):
        whole = set_rows(whole, j, block(j * size))
    return turned(merged(whole, count), out_axes)


def vjp_of(f: Any, primals: Any) -> tuple[Any, Pull]:
    """The value, and the function from its cotangent to those of the primals."""

    def pull(d: Any) -> Any:
        return grad(lambda values: inner(f(*values), d))(primals)

    return f(*primals), pull


def jacobian_of(f: Any, x: Any) -> Any:
    """The derivatives of each number of f(x) by each of x.

    A column at a time is a tangent in forward mode, a row a cotangent in reverse mode: there are as many of
    the first as numbers of the argument, of the second as of the value.
    """
    y = f(x)
    if is_wide(y, x):
        columns = vmap(lambda v: jvp(f, (x,), (v,))[1], out_axes=-1)(basis(x))
        return shaped_last(columns, x)
    rows = vmap(lambda d: grad(lambda v: inner(f(v), d))(x))(basis(y))
    return shaped_first(rows, y)
