"""Steps of recurrent networks in training, forward and back, written once for arrays and for graphs.

Shapes as in `recurrent_train`. A sample whose sequence has ended keeps its states, and passes their
gradients on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glow_dialects.ops.recurrent import ArrayMath, GraphMath

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
SAVED = {"lstm": 5, "gru": 4, "rnn": 1}
"""Numbers a hidden element that a step saves."""


class Arrays(ArrayMath):
    """Cells on NumPy arrays, with the functions that gradients need."""

    def shape(self, x: Any) -> tuple[int, ...]:
        """The sizes of x."""
        return x.shape

    def between(self, x: Any, low: float, high: float) -> Any:
        """low < x < high."""
        return np.logical_and(x > low, x < high)


class Graphs(GraphMath):
    """Cells as graph operators, with the functions that gradients need."""

    def shape(self, x: Any) -> tuple[int, ...]:
        """The sizes of x."""
        return x.shape

    def between(self, x: Any, low: float, high: float) -> Any:
        """low < x < high."""
        return (x > low) & (x < high)


def limits(name: str, clip: float, epsilon: float) -> tuple[float, float]:
    """Between these an activation's value shows that its input was not clipped (0: nothing is).

    `name` may be "cell", of which the value is the input. Values that rounding (`epsilon`) may have
    moved from a limit count as clipped.
    """
    functions = {"sigmoid": lambda x: 1 / (1 + math.exp(-x)), "tanh": math.tanh, "cell": float}
    inner = 1 - 16 * epsilon
    if name == "relu":
        return 0.0, clip * inner or math.inf
    low, high = (functions[name](x) for x in (-clip, clip))
    return low + 16 * epsilon * abs(low), high * inner


class Cell:
    """One direction of a network. `m` is an ArrayMath or a GraphMath, `p` the operator's properties.

    `recurrence` is [H, G H] forward and [G H, H] back, `bias` [H] that of a GRU's last gate,
    `peepholes` [1, 3 H] for i, o and f; `epsilon` is that of the element type.
    """

    def __init__(
        self,
        m: Any,
        p: Mapping[str, Any],
        epsilon: float,
        recurrence: Any,
        bias: Any = None,
        peepholes: Any = None,
    ) -> None:
        self.m, self.p, self.epsilon = m, p, epsilon
        self.recurrence, self.bias, self.peepholes = recurrence, bias, peepholes
        self.hidden = min(m.shape(recurrence))
        self.kind: str = p["kind"]
        self.clip: float = p["clip"]

    def gate(self, x: Any, first: int, count: int = 1) -> Any:
        """Columns of `count` gates."""
        return self.m.slice(x, 1, first * self.hidden, (first + count) * self.hidden)

    def _rows(self, first: int, count: int) -> Any:
        return self.m.slice(self.recurrence, 0, first * self.hidden, (first + count) * self.hidden)

    def _hole(self, x: Any, hole: int, of: Any) -> Any:
        """x with a look at the cell."""
        if self.peepholes is None:
            return x
        return x + self.gate(self.peepholes, hole) * of

    def _apply(self, name: str, x: Any) -> Any:
        x = self.m.clip(x, self.clip) if self.clip else x
        return self.m.apply(name, x, 0.0, 0.0)

    def forward(self, x: Any, states: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """(new states, saved gates) from a projected input [N, G H]."""
        m, (state, *cells) = self.m, states
        if self.kind == "lstm":
            gates, cell = x + m.matmul(state, self.recurrence), cells[0]
            i = self._apply("sigmoid", self._hole(self.gate(gates, 0), 0, cell))
            if self.p["input_forget"]:
                f = 1.0 - i
            else:
                f = self._apply("sigmoid", self._hole(self.gate(gates, 2), 2, cell))
            c = self._apply("tanh", self.gate(gates, 3))
            cell = f * cell + i * c
            o = self._apply("sigmoid", self._hole(self.gate(gates, 1), 1, cell))
            return [o * self._apply("tanh", cell), cell], [i, o, f, c]
        if self.kind == "rnn":
            return [self._apply(self.p["activation"], x + m.matmul(state, self.recurrence))], []
        turns = m.matmul(state, m.slice(self.recurrence, 1, 0, 2 * self.hidden))
        turns = self._apply("sigmoid", self.gate(x, 0, 2) + turns)
        z, r = self.gate(turns, 0), self.gate(turns, 1)
        last = m.slice(self.recurrence, 1, 2 * self.hidden, 3 * self.hidden)
        if self.p["linear_before_reset"]:
            kept = m.matmul(state, last)
            kept = kept if self.bias is None else kept + self.bias
            inner = r * kept
        else:
            kept = r * state
            inner = m.matmul(kept, last)
        n = self._apply("tanh", self.gate(x, 2) + inner)
        return [n + z * (state - n)], [z, r, n, kept]

    def _slope(self, name: str, y: Any) -> Any:
        """The slope of an activation where it has the value y; none where its input was clipped."""
        if name == "sigmoid":
            slope = y * (1.0 - y)
        else:
            slope = 1.0 if name == "relu" else 1.0 - y * y
        return self._unclipped(name, y, slope)

    def _unclipped(self, name: str, y: Any, slope: Any) -> Any:
        if not self.clip and name != "relu":
            return slope
        return self.m.where(self.m.between(y, *limits(name, self.clip, self.epsilon)), slope, 0.0)

    def backward(
        self, grads: Sequence[Any], kept: Sequence[Any], before: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """(gradients of the states before, of the projected input's gates and more) of those after.

        `kept` are the saved values, with the LSTM's new cell or the RNN's new state last; `before` are
        the states before. A GRU with the product before the reset also gives that of the product.
        """
        m, dh = self.m, grads[0]
        if self.kind == "lstm":
            i, o, f, c, cell = kept
            old, shown = before[1], self._apply("tanh", cell)
            slope = self._unclipped("cell", cell, 1.0 - shown * shown)
            d_o = dh * shown * self._slope("sigmoid", o)
            dc = self._hole(grads[1] + dh * o * slope, 1, d_o)
            if self.p["input_forget"]:
                d_i = dc * (c - old) * self._slope("sigmoid", i)
                d_f = m.zeros(m.shape(d_i))
            else:
                d_i = dc * c * self._slope("sigmoid", i)
                d_f = dc * old * self._slope("sigmoid", f)
            gates = [d_i, d_o, d_f, dc * i * self._slope("tanh", c)]
            dc = self._hole(self._hole(dc * f, 0, d_i), 2, d_f)
            return [m.matmul(m.concat(gates, 1), self.recurrence), dc], gates
        if self.kind == "rnn":
            gate = dh * self._slope(self.p["activation"], kept[0])
            return [m.matmul(gate, self.recurrence)], [gate]
        z, r, n, inner = kept
        dz = dh * (before[0] - n) * self._slope("sigmoid", z)
        dn = dh * (1.0 - z) * self._slope("tanh", n)
        past = dh * z
        if self.p["linear_before_reset"]:
            dr = dn * inner * self._slope("sigmoid", r)
            product = dn * r
            past = past + m.matmul(m.concat([dz, dr, product], 1), self.recurrence)
            return [past], [dz, dr, dn, product]
        product = m.matmul(dn, self._rows(2, 1))
        dr = product * before[0] * self._slope("sigmoid", r)
        past = past + product * r
        return [past + m.matmul(m.concat([dz, dr], 1), self._rows(0, 2))], [dz, dr, dn]


def _at(m: Any, x: Any, step: int, shape: Sequence[int]) -> Any:
    return m.slice(x, 0, step, step + 1).reshape(shape)


def _stacked(m: Any, parts: Mapping[int, Any]) -> Any:
    """[T, N, ...] of [N, ...] by step."""
    first = tuple(m.shape(parts[0]))
    return m.concat([parts[t].reshape((1, *first)) for t in range(len(parts))], 0)


def run_forward(
    cell: Cell, order: Sequence[int], projected: Any, states: Sequence[Any], lengths: Any
) -> list[Any]:
    """[every state, saved values, for an LSTM every cell], [T, N, ...] each."""
    m, (samples, hidden) = cell.m, cell.m.shape(states[0])
    columns: list[dict[int, Any]] = [{} for _ in range(1 + len(states))]
    for t in order:
        x = _at(m, projected, t, (samples, GATES[cell.kind] * hidden))
        new, kept = cell.forward(x, states)
        if lengths is not None:
            new = [m.where(m.longer(lengths, t), n, o) for n, o in zip(new, states, strict=True)]
        states = new
        shown = [*kept, *(new[1:] if cell.kind == "lstm" else new if cell.kind == "rnn" else [])]
        for column, value in zip(columns, (new[0], m.concat(shown, 1), *new[1:]), strict=True):
            column[t] = value
    return [_stacked(m, column) for column in columns]


def run_backward(
    cell: Cell, order: Sequence[int], operands: Mapping[str, Any], initial: Sequence[Any], lengths: Any
) -> list[Any]:
    """[gradients of the projected input [T, N, G H], of the initial states, of a GRU's product].

    `operands`: `grad` and, where there are, `cells_grad` of every state, `states` and `saved`; `order`
    is that of the network.
    """
    m, (samples, hidden) = cell.m, cell.m.shape(initial[0])
    shape, numbers = (samples, hidden), SAVED[cell.kind]
    grads: list[Any] = [m.zeros(shape) for _ in initial]
    projected_grads: dict[int, Any] = {}
    products: dict[int, Any] = {}
    for place in reversed(range(len(order))):
        t = order[place]
        saved = _at(m, operands["saved"], t, (samples, numbers * hidden))
        kept = [cell.gate(saved, number) for number in range(numbers)]
        before = list(initial)
        if place:
            before = [_at(m, operands["states"], order[place - 1], shape)]
            if cell.kind == "lstm":
                old = _at(m, operands["saved"], order[place - 1], (samples, numbers * hidden))
                before.append(cell.gate(old, 4))
        grads[0] = grads[0] + _at(m, operands["grad"], t, shape)
        if operands.get("cells_grad") is not None:
            grads[1] = grads[1] + _at(m, operands["cells_grad"], t, shape)
        past, gates = cell.backward(grads, kept, before)
        if lengths is not None:
            mask = m.longer(lengths, t)
            past = [m.where(mask, n, o) for n, o in zip(past, grads, strict=True)]
            gates = [m.where(mask, g, m.zeros(shape)) for g in gates]
        grads = past
        projected_grads[t] = m.concat(gates[: GATES[cell.kind]], 1)
        if len(gates) > GATES[cell.kind]:
            products[t] = gates[-1]
    return [_stacked(m, projected_grads), *grads, *([_stacked(m, products)] if products else [])]
