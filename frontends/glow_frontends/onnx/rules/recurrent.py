"""Rules of RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.gru import GruOp
from glow_dialects.ops.lstm import LstmOp
from glow_dialects.ops.rnn import RnnOp
from glow_frontends.graph import Emitter, Value, dtype_of_value, shape
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.indexing import in_range
from glow_frontends.onnx.rules.rule import Rule, Versions


def recurrent(kind: type[GraphOp], defaults: Sequence[str], operands: int, flag: str | None = None) -> Rule:
    """A recurrent network whose attributes keep their names."""

    def rule(g: Emitter, n: Node) -> list[Value]:
        direction = n.text("direction", "forward")
        names = n.texts("activations") or tuple(defaults) * (2 if direction == "bidirectional" else 1)
        properties: dict[str, Any] = {
            "direction": direction,
            "activations": ",".join(name.lower() for name in names),
            "clip": n.number("clip", 0.0),
            "layout": n.integer("layout", 0),
        }
        for name in ("activation_alpha", "activation_beta"):
            if n.numbers(name):
                properties[name] = n.numbers(name)
        if flag is not None:
            properties[flag] = n.flag(flag)
        arguments = [*(n[i] for i in range(3)), *(n.get(i) for i in range(3, operands))]
        if 0 in shape(n[0])[:2]:
            return _of_nothing(n, arguments[5:7], kind is LstmOp)
        if arguments[4] is not None:
            steps = shape(n[0])[n.integer("layout", 0)]
            arguments[4] = in_range(g, n, arguments[4], 0, steps, "a length")
        return g.many(kind, *arguments, **properties)

    return rule


def _of_nothing(n: Node, states: Sequence[Value | None], cells: bool) -> list[Value]:
    """Of sequences of no steps, or no sequences: the states are what they were."""
    x, weights = n[0], n[2]
    leading, directions, hidden = shape(x)[:2], shape(weights)[0], shape(weights)[2]
    batch_first = n.integer("layout", 0) == 1
    batch = leading[0] if batch_first else leading[1]
    dims = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    steps = (*leading, directions, hidden) if batch_first else (leading[0], *dims)
    zeros = np.zeros(dims, dtype_of_value(x))
    last: list[Value] = [zeros if state is None else state for state in states[: 1 + cells]]
    return [np.zeros(steps, dtype_of_value(x)), *last]


RULES: dict[str, Versions] = {
    "GRU": recurrent(GruOp, ("sigmoid", "tanh"), 6, "linear_before_reset"),
    "LSTM": recurrent(LstmOp, ("sigmoid", "tanh", "tanh"), 8, "input_forget"),
    "RNN": recurrent(RnnOp, ("tanh",), 6),
}
