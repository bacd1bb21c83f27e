"""Rules of LSTM, GRU and RNN: PyTorch's weights in our order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.gru import GruOp
from glow_dialects.ops.lstm import LstmOp
from glow_dialects.ops.rnn import RnnOp
from glow_frontends.graph import Emitter, RuleError, Value, shape
from glow_frontends.graph.movement import join, pieces
from glow_frontends.torch.node import Decomposed, Node

Rule = Callable[..., Any]
#: Gates of the cards as places in PyTorch's weights.
_GATES: dict[type[GraphOp], tuple[int, ...]] = {LstmOp: (0, 3, 1, 2), GruOp: (1, 0, 2), RnnOp: (0,)}


def recurrent(kind: type[GraphOp], activations: str) -> Rule:
    """Layers of one or two directions over a sequence."""

    def rule(
        g: Emitter,
        n: Node,
        x: Value,
        states: Any,
        weights: Sequence[Value],
        has_biases: Any,
        layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> list[Value]:
        if not isinstance(has_biases, bool):
            raise Decomposed("packed sequences")
        if train and dropout:
            raise RuleError("dropout draws random numbers; export the module after .eval()")
        directions, each = 2 if bidirectional else 1, 4 if has_biases else 2
        if len(weights) != layers * directions * each:
            raise Decomposed("a projection of the states is not known here")
        firsts = list(states) if kind is LstmOp else [states]
        x = g.transpose(x, (1, 0, 2)) if batch_first else x
        lasts: list[list[Value]] = [[] for _ in firsts]
        for layer in range(layers):
            own = weights[layer * directions * each : (layer + 1) * directions * each]
            groups = [own[i * each : (i + 1) * each] for i in range(directions)]
            initial = [_rows(g, s, layer * directions, directions) for s in firsts]
            y, *last = _layer(g, kind, activations, x, groups, initial)
            for kept, state in zip(lasts, last, strict=True):
                kept.append(state)
            steps, count, batch, hidden = shape(y)
            x = g.reshape(g.transpose(y, (0, 2, 1, 3)), (steps, batch, count * hidden))
        x = g.transpose(x, (1, 0, 2)) if batch_first else x
        return [x, *(join(g, kept, 0) for kept in lasts)]

    return rule


def _rows(g: Emitter, x: Value, first: int, count: int) -> Value:
    """Rows of a state."""
    if shape(x)[0] == count:
        return x
    return pieces(g, x, 0, (first, count, shape(x)[0] - first - count))[1]


def _layer(
    g: Emitter,
    kind: type[GraphOp],
    activations: str,
    x: Value,
    groups: Sequence[Sequence[Value]],
    initial: Sequence[Value],
) -> list[Value]:
    """One layer: all hidden states [steps, directions, batch, hidden], and the last states."""
    stacked = [join(g, [_gates(g, kind, part) for part in parts], 0) for parts in zip(*groups, strict=True)]
    bias = join(g, stacked[2:], 1) if len(stacked) > 2 else None
    options: dict[str, Any] = {
        "direction": "bidirectional" if len(groups) > 1 else "forward",
        "activations": ",".join([activations] * len(groups)),
        "clip": 0.0,
        "layout": 0,
    }
    if kind is GruOp:
        options["linear_before_reset"] = True
    if kind is LstmOp:
        options["input_forget"] = False
    more = [None] if kind is LstmOp else []
    return g.many(kind, x, stacked[0], stacked[1], bias, None, *initial, *more, **options)


def _gates(g: Emitter, kind: type[GraphOp], x: Value) -> Value:
    """The gates of a weight in the order of the card, behind an axis of directions."""
    order = _GATES[kind]
    size = shape(x)[0] // len(order)
    parts = pieces(g, x, 0, (size,) * len(order))
    whole = join(g, [parts[i] for i in order], 0)
    return g.reshape(whole, (1, *shape(whole)))


RULES: dict[str, Rule] = {
    "gru.input": recurrent(GruOp, "sigmoid,tanh"),
    "lstm.input": recurrent(LstmOp, "sigmoid,tanh,tanh"),
    "rnn_relu.input": recurrent(RnnOp, "relu"),
    "rnn_tanh.input": recurrent(RnnOp, "tanh"),
}
