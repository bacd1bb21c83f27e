"""Matrix functions with NumPy's names: diagonals, products, einsum; see `arrays`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.types import element_of, shape_of
from glow_dialects.fn.array_functions.arrays import (
    Axes,
    Maker,
    at_least,
    axes_of,
    axis_of,
    count_nonzero,
    joined,
    pair,
    permuted,
    ravel,
    real,
    reduced,
    roll,
    root,
    summands,
)

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


# --- made of rows and columns ---------------------------------------------------------------------------
def _trilu(upper: bool) -> Maker:
    def make(u: Unit, m: SSAValue, k: int = 0) -> SSAValue:
        if len(shape_of(m)) < 2:
            raise VerifyException("tril and triu take arrays of two axes or more")
        return u.op("trilu", m, upper=upper, k=k)

    return make


def _diagonal(u: Unit, a: SSAValue, offset: int = 0, axis1: int = 0, axis2: int = 1) -> SSAValue:
    rank = len(shape_of(a))
    if rank < 2:
        raise VerifyException("a diagonal of an array of one axis; give a matrix")
    i, j = axis_of(axis1, rank), axis_of(axis2, rank)
    rest = [x for x in range(rank) if x not in (i, j)]
    rows, columns = shape_of(a)[i], shape_of(a)[j]
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    moved = permuted(u, a, [i, j, *rest])
    flat = u.reshape(moved, (rows * columns, *(shape_of(a)[x] for x in rest)))
    places = (np.arange(count) - min(offset, 0)) * columns + np.arange(count) + max(offset, 0)
    return permuted(u, u.op("gather", flat, u.b.constant(places), axis=0), [*range(1, len(rest) + 1), 0])


def _diag(u: Unit, v: SSAValue, k: int = 0) -> SSAValue:
    if len(shape_of(v)) == 2:
        return _diagonal(u, v, k, 0, 1)
    if len(shape_of(v)) != 1:
        raise VerifyException("diag takes arrays of one or two axes")
    size = shape_of(v)[0] + abs(k)
    places = np.zeros((size, size), np.int64)
    on = np.eye(size, k=k, dtype=bool)
    places[on] = np.arange(shape_of(v)[0])
    return u.op("select", u.b.constant(on), u.op("gather", v, u.b.constant(places), axis=0), u.b.scalar(0, v))


def _trace(u: Unit, a: SSAValue, offset: int = 0, axis1: int = 0, axis2: int = 1) -> SSAValue:
    return reduced(u, "sum", summands(u, _diagonal(u, a, offset, axis1, axis2)), -1)


def _outer(u: Unit, a: SSAValue, b: SSAValue) -> SSAValue:
    left, right = pair(u, ravel(u, a), ravel(u, b))
    wide = u.reshape(left, (*shape_of(left), 1)), u.reshape(right, (1, *shape_of(right)))
    return u.op("mul", *wide)


def _kron(u: Unit, a: SSAValue, b: SSAValue) -> SSAValue:
    left, right = pair(u, a, b)
    rank = max(len(shape_of(left)), len(shape_of(right)))
    first, second = ((*(1,) * (rank - len(shape_of(x))), *shape_of(x)) for x in (left, right))
    wide = u.reshape(left, [n for s in first for n in (s, 1)])
    other = u.reshape(right, [n for s in second for n in (1, s)])
    return u.reshape(u.op("mul", wide, other), [m * n for m, n in zip(first, second, strict=True)])


def _cross(u: Unit, a: SSAValue, b: SSAValue) -> SSAValue:
    left, right = pair(u, a, b)
    if shape_of(left)[-1:] != (3,) or shape_of(right)[-1:] != (3,):
        raise VerifyException("cross takes vectors of three numbers")

    def turned(x: SSAValue, by: int) -> SSAValue:
        return roll(u, x, by, -1)

    ahead = u.op("mul", turned(left, -1), turned(right, -2))
    return u.op("sub", ahead, u.op("mul", turned(left, -2), turned(right, -1)))


# --- products ----------------------------------------------------------------------------------------------
def _tensordot(u: Unit, a: SSAValue, b: SSAValue, axes: Any = 2) -> SSAValue:
    left, right = pair(u, a, b)
    one, two = shape_of(left), shape_of(right)
    if isinstance(axes, int):
        gone, met = list(range(len(one) - axes, len(one))), list(range(axes))
    else:
        gone, met = ([x] if isinstance(x, int) else list(x) for x in axes)
        gone, met = [axis_of(i, len(one)) for i in gone], [axis_of(i, len(two)) for i in met]
    if [one[i] for i in gone] != [two[i] for i in met]:
        raise VerifyException(
            f"tensordot over {[one[i] for i in gone]} and {[two[i] for i in met]} elements"
            "; these numbers must be equal"
        )
    rows = [i for i in range(len(one)) if i not in gone]
    columns = [i for i in range(len(two)) if i not in met]
    inner = math.prod(one[i] for i in gone)
    flat = u.reshape(permuted(u, left, [*rows, *gone]), (math.prod(one[i] for i in rows), inner))
    other = u.reshape(permuted(u, right, [*met, *columns]), (inner, math.prod(two[i] for i in columns)))
    shape = [*(one[i] for i in rows), *(two[i] for i in columns)]
    return u.reshape(u.op("matmul", flat, other), shape)


def _dot(u: Unit, a: SSAValue, b: SSAValue) -> SSAValue:
    left, right = pair(u, a, b)
    one, two = shape_of(left), shape_of(right)
    if not one or not two:
        return u.op("mul", left, right)
    return _tensordot(u, left, right, [[len(one) - 1], [max(len(two) - 2, 0)]])


def _inner(u: Unit, a: SSAValue, b: SSAValue) -> SSAValue:
    left, right = pair(u, a, b)
    if not shape_of(left) or not shape_of(right):
        return u.op("mul", left, right)
    return _tensordot(u, left, right, [[-1], [-1]])


def _convolve(u: Unit, a: SSAValue, v: SSAValue, mode: str = "full") -> SSAValue:
    long, short = pair(u, a, v)
    if len(shape_of(long)) != 1 or len(shape_of(short)) != 1:
        raise VerifyException("convolve takes arrays of one axis")
    if shape_of(long)[0] < shape_of(short)[0]:
        long, short = short, long
    n, m = shape_of(long)[0], shape_of(short)[0]
    ends = {"full": (0, n + m - 1), "same": ((m - 1) // 2, (m - 1) // 2 + n), "valid": (m - 1, n)}
    if mode not in ends:
        raise VerifyException(f"there is no mode '{mode}' of convolve; use full, same or valid")
    first, end = ends[mode]
    wide = u.op("pad", long, pads=(m - 1, m - 1))
    places = np.arange(first, end)[:, None] + np.arange(m)[None, :]
    rows = u.op("gather", wide, u.b.constant(places), axis=0)
    products = u.op("mul", rows, u.reshape(u.op("flip", short, axes=(0,)), (1, m)))
    # Where one of both ends there is no product: not that of 0 and what may be an infinity.
    both = u.b.constant((places >= m - 1) & (places < n + m - 1))
    products = u.op("select", both, products, u.b.scalar(0, products))
    return u.op("reduce_sum", products, axes=(1,), keepdims=False)


def _norm(
    u: Unit, x: SSAValue, ord: float | str | None = None, axis: Axes = None, keepdims: bool = False
) -> SSAValue:
    a = real(u, x)
    if ord in (None, 2, 2.0) and (ord is None or axis is not None or len(shape_of(a)) == 1) or ord == "fro":
        return u.op("reduce_l2", a, axes=axes_of(axis, len(shape_of(a))), keepdims=keepdims)
    axes = axes_of(axis, len(shape_of(a)))
    size = u.op("abs", a)
    if len(axes) == 2 and ord in (1, -1, math.inf, -math.inf):  # the largest, or smallest, column or row
        summed, chosen = axes if abs(ord) == 1 else axes[::-1]
        sums = reduced(u, "sum", size, summed, True)
        return reduced(u, "sum", reduced(u, "max" if ord > 0 else "min", sums, chosen, True), axes, keepdims)
    if isinstance(ord, str) or len(axes) != 1:
        raise VerifyException(f"the norm {ord} of matrices; use 1, -1, inf, -inf, 'fro' or None, or one axis")
    if ord in (math.inf, -math.inf):
        return reduced(u, "max" if ord > 0 else "min", size, axes, keepdims)
    if ord == 0:
        return u.cast(count_nonzero(u, a, axes, keepdims), element_of(a))
    if ord == 1:
        return reduced(u, "sum", size, axes, keepdims)
    assert ord is not None
    powers = root(u, size, ord) if 0 < ord < 1 else u.op("pow", size, u.b.scalar(ord, a))
    total = reduced(u, "sum", powers, axes, keepdims)
    return root(u, total, 1 / ord) if ord > 1 else u.op("pow", total, u.b.scalar(1 / ord, a))


def _meshgrid(u: Unit, *arrays: SSAValue, index: int = 0, indexing: str = "xy") -> SSAValue:
    """The coordinates along one axis of a grid."""
    axes = list(range(len(arrays)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = [1, 0]
    sizes = [0] * len(axes)
    for axis, array in zip(axes, arrays, strict=True):
        sizes[axis] = math.prod(shape_of(array))
    around = [n if i == axes[index] else 1 for i, n in enumerate(sizes)]
    return u.expand(u.reshape(arrays[index], around), sizes)


# --- sums of products --------------------------------------------------------------------------------------
def _einsum(u: Unit, *arrays: SSAValue, subscripts: str = "") -> SSAValue:
    """The sum of products that a text such as "ij,jk->ik" or "...i,...i" describes."""
    sources, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = sources.split(",")
    if len(terms) != len(arrays):
        raise VerifyException(
            f"einsum of {len(arrays)} arrays with {len(terms)} terms; write one term per array"
        )
    spare = "".join(chr(c) for c in range(0x3B1, 0x3C9))  # letters that no text of einsum has
    most = max(
        (len(shape_of(a)) - len(t) + 3 for a, t in zip(arrays, terms, strict=True) if "..." in t), default=0
    )
    named: list[tuple[SSAValue, str]] = []
    for array, term in zip(u.common(arrays, list(u.weak)[: len(arrays)]), terms, strict=True):
        more = len(shape_of(array)) - len(term.replace("...", ""))
        term = term.replace("...", spare[most - more : most]) if "..." in term else term
        if len(term) != len(shape_of(array)):
            raise VerifyException(
                f"einsum '{subscripts}': '{term}' for {len(shape_of(array))} axes; write one letter per axis"
            )
        named.append(_diagonals(u, array, term))
    letters = "".join(t for _, t in named)
    if arrow:
        result = result.replace("...", spare[:most])
    else:
        once = {x for x in sources if x.isalpha() and sources.count(x) == 1}
        result = spare[:most] + "".join(sorted(once))
    if not set(result) <= set(letters) or len(set(result)) < len(result):
        raise VerifyException(
            f"einsum '{subscripts}': each axis of the result must be an axis of an array, once; "
            "correct the letters after ->"
        )
    product, term = named[0]
    for index, (array, other) in enumerate(named[1:], 2):
        kept = set(result).union(*(t for _, t in named[index:]))
        product, term = _multiplied(u, product, term, array, other, kept)
    product, term = _summed(u, product, term, set(result))
    return permuted(u, product, [term.index(x) for x in result])


def _diagonals(u: Unit, array: SSAValue, term: str) -> tuple[SSAValue, str]:
    """A term that names an axis twice is of its diagonal."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            i = term.index(letter)
            j = term.index(letter, i + 1)
            rows, columns = shape_of(array)[i], shape_of(array)[j]
            if rows != columns:
                raise VerifyException(
                    f"einsum: axis '{letter}' has {rows} and {columns} elements; these numbers must be equal"
                )
            array = _diagonal(u, array, 0, i, j)
            term = term[:i] + term[i + 1 : j] + term[j + 1 :] + letter
    return array, term


