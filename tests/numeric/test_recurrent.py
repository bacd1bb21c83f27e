"""Recurrent networks by one loop for all steps: what they give is what the operators' references give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.core.builder import Builder
from glow_dialects.core.sample import random
from glow_dialects.ops.gru import GruOp
from glow_dialects.ops.lstm import LstmOp
from glow_dialects.ops.module import FuncOp, functions
from glow_dialects.ops.recurrent import RecurrentOp
from glow_dialects.ops.recurrent_train import RecurrentTrainOp
from glow_dialects.ops.rnn import RnnOp
from glow_passes.autodiff.differentiate import differentiate
from glow_passes.autodiff.recurrent import has_training_form, training_form

CARDS: dict[str, Any] = {"lstm": (LstmOp, 4), "gru": (GruOp, 3), "rnn": (RnnOp, 1)}
T, N, I, H = 4, 3, 5, 6


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize(
    ("kind", "linear", "lengths"),
    [
        ("lstm", None, False),
        ("lstm", None, True),
        ("gru", True, False),
        ("gru", False, True),
        ("rnn", None, True),
    ],
)
def test_results(kind: str, linear: bool | None, lengths: bool, layout: int, direction: str) -> None:
    """Every state and the last ones, in each direction, of sequences of the same and of other lengths."""
    card, gates = CARDS[kind]
    many = 2 if direction == "bidirectional" else 1
    state = (N, many, H) if layout else (many, N, H)
    g = glow.GraphBuilder()
    shapes = (
        (N, T, I) if layout else (T, N, I),
        (many, gates * H, I),
        (many, gates * H, H),
        (many, 2 * gates * H),
    )
    values = [g.constant(random(*shape, seed=i)) for i, shape in enumerate((*shapes, state))]
    ends = g.constant(np.array([T, 1, 2], np.int32)) if lengths else None
    more = [g.constant(random(*state, seed=9))] if kind == "lstm" else []
    options: dict[str, Any] = {} if linear is None else {"linear_before_reset": linear}
    made = g.insert(card, *values[:4], ends, values[4], *more, direction=direction, layout=layout, **options)
    for number, result in enumerate(made):
        g.save(result, f"y{number}")
    want = glow.compile(g, backend="interpreter").run({})
    module = g.module.clone()
    function = next(iter(functions(module)))
    (op,) = (op for op in function.walk() if isinstance(op, RecurrentOp))
    assert has_training_form(op)
    for old, new in zip(op.results, training_form(op, Builder.before(op)), strict=True):
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()
    module.verify()
    got = glow.compile(module, backend="interpreter").run({})
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


def network(dtype: str = "float32", samples: int = N, ends: str = "", **properties: Any) -> glow.GraphBuilder:
    """An RNN without bias and first state, whose last state is saved."""
    g = glow.GraphBuilder()
    shapes = ((T, samples, I), (1, H, I), (1, H, H))
    x, w, r = (g.trainable(random(*shape, dtype=dtype, seed=i), f"v{i}") for i, shape in enumerate(shapes))
    lengths = g.constant(np.array([T, 1, 2], ends)) if ends else None
    g.save(g.insert(RnnOp, x, w, r, None, lengths, None, **properties)[1], "y")
    return g


def op_of(g: glow.GraphBuilder) -> RecurrentOp:
    (op,) = (op for op in next(iter(functions(g.module))).walk() if isinstance(op, RecurrentOp))
    return op


def test_what_has_no_training_form() -> None:
    """Halves, no element, lengths of another type, other activations; these are differentiated unrolled."""
    assert has_training_form(op_of(network()))
    assert has_training_form(op_of(network(ends="int32")))
    for g in (network("float16"), network(samples=0), network(ends="int64"), network(activations="Elu")):
        assert not has_training_form(op_of(g))
    g = network(activations="Elu")
    function = next(iter(functions(g.module)))
    assert isinstance(function, FuncOp)
    training = differentiate(g.module, function)
    assert training.gradients.keys() == {"v0", "v1", "v2"}
    assert not any(isinstance(op, RecurrentTrainOp) for op in g.module.walk())


def test_without_bias_and_first_state() -> None:
    """Both are zeros."""
    g = network()
    want = glow.compile(g.module.clone(), backend="interpreter").run({})["y"]
    op = op_of(g)
    for old, new in zip(op.results, training_form(op, Builder.before(op)), strict=True):
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()
    np.testing.assert_allclose(
        glow.compile(g, backend="interpreter").run({})["y"], want, rtol=1e-5, atol=1e-6
    )
