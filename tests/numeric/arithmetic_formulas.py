"""Formulas of numbers and norms: what their patterns take, and what they leave alone, one reason each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from graph_runner import Net
from movement_formulas import cast, cut, expand, row, t, to, turn, when
from xdsl.ir import SSAValue

from glow_dialects.core.types import Array, tensor

ROW: dict[str, Any] = {"axis": 1, "epsilon": 1e-3}
Formula = Callable[[Net, SSAValue], SSAValue]


def grid(*shape: int) -> Array:
    """Known numbers around zero, none of them zero."""
    return np.linspace(-1.3, 1.7, math.prod(shape), dtype=np.float32).reshape(shape)


def ints(n: Net, *shape: int) -> SSAValue:
    """An input of whole numbers."""
    return n.g.input(np.arange(math.prod(shape), dtype=np.int32).reshape(shape) - 3)


def spread(value: float, *shape: int) -> Array:
    """One number, everywhere."""
    return np.full(shape, value, np.float32)


ALGEBRA: dict[str, tuple[Formula, str]] = {
    "a constant first": (lambda n, x: n.add(row(6), x), "add"),
    "two constants": (lambda n, x: n.mul(x, n.add(row(6), grid(6))), "add mul"),
    "a difference of constants": (lambda n, x: n.mul(x, n.sub(row(6), 2.0)), "sub mul"),
    "x + 0": (lambda n, x: n.add(x, 0.0), ""),
    "0 + x": (lambda n, x: n.add(0.0, x), ""),
    "x - 0": (lambda n, x: n.sub(x, 0.0), ""),
    "0 - x": (lambda n, x: n.sub(0.0, x), "sub"),
    "x + 0 of a larger shape": (lambda n, x: n.add(x, spread(0, 2, 3, 6)), "add"),
    "x + 1": (lambda n, x: n.add(x, 1.0), "add"),
    "x * 1": (lambda n, x: n.mul(x, 1.0), ""),
    "x / 1": (lambda n, x: n.div(x, 1.0), ""),
    "x ^ 1": (lambda n, x: n.pow(x, 1.0), ""),
    "max(x, -inf)": (lambda n, x: n.max(x, -math.inf), "max"),
    "max(x, inf)": (lambda n, x: n.max(x, math.inf), "max"),
    "x * 0": (lambda n, x: n.mul(x, 0.0), "mul"),
    "i * 0": (lambda n, x: n.mul(ints(n, 6), np.int32(0)), ""),
    "i * 2": (lambda n, x: n.mul(ints(n, 6), np.int32(2)), "mul"),
    "i * j": (lambda n, x: n.mul(ints(n, 6), ints(n, 6)), "mul"),
    "x - c": (lambda n, x: n.sub(x, 2.0), "add"),
    "i - c": (lambda n, x: n.sub(ints(n, 6), np.int32(2)), "add"),
    "bytes - c": (lambda n, x: n.sub(n.g.input(np.arange(6, dtype=np.uint8)), np.uint8(2)), "sub"),
    "x - y": (lambda n, x: n.sub(x, t(n, 3, 6)), "sub"),
    "x / c": (lambda n, x: n.div(x, 4.0), "mul"),
    "x / a row": (lambda n, x: n.div(x, row(6) + 1), "mul"),
    "x / 0": (lambda n, x: n.div(x, 0.0), "div"),
    "x / what has no inverse": (lambda n, x: n.div(x, np.array([1, 2, 3, 0, 1, 2], np.float32)), "div"),
    "x / something huge": (lambda n, x: n.div(x, 2e30), "div"),
    "x / something large": (lambda n, x: n.div(x, 1e29), "mul"),
    "x / infinity": (lambda n, x: n.div(x, math.inf), "div"),
    "i / c": (lambda n, x: n.div(ints(n, 6), np.int32(4)), "div"),
    "1 / x": (lambda n, x: n.div(1.0, n.exp(x)), "exp reciprocal"),
    "2 / x": (lambda n, x: n.div(2.0, n.exp(x)), "exp div"),
    "1 / x of a larger shape": (lambda n, x: n.div(spread(1, 2, 3, 6), n.exp(x)), "exp div"),
    "1 / i": (lambda n, x: n.div(np.int32(1), n.abs(ints(n, 2))), "abs div"),
    "x + 1 + 2": (lambda n, x: n.add(n.add(x, 1.0), 2.0), "add"),
    "x * 2 * 3": (lambda n, x: n.mul(n.mul(x, 2.0), 3.0), "mul"),
    "max(max(x, 1), 2)": (lambda n, x: n.max(n.max(x, 1.0), 2.0), "max"),
    "min(min(x, 2), 1)": (lambda n, x: n.min(n.min(x, 2.0), 1.0), "min"),
    "x + 1 + 2, read twice": (lambda n, x: n.mul(n.add(a := n.add(x, 1.0), 2.0), a), "add add mul"),
    "x + y + 2": (lambda n, x: n.add(n.add(x, t(n, 3, 6)), 2.0), "add add"),
    "x + 1 + y": (lambda n, x: n.add(n.add(x, 1.0), t(n, 3, 6)), "add add"),
    "x + a row + a column": (lambda n, x: n.add(n.add(x, row(6)), row(3).reshape(3, 1)), "add"),
    "x + a long row + a long column": (
        lambda n, x: n.add(n.add(t(n, 1, 1), row(128)), row(64).reshape(64, 1)), "add add",
    ),
    "x + a row + a column of SMALL": (
        lambda n, x: n.add(n.add(t(n, 1, 1), row(64)), row(64).reshape(64, 1)), "add",
    ),
    "x + what overflows": (lambda n, x: n.add(n.add(x, 3e38), 3e38), "add add"),
    "x * what underflows": (lambda n, x: n.mul(n.mul(x, 1e-20), 1e-20), "mul mul"),
    "x * what nearly underflows": (lambda n, x: n.mul(n.mul(x, 1e-16), 1e-16), "mul mul"),
    "x * what is small": (lambda n, x: n.mul(n.mul(x, 1e-14), 1e-14), "mul"),
    "x * 0 * 2": (lambda n, x: n.mul(n.mul(x, 0.0), 2.0), "mul mul"),
    "i * 0 and 1 * 3": (
        lambda n, x: n.mul(n.mul(ints(n, 6), np.array([0, 1], np.int32).repeat(3)), np.int32(3)), "mul",
    ),
    "x ^ 2": (lambda n, x: n.pow(x, 2.0), "mul"),
    "x ^ 0": (lambda n, x: n.pow(x, 0.0), ""),
    "x ^ 3": (lambda n, x: n.pow(x, 3.0), "mul mul"),
    "x ^ 0.5": (lambda n, x: n.pow(n.abs(x), 0.5), "abs sqrt"),
    "x ^ -1": (lambda n, x: n.pow(n.exp(x), -1.0), "exp reciprocal"),
    "x ^ -0.5": (lambda n, x: n.pow(n.exp(x), -0.5), "exp sqrt reciprocal"),
    "x ^ 4": (lambda n, x: n.pow(x, 4.0), "pow"),
    "x ^ 2 of a larger shape": (lambda n, x: n.pow(x, spread(2, 2, 3, 6)), "pow"),
    "i ^ 3": (lambda n, x: n.pow(ints(n, 6), np.int32(3)), "pow"),
    "i ^ 2": (lambda n, x: n.pow(ints(n, 6), np.int32(2)), "mul"),
    "x ^ y": (lambda n, x: n.pow(n.exp(x), t(n, 3, 6)), "exp pow"),
    "neg(neg(x))": (lambda n, x: n.neg(n.neg(x)), ""),
    "neg(exp(x))": (lambda n, x: n.neg(n.exp(x)), "exp neg"),
    "x + neg(y)": (lambda n, x: n.add(x, n.neg(t(n, 3, 6))), "sub"),
    "neg(x) + y": (lambda n, x: n.add(n.neg(x), t(n, 3, 6)), "sub"),
    "x - neg(y)": (lambda n, x: n.sub(x, n.neg(t(n, 3, 6))), "add"),
    "neg(x) - y": (lambda n, x: n.sub(n.neg(x), t(n, 3, 6)), "neg sub"),
}  # fmt: skip


def both(n: Net, *shape: int) -> SSAValue:
    """An input of truth values."""
    return n.g.input(np.arange(math.prod(shape)).reshape(shape) % 2 == 0)


TRUE, FALSE = np.bool_(True), np.bool_(False)
SELECTS: dict[str, tuple[Formula, str]] = {
    "true": (lambda n, x: n.select(TRUE, x, t(n, 3, 6)), ""),
    "false": (lambda n, x: n.select(FALSE, x, t(n, 3, 6)), ""),
    "the same": (lambda n, x: n.select(both(n, 3, 6), x, x), ""),
    "not known": (lambda n, x: n.select(both(n, 3, 6), x, t(n, 3, 6)), "select"),
    "true for a larger result": (lambda n, x: n.select(TRUE, x, t(n, 2, 3, 6)), "select"),
    "a known row": (lambda n, x: n.select(np.arange(6) > 2, x, t(n, 3, 6)), "select"),
    "and true": (lambda n, x: n("and")(both(n, 3), TRUE), ""),
    "and false": (lambda n, x: n("and")(both(n, 3), FALSE), ""),
    "or true": (lambda n, x: n("or")(both(n, 3), TRUE), ""),
    "or false": (lambda n, x: n("or")(both(n, 3), FALSE), ""),
    "and not known": (lambda n, x: n("and")(both(n, 3), both(n, 3)), "and"),
    "and true of a larger shape": (lambda n, x: n("and")(both(n, 3), np.ones((2, 3), bool)), "and"),
    "or true of a larger shape": (lambda n, x: n("or")(both(n, 3), np.ones((2, 3), bool)), ""),
}  # fmt: skip


def splat(n: Net, *shape: int) -> SSAValue:
    """Twos that no constant holds."""
    return n.splat(value=2.0, results=tensor(shape, np.float32))


SPLATS: dict[str, tuple[Formula, str]] = {
    "moved": (lambda n, x: n.add(x, turn(n, n.of(spread(2, 6, 3)))), "add"),
    "joined": (lambda n, x: n.add(x, n.concat([spread(2, 3, 2), spread(2, 3, 4)], axis=1)), "add"),
    "joined with others": (
        lambda n, x: n.add(x, n.concat([spread(2, 3, 2), spread(3, 3, 4)], axis=1)), "concat add",
    ),
    "joined with what is not known": (
        lambda n, x: n.add(x, n.concat([spread(2, 3, 2), t(n, 3, 4)], axis=1)), "concat add",
    ),
    "moved numbers": (lambda n, x: n.add(x, turn(n, n.of(grid(6, 3)))), "transpose add"),
    "moved to nothing": (
        lambda n, x: n.add(t(n, 0, 3), cut(n, n.of(spread(2, 3, 3)), (0, 0), (0, 3))), "slice add",
    ),
    "computed": (lambda n, x: n.add(x, n.exp(spread(2, 3, 6))), "add"),
    "computed of two": (lambda n, x: n.add(x, n.mul(spread(2, 3, 6), spread(3, 6))), "add"),
    "computed of numbers": (lambda n, x: n.add(x, n.exp(grid(3, 6))), "exp add"),
    "moved ones": (lambda n, x: n.add(x, turn(n, n.of(spread(2, 1, 3)))), "add"),
    "moved, nothing at all": (lambda n, x: n.add(t(n, 0, 3), turn(n, splat(n, 3, 0))), "transpose add"),
    "the mean of nothing": (lambda n, x: n.add(t(n, 3, 6), n.mean(splat(n, 3, 0), 1)), "reduce_mean add"),
    "computed of nothing": (lambda n, x: n.add(t(n, 0, 3), n.exp(splat(n, 0, 3))), "exp add"),
    "computed of ones": (lambda n, x: n.add(t(n, 1, 3), n.exp(splat(n, 1, 3))), "add"),
    "computed under a predicate": (
        lambda n, x: n.add(x, n.exp(splat(n, 3, 6), predicate=n.of(np.bool_(True)))), "exp add",
    ),
    "shrunk under a predicate": (
        lambda n, x: n.add(x, splat(n, 3, 6), predicate=n.of(np.bool_(True))), "add",
    ),
    "computed truth": (lambda n, x: n.select(n.cmp_lt(spread(2, 3, 6), 3.0), x, t(n, 3, 6)), "select"),
    "computed of truth": (lambda n, x: n.select(n("not")(np.ones((3, 6), bool)), x, t(n, 3, 6)), "select"),
    "the mean": (lambda n, x: n.add(x, n.mean(n.of(spread(2, 3, 6)), 1)), "add"),
    "the sum": (lambda n, x: n.add(x, n.sum(n.of(spread(2, 3, 6)), 1)), "reduce_sum add"),
}  # fmt: skip


def soft(n: Net, x: SSAValue, axis: int, top: int | None = None) -> SSAValue:
    """exp(x) / sum(exp(x)), a maximum subtracted before."""
    e = n.exp(x if top is None else n.sub(x, n.top(x, top)))
    return n.div(e, n.sum(e, axis))


SOFTMAXES: dict[str, tuple[Formula, str]] = {
    "plain": (lambda n, x: soft(n, x, 1), "softmax"),
    "shifted": (lambda n, x: soft(n, x, 1, 1), "softmax"),
    "shifted by another maximum": (lambda n, x: soft(n, x, 1, 0), "reduce_max sub softmax"),
    "shifted by another tensor": (
        lambda n, x: n.div(e := n.exp(n.sub(x, n.top(t(n, 3, 6), 1))), n.sum(e, 1)), "reduce_max sub softmax",
    ),
    "over two axes": (lambda n, x: n.div(e := n.exp(x), n.sum(e, 0, 1)), "exp reduce_sum div"),
    "of another sum": (lambda n, x: n.div(n.exp(x), n.sum(n.exp(t(n, 3, 6)), 1)), "exp exp reduce_sum div"),
    "without exp": (lambda n, x: n.div(x, n.sum(x, 1)), "reduce_sum div"),
    "shifted by no maximum": (
        lambda n, x: n.div(e := n.exp(n.sub(x, n.sum(x, 1))), n.sum(e, 1)), "reduce_sum sub softmax",
    ),
    "of half precision": (lambda n, x: soft(n, cast(n, x, "float16"), 1), "cast exp reduce_sum div"),
    "reshaped": (lambda n, x: n.div(e := n.exp(x), to(n, n.reduce_sum(e, axes=(1,)), 3, 1)), "softmax"),
    "reshaped to another place": (
        lambda n, x: n.div(e := n.exp(t(n, 3, 3)), to(n, n.reduce_sum(e, axes=(1,)), 1, 3)),
        "exp reduce_sum reshape div",
    ),
    "its logarithm": (lambda n, x: n.log(n.softmax(x, axis=0)), "log_softmax"),
    "its logarithm, read twice": (lambda n, x: n.add(n.log(s := n.softmax(x, axis=0)), s), "softmax log add"),
}  # fmt: skip
REDUCTIONS: dict[str, tuple[Formula, str]] = {
    "of ones": (lambda n, x: n.sum(t(n, 3, 1), 1), ""),
    "of ones, dropped": (lambda n, x: n.reduce_sum(t(n, 3, 1), axes=(1,)), "reshape"),
    "of ones and more": (lambda n, x: n.sum(t(n, 3, 1), 0, 1), "reduce_sum"),
    "of two": (lambda n, x: n.sum(t(n, 3, 2), 1), "reduce_sum"),
    "of a reduction": (lambda n, x: n.sum(n.sum(x, 0), 1), "reduce_sum"),
    "of a reduction, dropped": (
        lambda n, x: n.reduce_sum(n.reduce_sum(t(n, 2, 3, 4), axes=(0,)), axes=(1,)), "reduce_sum reshape",
    ),
    "of a kept reduction, dropped": (
        lambda n, x: n.reduce_sum(n.sum(t(n, 2, 3, 4), 0), axes=(1,)), "reduce_sum reshape",
    ),
    "of another kind": (lambda n, x: n.sum(n.top(x, 0), 1), "reduce_max reduce_sum"),
    "of a reduction, read twice": (
        lambda n, x: n.add(n.sum(s := n.sum(x, 0), 1), s), "reduce_sum reduce_sum add",
    ),
    "a sum over its count": (lambda n, x: n.div(n.sum(x, 1), 6.0), "reduce_mean"),
    "a sum times the inverse of its count": (
        lambda n, x: n.mul(n.reduce_sum(x, axes=(0,)), 1 / 3), "reduce_mean",
    ),
    "a sum over another count": (lambda n, x: n.div(n.sum(x, 1), 5.0), "reduce_sum div"),
    "a sum times its count": (lambda n, x: n.mul(n.sum(x, 1), 6.0), "reduce_sum mul"),
    "a count over a sum": (lambda n, x: n.div(6.0, n.sum(x, 1)), "reduce_sum div"),
    "a sum over its count, read twice": (
        lambda n, x: n.add(n.div(s := n.sum(x, 1), 6.0), s), "reduce_sum div add",
    ),
    "a sum over its count under a predicate": (
        lambda n, x: n.div(n.sum(x, 1), 6.0, predicate=when(n)), "reduce_sum div",
    ),
    "a sum of integers over its count": (
        lambda n, x: n.div(n.sum(ints(n, 3, 6), 1), np.int32(6)), "reduce_sum div",
    ),
    "a mean of an image": (lambda n, x: n.mean(t(n, 1, 2, 3, 4), 2, 3), "avg_pool"),
    "a maximum of an image": (lambda n, x: n.top(t(n, 1, 2, 3, 4), 3, 2), "max_pool"),
    "a mean of an image under a predicate": (
        lambda n, x: n.reduce_mean(t(n, 1, 2, 3, 4), axes=(2, 3), keepdims=True, predicate=when(n)),
        "reduce_mean",
    ),
    "a mean of rows": (lambda n, x: n.mean(t(n, 1, 2, 3, 4), 1, 2), "reduce_mean"),
    "a mean of a volume": (lambda n, x: n.mean(t(n, 1, 2, 3, 4, 2), 2, 3), "reduce_mean"),
    "a mean of a matrix": (lambda n, x: n.mean(t(n, 2, 3, 4), 1, 2), "reduce_mean"),
    "a maximum of integers": (lambda n, x: n.top(ints(n, 1, 2, 3, 4), 2, 3), "reduce_max"),
}  # fmt: skip


def standard(
    n: Net, x: SSAValue, axes: Sequence[int], means: Sequence[int] | None = None, keep: bool = True
) -> Any:
    """(x - mean(x), mean of its square) over axes."""
    d = n.sub(x, n.mean(x, *(axes if means is None else means)))
    return d, n.reduce_mean(n.mul(d, d), axes=axes, keepdims=keep)


def norm(n: Net, x: SSAValue, *axes: int, means: Sequence[int] | None = None) -> SSAValue:
    """d / sqrt(mean(d * d) + epsilon)."""
    d, square = standard(n, x, axes, means)
    return n.div(d, n.sqrt(n.add(square, 1e-3)))


def put_back(n: Net, x: SSAValue, *ones: int) -> SSAValue:
    """A normalisation of rows whose statistics lose their axis and get others by reshapes."""
    d = n.sub(x, to(n, n.reduce_mean(x, axes=(1,)), *ones))
    return n.div(d, to(n, n.sqrt(n.add(n.reduce_mean(n.mul(d, d), axes=(1,)), 1e-3)), *ones))


def plain(n: Net, x: SSAValue) -> SSAValue:
    """A normalisation of rows without parameters."""
    return n.layer_norm(x, None, None, **ROW)


NORMALIZATIONS: dict[str, tuple[Formula, str]] = {
    "over the last axis": (lambda n, x: norm(n, x, 1), "layer_norm"),
    "over two axes": (lambda n, x: norm(n, t(n, 2, 3, 4), 1, 2), "layer_norm"),
    "over an image": (lambda n, x: norm(n, t(n, 2, 3, 4, 5), 2, 3), "instance_norm"),
    "over the last of four axes": (lambda n, x: norm(n, t(n, 2, 3, 4, 5), 3), "layer_norm"),
    "over the last of three axes": (lambda n, x: norm(n, t(n, 2, 3, 4), 2), "layer_norm"),
    "over the first axis": (lambda n, x: norm(n, x, 0), "reduce_mean sub mul reduce_mean add sqrt div"),
    "over a middle axis": (
        lambda n, x: norm(n, t(n, 2, 3, 4), 1), "reduce_mean sub mul reduce_mean add sqrt div",
    ),
    "with means over another axis": (lambda n, x: norm(n, x, 1, means=(0,)), "reduce_mean sub rms_norm"),
    "with means of another tensor": (
        lambda n, x: n.div(d := n.sub(x, n.mean(t(n, 3, 6), 1)), n.sqrt(n.add(n.mean(n.mul(d, d), 1), 1e-3))),
        "reduce_mean sub rms_norm",
    ),
    "of a difference": (
        lambda n, x: n.div(d := n.sub(x, t(n, 3, 6)), n.sqrt(n.add(n.mean(n.mul(d, d), 1), 1e-3))),
        "sub rms_norm",
    ),
    "with means that lose their axis": (
        lambda n, x: n.div(
            d := n.sub(y := t(n, 4, 4), n.reduce_mean(y, axes=(1,))),
            n.sqrt(n.add(n.mean(n.mul(d, d), 1), 1e-3)),
        ),
        "reduce_mean sub rms_norm",
    ),
    "with axes dropped and put back": (lambda n, x: put_back(n, x, 3, 1), "layer_norm"),
    "with axes dropped and others put back": (
        lambda n, x: put_back(n, t(n, 6, 6), 1, 6),
        "reduce_mean reshape sub mul reduce_mean add sqrt reshape div",
    ),
    "with means put back and a deviation elsewhere": (
        lambda n, x: n.div(
            d := n.sub(y := t(n, 6, 6), n.mean(y, 1)),
            to(n, n.sqrt(n.add(n.reduce_mean(n.mul(d, d), axes=(1,)), 1e-3)), 1, 6),
        ),
        "reduce_mean sub mul reduce_mean add sqrt reshape div",
    ),
    "over no axis": (
        lambda n, x: n.div(x, n.sqrt(n.add(n.mean(n.mul(x, x)), 1e-3))), "mul reduce_mean add sqrt div",
    ),
    "without means": (lambda n, x: n.div(x, n.sqrt(n.add(n.mean(n.mul(x, x), 1), 1e-3))), "rms_norm"),
    "without means over the first axis": (
        lambda n, x: n.div(x, n.sqrt(n.add(n.mean(n.mul(x, x), 0), 1e-3))), "mul reduce_mean add sqrt div",
    ),
    "times the inverse": (
        lambda n, x: n.mul(x, n.rsqrt(n.add(n.mean(n.mul(x, x), 1), 1e-3))), "rms_norm",
    ),
    "the inverse first": (
        lambda n, x: n.mul(n.reciprocal(n.sqrt(n.add(n.mean(n.mul(x, x), 1), 1e-3))), x), "rms_norm",
    ),
    "times the deviation": (
        lambda n, x: n.mul(x, n.sqrt(n.add(n.mean(n.mul(x, x), 1), 1e-3))), "mul reduce_mean add sqrt mul",
    ),
    "over the inverse": (
        lambda n, x: n.div(x, n.rsqrt(n.add(n.mean(n.mul(x, x), 1), 1e-3))), "mul reduce_mean add rsqrt div",
    ),
    "times the inverse of something else": (
        lambda n, x: n.mul(x, n.reciprocal(n.add(n.mean(n.mul(x, x), 1), 1e-3))),
        "mul reduce_mean add reciprocal mul",
    ),
    "of a sum of squares": (
        lambda n, x: n.div(x, n.sqrt(n.add(n.sum(n.mul(x, x), 1), 1e-3))), "mul reduce_sum add sqrt div",
    ),
    "of no square": (
        lambda n, x: n.div(x, n.sqrt(n.add(n.mean(n.exp(x), 1), 1e-3))), "exp reduce_mean add sqrt div",
    ),
    "scaled, with a bias alone": (
        lambda n, x: n.mul(n.layer_norm(x, None, grid(6), **ROW), row(6)), "layer_norm mul",
    ),
    "of another square": (
        lambda n, x: n.div(x, n.sqrt(n.add(n.mean(n.mul(y := t(n, 3, 6), y), 1), 1e-3))),
        "mul reduce_mean add sqrt div",
    ),
    "of a product": (
        lambda n, x: n.div(x, n.sqrt(n.add(n.mean(n.mul(x, n.abs(x)), 1), 1e-3))),
        "abs mul reduce_mean add sqrt div",
    ),
    "of a square that loses its axis": (
        lambda n, x: n.div(x := t(n, 4, 4), n.sqrt(n.add(n.reduce_mean(n.mul(x, x), axes=(1,)), 1e-3))),
        "mul reduce_mean add sqrt div",
    ),
    "scaled": (lambda n, x: n.mul(plain(n, x), row(6)), "layer_norm"),
    "scaled, the scale first": (
        lambda n, x: n.mul(row(6).reshape(1, 6), n.rms_norm(x, None, **ROW)), "reshape rms_norm",
    ),
    "scaled by what is computed": (
        lambda n, x: n.mul(plain(n, x), t(n, 6)), "layer_norm",
    ),
    "scaled by a number": (lambda n, x: n.mul(plain(n, x), t(n, 1, 1)), "layer_norm mul"),
    "scaled by a row of more axes": (lambda n, x: n.mul(plain(n, x), t(n, 1, 1, 6)), "layer_norm mul"),
    "scaled by a column": (
        lambda n, x: n.mul(plain(n, x), t(n, 3, 1)), "layer_norm mul",
    ),
    "scaled by a matrix": (
        lambda n, x: n.mul(plain(n, x), t(n, 3, 6)), "layer_norm mul",
    ),
    "scaled to a larger shape": (
        lambda n, x: n.mul(plain(n, x), grid(2, 3, 6)), "layer_norm mul",
    ),
    "scaled, read twice": (
        lambda n, x: n.add(n.mul(y := plain(n, x), row(6)), y),
        "layer_norm mul add",
    ),
    "biased under a predicate": (
        lambda n, x: n.add(n.layer_norm(x, row(6), None, **ROW, predicate=when(n)), t(n, 6)),
        "layer_norm add",
    ),
    "scaled twice": (
        lambda n, x: n.mul(n.layer_norm(x, row(6), grid(6), **ROW), grid(6)), "layer_norm",
    ),
    "scaled twice, rms": (
        lambda n, x: n.mul(n.rms_norm(x, row(6), **ROW), 2.0), "rms_norm",
    ),
    "scaled twice, not known": (
        lambda n, x: n.mul(n.layer_norm(x, t(n, 6), grid(6), **ROW), grid(6)), "layer_norm mul",
    ),
    "scaled twice by a matrix": (
        lambda n, x: n.mul(n.layer_norm(x, row(6), grid(6), **ROW), grid(3, 6)), "layer_norm mul",
    ),
    "scaled twice by a row of ones before": (
        lambda n, x: n.mul(n.layer_norm(x, row(6), grid(6), **ROW), grid(1, 6)), "layer_norm",
    ),
    "biased": (
        lambda n, x: n.add(n.layer_norm(x, row(6), None, **ROW), t(n, 6)), "layer_norm",
    ),
    "biased twice": (
        lambda n, x: n.add(n.layer_norm(x, row(6), grid(6), **ROW), row(6)), "layer_norm",
    ),
    "biased twice, not known": (
        lambda n, x: n.add(n.layer_norm(x, row(6), grid(6), **ROW), t(n, 6)), "layer_norm add",
    ),
    "biased by a column": (
        lambda n, x: n.add(n.layer_norm(x, row(6), None, **ROW), t(n, 3, 1)), "layer_norm add",
    ),
    "rms, biased": (lambda n, x: n.add(n.rms_norm(x, row(6), **ROW), row(6)), "rms_norm add"),
}  # fmt: skip
HALF = 1 << 17  # numbers, of which twice as many are the most that is folded in any case
FOLDED: dict[str, tuple[Formula, str]] = {
    "known": (lambda n, x: n.mul(x, n.exp(row(6))), "mul"),
    "of two": (lambda n, x: n.mul(x, n.add(row(6), grid(6))), "mul"),
    "half known": (lambda n, x: n.add(x, row(6)), "add"),
    "half known, first": (lambda n, x: n.add(row(6), x), "add"),
    "larger than its operand": (lambda n, x: expand(n, n.of(row(HALF)), 2, HALF), ""),
    "twice as large as a large operand": (lambda n, x: expand(n, n.of(row(2 * HALF)), 2, 2 * HALF), ""),
    "three times as large": (lambda n, x: expand(n, n.of(row(HALF)), 3, HALF), "expand"),
    "as large as its operands": (lambda n, x: n.add(row(4 * HALF), n.of(row(4 * HALF))), ""),
    "of one number": (lambda n, x: expand(n, n.of(spread(2, HALF)), 3, HALF), "expand"),
}  # fmt: skip
FAMILIES: dict[str, dict[str, tuple[Formula, str]]] = {
    "algebra": ALGEBRA,
    "fold_constants": FOLDED,
    "selects": SELECTS,
    "splats": SPLATS,
    "softmaxes": SOFTMAXES,
    "reductions": REDUCTIONS,
    "normalizations": NORMALIZATIONS,
}