def _summed(u: Unit, value: SSAValue, term: str, kept: set[str]) -> tuple[SSAValue, str]:
    """Summed over the axes that nothing else needs."""
    gone = [i for i, x in enumerate(term) if x not in kept]
    if gone:
        value = reduced(u, "sum", value, gone)
    return value, "".join(x for x in term if x in kept)


def _multiplied(
    u: Unit, left: SSAValue, first: str, right: SSAValue, second: str, kept: set[str]
) -> tuple[SSAValue, str]:
    """The product of two, summed over the axes that both have and nothing else needs."""
    left, first = _summed(u, left, first, kept | set(second))
    right, second = _summed(u, right, second, kept | set(first))
    sizes: dict[str, int] = {}
    for value, term in ((left, first), (right, second)):
        for x, n in zip(term, shape_of(value), strict=True):
            if sizes.setdefault(x, n) != n and 1 not in (n, sizes[x]):
                raise VerifyException(
                    f"einsum: axis '{x}' has {sizes[x]} and {n} elements; these numbers must be equal"
                )
            sizes[x] = max(sizes[x], n)
    left, right = (u.expand(v, [sizes[x] for x in t]) for v, t in ((left, first), (right, second)))
    shared = [x for x in first if x in second]
    batch = [x for x in shared if x in kept]
    inner = [x for x in shared if x not in kept]
    rows = [x for x in first if x not in second]
    columns = [x for x in second if x not in first]

    def folded(value: SSAValue, term: str, *groups: list[str]) -> SSAValue:
        order = [term.index(x) for x in (*batch, *(x for g in groups for x in g))]
        shape = [*(sizes[x] for x in batch), *(math.prod(sizes[x] for x in g) for g in groups)]
        return u.reshape(permuted(u, value, order), shape)

    operands = folded(left, first, rows, inner), folded(right, second, inner, columns)
    product = u.op("batch_matmul" if batch else "matmul", *operands)
    term = "".join([*batch, *rows, *columns])
    return u.reshape(product, [sizes[x] for x in term]), term


