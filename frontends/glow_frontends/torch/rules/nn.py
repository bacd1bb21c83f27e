"""Rules of convolution, matrix products, softmax and attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import numpy as np

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.arithmetic import AddOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpEqOp, CmpLeOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceSumOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.softmax import LogSoftmaxOp, SoftmaxOp
from glow_dialects.ops.unary_math import ExpOp, LogOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.arithmetic import product
from glow_frontends.graph.axes import axis_of
from glow_frontends.graph.movement import broadcast
from glow_frontends.torch.node import Node
from glow_frontends.torch.tensors import numpy_dtype

Rule = Callable[..., Any]


def per_axis(numbers: Any, count: int) -> tuple[int, ...]:
    """One number for each spatial axis; a single one stands for all."""
    numbers = [numbers] if isinstance(numbers, int) else list(numbers)
    return tuple(numbers * count if len(numbers) == 1 else numbers)


def _windows(
    count: int, stride: Any, padding: Any, dilation: Any, transposed: bool, more: Any, groups: int
) -> dict[str, Any]:
    """The properties of a convolution over so many axes."""
    pads = per_axis(padding, count)
    options: dict[str, Any] = {
        "strides": per_axis(stride, count),
        "pads": (*pads, *pads),
        "dilations": per_axis(dilation, count),
        "group": groups,
    }
    return {**options, "output_pads": per_axis(more, count)} if transposed else options


def convolution(
    g: Emitter,
    n: Node,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *_: Any,
) -> Value:
    """Convolutions of all kinds."""
    count = rank(weight) - 2
    single = rank(x) == count + 1
    x = g.reshape(x, (1, *shape(x))) if single else x
    options = _windows(count, stride, padding, dilation, transposed, output_padding, groups)
    y = g(ConvTransposeOp if transposed else ConvOp, x, weight, bias, **options)
    return g.reshape(y, shape(y)[1:]) if single else y


def convolution_backward(
    g: Emitter,
    n: Node,
    dy: Value,
    x: Value,
    weight: Value,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> list[Value | None]:
    """The gradients of operand, weights and bias: those of the card."""
    options = _windows(rank(weight) - 2, stride, padding, dilation, transposed, output_padding, groups)
    kind: Any = ConvTransposeOp if transposed else ConvOp
    made = kind(g.value(x), g.value(weight), None, **options)
    given = made.gradient([g.value(dy)], g.builder)
    made.drop_all_references()
    axes = (0, *range(2, rank(dy)))
    bias = g(ReduceSumOp, dy, axes=axes, keepdims=False) if wanted[2] else None
    return [given[0] if wanted[0] else None, given[1] if wanted[1] else None, bias]


def trilinear(g: Emitter, n: Node, a: Value, b: Value, c: Value, *more: Any) -> Value:
    """Products of three tensors with axes of size 1 put in, summed over some axes."""
    *lacking, summed = more[:4]
    wide = [_with_axes(g, x, axes) for x, axes in zip((a, b, c), lacking, strict=True)]
    return g(
        ReduceSumOp, g(MulOp, g(MulOp, wide[0], wide[1]), wide[2]), axes=tuple(sorted(summed)), keepdims=False
    )


def _with_axes(g: Emitter, x: Value, axes: Sequence[int]) -> Value:
    rest = iter(shape(x))
    return g.reshape(x, [1 if i in axes else next(rest) for i in range(rank(x) + len(axes))])


def linear(g: Emitter, n: Node, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """x W^T + b."""
    if rank(weight) == 1:
        weight = g.reshape(weight, (1, *shape(weight)))
        y = g.reshape(product(g, x, turned(g, weight)), shape(x)[:-1])
        return y if bias is None else g(AddOp, y, bias)
    matrix = turned(g, weight)
    if bias is not None and rank(x) == 2 and rank(bias) == 1:
        return g(FullyConnectedOp, x, matrix, bias)
    y = product(g, x, matrix)
    return y if bias is None else g(AddOp, y, bias)


def turned(g: Emitter, weight: Value) -> Value:
    """A matrix turned; a known one keeps its name."""
    return g.renamed(g.transpose(weight, (1, 0)), weight)


def scaled(g: Emitter, x: Value, factor: Any) -> Value:
    """x times a number."""
    return x if factor == 1 else g(MulOp, x, g.like(factor, x))


def addmm(g: Emitter, n: Node, x: Value, a: Value, b: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta x + alpha a b."""
    if (
        beta == alpha == 1
        and rank(x) == 1
        and rank(b) == 2
        and shape(x)[0] == shape(b)[1]
        and n.dtype.kind not in "iub"
    ):
        return g(FullyConnectedOp, a, b, x)
    y = scaled(g, product(g, a, b), alpha)
    return y if beta == 0 else g(AddOp, y, scaled(g, x, beta))


