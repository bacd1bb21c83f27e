"""gru: gated recurrent units, with ONNX's directions, lengths and activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.irdl import operand_def, opt_operand_def, result_def

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.instr_op import InstrOp, instr_op
from glow_dialects.core.properties import bool_prop, float_prop, floats_prop, int_prop, str_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor
from glow_dialects.ops.recurrent import Direction, RecurrentOp, run_arrays


@graph_op
class GruOp(RecurrentOp):
    """state = (1 - z) h + z state, with gates z, r, h in that order.

    Shapes and layouts stand in `recurrent`. `activations` are names separated by commas, those of
    the second direction after those of the first; `clip` 0 is no clipping.
    """

    name = "glow.gru"
    GATES = 3
    STATES = 1
    FUNCTIONS = ("sigmoid", "tanh")
    direction = str_prop("forward")
    activations = str_prop()
    activation_alpha = floats_prop(())
    activation_beta = floats_prop(())
    clip = float_prop(0.0)
    layout = int_prop(0)
    linear_before_reset = bool_prop(False)
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
        (state,) = states
        m = d.m
        gates = m.matmul(state, d.gate(d.recurrence, 0, 2))
        gates = m.add(d.gate(x, 0, 2), gates)
        if d.recurrence_bias is not None:
            gates = m.add(gates, d.gate(d.recurrence_bias, 0, 2))
        z = d.activate(0, d.gate(gates, 0))
        r = d.activate(0, d.gate(gates, 1))
        own, bias = d.gate(d.recurrence, 2), None
        if d.recurrence_bias is not None:
            bias = d.gate(d.recurrence_bias, 2)
        if d.properties["linear_before_reset"]:
            inner = m.mul(r, d.total(m.matmul(state, own), bias))
        else:
            inner = d.total(m.matmul(m.mul(r, state), own), bias)
        h = d.activate(1, m.add(d.gate(x, 2), inner))
        return [m.add(h, m.mul(z, m.sub(state, h)))]


@instr_op(of=GruOp)
class GruInstr(InstrOp):
    """Step by step in each direction."""

    def reference(
        self,
        result: Array,
        last_state: Array,
        input: Array,
        weights: Array,
        recurrence: Array,
        bias: Array | None,
        lengths: Array | None,
        initial_state: Array | None,
    ) -> None:
        found = {
            "input": input,
            "weights": weights,
            "recurrence": recurrence,
            "bias": bias,
            "lengths": lengths,
            "initial_state": initial_state,
        }
        result[...], last_state[...] = run_arrays(self, found)


def _sample(directions: int, steps: int = 3, full: bool = True, **properties: Any) -> Sample:
    """T steps of 2 samples with 3 inputs and 2 hidden; `full` has every operand."""
    rows, kind = 3 * 2, "float32"
    first = properties.get("layout") == 1
    state = (2, directions, 2) if first else (directions, 2, 2)
    inputs = (
        random(*((2, steps, 3) if first else (steps, 2, 3)), dtype=kind),
        random(directions, rows, 3, seed=1),
        random(directions, rows, 2, seed=2),
        random(directions, 2 * rows, seed=3) if full else None,
        np.array([steps, max(1, steps - 1)], np.int32) if full else None,
        random(*state, seed=4) if full else None,
    )
    return Sample(GruOp, inputs, properties)


SAMPLES: tuple[Sample, ...] = (
    _sample(1, full=False),
    _sample(1, direction="reverse"),
    _sample(2, direction="bidirectional"),
    _sample(1, layout=1, linear_before_reset=True, clip=0.5),
)
