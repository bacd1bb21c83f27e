"""Recurrent networks in training functions: one product for all steps, and a loop that saves its gates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.term import Term, concat
from glow_dialects.core.types import dtype_of, element_of, present, shape_of, tensor
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.gru import GruOp
from glow_dialects.ops.recurrent import RecurrentOp, activations_of
from glow_dialects.ops.recurrent_train import ACTIVATIONS, RecurrentTrainOp

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def has_training_form(op: RecurrentOp) -> bool:
    """Whether `recurrent_train` does what the network does: gates with the usual activations."""
    if dtype_of(op.operands[0].type).name not in ("float32", "float64") or 0 in shape_of(op.results[0]):
        return False
    if op.KIND == "lstm" and op.scales is not None:  # of 8 bits, which training has not
        return False
    if op.predicate is not None or any(element_of(v) != i32 for v in present(op.lengths)):
        return False
    properties = {
        n: getattr(op, n) for n in ("activations", "activation_alpha", "activation_beta", "direction")
    }
    for index, _ in enumerate(_DIRECTIONS[op.direction]):
        names = tuple(name for name, _, _ in activations_of(properties, index))
        if names[0] not in ACTIVATIONS if op.KIND == "rnn" else names != op.FUNCTIONS:
            return False
    return True


def training_form(op: RecurrentOp, b: Builder) -> list[SSAValue]:
    """The results of a network that `has_training_form`, by one recurrent_train a direction."""
    x, first = Term(op.operands[0], b), op.layout == 1
    x = x.transpose((1, 0, 2)) if first else x
    directions = [_direction(op, x, index) for index, _ in enumerate(_DIRECTIONS[op.direction])]
    results = [
        concat(list(parts), int(place == 0)) for place, parts in enumerate(zip(*directions, strict=True))
    ]
    if first:
        every, *last = results
        results = [every.transpose((2, 0, 1, 3)), *(v.transpose((1, 0, 2)) for v in last)]
    return [result.value for result in results]


def _direction(op: RecurrentOp, x: Term, index: int) -> Sequence[Term]:
    """[every state [T, 1, N, H], last state [1, N, H], for an LSTM the last cell] of one direction."""
    steps, samples, inputs = x.shape
    hidden, kind = shape_of(op.operands[2])[2], op.KIND
    rows, backwards = op.GATES * hidden, _DIRECTIONS[op.direction][index]

    def own(value: SSAValue, shape: Sequence[int], axis: int = 0) -> Term:
        return x.of(value).slice(axis, index, index + 1).reshape(shape)

    weights = own(op.operands[1], (rows, inputs)).transpose((1, 0))
    outer, inner = _biases(op, x, index, rows, hidden)
    flat = x.reshape((steps * samples, inputs)).apply(FullyConnectedOp, weights, outer)
    state_axis = 1 if op.layout == 1 else 0

    def state(name: str) -> Term:
        state_of_all = op.operand_group(name)
        if state_of_all:
            return own(state_of_all[0], (samples, hidden), state_axis)
        return x.of(x.b.splat(0, tensor((samples, hidden), x.element)))

    names = [n.strip().lower() for n in op.activations.split(",")]
    lstm = kind == "lstm"
    holes = [own(v, (3 * hidden,)).value for v in present(op.peepholes)] if lstm else []
    forward = x.b.insert(
        RecurrentTrainOp(
            flat.reshape((steps, samples, rows)).value,
            own(op.operands[2], (rows, hidden)).transpose((1, 0)).value,
            state("initial_state").value,
            [state("initial_cell").value] if lstm else [],
            None if inner is None else inner.value,
            present(op.lengths),
            holes,
            kind=kind,
            reverse=backwards,
            activation=names[index] if kind == "rnn" else "tanh",
            clip=op.clip,
            input_forget=lstm and op.input_forget,
            linear_before_reset=kind != "gru" or bool(op.linear_before_reset),
        )
    )
    last = 0 if backwards else steps - 1
    ends = [x.of(v).slice(0, last, last + 1) for v in (forward.results[0], *forward.results[2:])]
    shown = x.of(forward.results[0])
    for lengths in present(op.lengths):
        # Past their ends sequences keep their states, which their results do not show.
        places = x.b.constant(np.arange(steps, dtype=np.int32).reshape(steps, 1, 1))
        running = x.of(lengths).reshape((1, samples, 1)) > places
        shown = running.where(shown, 0.0)
    return [shown.reshape((steps, 1, samples, hidden)), *ends]


def _biases(op: RecurrentOp, x: Term, index: int, rows: int, hidden: int) -> tuple[Term, Term | None]:
    """(bias of the projected input [G H], the recurrent one of a GRU's last gate [H])."""
    biases = present(op.bias)
    if not biases:
        return x.of(x.b.splat(0, tensor((rows,), x.element))), None
    both = x.of(biases[0]).slice(0, index, index + 1).reshape((2 * rows,))
    outer, inner = both.slice(0, 0, rows), both.slice(0, rows, 2 * rows)
    if not isinstance(op, GruOp) or not op.linear_before_reset:
        return outer + inner, None
    gates = outer.slice(0, 0, 2 * hidden) + inner.slice(0, 0, 2 * hidden)
    outer = concat([gates, outer.slice(0, 2 * hidden, rows)], 0)
    return outer, inner.slice(0, 2 * hidden, rows)