def multiplied(g: Emitter, n: Node, a: Value, b: Value) -> Value:
    """Products of vectors, matrices and batches of them."""
    return product(g, a, b)


def softmax(kind: type[GraphOp], **properties: Any) -> Rule:
    """Softmax and its logarithm along an axis, in the result's type."""

    def rule(g: Emitter, n: Node, x: Value, dim: int, *_: Any) -> Value:
        x = cast_to(g, x, n.dtype)
        if rank(x) == 0:
            return g.reshape(g(kind, g.reshape(x, (1,)), axis=0, **properties), ())
        return g(kind, x, axis=axis_of(dim, rank(x)), **properties)

    return rule


def attention(
    g: Emitter,
    n: Node,
    queries: Value,
    keys: Value,
    values: Value,
    mask: Value | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    scale: float | None = None,
    grouped: bool = False,
) -> Value:
    """softmax(scale Q K^T + mask) V, 0 for queries that no key is left to; in groups several queries share
    keys and values."""
    return attended(g, queries, keys, values, mask, dropout, causal, scale, grouped)[0]


def attended(
    g: Emitter,
    queries: Value,
    keys: Value,
    values: Value,
    mask: Value | None,
    dropout: float,
    causal: bool,
    scale: float | None,
    grouped: bool = False,
    masked: bool = True,
) -> tuple[Value, Value, Value]:
    """The result of attention, and the scores before and after their softmax; `grouped` repeats heads of
    the keys.

    `masked`: a query that the mask leaves no key gives 0, not NaN.
    """
    if dropout:
        raise RuleError("dropout of attention draws random numbers; export the module after .eval()")
    if grouped:
        keys, values = (_repeated(g, v, shape(queries)[-3]) for v in (keys, values))
    scores = _scores(g, queries, keys, mask, causal, scale)
    # A causal mask leaves each query a key.
    weights = g(SoftmaxOp, scores, axis=rank(scores) - 1, masked=masked and mask is not None)
    return product(g, weights, values), scores, weights


def _scores(
    g: Emitter, queries: Value, keys: Value, mask: Value | None, causal: bool, scale: float | None
) -> Value:
    """scale Q K^T + mask."""
    scale = 1.0 / sqrt(int(shape(queries)[-1])) if scale is None else scale
    scores = scaled(g, product(g, queries, _turned(g, keys)), scale)
    if causal:
        mask = _causal(g, shape(queries)[-2], shape(keys)[-2])
    if mask is not None and dtype_of_value(mask) == np.dtype(bool):
        return g(SelectOp, mask, scores, g.like(-np.inf, scores))
    return scores if mask is None else g(AddOp, scores, cast_to(g, mask, dtype_of_value(scores)))


def _turned(g: Emitter, x: Value) -> Value:
    """The last two axes swapped."""
    return g.transpose(x, [*range(rank(x) - 2), rank(x) - 1, rank(x) - 2])


def _causal(g: Emitter, queries: int, keys: int) -> Value:
    """Which keys each query may see: those up to its own place, from the beginning."""
    return g(CmpLeOp, g.reshape(g.numbers(keys), (1, keys)), g.reshape(g.numbers(queries), (queries, 1)))


