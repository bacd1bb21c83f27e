"""lstm: long short-term memory, with ONNX's directions, lengths and activations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.irdl import opt_operand_def, result_def

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.properties import bool_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor
from glow_dialects.ops.recurrent import Direction, RecurrentOp, recurrent_sample


@graph_op
class LstmOp(RecurrentOp):
    """cell = f cell + i c, state = o h(cell), with gates i, o, f, c in that order.

    Operands, shapes and layouts stand in `recurrent`. With `scales` [D, 4 H] the recurrence holds whole
    numbers, each row in units of its scale, and each sample's state is brought to 8 bits, by its own range,
    before it is multiplied with them. With `input_scales` the same holds of weights and input, of one range.
    """

    name = "glow.lstm"
    GATES = 4
    KIND = "lstm"
    STATES = 2
    FUNCTIONS = ("sigmoid", "tanh", "tanh")
    input_forget = bool_prop(False)
    initial_cell = opt_operand_def(Tensor)
    peepholes = opt_operand_def(Tensor)
    scales = opt_operand_def(Tensor)
    input_scales = opt_operand_def(Tensor)
    last_cell = result_def(Tensor)

    @classmethod
    def step(cls, d: Direction, x: Any, states: Sequence[Any]) -> Sequence[Any]:
        state, cell = states
        gates = d.total(x + d.recurrent(state), d.recurrence_bias)

        def inner(gate: int, hole: int, of: Any) -> Any:
            value = d.gate(gates, gate)
            if d.peepholes is None:
                return value
            return value + d.gate(d.peepholes, hole) * of

        i = d.activate(0, inner(0, 0, cell))
        if d.properties["input_forget"]:
            kept = cell - i * cell
        else:
            kept = d.activate(0, inner(2, 2, cell)) * cell
        cell = kept + i * d.activate(1, d.gate(gates, 3))
        o = d.activate(0, inner(1, 1, cell))
        return [o * d.activate(2, cell), cell]


def _sample(directions: int, full: bool = True, **properties: Any) -> Sample:
    """A sample with, where `full`, first cells and peepholes too."""
    return recurrent_sample(LstmOp, directions, full, _cells(directions, properties), properties)


def _cells(directions: int, properties: Mapping[str, Any]) -> list[Array]:
    """First cells and peepholes."""
    state = (2, directions, 2) if properties.get("layout") == 1 else (directions, 2, 2)
    return [random(*state, seed=5), random(directions, 6, seed=6)]


def _scaled_sample(unit: float) -> Sample:
    """A sample with scales and weights in multiples of `unit`: whole numbers of few bits have kernels."""
    properties = {"direction": "bidirectional"}
    scales = [random(2, 8, seed=s, low=0.01, high=0.02) for s in (7, 8)]
    sample = recurrent_sample(LstmOp, 2, True, [*_cells(2, properties), *scales], properties)
    x, *weights = sample.inputs[:3]
    scaled = [np.asarray(np.rint(np.asarray(w) * 100) * unit, np.float32) for w in weights]
    return replace(sample, inputs=(x, *scaled, *sample.inputs[3:]), smooth=False)


SAMPLES: tuple[Sample, ...] = (
    _sample(1, full=False),
    _sample(1, direction="reverse"),
    _sample(2, direction="bidirectional"),
    _sample(1, layout=1, input_forget=True, clip=0.8),
    _scaled_sample(1.0),
    _scaled_sample(0.01),
    _scaled_sample(400.0),
)
