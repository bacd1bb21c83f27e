"""Rules of tensors that are made of nothing: filled, counted, triangles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glow_dialects.core.extent import is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpLeOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, shape
from glow_frontends.graph.movement import broadcast
from glow_frontends.torch.node import Node, operand

INT64 = np.dtype(np.int64)
Rule = Callable[..., Any]


def filled(g: Emitter, value: Any, dims: Sequence[int], dtype: np.dtype) -> Value:
    """A tensor of one value."""
    return broadcast(g, operand(g, value, dtype), tuple(dims))


def full(g: Emitter, n: Node, size: Sequence[int], value: Any, *_: Any) -> Value:
    """full: a shape and a value."""
    return filled(g, value, size, n.dtype)


def like(value: Any) -> Rule:
    """zeros_like and its kin."""
    return lambda g, n, x, *_: filled(g, value, shape(x), n.dtype)


def of_size(value: Any) -> Rule:
    """zeros and its kin."""
    return lambda g, n, size, *_: filled(g, value, size, n.dtype)


def new(value: Any) -> Rule:
    """new_zeros and its kin: of the type of a tensor."""
    return lambda g, n, x, size, *_: filled(g, value, size, n.dtype)


def full_like(g: Emitter, n: Node, x: Value, value: Any, *_: Any) -> Value:
    """A value in the shape of a tensor."""
    return filled(g, value, shape(x), n.dtype)


def new_full(g: Emitter, n: Node, x: Value, size: Sequence[int], value: Any, *_: Any) -> Value:
    """A shape and a value."""
    return filled(g, value, size, n.dtype)


def scalar_tensor(g: Emitter, n: Node, value: Any, *_: Any) -> Value:
    """One number."""
    return operand(g, value, n.dtype)


def fill(g: Emitter, n: Node, x: Value, value: Any) -> Value:
    """All elements replaced by one value."""
    return filled(g, value, shape(x), n.dtype)


def arange(g: Emitter, n: Node, *operands: Any) -> Value:
    """Numbers from a start to an end, by a step."""
    start: Any
    end: Any
    step: Any
    count = {"default": 1, "start": 2, "start_step": 3}[n.op.rpartition(".")[2]]
    start, end, step = {1: (0, *operands[:1], 1), 2: (*operands[:2], 1), 3: operands[:3]}[count]
    if any(not isinstance(v, bool | int | float) for v in (start, end, step)) and is_open(
        [v for v in (start, end, step) if not isinstance(v, float)]
    ):
        if step == 0 or any(isinstance(v, float) for v in (start, end, step)):
            raise RuleError(f"arange from {start} to {end} by {step}")
        span = end - start if step > 0 else start - end
        length = -(-span // abs(step))
        numbers = g.numbers(length, n.dtype if n.dtype.kind in "iu" and n.dtype.itemsize > 2 else INT64)
        if step != 1:
            numbers = g(MulOp, numbers, g.like(step, numbers))
        if not (isinstance(start, int) and start == 0):
            numbers = g(AddOp, numbers, operand(g, start, INT64))
        return cast_to(g, numbers, n.dtype)
    whole = [int(v) for v in (start, end, step)]
    if n.dtype == np.int64:
        return np.arange(*whole, dtype=np.int64)
    length = int(np.ceil((end - start) / step))
    if n.dtype.kind in "iu":  # as many as the floats tell, and whole steps from a whole start
        start, step = whole[0], whole[2]
        return (start + np.arange(length, dtype=np.int64) * step).astype(n.dtype)
    return (start + np.arange(length, dtype=np.float64) * step).astype(n.dtype)


def triangle(upper: bool) -> Rule:
    """triu and tril: the rest is 0."""

    def rule(g: Emitter, n: Node, x: Value, diagonal: int = 0) -> Value:
        mask = _diagonal(g, CmpGeOp if upper else CmpLeOp, shape(x)[-2:], diagonal)
        return g(SelectOp, mask, x, g.like(0, x))

    return rule


def _diagonal(g: Emitter, kind: type[GraphOp], dims: Sequence[int], k: int) -> Value:
    """How the columns of matrices compare with their rows, `k` added."""
    rows = g(AddOp, g.reshape(g.numbers(dims[-2]), (dims[-2], 1)), operand(g, k, INT64))
    return g(kind, g.reshape(g.numbers(dims[-1]), (1, dims[-1])), rows)


def eye(g: Emitter, n: Node, rows: int, *more: Any) -> Value:
    """Ones on the diagonal."""
    columns = more[0] if n.op.endswith(".m") else rows
    return cast_to(g, _diagonal(g, CmpEqOp, (rows, columns), 0), n.dtype)


def random(g: Emitter, n: Node, *_: Any) -> Value:
    """What is drawn."""
    raise RuleError(f"{n.op} generates random numbers, which compiled graphs cannot; pass them as an input")


#: What draws random numbers.
RANDOM = (
    "bernoulli exponential multinomial normal poisson rand rand_like randint randint_like randn randn_like "
    "randperm uniform"
)

RULES: dict[str, Rule] = {
    "arange": arange,
    "empty": of_size(0),
    "empty_like": like(0),
    "empty_permuted": of_size(0),
    "empty_strided": of_size(0),
    "eye": eye,
    "fill": fill,
    "full": full,
    "full_like": full_like,
    "new_empty": new(0),
    "new_empty_strided": new(0),
    "new_full": new_full,
    "new_ones": new(1),
    "new_zeros": new(0),
    "ones": of_size(1),
    "ones_like": like(1),
    "scalar_tensor": scalar_tensor,
    "tril": triangle(False),
    "triu": triangle(True),
    "zeros": of_size(0),
    "zeros_like": like(0),
    **{name: random for name in RANDOM.split()},
}
