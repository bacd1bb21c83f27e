"""gru: gated recurrent units, with ONNX's directions, lengths and activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.properties import bool_prop
from glow_dialects.core.sample import Sample
from glow_dialects.ops.recurrent import Direction, RecurrentOp, recurrent_sample


@graph_op
class GruOp(RecurrentOp):
    """state = (1 - z) h + z state, with gates z, r, h in that order.

    Operands, shapes and layouts stand in `recurrent`.
    """

    name = "glow.gru"
    GATES = 3
    KIND = "gru"
    STATES = 1
    FUNCTIONS = ("sigmoid", "tanh")
    linear_before_reset = bool_prop(False)

    @classmethod
    def step(cls, d: Direction, x: Any, states: Sequence[Any]) -> Sequence[Any]:
        (state,) = states
        m = d.m
        gates = m.matmul(state, d.gate(d.recurrence, 0, 2))
        gates = d.gate(x, 0, 2) + gates
        if d.recurrence_bias is not None:
            gates = gates + d.gate(d.recurrence_bias, 0, 2)
        z = d.activate(0, d.gate(gates, 0))
        r = d.activate(0, d.gate(gates, 1))
        own, bias = d.gate(d.recurrence, 2), None
        if d.recurrence_bias is not None:
            bias = d.gate(d.recurrence_bias, 2)
        if d.properties["linear_before_reset"]:
            inner = r * d.total(m.matmul(state, own), bias)
        else:
            inner = d.total(m.matmul(r * state, own), bias)
        h = d.activate(1, d.gate(x, 2) + inner)
        return [h + z * (state - h)]


def _sample(directions: int, full: bool = True, **properties: Any) -> Sample:
    return recurrent_sample(GruOp, directions, full, (), properties)


SAMPLES: tuple[Sample, ...] = (
    _sample(1, full=False),
    _sample(1, direction="reverse"),
    _sample(2, direction="bidirectional"),
    _sample(1, layout=1, linear_before_reset=True, clip=0.5),
)
