"""`glow_cpu.attention`: softmax between two products of matrices, head by head."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, opt_operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.extent import are_equal
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, ints_prop, opt_float_prop
from glow_dialects.core.types import Array, Tensor, broadcast_shapes, element_of, present, shape_of, tensor
from glow_dialects.ops.softmax import softmax
from glow_dialects.ops.transpose import inverse

PLAIN = (0, 1, 2, 3)


@graph_op
class AttentionOp(PureOp):
    """softmax(scale q k' + mask) v over [batch, heads, rows, columns].

    `q_order`, `k_order` and `v_order` say how operands are transposed to that form, `order` how the
    result is transposed from it. `mask` broadcasts to [batch, heads, rows of q, rows of k]. Of keys and
    values that lie in memory for more only the first `places` count; heads of q that follow each other
    share those of k and v where they are more. `masked`: rows of scores that are all -inf give 0.
    """

    name = "glow_cpu.attention"
    q_order = ints_prop(PLAIN)
    k_order = ints_prop(PLAIN)
    v_order = ints_prop(PLAIN)
    order = ints_prop(PLAIN)
    places = ints_prop(())
    scale = opt_float_prop()
    masked = bool_prop(False)
    q = operand_def(Tensor)
    k = operand_def(Tensor)
    v = operand_def(Tensor)
    mask = opt_operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        for name in ("q", "k", "v"):
            if len(shape_of(self.operand_group(name)[0])) != 4:
                raise VerifyException(f"{self.name}: {name} must have four axes")
        for name in ("q_order", "k_order", "v_order", "order"):
            if sorted(getattr(self, name)) != [0, 1, 2, 3]:
                raise VerifyException(
                    f"{self.name}: {name} {list(getattr(self, name))} is not a permutation"
                    "; name each of the four axes once"
                )
        q, k, v = (
            ordered(shape_of(self.operand_group(n)[0]), getattr(self, f"{n}_order")) for n in ("q", "k", "v")
        )
        shared = are_equal(k[1], 0) or not are_equal(q[1] % k[1], 0)
        if q[0] != k[0] or (q[1] != k[1] and shared) or k[:3] != v[:3] or q[3] != k[3]:
            raise VerifyException(
                f"{self.name}: heads q {q}, k {k} and v {v} do not fit; batches and features must be "
                "equal, and the heads of q a multiple of those of k"
            )
        keys = self.places[0] if self.places else k[2]
        if len(self.places) > 1 or not 0 <= keys <= k[2]:
            raise VerifyException(
                f"{self.name}: positions {list(self.places)} of {k[2]} keys; "
                "give none, or one number up to that"
            )
        for value in present(self.mask):
            scores = (*q[:3], keys)
            if broadcast_shapes(shape_of(value), scores) != scores:
                raise VerifyException(
                    f"{self.name}: the mask {value.type} does not broadcast to {scores}"
                    "; sizes must be equal, or 1"
                )
        return [tensor(ordered((*q[:3], v[3]), self.order), element_of(self.q))]

    def reference(self, result: Array, q: Array, k: Array, v: Array, mask: Array | None) -> None:
        q, k, v = (np.transpose(a, getattr(self, f"{n}_order")) for n, a in (("q", q), ("k", k), ("v", v)))
        k, v = (a[:, :, : self.places[0]] if self.places else a for a in (k, v))
        if k.shape[1] != q.shape[1]:
            k, v = (np.repeat(a, q.shape[1] // a.shape[1], 1) for a in (k, v))
        scores = np.matmul(q, np.swapaxes(k, 2, 3))
        if self.scale is not None:
            scores = scores * scores.dtype.type(self.scale)
        if mask is not None:
            scores = scores + mask
        y = np.matmul(softmax(scores, 3, self.masked), v)
        result[...] = np.transpose(y, self.order)


def ordered(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """The shape of a transposed tensor."""
    return tuple(shape[axis] for axis in order)


def strides_of(shape: Sequence[int], order: Sequence[int]) -> tuple[int, int, int, int]:
    """Elements between neighbours along the axes that `order` makes of a contiguous tensor of rank 4."""
    inner = shape[2] * shape[3]
    plain = (shape[1] * inner, inner, shape[3], 1)
    return four(ordered(plain, order))


def four(values: Sequence[int]) -> tuple[int, int, int, int]:
    """Four numbers of one type."""
    a, b, c, d = values
    return a, b, c, d


def result_order(order: Sequence[int]) -> tuple[int, ...]:
    """The order that takes a result back to [batch, heads, rows, columns]."""
    return tuple(inverse(order))