# --- joins -------------------------------------------------------------------------------------------------
def _concatenate(u: Unit, *arrays: SSAValue, axis: int | None = None) -> SSAValue:
    if axis is not None:
        return joined(u, arrays, axis)
    return joined(u, [ravel(u, a) for a in u.common(arrays, u.weak[: len(arrays)])], 0)


def _vstack(u: Unit, *arrays: SSAValue) -> SSAValue:
    return joined(u, [at_least(2)(u, a) for a in arrays], 0)


def _hstack(u: Unit, *arrays: SSAValue) -> SSAValue:
    wide = [at_least(1)(u, a) for a in arrays]
    return joined(u, wide, 0 if len(shape_of(wide[0])) == 1 else 1)


def _column_stack(u: Unit, *arrays: SSAValue) -> SSAValue:
    wide = [u.reshape(a, (math.prod(shape_of(a)), 1)) if len(shape_of(a)) < 2 else a for a in arrays]
    return joined(u, wide, 1)


def _dstack(u: Unit, *arrays: SSAValue) -> SSAValue:
    deep: list[SSAValue] = []
    for a in arrays:
        wide = at_least(2)(u, a)
        deep.append(u.reshape(wide, (*shape_of(wide), 1)) if len(shape_of(wide)) == 2 else wide)
    return joined(u, deep, 2)


#: Functions by name.
MATRICES: dict[str, Maker] = {
    "column_stack": _column_stack, "concatenate": _concatenate, "convolve": _convolve, "cross": _cross,
    "diag": _diag, "diagonal": _diagonal, "dot": _dot, "dstack": _dstack, "einsum": _einsum,
    "hstack": _hstack, "inner": _inner, "kron": _kron, "meshgrid": _meshgrid, "norm": _norm,
    "outer": _outer, "tensordot": _tensordot, "trace": _trace, "tril": _trilu(False),
    "triu": _trilu(True), "vstack": _vstack,
}  # fmt: skip
