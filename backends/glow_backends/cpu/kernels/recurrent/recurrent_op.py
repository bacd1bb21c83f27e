"""`glow_cpu.recurrent`: the loop over time of an LSTM, GRU or RNN whose input is already projected.

`%y, %h, %c = glow_cpu.recurrent %p, %r {kind = "lstm"}`: %p is [T, N, D G H], the products of the input
with the weights, biases added; results as those of glow.lstm, glow.gru and glow.rnn (layout 0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, opt_operand_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, check_choice, float_prop, floats_prop, str_prop
from glow_dialects.core.types import Array, Tensor, dtype_of, element_of, present, shape_of, tensor
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.gru import GruOp
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.lstm import LstmOp
from glow_dialects.ops.module import ConstantOp, GetOp, constant_value, lookup
from glow_dialects.ops.recurrent import ArrayMath, RecurrentOp, run
from glow_dialects.ops.rnn import RnnOp
from glow_dialects.ops.splat import SplatOp

CARDS: Mapping[str, type[RecurrentOp]] = {"lstm": LstmOp, "gru": GruOp, "rnn": RnnOp}
"""The operator of each kind."""


@graph_op
class CpuRecurrentOp(PureOp):
    """Every state [T, D, N, H], the last ones [D, N, H], for LSTM the last cells.

    `bias` [D, G H] belongs to the recurrence; the gates' order is that of the cards. `scales` [D, G H] as
    glow.lstm has them.
    """

    name = "glow_cpu.recurrent"
    kind = str_prop()
    direction = str_prop("forward")
    activations = str_prop()
    activation_alpha = floats_prop(())
    activation_beta = floats_prop(())
    clip = float_prop(0.0)
    input_forget = bool_prop(False)
    linear_before_reset = bool_prop(False)
    projected = operand_def(Tensor)
    recurrence = operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    lengths = opt_operand_def(Tensor)
    initial_state = opt_operand_def(Tensor)
    initial_cell = opt_operand_def(Tensor)
    peepholes = opt_operand_def(Tensor)
    scales = opt_operand_def(Tensor)
    result = var_result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_choice(self.name, "kind", self.kind, tuple(CARDS))
        card = CARDS[self.kind]
        steps, samples, columns = shape_of(self.projected)
        directions, rows, hidden = shape_of(self.recurrence)
        if columns != directions * rows or rows != card.GATES * hidden:
            raise VerifyException(
                f"{self.name}: {self.projected.type} does not match {self.recurrence.type}; both need the "
                "same columns"
            )
        kind = element_of(self.projected)
        last = tensor((directions, samples, hidden), kind)
        return [tensor((steps, directions, samples, hidden), kind), *[last] * card.STATES]

    def reference(
        self,
        result: Sequence[Array],
        projected: Array,
        recurrence: Array,
        bias: Array | None,
        lengths: Array | None,
        initial_state: Array | None,
        initial_cell: Array | None,
        peepholes: Array | None,
        scales: Array | None,
    ) -> None:
        card, x = CARDS[self.kind], widen(projected)
        directions, rows, _ = recurrence.shape
        # The projection is done: the weights that are left pick the direction's columns.
        pick = np.eye(directions * rows, dtype=x.dtype).reshape(directions, rows, directions * rows)
        operands: dict[str, Any] = {
            "input": x,
            "weights": pick,
            "recurrence": widen(recurrence),
            "lengths": lengths,
            "initial_state": initial_state,
            "initial_cell": initial_cell,
            "peepholes": peepholes,
            "scales": scales,
        }
        if bias is not None:
            operands["bias"] = np.concatenate([np.zeros_like(bias), bias], 1)
        names = card.get_irdl_definition().properties
        properties = {n: 0 if n == "layout" else getattr(self, n) for n in names}
        outputs = run(ArrayMath(x.dtype), card, properties, operands, [x.shape, pick.shape, recurrence.shape])
        for out, value in zip(result, outputs, strict=True):
            out[...] = value


def whole_type(weights: Array) -> str | None:
    """The smallest type that holds weights in units of their scales; None where they are no such numbers."""
    if not np.array_equal(weights, np.trunc(weights)):
        return None
    low, high = weights.min(initial=0), weights.max(initial=0)
    return next((f"i{b}" for b in (8, 16) if -(1 << (b - 1)) <= low and high < 1 << (b - 1)), None)


def is_splittable(op: RecurrentOp) -> bool:
    """Whether a network becomes a product and a CpuRecurrentOp: f32, constant weights and bias.

    Weights with scales must be whole numbers of at most 16 bits: the kernel computes with integers.
    """
    if op.predicate is not None or dtype_of(op.operands[0].type) != np.float32:
        return False
    scales = (*present(op.scales), *present(op.input_scales)) if isinstance(op, LstmOp) else ()
    for value in (*op.operands[1:3], *present(op.bias), *scales):
        owner = value.owner
        if isinstance(owner, GetOp):
            if not isinstance(lookup(owner, owner.symbol.root_reference.data), ConstantOp):
                return False
        elif not isinstance(owner, LiteralOp | SplatOp):
            return False
    if not isinstance(op, LstmOp):
        return True
    scaled = [w for w, s in ((op.weights, op.input_scales), (op.recurrence, op.scales)) if s is not None]
    arrays = map(constant_value, scaled)
    return all(a is not None and whole_type(a) is not None for a in arrays)
