"""rnn: the simple recurrent network, with ONNX's directions, lengths and activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.sample import Sample
from glow_dialects.ops.recurrent import Direction, RecurrentOp, recurrent_sample


@graph_op
class RnnOp(RecurrentOp):
    """state = f(x W^T + state R^T + both biases).

    Operands, shapes and layouts stand in `recurrent`.
    """

    name = "glow.rnn"
    GATES = 1
    STATES = 1
    FUNCTIONS = ("tanh",)

    @classmethod
    def step(cls, d: Direction, x: Any, states: Sequence[Any]) -> Sequence[Any]:
        (h,) = states
        inner = d.total(x + d.m.matmul(h, d.recurrence), d.recurrence_bias)
        return [d.activate(0, inner)]


def _sample(directions: int, full: bool = True, **properties: Any) -> Sample:
    return recurrent_sample(RnnOp, directions, full, (), properties)


SAMPLES: tuple[Sample, ...] = (
    _sample(1, full=False),
    _sample(1, direction="reverse"),
    _sample(2, direction="bidirectional"),
    _sample(1, layout=1, activations="Affine", activation_alpha=(0.5,), activation_beta=(0.1,)),
)
