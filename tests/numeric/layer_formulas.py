"""Formulas of layers and weights: what their patterns take, and what they leave alone, one reason each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from arithmetic_formulas import grid, ints, spread
from graph_runner import Net
from movement_formulas import cat, cut, row, t, to, turn, when
from xdsl.ir import SSAValue

Formula = Callable[[Net, SSAValue], SSAValue]


def matmul(n: Net, x: SSAValue, columns: int = 4) -> SSAValue:
    """A product by a constant of six rows."""
    return n.matmul(x, grid(6, columns))


def stack(n: Net, left: Sequence[int], right: Sequence[int]) -> SSAValue:
    """A product of stacks of matrices."""
    return n.batch_matmul(t(n, *left), t(n, *right))


def wide(n: Net, x: Sequence[int], w: Sequence[int], bias: Any = None, **more: Any) -> SSAValue:
    """A convolution of an input by a constant."""
    return n.conv(t(n, *x), grid(*w), bias, **more)


PRODUCTS: dict[str, tuple[Formula, str]] = {
    "a stack by a matrix": (lambda n, x: stack(n, (2, 3, 6), (6, 4)), "reshape matmul reshape"),
    "a stack by a stack of one": (
        lambda n, x: stack(n, (2, 3, 6), (1, 6, 4)), "reshape reshape matmul reshape",
    ),
    "a stack by a stack": (lambda n, x: stack(n, (2, 3, 6), (2, 6, 4)), "batch_matmul"),
    "a matrix by a stack of one": (lambda n, x: stack(n, (3, 6), (1, 6, 4)), "reshape matmul reshape"),
    "a matrix by a matrix": (lambda n, x: stack(n, (3, 6), (6, 4)), "matmul"),
    "a stack by a deeper stack of one": (lambda n, x: stack(n, (2, 3, 6), (1, 1, 6, 4)), "batch_matmul"),
    "and a bias": (lambda n, x: n.add(matmul(n, x), row(4)), "fully_connected"),
    "and a bias first": (lambda n, x: n.add(t(n, 4), matmul(n, x)), "fully_connected"),
    "and a bias of two axes": (lambda n, x: n.add(matmul(n, x), t(n, 1, 4)), "reshape fully_connected"),
    "and a number": (lambda n, x: n.add(matmul(n, x), t(n, 1)), "matmul add"),
    "and a scalar": (
        lambda n, x: n.add(matmul(n, x, 1), n.reduce_sum(x, axes=(0, 1))), "matmul reduce_sum add",
    ),
    "and a column": (lambda n, x: n.add(matmul(n, x), t(n, 3, 1)), "matmul add"),
    "and a matrix": (lambda n, x: n.add(matmul(n, x), t(n, 3, 4)), "matmul add"),
    "and a bias of a larger shape": (lambda n, x: n.add(matmul(n, x), t(n, 1, 1, 4)), "matmul add"),
    "and a bias, read twice": (lambda n, x: n.mul(n.add(y := matmul(n, x), row(4)), y), "matmul add mul"),
    "under a predicate and a bias": (
        lambda n, x: n.add(n.matmul(x, grid(6, 4), predicate=when(n)), row(4)), "matmul add",
    ),
    "as high as the image under a predicate": (
        lambda n, x: wide(n, (1, 2, 5, 7), (3, 2, 5, 2), predicate=when(n)), "conv",
    ),
    "a layer without bias and a bias": (
        lambda n, x: n.add(n.fully_connected(x, grid(6, 4), None), row(4)), "fully_connected",
    ),
    "a layer with a bias and a bias": (
        lambda n, x: n.add(n.fully_connected(x, grid(6, 4), row(4)), row(4)), "fully_connected add",
    ),
    "as high as the image": (lambda n, x: wide(n, (1, 2, 5, 7), (3, 2, 5, 2)), "reshape reshape conv"),
    "as high as the image, with a bias": (
        lambda n, x: wide(n, (1, 2, 5, 7), (3, 2, 5, 2), row(3)), "reshape reshape conv",
    ),
    "as wide as the image": (
        lambda n, x: wide(n, (1, 2, 7, 5), (3, 2, 2, 5)),
        "transpose transpose reshape reshape conv transpose",
    ),
    "as wide as the image, channels last": (
        lambda n, x: wide(n, (1, 7, 5, 2), (3, 2, 5, 2), layout="NHWC"), "reshape reshape conv",
    ),
    "as high as the image, channels last": (
        lambda n, x: wide(n, (1, 5, 7, 2), (3, 5, 2, 2), layout="NHWC"), "conv",
    ),
    "as long as the row": (lambda n, x: wide(n, (1, 2, 5), (3, 2, 5)), "conv"),
    "as high as the volume": (lambda n, x: wide(n, (1, 2, 5, 6, 7), (3, 2, 5, 2, 2)), "conv"),
    "as the image": (lambda n, x: wide(n, (1, 2, 5, 5), (3, 2, 5, 5)), "conv"),
    "smaller than the image": (lambda n, x: wide(n, (1, 2, 5, 7), (3, 2, 2, 2)), "conv"),
    "as high as the image, which has one column": (lambda n, x: wide(n, (1, 2, 5, 1), (3, 2, 5, 1)), "conv"),
    "as high as the image of one row": (lambda n, x: wide(n, (1, 2, 1, 7), (3, 2, 1, 2)), "conv"),
    "as high as the image, with pads": (
        lambda n, x: wide(n, (1, 2, 5, 7), (3, 2, 5, 2), pads=(1, 0, 0, 0)), "conv",
    ),
    "as high as the image, with pads below": (
        lambda n, x: wide(n, (1, 2, 5, 7), (3, 2, 5, 2), pads=(0, 0, 1, 0)), "conv",
    ),
    "as high as the image, with pads beside": (
        lambda n, x: wide(n, (1, 2, 5, 7), (3, 2, 5, 2), pads=(0, 1, 0, 2)), "reshape reshape conv",
    ),
    "as high as an image of four channels": (
        lambda n, x: wide(n, (1, 4, 5, 7), (3, 4, 5, 2)), "reshape reshape conv",
    ),
    "as high as an image of five channels": (lambda n, x: wide(n, (1, 5, 5, 7), (3, 5, 5, 2)), "conv"),
    "as high as the image, in groups": (
        lambda n, x: wide(n, (1, 2, 5, 7), (4, 1, 5, 2), group=2), "conv",
    ),
}  # fmt: skip
STATISTICS = (grid(4) + 2, grid(4), grid(4), grid(4) + 2)
IMAGE = (2, 3, 5, 6)


def image(n: Net, bias: bool = True, **more: Any) -> SSAValue:
    """A convolution of four filters."""
    return n.conv(t(n, *IMAGE), grid(4, 3, 2, 2), row(4) if bias else None, **more)


def normal(n: Net, x: SSAValue, **more: Any) -> SSAValue:
    """A batch normalisation of four channels, known."""
    return n.batch_norm(x, *STATISTICS, epsilon=1e-3, **more)


WEIGHTS: dict[str, tuple[Formula, str]] = {
    "normalised": (lambda n, x: normal(n, image(n)), "conv"),
    "normalised without bias": (lambda n, x: normal(n, image(n, bias=False)), "conv"),
    "normalised rows": (lambda n, x: normal(n, matmul(n, x)), "fully_connected"),
    "normalised along another axis": (
        lambda n, x: n.batch_norm(n.conv(t(n, 2, 3, 5, 5), grid(4, 3, 2, 2), None), *STATISTICS, epsilon=1e-3,
                                  layout="NHWC"),
        "conv mul add",
    ),
    "normalised by what is not known": (
        lambda n, x: n.batch_norm(image(n), t(n, 4), *STATISTICS[1:], epsilon=1e-3), "conv batch_norm",
    ),
    "normalised, read twice": (lambda n, x: n.add(normal(n, y := image(n)), y), "conv mul add add"),
    "normalised under a predicate": (
        lambda n, x: normal(n, image(n, predicate=when(n))), "conv mul add",
    ),
    "before a product under a predicate": (
        lambda n, x: n.matmul(n.mul(x, row(6)), grid(6, 4), predicate=when(n)), "mul matmul",
    ),
    "normalised alone": (lambda n, x: normal(n, t(n, 2, 4, 3)), "mul add"),
    "times a number": (lambda n, x: n.mul(image(n), 2.0), "conv"),
    "times channels": (lambda n, x: n.mul(image(n), grid(4, 1, 1)), "conv"),
    "times channels without bias": (lambda n, x: n.mul(image(n, bias=False), grid(1, 4, 1, 1)), "conv"),
    "times rows": (lambda n, x: n.mul(image(n), grid(4, 1)), "conv mul"),
    "times columns": (lambda n, x: n.mul(image(n), grid(5)), "conv mul"),
    "times images": (lambda n, x: n.mul(image(n), grid(2, 1, 1, 1)), "conv mul"),
    "times a larger shape": (lambda n, x: n.mul(image(n), grid(2, 1, 1, 1, 1)), "conv mul"),
    "times one of a larger shape": (lambda n, x: n.mul(image(n), spread(2, 1, 1, 1, 1, 1)), "conv mul"),
    "times what is not known": (lambda n, x: n.mul(image(n), t(n, 1)), "conv mul"),
    "times a number, read twice": (lambda n, x: n.add(n.mul(y := image(n), 2.0), y), "conv mul add"),
    "a product times columns": (lambda n, x: n.mul(matmul(n, x), row(4)), "matmul"),
    "a product times rows": (lambda n, x: n.mul(matmul(n, x), grid(3, 1)), "matmul mul"),
    "a product by what is not known times a number": (
        lambda n, x: n.mul(n.matmul(x, t(n, 6, 4)), 2.0), "matmul mul",
    ),
    "a product of integers times a number": (
        lambda n, x: n.mul(n.matmul(ints(n, 2, 3), np.arange(6, dtype=np.int32).reshape(3, 2)), np.int32(2)),
        "matmul mul",
    ),
    "a layer with a bias that is not known": (
        lambda n, x: n.mul(n.fully_connected(x, grid(6, 4), t(n, 4)), 2.0), "fully_connected mul",
    ),
    "plus a number": (lambda n, x: n.add(image(n), 2.0), "conv"),
    "plus channels": (lambda n, x: n.add(image(n, bias=False), grid(4, 1, 1)), "conv"),
    "plus columns": (lambda n, x: n.add(image(n), grid(5)), "conv add"),
    "plus a larger shape": (lambda n, x: n.add(image(n), grid(2, 1, 1, 1, 1)), "conv add"),
    "plus what is not known": (lambda n, x: n.add(image(n), t(n, 4, 1, 1)), "conv add"),
    "a layer plus columns": (
        lambda n, x: n.add(n.fully_connected(x, grid(6, 4), row(4)), row(4)), "fully_connected",
    ),
    "a product plus columns": (lambda n, x: n.add(matmul(n, x), row(4)), "matmul add"),
    "before, a number": (lambda n, x: n.conv(n.mul(t(n, *IMAGE), 2.0), grid(4, 3, 2, 2), row(4)), "conv"),
    "before, channels": (
        lambda n, x: n.conv(n.mul(t(n, *IMAGE), grid(3, 1, 1)), grid(4, 3, 2, 2), row(4)), "conv",
    ),
    "before, channels that come last": (
        lambda n, x: n.conv(n.mul(t(n, 2, 5, 6, 3), row(3)), grid(4, 2, 2, 3), row(4), layout="NHWC"), "conv",
    ),
    "before, columns": (
        lambda n, x: n.conv(n.mul(t(n, *IMAGE), grid(6)), grid(4, 3, 2, 2), row(4)), "mul conv",
    ),
    "before, channels in groups": (
        lambda n, x: n.conv(n.mul(t(n, 1, 4, 5, 6), grid(4, 1, 1)), grid(4, 2, 2, 2), None, group=2),
        "mul conv",
    ),
    "before, a number in groups": (
        lambda n, x: n.conv(n.mul(t(n, 1, 4, 5, 6), 2.0), grid(4, 2, 2, 2), None, group=2), "conv",
    ),
    "before, read twice": (
        lambda n, x: n.add(n.matmul(y := n.mul(x, 2.0), grid(6, 6)), y), "mul matmul add",
    ),
    "before a product": (lambda n, x: n.matmul(n.mul(x, row(6)), grid(6, 4)), "matmul"),
    "before a product, rows": (lambda n, x: n.matmul(n.mul(x, grid(3, 1)), grid(6, 4)), "mul matmul"),
    "before a layer": (
        lambda n, x: n.fully_connected(n.mul(x, row(6)), grid(6, 4), row(4)), "fully_connected",
    ),
    "before a product by what is not known": (
        lambda n, x: n.matmul(n.mul(x, row(6)), t(n, 6, 4)), "mul matmul",
    ),
    "before a product, of a column": (
        lambda n, x: n.matmul(n.mul(t(n, 3, 1), row(6)), grid(6, 4)), "mul matmul",
    ),
    "before a product, not known": (lambda n, x: n.matmul(n.mul(x, t(n, 6)), grid(6, 4)), "mul matmul"),
    "before a product, of a larger shape": (
        lambda n, x: n.matmul(n.mul(t(n, 6), spread(2, 3, 6)), grid(6, 4)), "mul matmul",
    ),
    "before a product of integers": (
        lambda n, x: n.matmul(n.mul(ints(n, 2, 3), np.int32(2)), np.arange(6, dtype=np.int32).reshape(3, 2)),
        "mul matmul",
    ),
}  # fmt: skip


def parts(
    n: Net, *starts: int, axis: int = 1, other: int | None = None, steps: int = 1, fill: float = 0
) -> Any:
    """The sum of matrices of 3 x 2 in one of 3 x 6, each at its place along the second axis."""
    big = spread(fill, 3, 6)
    placed = [n.insert(big, t(n, 3, 2), starts=(0, s), steps=(1, steps)) for s in starts]
    total = placed[0]
    for more in placed[1:]:
        total = n.add(total, more)
    return total


def thin(
    n: Net, count: int, depth: int = 2, turned: bool = True, extra: bool = False, **more: Any
) -> SSAValue:
    """A sum of products of thin matrices of 32 rows and columns."""
    total = t(n, 32, 32) if extra else None
    for _ in range(count):
        left = turn(n, t(n, depth, 32)) if turned else t(n, 32, depth)
        product = n.matmul(left, t(n, depth, 32), **more)
        total = product if total is None else n.add(total, product)
    assert total is not None
    return total


def rows(
    n: Net, *indices: int, count: int = 4, part: Sequence[int] = (1, 2, 3), matrix: Sequence[int] = (2, 3),
    by: SSAValue | None = None, **more: Any,
) -> SSAValue:  # fmt: skip
    """Rows of a tensor, or other parts of it as matrices, each by the same matrix."""
    x, w = t(n, count, 2, 3), t(n, matrix[1], 5) if by is None else by
    cuts = [cut(n, x, (i, 0, 0), (i + part[0], *part[1:])) for i in indices]
    return cat(n, *[n.matmul(to(n, c, *matrix), w, **more) for c in cuts], axis=0)


def beside(n: Net, x: SSAValue, matrix: SSAValue) -> SSAValue:
    """The third row of a tensor and a matrix, both by the same matrix."""
    w = t(n, 3, 5)
    first = n.matmul(to(n, cut(n, x, (2, 0, 0), (3, 2, 3)), 2, 3), w)
    return cat(n, first, n.matmul(matrix, w), axis=0)


SUMS: dict[str, tuple[Formula, str]] = {
    "parts": (lambda n, x: parts(n, 0, 2, 4), "concat"),
    "parts, read twice": (lambda n, x: n.mul(p := parts(n, 0, 2, 4), p), "concat mul"),
    "parts of a sum that is read twice": (
        lambda n, x: n.mul(
            n.add(s := parts(n, 0, 2), n.insert(spread(0, 3, 6), t(n, 3, 2), starts=(0, 4))), s
        ),
        "insert insert add insert add mul",
    ),
    "parts inside a larger sum": (lambda n, x: n.add(parts(n, 0, 2, 4), t(n, 2, 3, 6)), "concat add"),
    "parts in another order": (lambda n, x: parts(n, 4, 0, 2), "concat"),
    "parts that leave a gap": (lambda n, x: parts(n, 0, 4), "insert insert add"),
    "parts that leave the end": (lambda n, x: parts(n, 0, 2), "insert insert add"),
    "parts that leave the start": (lambda n, x: parts(n, 2, 4), "insert insert add"),
    "parts that overlap": (lambda n, x: parts(n, 0, 2, 3), "insert insert insert add add"),
    "parts in ones": (lambda n, x: parts(n, 0, 2, 4, fill=1), "insert insert insert add add"),
    "parts with steps": (lambda n, x: parts(n, 0, 1, steps=2), "insert insert add"),
    "a part with steps": (
        lambda n, x: n.add(n.insert(spread(0, 3, 6), t(n, 3, 2), starts=(0, 0), steps=(1, 2)),
                           n.insert(spread(0, 3, 6), t(n, 3, 4), starts=(0, 2))),
        "insert insert add",
    ),
    "parts of two axes": (
        lambda n, x: n.add(n.insert(spread(0, 3, 6), t(n, 3, 3), starts=(0, 0)),
                           n.insert(spread(0, 3, 6), t(n, 1, 6), starts=(0, 0))),
        "insert insert add",
    ),
    "parts of both axes": (
        lambda n, x: n.add(n.insert(spread(0, 3, 6), t(n, 2, 3), starts=(0, 0)),
                           n.insert(spread(0, 3, 6), t(n, 2, 3), starts=(0, 3))),
        "insert insert add",
    ),
    "a part that is read twice": (
        lambda n, x: n.mul(n.add(a := n.insert(spread(0, 3, 6), t(n, 3, 2), starts=(0, 0)),
                                 n.insert(spread(0, 3, 6), t(n, 3, 4), starts=(0, 2))), a),
        "insert insert add mul",
    ),
    "parts and another tensor": (
        lambda n, x: n.add(parts(n, 0, 2, 4), x), "insert insert insert add add add",
    ),
    "thin products": (lambda n, x: thin(n, 3), "concat transpose concat matmul"),
    "thin products, not turned": (lambda n, x: thin(n, 3, turned=False), "concat concat matmul"),
    "thin products and more": (lambda n, x: thin(n, 3, extra=True), "concat transpose concat matmul add"),
    "thin products under a predicate": (
        lambda n, x: thin(n, 3, turned=False, predicate=when(n)), "matmul matmul add matmul add",
    ),
    "rows under a predicate": (
        lambda n, x: rows(n, 0, 1, 2, predicate=when(n)),
        "slice slice slice reshape matmul reshape matmul reshape matmul concat",
    ),
    "thin products and one that is read twice": (
        lambda n, x: n.mul(n.add(thin(n, 3, turned=False), p := n.matmul(t(n, 32, 2), t(n, 2, 32))), p),
        "matmul concat concat matmul add mul",
    ),
    "two thin products": (lambda n, x: thin(n, 2), "transpose matmul transpose matmul add"),
    "thick products": (lambda n, x: thin(n, 3, depth=16, turned=False), "matmul matmul add matmul add"),
    "nearly thick products": (lambda n, x: thin(n, 3, depth=15, turned=False), "concat concat matmul"),
    "all rows": (lambda n, x: rows(n, 0, 1, 2, 3), "reshape matmul slice slice slice slice concat"),
    "three rows of four": (lambda n, x: rows(n, 3, 1, 0), "reshape matmul slice slice slice concat"),
    "two rows of four": (lambda n, x: rows(n, 3, 1), "slice slice reshape matmul reshape matmul concat"),
    "three rows of six": (
        lambda n, x: rows(n, 3, 1, 0, count=6), "reshape matmul slice slice slice concat",
    ),
    "three rows of seven": (
        lambda n, x: rows(n, 3, 1, 0, count=7),
        "slice slice slice reshape matmul reshape matmul reshape matmul concat",
    ),
    "halves of rows": (
        lambda n, x: rows(n, 0, 1, 2, part=(2, 1, 3)),
        "slice slice slice reshape matmul reshape matmul reshape matmul concat",
    ),
    "rows of another shape": (
        lambda n, x: rows(n, 0, 1, 2, matrix=(3, 2)),
        "slice slice slice reshape matmul reshape matmul reshape matmul concat",
    ),
    "rows of two tensors": (
        lambda n, x: cat(n, *[n.matmul(to(n, cut(n, t(n, 4, 2, 3), (i, 0, 0), (i + 1, 2, 3)), 2, 3), w)
                              for w in [t(n, 3, 5)] for i in (0, 1, 2)], axis=0),
        "slice reshape matmul slice reshape matmul slice reshape matmul concat",
    ),
    "rows beside other readers": (
        lambda n, x: cat(n, n.exp(w := t(n, 3, 5)), rows(n, 0, 1, 2, by=w), n.matmul(t(n, 2, 3), w), axis=0),
        "exp reshape matmul slice slice slice concat matmul concat",
    ),
    "a row beside all": (
        lambda n, x: beside(n, a := t(n, 4, 2, 3), to(n, a, 8, 3)), "reshape matmul slice concat",
    ),
    "a row beside another matrix": (
        lambda n, x: beside(n, t(n, 4, 2, 3), t(n, 8, 3)), "slice reshape matmul matmul concat",
    ),
    "a row beside half": (
        lambda n, x: beside(n, a := t(n, 4, 2, 3), to(n, cut(n, a, (0, 0, 0), (2, 2, 3)), 4, 3)),
        "slice reshape slice reshape matmul matmul concat",
    ),
}  # fmt: skip
FAMILIES: dict[str, dict[str, tuple[Formula, str]]] = {
    "products": PRODUCTS,
    "fold_batch_norm": WEIGHTS,
    "sums": SUMS,
}
