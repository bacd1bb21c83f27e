"""rnn: the simple recurrent network, with ONNX's directions, lengths and activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.irdl import operand_def, opt_operand_def, result_def

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.instr_op import instr_op
from glow_dialects.core.properties import float_prop, floats_prop, int_prop, str_prop
from glow_dialects.core.sample import Sample
from glow_dialects.core.types import Tensor
from glow_dialects.ops.recurrent import Direction, RecurrentInstr, RecurrentOp, recurrent_sample


@graph_op
class RnnOp(RecurrentOp):
    """state = f(x W^T + state R^T + both biases).

    Shapes and layouts stand in `recurrent`. `activations` are names separated by commas, those of
    the second direction after those of the first; `clip` 0 is no clipping.
    """

    name = "glow.rnn"
    GATES = 1
    STATES = 1
    FUNCTIONS = ("tanh",)
    direction = str_prop("forward")
    activations = str_prop()
    activation_alpha = floats_prop(())
    activation_beta = floats_prop(())
    clip = float_prop(0.0)
    layout = int_prop(0)
    input = operand_def(Tensor)
    weights = operand_def(Tensor)
    recurrence = operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    lengths = opt_operand_def(Tensor)
    initial_state = opt_operand_def(Tensor)
    result = result_def(Tensor)
    last_state = result_def(Tensor)

    @classmethod
    def step(cls, d: Direction, x: Any, states: Sequence[Any]) -> Sequence[Any]:
        (h,) = states
        inner = d.total(d.m.add(x, d.m.matmul(h, d.recurrence)), d.recurrence_bias)
        return [d.activate(0, inner)]


@instr_op(of=RnnOp)
class RnnInstr(RecurrentInstr):
    """Step by step in each direction."""


def _sample(directions: int, full: bool = True, **properties: Any) -> Sample:
    return recurrent_sample(RnnOp, directions, full, (), properties)


SAMPLES: tuple[Sample, ...] = (
    _sample(1, full=False),
    _sample(1, direction="reverse"),
    _sample(2, direction="bidirectional"),
    _sample(1, layout=1, activations="Affine", activation_alpha=(0.5,), activation_beta=(0.1,)),
)
