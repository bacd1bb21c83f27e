"""recurrent_train, recurrent_backward: one direction of an LSTM, GRU or RNN for training.

Shapes (T steps, N samples, H hidden, G gates in ONNX's order): the input is already projected,
[T, N, G H], with every bias that does not depend on the state. What a step needs again for its
gradient is saved: LSTM i o f c and the new cell, GRU z r h and the recurrent part of h (the product,
or what it multiplies where the reset comes first), RNN the state. Of a sequence that has ended
(`lengths` [N]) every further state is its last one. `clip` bounds the activations' inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, result_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, check_choice, float_prop, str_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term, concat
from glow_dialects.core.types import Array, Tensor, dtype_of, element_of, present, shape_of, tensor
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.recurrent import check_clip
from glow_dialects.ops.recurrent_cells import (
    GATES,
    SAVED,
    Arrays,
    Cell,
    Graphs,
    run_backward,
    run_forward,
)
from glow_dialects.ops.windows import check_float

ACTIVATIONS = ("tanh", "relu")
PROPERTIES = ("kind", "reverse", "activation", "clip", "input_forget", "linear_before_reset")


def _order(op: _Recurrent, steps: int) -> Sequence[int]:
    return range(steps)[::-1] if op.reverse else range(steps)


class _Recurrent(PureOp):
    """Checks that both operators share."""

    kind = str_prop()
    reverse = bool_prop(False)
    activation = str_prop("tanh")
    clip = float_prop(0.0)
    input_forget = bool_prop(False)
    linear_before_reset = bool_prop(True)

    if TYPE_CHECKING:  # operands of both, which stand at different places
        recurrence: SSAValue
        initial_state: SSAValue
        initial_cell: SSAValue | None
        lengths: SSAValue | None
        peepholes: SSAValue | None

    def sizes(self) -> tuple[int, int, int]:
        """(steps, samples, hidden)."""
        raise NotImplementedError

    def _check(self, wanted: dict[str, tuple[int, ...]]) -> None:
        kind = self.kind
        check_choice(self.name, "kind", kind, tuple(GATES))
        check_choice(self.name, "activation", self.activation, ACTIVATIONS)
        check_clip(self.name, self.clip)
        if self.sizes()[0] < 1:
            raise VerifyException(f"{self.name}: {self.operands[0].type} has no steps; it needs at least one")
        if kind != "rnn" and self.activation != "tanh":
            raise VerifyException(
                f"{self.name}: only an rnn has another activation than tanh; leave the activation out"
            )
        element = element_of(self.operands[0])
        check_float(self.name, self.operands[0])
        for name, shape in wanted.items():
            for value in self.operand_group(name):
                if value.type != tensor(shape, element):
                    raise VerifyException(
                        f"{self.name}: {name} is {value.type}, expected {tensor(shape, element)}"
                    )
        for value in present(self.lengths):
            if value.type != tensor((self.sizes()[1],), i32):
                raise VerifyException(f"{self.name}: lengths are {value.type}, expected i32 of each sample")
        if kind != "lstm" and (self.peepholes is not None or self.input_forget):
            raise VerifyException(
                f"{self.name}: an lstm alone has peepholes and joined gates; leave them out"
            )
        if (self.initial_cell is not None) != (kind == "lstm"):
            raise VerifyException(f"{self.name}: an lstm alone has an initial cell; leave it out")

    def order(self) -> Sequence[int]:
        """The steps in the order of the network."""
        return _order(self, self.sizes()[0])

    def cell(self, b: Builder) -> Cell:
        """The cell as graph operators."""
        m, (_, _, hidden) = Graphs(Term(self.operands[0], b)), self.sizes()
        epsilon = float(np.finfo(dtype_of(self.operands[0].type)).eps)
        holes, bias = self.optional("peepholes", b), None
        if "bias" in dict(self.operand_groups()):
            bias = self.optional("bias", b)
        properties = {n: getattr(self, n) for n in PROPERTIES}
        weights = Term(self.recurrence, b)
        return Cell(m, properties, epsilon, weights, bias, holes and holes.reshape((1, 3 * hidden)))

    def optional(self, name: str, b: Builder) -> Term | None:
        """An operand that may be absent."""
        return next((Term(v, b) for v in self.operand_group(name)), None)

    def initial(self, b: Builder) -> list[Term]:
        """The states before the first step."""
        return [Term(v, b) for v in (self.initial_state, *present(self.initial_cell))]


@graph_op
class RecurrentTrainOp(_Recurrent):
    """Every state [T, N, H], values saved for the gradient, for an LSTM every cell.

    `recurrence` [H, G H] is transposed; `bias` [H] is the recurrent one of a GRU's last gate, which
    is within the product with the reset gate (ONNX: linear_before_reset).
    """

    name = "glow.recurrent_train"
    projected = operand_def(Tensor)
    recurrence = operand_def(Tensor)
    initial_state = operand_def(Tensor)
    initial_cell = opt_operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    lengths = opt_operand_def(Tensor)
    peepholes = opt_operand_def(Tensor)
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
        kind, (steps, samples, hidden) = self.kind, self.sizes()
        rows = GATES.get(kind, 1) * hidden
        self._check(
            {
                "projected": (steps, samples, rows),
                "recurrence": (hidden, rows),
                "initial_state": (samples, hidden),
                "initial_cell": (samples, hidden),
                "bias": (hidden,),
                "peepholes": (3 * hidden,),
            }
        )
        if self.bias is not None and (kind != "gru" or not self.linear_before_reset):
            raise VerifyException(
                f"{self.name}: only a gru with linear_before_reset has this bias; remove it"
            )
        element = element_of(self.projected)
        every = tensor((steps, samples, hidden), element)
        return [every, tensor((steps, samples, SAVED[kind] * hidden), element), *[every] * (kind == "lstm")]

    def takes_gradient(self) -> bool:
        """Only once: for a second derivative it is decomposed."""
        return not any(True for _ in self.saved.uses)

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        assert grads[1] is None, "saved values have no other use"
        hidden = self.sizes()[2]
        dy = grads[0] if grads[0] is not None else b.splat(0, self.result)
        cells = [g for g in grads[2:] if g is not None]
        backward = b.insert(
            RecurrentBackwardOp(
                dy,
                Term(self.recurrence, b).transpose((1, 0)).value,
                self.result,
                self.saved,
                self.initial_state,
                present(self.initial_cell),
                cells,
                present(self.lengths),
                present(self.peepholes),
                **{n: getattr(self, n) for n in PROPERTIES},
            )
        )
        gates, state, *rest = (Term(v, b) for v in backward.results)
        grads_of: dict[str, Term] = {
            "projected": gates,
            "recurrence": self._gradient_of_recurrence(gates, rest),
            "initial_state": state,
        }
        if self.kind == "lstm":
            grads_of["initial_cell"] = rest[0]
        if self.bias is not None:
            grads_of["bias"] = rest[0].sum((0, 1), keepdims=False)
        if self.peepholes is not None:
            every = Term(self.results[2], b)
            old = self._before(every, present(self.initial_cell)[0])
            looks = [
                (gates.slice(2, i * hidden, (i + 1) * hidden) * cell).sum((0, 1), keepdims=False)
                for i, cell in enumerate((old, every, old))
            ]
            grads_of["peepholes"] = concat(looks, 0)
        names = [name for name, _ in self.operand_groups() for _ in self.operand_group(name)]
        return [grads_of[name].value if name in grads_of else None for name in names]

    def _gradient_of_recurrence(self, gates: Term, rest: Sequence[Term]) -> Term:
        """That of the recurrent weights, by those of the gates and what else the backward pass gives."""
        steps, samples, hidden = self.sizes()
        before = self._before(gates.of(self.result), self.initial_state)

        def product(x: Term, y: Term) -> Term:
            rows = [v.reshape((steps * samples, v.shape[2])) for v in (x, y)]
            return rows[0].transpose((1, 0)).apply(MatmulOp, rows[1])

        if self.kind != "gru":
            return product(before, gates)
        if rest:
            return product(before, concat([gates.slice(2, 0, 2 * hidden), rest[0]], 2))
        reset = gates.of(self.saved).slice(2, 3 * hidden, 4 * hidden)
        turns = product(before, gates.slice(2, 0, 2 * hidden))
        return concat([turns, product(reset, gates.slice(2, 2 * hidden, 3 * hidden))], 1)

    def _before(self, every: Term, first: SSAValue) -> Term:
        """The values [T, N, H] of the steps before."""
        steps, samples, hidden = self.sizes()
        parts = [every.of(first).reshape((1, samples, hidden))]
        if steps > 1 and self.reverse:
            parts.insert(0, every.slice(0, 1, steps))
        elif steps > 1:
            parts.append(every.slice(0, 0, steps - 1))
        return concat(parts, 0)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        projected, lengths = Term(self.projected, b), self.optional("lengths", b)
        results = run_forward(self.cell(b), self.order(), projected, self.initial(b), lengths)
        return [result.value for result in results]

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
        lengths: Array | None,
        peepholes: Array | None,
    ) -> None:
        cell = _cell(self, recurrence, bias, peepholes)
        initial = [widen(s) for s in (initial_state, initial_cell) if s is not None]
        outputs = run_forward(cell, _order(self, len(projected)), widen(projected), initial, lengths)
        for target, value in zip((result, saved, *cells), outputs, strict=True):
            target[...] = value


@graph_op
class RecurrentBackwardOp(_Recurrent):
    """Gradients of the projected input and the initial state from those of every state.

    For an LSTM also that of the initial cell (and `cells_grad` of every cell may come in), for a GRU
    that of the recurrent part of its last gate, [T, N, H]. `recurrence` is [G H, H].
    """

    name = "glow.recurrent_backward"
    grad = operand_def(Tensor)
    recurrence = operand_def(Tensor)
    states = operand_def(Tensor)
    saved = operand_def(Tensor)
    initial_state = operand_def(Tensor)
    initial_cell = opt_operand_def(Tensor)
    cells_grad = opt_operand_def(Tensor)
    lengths = opt_operand_def(Tensor)
    peepholes = opt_operand_def(Tensor)
    projected_grad = result_def(Tensor)
    state_grad = result_def(Tensor)
    rest = var_result_def(Tensor)

    def sizes(self) -> tuple[int, int, int]:
        steps, samples, hidden = shape_of(self.grad)
        return steps, samples, hidden

    def infer(self) -> Sequence[Attribute]:
        if len(shape_of(self.grad)) != 3:
            raise VerifyException(f"{self.name}: grad is {self.grad.type}, expected rank 3")
        kind, (steps, samples, hidden) = self.kind, self.sizes()
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
                "peepholes": (3 * hidden,),
            }
        )
        element = element_of(self.grad)
        product = [every] * self.linear_before_reset
        more = {"lstm": [(samples, hidden)], "gru": product, "rnn": []}[kind]
        shapes: list[tuple[int, ...]] = [(steps, samples, rows), (samples, hidden), *more]
        return [tensor(shape, element) for shape in shapes]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        operands = {n: self.optional(n, b) for n in ("grad", "cells_grad", "states", "saved")}
        lengths = self.optional("lengths", b)
        results = run_backward(self.cell(b), self.order(), operands, self.initial(b), lengths)
        return [result.value for result in results]

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
        lengths: Array | None,
        peepholes: Array | None,
    ) -> None:
        cell = _cell(self, recurrence, None, peepholes)
        operands = {"grad": grad, "states": states, "saved": saved, "cells_grad": cells_grad}
        arrays = {n: None if a is None else widen(a) for n, a in operands.items()}
        initial = [widen(s) for s in (initial_state, initial_cell) if s is not None]
        outputs = run_backward(cell, _order(self, len(grad)), arrays, initial, lengths)
        for target, value in zip((projected_grad, state_grad, *rest), outputs, strict=True):
            target[...] = value


def _cell(op: _Recurrent, recurrence: Array, bias: Array | None, peepholes: Array | None) -> Cell:
    weights, holes = widen(recurrence), None if peepholes is None else widen(peepholes).reshape(1, -1)
    properties = {n: getattr(op, n) for n in PROPERTIES}
    epsilon = float(np.finfo(weights.dtype).eps)
    return Cell(Arrays(weights.dtype), properties, epsilon, weights, bias, holes)


_KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("lstm", {}),
    ("gru", {}),
    ("rnn", {}),
    ("rnn", {"activation": "relu"}),
    ("lstm", {"clip": 0.4, "peepholes": True, "lengths": True}),
    ("lstm", {"input_forget": True, "lengths": True}),
    ("gru", {"linear_before_reset": False, "lengths": True}),
    ("gru", {"clip": 0.4}),
    ("rnn", {"clip": 0.4, "lengths": True}),
)


def _samples() -> Iterator[Sample]:
    """3 steps of 2 samples with 5 hidden; the gradient of saved values is not checked."""
    t, n, h = 3, 2, 5
    for index, (kind, options) in enumerate(_KINDS):
        for reverse in (False, True):
            common = {"kind": kind, "reverse": reverse, **options}
            more = (
                np.array([3, 1], np.int32) if common.pop("lengths", False) else None,
                random(3 * h, seed=9) if common.pop("peepholes", False) else None,
            )
            rows, state = GATES[kind] * h, random(n, h, seed=index)
            cell = random(n, h, seed=3) if kind == "lstm" else None
            bias = random(h, seed=4) if kind == "gru" and common.get("linear_before_reset", True) else None
            forward = (random(t, n, rows), random(h, rows, seed=2), state, cell, bias, *more)
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
                *more,
            )
            yield Sample(RecurrentBackwardOp, backward, common, smooth=False)


SAMPLES: tuple[Sample, ...] = tuple(_samples())
