"""Functions with NumPy's names that create arrays of numbers, possibly of dynamic size; see `arrays`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import f64
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.extent import Extent, is_open
from glow_dialects.core.types import Array, broadcast_shapes, element_of, element_type, shape_of
from glow_dialects.fn.array_functions.arrays import Maker, pair, real

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


def _arange(
    u: Unit, start: float = 0, stop: float | None = None, step: float = 1, dtype: str | None = None
) -> SSAValue:
    first, last = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise VerifyException("arange by steps of 0; give another step")
    if any(isinstance(n, Extent) for n in (first, last, step)):
        return _open_arange(u, first, last, step, dtype)
    numbers: Array = np.arange(first, last, step)
    return u.b.constant(numbers if dtype is None else numbers.astype(dtype))


def _open_arange(u: Unit, first: Any, last: Any, step: Any, dtype: str | None) -> SSAValue:
    """Ints whose number follows from sizes that the run tells."""
    if any(isinstance(n, float) for n in (first, last, step)):
        raise VerifyException("arange of floats needs sizes that are known at compile time")
    way = last - first if step > 0 else first - last
    count = (way + abs(step) - 1) // abs(step) if way > 0 else 0
    numbers = u.op("add", u.op("mul", u.numbers(count), u.size(step)), u.size(first))
    return u.cast(numbers, element_type(dtype or "int64"))


def _diagonals(kind: str, known: Callable[..., Array]) -> Maker:
    """1 where a column is that of the diagonal, or compares with it, else 0."""

    def make(u: Unit, N: int = 1, M: int | None = None, k: int = 0, dtype: str = "float64") -> SSAValue:
        if not is_open((N, N if M is None else M, k)):
            return u.cast(u.b.constant(known(N, M, k)), element_type(dtype))
        columns = N if M is None else M
        rows = u.op("add", u.reshape(u.numbers(N), (N, 1)), u.size(k))
        chosen = u.op(kind, rows, u.reshape(u.numbers(columns), (1, columns)))
        return u.cast(chosen, element_type(dtype))

    return make


def _linspace(u: Unit, start: SSAValue, stop: SSAValue, num: int = 50, endpoint: bool = True) -> SSAValue:
    first, last = (real(u, x) for x in pair(u, start, stop))
    steps = max(num - 1 if endpoint else num, 1)
    shape = (num, *(1,) * len(broadcast_shapes(shape_of(first), shape_of(last))))
    parts = u.op("div", u.cast(u.numbers(num), f64), u.cast(u.size(steps), f64))
    part = u.cast(u.reshape(parts, shape), element_of(first))
    line = u.op("add", first, u.op("mul", u.op("sub", last, first), part))
    if not endpoint or not isinstance(num, Extent) and num < 2:
        return line
    at_end = u.op(
        "cmp_eq", u.reshape(u.numbers(num), shape), u.size(num - 1)
    )  # exactly, not but for rounding
    return u.op("select", at_end, last, line)


#: Functions by name.
RANGES: dict[str, Maker] = {
    "arange": _arange, "eye": _diagonals("cmp_eq", np.eye), "linspace": _linspace,
    "tri": _diagonals("cmp_ge", np.tri),
}  # fmt: skip
