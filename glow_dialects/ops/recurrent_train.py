"""recurrent_train, recurrent_backward: one direction of an LSTM, GRU or RNN for training.

Shapes (T steps, N samples, H hidden, G gates in ONNX's order): the input is already projected,
[T, N, G H], with every bias that does not depend on the state. What a step needs again for its
gradient is saved: LSTM i o f c and the new cell, GRU z r h and the recurrent part of h, RNN the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, result_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.instr_op import InstrOp, instr_op
from glow_dialects.core.properties import bool_prop, check_choice, str_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.formula import Formula
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.windows import check_float

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
SAVED = {"lstm": 5, "gru": 4, "rnn": 1}
"""Numbers a hidden element that a step saves."""
ACTIVATIONS = ("tanh", "relu")


class _Recurrent(PureOp):
    """Checks that both operators share."""

    def sizes(self) -> tuple[int, int, int]:
        """(steps, samples, hidden)."""
        raise NotImplementedError

    def _check(self, wanted: dict[str, tuple[int, ...]]) -> None:
        kind = self.prop("kind")
        check_choice(self.name, "kind", kind, tuple(GATES))
        check_choice(self.name, "activation", self.prop("activation"), ACTIVATIONS)
        if kind != "rnn" and self.prop("activation") != "tanh":
            raise VerifyException(f"{self.name}: only an rnn has another activation than tanh")
        element = element_of(self.operands[0])
        check_float(self.name, self.operands[0])
        for name, shape in wanted.items():
            for value in self.group(name):
                if value.type != tensor(shape, element):
                    raise VerifyException(
                        f"{self.name}: {name} is {value.type}, expected {tensor(shape, element)}"
                    )
        if bool(self.group("initial_cell")) != (kind == "lstm"):
            raise VerifyException(f"{self.name}: an lstm alone has an initial cell")

    def order(self) -> Sequence[int]:
        """The steps in the order of the network."""
        steps = range(self.sizes()[0])
        return steps[::-1] if self.prop("reverse") else steps


@graph_op
class RecurrentTrainOp(_Recurrent):
    """Every state [T, N, H], what the gradient needs, for an LSTM every cell.

    `recurrence` [H, G H] is transposed; `bias` [H] is the recurrent one of a GRU's last gate, which
    is within the product with the reset gate (ONNX: linear_before_reset).
    """

    name = "glow.recurrent_train"
    kind = str_prop()
    reverse = bool_prop(False)
    activation = str_prop("tanh")
    projected = operand_def(Tensor)
    recurrence = operand_def(Tensor)
    initial_state = operand_def(Tensor)
    initial_cell = opt_operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    result = result_def(Tensor)
    saved = result_def(Tensor)
    cells = var_result_def(Tensor)

    def sizes(self) -> tuple[int, int, int]:
        steps, samples, _ = shape_of(self.projected)
        return steps, samples, shape_of(self.recurrence)[0]

    def infer(self) -> Sequence[Attribute]:
        if len(shape_of(self.projected)) != 3 or len(shape_of(self.recurrence)) != 2:
            raise VerifyException(
                f"{self.name}: {self.projected.type} and {self.recurrence.type}, expected ranks 3 and 2"
            )
        kind, (steps, samples, hidden) = self.prop("kind"), self.sizes()
        rows = GATES.get(kind, 1) * hidden
        self._check(
            {
                "projected": (steps, samples, rows),
                "recurrence": (hidden, rows),
                "initial_state": (samples, hidden),
                "initial_cell": (samples, hidden),
                "bias": (hidden,),
            }
        )
        if self.group("bias") and kind != "gru":
            raise VerifyException(f"{self.name}: a gru alone has a bias of its own")
        element = element_of(self.projected)
        every = tensor((steps, samples, hidden), element)
        return [every, tensor((steps, samples, SAVED[kind] * hidden), element), *[every] * (kind == "lstm")]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        assert grads[1] is None, "what is saved has no other use"
        f, (steps, samples, hidden) = Formula(b, self.projected), self.sizes()
        dy = grads[0] if grads[0] is not None else b.splat(0, self.result)
        cells = [g for g in grads[2:] if g is not None]
        made = b.insert(
            RecurrentBackwardOp(
                dy,
                f.transpose(self.recurrence, (1, 0)),
                self.result,
                self.saved,
                self.initial_state,
                self.group("initial_cell"),
                cells,
                **{n: self.prop(n) for n in ("kind", "reverse", "activation")},
            )
        )
        projected, state, *rest = made.results
        inner = projected
        if self.prop("kind") == "gru":
            inner = f.concat([f.slice(projected, 2, 0, 2 * hidden), rest[0]], 2)
        before = [f.reshape(self.initial_state, (1, samples, hidden))]
        if steps > 1 and self.prop("reverse"):
            before.insert(0, f.slice(self.result, 0, 1, steps))
        elif steps > 1:
            before.append(f.slice(self.result, 0, 0, steps - 1))
        turned = f.transpose(f.reshape(f.concat(before, 0), (steps * samples, hidden)), (1, 0))
        weights = b(MatmulOp(turned, f.reshape(inner, (steps * samples, shape_of(inner)[2]))))
        found: list[SSAValue | None] = [projected, weights, state]
        if self.prop("kind") == "lstm":
            found.append(rest[0])
        if self.group("bias"):
            found.append(f.sum(rest[0], (0, 1), keepdims=False))
        return found


@graph_op
class RecurrentBackwardOp(_Recurrent):
    """Gradients of the projected input and the initial state from those of every state.

    For an LSTM also that of the initial cell (and `cells_grad` of every cell may come in), for a GRU
    that of the recurrent part of its last gate, [T, N, H]. `recurrence` is [G H, H].
    """

    name = "glow.recurrent_backward"
    kind = str_prop()
    reverse = bool_prop(False)
    activation = str_prop("tanh")
    grad = operand_def(Tensor)
    recurrence = operand_def(Tensor)
    states = operand_def(Tensor)
    saved = operand_def(Tensor)
    initial_state = operand_def(Tensor)
    initial_cell = opt_operand_def(Tensor)
    cells_grad = opt_operand_def(Tensor)
    projected_grad = result_def(Tensor)
    state_grad = result_def(Tensor)
    rest = var_result_def(Tensor)

    def sizes(self) -> tuple[int, int, int]:
        steps, samples, hidden = shape_of(self.grad)
        return steps, samples, hidden

    def infer(self) -> Sequence[Attribute]:
        if len(shape_of(self.grad)) != 3:
            raise VerifyException(f"{self.name}: grad is {self.grad.type}, expected rank 3")
        kind, (steps, samples, hidden) = self.prop("kind"), self.sizes()
        rows = GATES.get(kind, 1) * hidden
        every = (steps, samples, hidden)
        self._check(
            {
                "recurrence": (rows, hidden),
                "states": every,
                "saved": (steps, samples, SAVED.get(kind, 1) * hidden),
                "initial_state": (samples, hidden),
                "initial_cell": (samples, hidden),
                "cells_grad": every,
            }
        )
        element = element_of(self.grad)
        more = {"lstm": [(samples, hidden)], "gru": [every], "rnn": []}[kind]
        shapes: list[tuple[int, ...]] = [(steps, samples, rows), (samples, hidden), *more]
        return [tensor(shape, element) for shape in shapes]


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _gates(x: Array, hidden: int) -> Iterator[Array]:
    return (x[:, i : i + hidden] for i in range(0, x.shape[1], hidden))


@instr_op(of=RecurrentTrainOp)
class RecurrentTrainInstr(InstrOp):
    """Step by step."""

    def reference(
        self,
        result: Array,
        saved: Array,
        cells: Sequence[Array],
        projected: Array,
        recurrence: Array,
        initial_state: Array,
        initial_cell: Array | None,
        bias: Array | None,
    ) -> None:
        kind, hidden, weights = self.prop("kind"), recurrence.shape[0], widen(recurrence)
        state = widen(initial_state)
        cell = None if initial_cell is None else widen(initial_cell)
        steps = range(len(projected))
        for t in steps[::-1] if self.prop("reverse") else steps:
            x, inner = widen(projected[t]), state @ weights
            if kind == "lstm":
                assert cell is not None
                i, o, f, c = _gates(x + inner, hidden)
                i, o, f, c = _sigmoid(i), _sigmoid(o), _sigmoid(f), np.tanh(c)
                cell = f * cell + i * c
                state = o * np.tanh(cell)
                kept = [i, o, f, c, cell]
                cells[0][t] = cell
            elif kind == "gru":
                z, r = _gates(_sigmoid(x[:, : 2 * hidden] + inner[:, : 2 * hidden]), hidden)
                q = inner[:, 2 * hidden :] + (0 if bias is None else widen(bias))
                new = np.tanh(x[:, 2 * hidden :] + r * q)
                state = (1 - z) * new + z * state
                kept = [z, r, new, q]
            else:
                total = x + inner
                state = np.tanh(total) if self.prop("activation") == "tanh" else np.maximum(total, 0)
                kept = [state]
            saved[t] = np.concatenate(kept, 1)
            result[t] = state


@instr_op(of=RecurrentBackwardOp)
class RecurrentBackwardInstr(InstrOp):
    """Step by step, from the last to the first."""

    def reference(
        self,
        projected_grad: Array,
        state_grad: Array,
        rest: Sequence[Array],
        grad: Array,
        recurrence: Array,
        states: Array,
        saved: Array,
        initial_state: Array,
        initial_cell: Array | None,
        cells_grad: Array | None,
    ) -> None:
        kind, hidden, weights = self.prop("kind"), grad.shape[2], widen(recurrence)
        order = list(range(len(grad)))[:: -1 if self.prop("reverse") else 1]
        dh, dc = np.zeros_like(weights, shape=grad.shape[1:]), np.zeros_like(weights, shape=grad.shape[1:])
        for place, t in reversed(list(enumerate(order))):
            before = widen(states[order[place - 1]]) if place else widen(initial_state)
            kept = list(_gates(widen(saved[t]), hidden))
            dh = dh + widen(grad[t])
            if kind == "lstm":
                i, o, f, c, cell = kept
                assert initial_cell is not None
                old = widen(saved[order[place - 1]])[:, 4 * hidden :] if place else widen(initial_cell)
                shown = np.tanh(cell)
                dc = dc + dh * o * (1 - shown * shown)
                if cells_grad is not None:
                    dc = dc + widen(cells_grad[t])
                inner = np.concatenate(
                    [
                        dc * c * i * (1 - i),
                        dh * shown * o * (1 - o),
                        dc * old * f * (1 - f),
                        dc * i * (1 - c * c),
                    ],
                    1,
                )
                dc, direct = dc * f, 0
                projected_grad[t] = inner
            elif kind == "gru":
                z, r, new, q = kept
                dn = dh * (1 - z) * (1 - new * new)
                outer = [dh * (before - new) * z * (1 - z), dn * q * r * (1 - r)]
                inner, direct = np.concatenate([*outer, dn * r], 1), dh * z
                projected_grad[t], rest[0][t] = np.concatenate([*outer, dn], 1), dn * r
            else:
                (state,) = kept
                slope = 1 - state * state if self.prop("activation") == "tanh" else state > 0
                inner, direct = dh * slope, 0
                projected_grad[t] = inner
            dh = inner @ weights + direct
        state_grad[...] = dh
        if kind == "lstm":
            rest[0][...] = dc


def _samples() -> Iterator[Sample]:
    """3 steps of 2 samples with 5 hidden; what is saved has no slope of its own."""
    t, n, h = 3, 2, 5
    for index, (kind, options) in enumerate(
        (("lstm", {}), ("gru", {}), ("rnn", {}), ("rnn", {"activation": "relu"}))
    ):
        for reverse in (False, True):
            common = {"kind": kind, "reverse": reverse, **options}
            rows, state = GATES[kind] * h, random(n, h, seed=index)
            cell = random(n, h, seed=3) if kind == "lstm" else None
            bias = random(h, seed=4) if kind == "gru" else None
            forward = (random(t, n, rows), random(h, rows, seed=2), state, cell, bias)
            yield Sample(RecurrentTrainOp, forward, common, smooth=False)
            saved = random(t, n, SAVED[kind] * h, low=0.1, high=0.9, seed=5)
            backward = (
                random(t, n, h, seed=6),
                random(rows, h, seed=2),
                random(t, n, h, seed=7),
                saved,
                state,
                cell,
                random(t, n, h, seed=8) if kind == "lstm" and reverse else None,
            )
            yield Sample(RecurrentBackwardOp, backward, common, smooth=False)


SAMPLES: tuple[Sample, ...] = tuple(_samples())