def _repeated(g: Emitter, x: Value, heads: int) -> Value:
    """Heads repeated, each in a row, until there are so many."""
    *lead, own, length, width = shape(x)
    if heads == own:
        return x
    x = broadcast(g, g.reshape(x, (*lead, own, 1, length, width)), (*lead, own, heads // own, length, width))
    return g.reshape(x, (*lead, heads, length, width))


def flash(
    g: Emitter,
    n: Node,
    queries: Value,
    keys: Value,
    values: Value,
    dropout: float = 0.0,
    causal: bool = False,
    mask: Value | None = None,
    scale: float | None = None,
) -> list[Value | None]:
    """The form of attention that PyTorch chooses for the CPU, with the logarithms of its sums."""
    own = n.dtype
    if n.wants(1):  # the sums, of which the gradients are made, are float32 at least
        kind = numpy_dtype(n.meta[1].dtype)
        queries, keys, values = (cast_to(g, v, kind) for v in (queries, keys, values))
    y, scores, weights = attended(g, queries, keys, values, mask, dropout, causal, scale, grouped=True)
    y = cast_to(g, y, own)
    if not n.wants(1):
        return [y, None]
    # The largest weight is exp(0) in the sum of exp(score - largest score): its logarithm takes no others.
    most, weight = (g(ReduceMaxOp, v, axes=(rank(scores) - 1,), keepdims=False) for v in (scores, weights))
    sums = g(SubOp, most, g(LogOp, weight))
    if mask is not None:  # of no keys the sum is told as 1
        sums = g(SelectOp, g(CmpEqOp, most, g.like(-np.inf, most)), g.like(0, sums), sums)
    return [y, sums]


def flash_backward(
    g: Emitter,
    n: Node,
    dy: Value,
    queries: Value,
    keys: Value,
    values: Value,
    y: Value,
    sums: Value,
    dropout: float,
    causal: bool,
    mask: Value | None = None,
    scale: float | None = None,
) -> list[Value | None]:
    """The gradients of queries, keys and values, of weights that are computed again from their sums."""
    if dropout:
        raise RuleError("dropout of attention draws random numbers")
    kind = dtype_of_value(sums)
    few = shape(keys)[-3]
    dy, queries, keys, values, y = (cast_to(g, v, kind) for v in (dy, queries, keys, values, y))
    keys, values = (_repeated(g, v, shape(queries)[-3]) for v in (keys, values))
    scores = _scores(g, queries, keys, mask, causal, scale)
    last = rank(scores) - 1
    weights = g(ExpOp, g(SubOp, scores, g.reshape(sums, (*shape(sums), 1))))
    means = g(ReduceSumOp, g(MulOp, dy, y), axes=(last,), keepdims=True)
    factor = 1.0 / sqrt(int(shape(queries)[-1])) if scale is None else scale
    dscores = g(MulOp, weights, g(SubOp, product(g, dy, _turned(g, values)), means))
    made = [
        scaled(g, product(g, dscores, keys), factor),
        _of_groups(g, scaled(g, product(g, _turned(g, dscores), queries), factor), few),
        _of_groups(g, product(g, _turned(g, weights), dy), few),
    ]
    return [cast_to(g, v, n.dtype) for v in made]


def _of_groups(g: Emitter, x: Value, few: int) -> Value:
    """The sums over heads that share one of a few."""
    *lead, heads, length, width = shape(x)
    if heads == few:
        return x
    groups = g.reshape(x, (*lead, few, heads // few, length, width))
    return g(ReduceSumOp, groups, axes=(rank(x) - 2,), keepdims=False)


RULES: dict[str, Rule] = {
    "_log_softmax": softmax(LogSoftmaxOp),
    "_scaled_dot_product_flash_attention_for_cpu": flash,
    "_scaled_dot_product_flash_attention_for_cpu_backward": flash_backward,
    "_safe_softmax": softmax(SoftmaxOp, masked=True),
    "_softmax": softmax(SoftmaxOp),
    "addmm": addmm,
    "baddbmm": addmm,
    "bmm": multiplied,
    "_trilinear": trilinear,
    "convolution": convolution,
    "convolution_backward": convolution_backward,
    "dot": multiplied,
    "linear": linear,
    "log_softmax.int": softmax(LogSoftmaxOp),
    "matmul": multiplied,
    "mm": multiplied,
    "mv": multiplied,
    "scaled_dot_product_attention": attention,
    "softmax.int": softmax(SoftmaxOp),
}
