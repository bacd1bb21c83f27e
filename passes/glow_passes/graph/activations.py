"""Formulas of exported models that are one activation function.

Exporters write gelu, swish, hard_swish and their kin as chains of small operators.
"""

from __future__ import annotations

import math
from typing import Any

from xdsl.ir import SSAValue

from glow_dialects.ops.activation import (
    ClipOp,
    GeluOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    MishOp,
    SigmoidOp,
    SoftplusOp,
    SoftsignOp,
    SwishOp,
    TanhOp,
)
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MulOp
from glow_dialects.ops.unary_math import AbsOp, ErfOp, ExpOp, Log1pOp, LogOp, NegOp, ReciprocalOp
from glow_passes.graph.driver import Pattern, Rewriter, producer
from glow_passes.graph.match import beside_scalar, factors, is_float_tensor, near


def _scaled(value: SSAValue, x: SSAValue, r: Rewriter) -> float | None:
    """The number c where `value` is c * x."""
    if value is x:
        return 1.0
    scaled = beside_scalar(value, MulOp, r)
    return scaled[1] if scaled is not None and scaled[0] is x else None


def _one_plus(value: SSAValue, kind: Any, r: Rewriter) -> Any:
    """The operation of class `kind` where `value` is kind(..) + 1."""
    terms = beside_scalar(value, AddOp, r)
    return producer(terms[0], kind) if terms is not None and terms[1] == 1.0 else None


def product(op: MulOp, r: Rewriter) -> SSAValue | None:
    """x * f(x) -> swish, gelu, hard_swish or mish, a number anywhere in the product."""
    if not is_float_tensor(op.result):
        return None
    tensors, number = factors(op.result, r)
    for x in tensors:
        if x.type != op.result.type:
            continue
        rest = list(tensors)
        rest.remove(x)
        if len(rest) == 1:
            gated = _gated(x, rest[0], number, r)
            if gated is not None:
                return gated
    return None


def _gated(x: SSAValue, gate: SSAValue, number: float, r: Rewriter) -> SSAValue | None:
    """The activation number * x * gate(x)."""
    owner: Any = gate.owner
    if isinstance(owner, SigmoidOp) and number == 1:
        alpha = _scaled(owner.input, x, r)
        return None if alpha is None else r(SwishOp(x, alpha=alpha))
    if isinstance(owner, HardSigmoidOp) and owner.input is x and number == 1:
        right = near(owner.alpha, 1 / 6) and near(owner.beta, 0.5)
        return r(HardSwishOp(x)) if right else None
    if isinstance(owner, ClipOp) and near(number, 1 / 6):
        shifted = beside_scalar(owner.input, AddOp, r)
        right = (owner.min, owner.max) == (0.0, 6.0)
        return r(HardSwishOp(x)) if right and shifted == (x, 3.0) else None
    if isinstance(owner, TanhOp) and number == 1:
        inner = producer(owner.input, SoftplusOp)
        return r(MishOp(x)) if inner is not None and inner.input is x else None
    return _gelu(x, gate, r) if near(number, 0.5) else None


