"""What the examples with recurrent networks share: an LSTM and a linear layer, in Glow and in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
from recipes import Weights, constants, uniform

import glow_compiler as glow

GATES = (0, 2, 3, 1)
"""PyTorch's gates (input, forget, cell, output) among ONNX's (input, output, forget, cell)."""


def weights(inputs: int, hidden: int, classes: int) -> Weights:
    """Weights in the layout of ONNX's LSTM, [directions, gates hidden, inputs], and of the layer after it."""
    return uniform(
        {
            "lstm.weight": ((1, 4 * hidden, inputs), hidden),
            "lstm.recurrence": ((1, 4 * hidden, hidden), hidden),
            "lstm.bias": ((1, 8 * hidden), hidden),
            "head.weight": ((hidden, classes), hidden),
            "head.bias": ((classes,), hidden),
        }
    )


def network(start: Weights, steps: int, batch: int, every: bool) -> glow.GraphBuilder:
    """Scores [T N, classes] of each state, or of the last ones, [N, classes]."""
    g = glow.GraphBuilder()
    w = constants(g, start)
    _, rows, inputs = start["lstm.weight"].shape
    hidden = rows // 4
    x = g.placeholder("x", (steps, batch, inputs))
    states, last, _ = g.lstm(x, w["lstm.weight"], w["lstm.recurrence"], w["lstm.bias"])
    taken = g.reshape(states if every else last, (-1, hidden))
    g.save(g.fully_connected(taken, w["head.weight"], w["head.bias"]), "scores")
    return g


class PyTorchNetwork:
    """The same network in PyTorch: `parameters`, and a call that gives the scores."""

    def __init__(self, start: Weights, every: bool) -> None:
        import torch

        _, rows, inputs = start["lstm.weight"].shape
        self.hidden, self.every = rows // 4, every
        self.lstm = torch.nn.LSTM(inputs, self.hidden)
        first, second = np.split(start["lstm.bias"][0], 2)
        order = np.concatenate([np.arange(self.hidden) + gate * self.hidden for gate in GATES])
        given = (start["lstm.weight"][0], start["lstm.recurrence"][0], first, second)
        with torch.no_grad():
            for parameter, array in zip(self.lstm.parameters(), given, strict=True):
                parameter.copy_(torch.tensor(array[order]))
        self.weight = torch.tensor(start["head.weight"], requires_grad=True)
        self.bias = torch.tensor(start["head.bias"], requires_grad=True)
        self.parameters = [*self.lstm.parameters(), self.weight, self.bias]

    def __call__(self, x: Any) -> Any:
        states = self.lstm(x)[0]
        taken = states.reshape(-1, self.hidden) if self.every else states[-1]
        return taken @ self.weight + self.bias
