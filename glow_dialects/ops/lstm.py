"""lstm: long short-term memory, with ONNX's directions, lengths and activations."""

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
class LstmOp(RecurrentOp):
    """cell = f cell + i c, state = o h(cell), with gates i, o, f, c in that order.

    Shapes and layouts stand in `recurrent`. `activations` are names separated by commas, those of
    the second direction after those of the first; `clip` 0 is no clipping.
    """

    name = "glow.lstm"
    GATES = 4
    STATES = 2
    FUNCTIONS = ("sigmoid", "tanh", "tanh")
    direction = str_prop("forward")
    activations = str_prop()
    activation_alpha = floats_prop(())
    activation_beta = floats_prop(())
    clip = float_prop(0.0)
    layout = int_prop(0)
    input_forget = bool_prop(False)
    input = operand_def(Tensor)
    weights = operand_def(Tensor)
    recurrence = operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    lengths = opt_operand_def(Tensor)
    initial_state = opt_operand_def(Tensor)
    initial_cell = opt_operand_def(Tensor)
    peepholes = opt_operand_def(Tensor)
    result = result_def(Tensor)
    last_state = result_def(Tensor)
    last_cell = result_def(Tensor)

    @classmethod
    def step(cls, d: Direction, x: Any, states: Sequence[Any]) -> Sequence[Any]:
        state, cell = states
        m = d.m
        gates = d.total(m.add(x, m.matmul(state, d.recurrence)), d.recurrence_bias)

        def inner(gate: int, hole: int, of: Any) -> Any:
            value = d.gate(gates, gate)
            if d.peepholes is None:
                return value
            return m.add(value, m.mul(d.gate(d.peepholes, hole), of))

        i = d.activate(0, inner(0, 0, cell))
        if d.properties["input_forget"]:
            kept = m.sub(cell, m.mul(i, cell))
        else:
            kept = m.mul(d.activate(0, inner(2, 2, cell)), cell)
        cell = m.add(kept, m.mul(i, d.activate(1, d.gate(gates, 3))))
        o = d.activate(0, inner(1, 1, cell))
        return [m.mul(o, d.activate(2, cell)), cell]


@instr_op(of=LstmOp)
class LstmInstr(InstrOp):
    """Step by step in each direction."""

    def reference(
        self,
        result: Array,
        last_state: Array,
        last_cell: Array,
        input: Array,
        weights: Array,
        recurrence: Array,
        bias: Array | None,
        lengths: Array | None,
        initial_state: Array | None,
        initial_cell: Array | None,
        peepholes: Array | None,
    ) -> None:
        found = {
            "input": input,
            "weights": weights,
            "recurrence": recurrence,
            "bias": bias,
            "lengths": lengths,
            "initial_state": initial_state,
            "initial_cell": initial_cell,
            "peepholes": peepholes,
        }
        result[...], last_state[...], last_cell[...] = run_arrays(self, found)


def _sample(directions: int, steps: int = 3, full: bool = True, **properties: Any) -> Sample:
    """T steps of 2 samples with 3 inputs and 2 hidden; `full` has every operand."""
    rows, kind = 4 * 2, "float32"
    first = properties.get("layout") == 1
    state = (2, directions, 2) if first else (directions, 2, 2)
    inputs = (
        random(*((2, steps, 3) if first else (steps, 2, 3)), dtype=kind),
        random(directions, rows, 3, seed=1),
        random(directions, rows, 2, seed=2),
        random(directions, 2 * rows, seed=3) if full else None,
        np.array([steps, max(1, steps - 1)], np.int32) if full else None,
        random(*state, seed=4) if full else None,
        random(*state, seed=5) if full else None,
        random(directions, 6, seed=6) if full else None,
    )
    return Sample(LstmOp, inputs, properties)


SAMPLES: tuple[Sample, ...] = (
    _sample(1, full=False),
    _sample(1, direction="reverse"),
    _sample(2, direction="bidirectional"),
    _sample(1, layout=1, input_forget=True, clip=0.8),
)
