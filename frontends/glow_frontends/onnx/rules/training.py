"""Rules of ai.onnx.preview.training: optimisers, and gradients of the graph itself."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.ops.arithmetic import AddOp, DivOp, MulOp, PowOp, SubOp
from glow_dialects.ops.compare import CmpGtOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import SqrtOp
from glow_dialects.reverse import cotangents, expand, on_path
from glow_frontends.graph import Emitter, NeedsValue, RuleError, Value, cast_to, dtype_of_value, shape
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions


def _groups(n: Node, kinds: int) -> list[list[Value]]:
    """The tensors after rate and step: X, G and state of each optimised tensor."""
    rest = n.tensors(2)
    count = len(rest) // kinds
    return [[rest[k * count + i] for k in range(kinds)] for i in range(count)]


def _columns(rows: list[list[Value]]) -> list[Value]:
    return [row[i] for i in range(len(rows[0])) for row in rows]


def _regularized(g: Emitter, n: Node, x: Value, grad: Value) -> Value:
    """norm_coefficient * X + G."""
    return g(AddOp, g(MulOp, x, g.like(n.number("norm_coefficient", 0.0), x)), grad)


def _typed(g: Emitter, value: Value, like: Value) -> Value:
    return cast_to(g, value, dtype_of_value(like))


def adagrad(g: Emitter, n: Node) -> list[Value]:
    """Adagrad."""
    rows: list[list[Value]] = []
    for x, grad, squares in _groups(n, 3):
        step = _typed(g, n[1], x)
        decay = g(AddOp, g(MulOp, step, g.like(n.number("decay_factor", 0.0), x)), g.like(1, x))
        rate = g(DivOp, _typed(g, n[0], x), decay)
        grad = _regularized(g, n, x, grad)
        squares = g(AddOp, squares, g(MulOp, grad, grad))
        root = g(AddOp, g(SqrtOp, squares), g.like(n.number("epsilon", 0.0), x))
        rows.append([g(SubOp, x, g(DivOp, g(MulOp, rate, grad), root)), squares])
    return _columns(rows)


def adam(g: Emitter, n: Node) -> list[Value]:
    """Adam."""
    alpha, beta = n.number("alpha", 0.9), n.number("beta", 0.999)
    rows: list[list[Value]] = []
    for x, grad, mean, squares in _groups(n, 4):
        grad = _regularized(g, n, x, grad)
        mean = _blend(g, mean, grad, alpha)
        squares = _blend(g, squares, g(MulOp, grad, grad), beta)
        root = g(AddOp, g(SqrtOp, squares), g.like(n.number("epsilon", 0.0), x))
        rate, step = _typed(g, n[0], x), _typed(g, n[1], x)
        one = g.like(1, x)
        up = g(SqrtOp, g(SubOp, one, g(PowOp, g.like(beta, x), step)))
        down = g(SubOp, one, g(PowOp, g.like(alpha, x), step))
        adjusted = g(DivOp, g(MulOp, rate, up), down)
        rate = g(SelectOp, g(CmpGtOp, step, g.like(0, x)), adjusted, rate)
        x = g(SubOp, x, g(DivOp, g(MulOp, rate, mean), root))
        x = g(MulOp, x, g.like(1 - n.number("norm_coefficient_post", 0.0), x))
        rows.append([x, mean, squares])
    return _columns(rows)


def _blend(g: Emitter, old: Value, new: Value, keep: float) -> Value:
    """keep * old + (1 - keep) * new."""
    return g(AddOp, g(MulOp, old, g.like(keep, old)), g(MulOp, new, g.like(1 - keep, old)))


def momentum(g: Emitter, n: Node) -> list[Value]:
    """Momentum, standard or Nesterov's."""
    alpha = n.number("alpha")
    rows: list[list[Value]] = []
    for x, grad, velocity in _groups(n, 3):
        grad = _regularized(g, n, x, grad)
        step = _typed(g, n[1], x)
        first = g(CmpGtOp, step, g.like(0, x))
        weight = g(SelectOp, first, g.like(n.number("beta"), x), g.like(1, x))
        velocity = g(AddOp, g(MulOp, velocity, g.like(alpha, x)), g(MulOp, grad, weight))
        way = velocity
        if n.text("mode") == "nesterov":
            way = g(AddOp, grad, g(MulOp, velocity, g.like(alpha, x)))
        rows.append([g(SubOp, x, g(MulOp, _typed(g, n[0], x), way)), velocity])
    return _columns(rows)


def gradient(g: Emitter, n: Node) -> list[Value]:
    """Gradient: dy/dx of each of `xs` by the cards' gradients, zeros where nothing reaches it."""
    xs, y = n.texts("xs"), n.text("y")
    target = n.scope.read(y)
    sources = [n.scope.read(x) for x in xs]
    if not isinstance(target, SSAValue) or not all(isinstance(s, SSAValue) for s in sources):
        raise NeedsValue(None, "the gradient of known values")
    for index in range(len(xs)):
        if n[index] is not sources[index]:
            raise RuleError("Gradient at values other than those of the graph")
    values = [s for s in sources if isinstance(s, SSAValue)]
    block = g.builder.point.block
    # Operators that compute one of `xs` are left out: gradients take these as independent.
    before = [op for op in block.ops if not any(r in values for r in op.results)]
    path = on_path(before, [target], values)
    # The nodes' values have their names still, so that a copy of them is taken apart.
    copied: dict[SSAValue, SSAValue] = {}
    copies = [g.builder.insert(op.clone(copied)) for op in before if op in path]
    old = set(block.ops).difference(copies)
    replaced = expand(copies, copies)
    top = copied.get(target, target)
    top = replaced.get(top, top)
    ops = [op for op in block.ops if op not in old]
    grads = cotangents(ops, {top: g.builder.splat(1.0, top)}, values, g.builder)
    return [grads[s] or np.zeros(shape(s), dtype_of_value(s)) for s in values]


RULES: dict[str, Versions] = {
    "Adagrad": adagrad,
    "Adam": adam,
    "Gradient": gradient,
    "Momentum": momentum,
}