def _gelu(x: SSAValue, gate: SSAValue, r: Rewriter) -> SSAValue | None:
    """x / 2 * (1 + erf(x / sqrt 2)), or (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    erf = _one_plus(gate, ErfOp, r)
    if erf is not None:
        scale = _scaled(erf.input, x, r)
        return r(GeluOp(x)) if scale is not None and near(scale, math.sqrt(0.5)) else None
    tanh = _one_plus(gate, TanhOp, r)
    if tanh is None:
        return None
    tensors, number = factors(tanh.input, r)
    if not near(number, math.sqrt(2 / math.pi)):
        return None
    if len(tensors) == 1:
        right = _is_cubic(tensors[0], x, r)
    else:  # x * (1 + 0.044715 x^2)
        rest = [t for t in tensors if t is not x]
        right = len(tensors) == 2 and len(rest) == 1 and _is_square(rest[0], x, r)
    return r(GeluOp(x, approximate="tanh")) if right else None


def _is_cubic(value: SSAValue, x: SSAValue, r: Rewriter) -> bool:
    """Whether `value` is x + 0.044715 x^3."""
    op = producer(value, AddOp)
    if op is None or x not in (op.lhs, op.rhs):
        return False
    tensors, number = factors(op.rhs if op.lhs is x else op.lhs, r)
    return near(number, 0.044715) and len(tensors) == 3 and all(t is x for t in tensors)


def _is_square(value: SSAValue, x: SSAValue, r: Rewriter) -> bool:
    """Whether `value` is 1 + 0.044715 x^2."""
    terms = beside_scalar(value, AddOp, r)
    if terms is None or terms[1] != 1.0:
        return False
    tensors, number = factors(terms[0], r)
    return near(number, 0.044715) and len(tensors) == 2 and all(t is x for t in tensors)


def clip_to_hard_sigmoid(op: MulOp, r: Rewriter) -> SSAValue | None:
    """clip(x + b, 0, c) / c -> hard_sigmoid(x), slope 1 / c, offset b / c."""
    scaled = beside_scalar(op.result, MulOp, r)
    if scaled is None or not is_float_tensor(op.result):
        return None
    clip = producer(scaled[0], ClipOp)
    if clip is None or clip.min != 0 or not near(scaled[1] * clip.max, 1):
        return None
    shifted = beside_scalar(clip.input, AddOp, r)
    if shifted is None:
        return None
    x, offset = shifted
    return r(HardSigmoidOp(x, alpha=1 / clip.max, beta=offset / clip.max))


def logistic(op: ReciprocalOp, r: Rewriter) -> SSAValue | None:
    """reciprocal(1 + exp(-x)) -> sigmoid(x)."""
    raised = _one_plus(op.input, ExpOp, r)
    return None if raised is None else _negated(raised.input, r)


def _negated(value: SSAValue, r: Rewriter) -> SSAValue | None:
    inner = producer(value, NegOp)
    if inner is not None:
        return r(SigmoidOp(inner.input))
    scaled = beside_scalar(value, MulOp, r)
    return r(SigmoidOp(scaled[0])) if scaled is not None and scaled[1] == -1 else None


def softplus(op: LogOp | Log1pOp, r: Rewriter) -> SSAValue | None:
    """log(1 + exp(x)) -> softplus(x)."""
    if isinstance(op, Log1pOp):
        raised = producer(op.input, ExpOp)
    else:
        raised = _one_plus(op.input, ExpOp, r)
    return None if raised is None else r(SoftplusOp(raised.input))


def softsign(op: DivOp, r: Rewriter) -> SSAValue | None:
    """x / (1 + abs(x)) -> softsign(x)."""
    if not is_float_tensor(op.result):
        return None
    inner = _one_plus(op.rhs, AbsOp, r)
    return r(SoftsignOp(op.lhs)) if inner is not None and inner.input is op.lhs else None


def leaky_relu(op: MaxOp, r: Rewriter) -> SSAValue | None:
    """max(x, alpha * x) -> leaky_relu(x), alpha between 0 and 1."""
    if not is_float_tensor(op.result):
        return None
    for x, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        alpha = _scaled(other, x, r)
        if alpha is not None and other is not x and 0 <= alpha <= 1:
            return r(LeakyReluOp(x, alpha=alpha))
    return None


#: Makes operators that backends may lack; only before lowering.
RECOGNIZE = (
    Pattern((MulOp,), clip_to_hard_sigmoid),
    Pattern((MulOp,), product),
    Pattern((ReciprocalOp,), logistic),
    Pattern((LogOp, Log1pOp), softplus),
    Pattern((DivOp,), softsign),
    Pattern((MaxOp,), leaky_relu),
)
