"""Training functions: their dropouts, what they read once, and what they say of what has no gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import glow_compiler as glow
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import tensor
from glow_dialects.ops.dropout import DropoutTrainOp
from glow_dialects.ops.module import FuncOp, GetOp, functions, placeholders
from glow_dialects.reverse import NotDifferentiableError
from glow_passes.autodiff.differentiate import differentiate
from glow_passes.autodiff.training import STEP, add_placeholder


def function_of(g: glow.GraphBuilder) -> FuncOp:
    function = next(iter(functions(g.module)))
    assert isinstance(function, FuncOp)
    return function


def dropouts(seeds: list[int], ratio: float = 0.5, **options: Any) -> list[int]:
    """The seeds of the dropouts of a training function."""
    g = glow.GraphBuilder()
    x = g.mul(g.placeholder("x", (4,)), g.trainable(np.ones(4, np.float32), "w"))
    for seed in seeds:
        x = g.dropout(x, ratio=ratio, seed=seed)
    g.save(x, "y")
    training = differentiate(g.module, function_of(g), **options)
    g.module.verify()
    assert (STEP in placeholders(g.module)) == (ratio > 0)
    return [op.seed for op in training.function.walk() if isinstance(op, DropoutTrainOp)]


def test_seeds_of_dropouts() -> None:
    """No two alike, shifted by that of the training, within what an i64 holds; none where nothing drops."""
    assert dropouts([5, 9]) == [5, 9]
    assert dropouts([5, 5, 6, 5]) == [5, 6, 7, 8]
    assert dropouts([5, 5], seed=2) == [(2 << 32) + 5, (2 << 32) + 6]
    assert dropouts([7], seed=1 << 31) == [7]
    assert dropouts([7], seed=(1 << 31) - 1) == [(((1 << 31) - 1) << 32) + 7]
    assert dropouts([5, 5], ratio=0.0) == []


def test_a_weight_that_is_read_twice_has_one_gradient() -> None:
    """The sum of both; the inference function is as it was."""
    g = glow.GraphBuilder()
    w = g.trainable(np.ones(3, np.float32), "w")
    g.save(g.add(g.mul(w, g.placeholder("x", (3,))), w), "y")
    before = str(function_of(g))
    training = differentiate(g.module, function_of(g))
    assert str(function_of(g)) == before
    reads = [op for op in training.function.walk() if isinstance(op, GetOp) and op.result.uses.get_length()]
    assert [op.symbol.root_reference.data for op in reads].count("w") == 1
    assert list(training.gradients) == ["w"] and training.function.sym_name.data == "main_training"


def test_placeholders_stand_before_what_reads_them() -> None:
    """In front of all that is there, once each; in a module with nothing in it, too."""
    module = ModuleOp([])
    kind = tensor((2,))
    first = add_placeholder(module, "a", kind, "input")
    second = add_placeholder(module, "b", kind, "state", np.ones(2, np.float32))
    assert add_placeholder(module, "a", kind, "state") is first and first.kind.data == "input"
    assert list(module.ops) == [second, first]


def test_what_has_no_gradient() -> None:
    """A loss of inputs alone, or behind what is constant in steps; the names are told."""
    g = glow.GraphBuilder()
    g.trainable(np.ones(3, np.float32), "w")
    g.save(g.neg(g.placeholder("x", (3,))), "y")
    with pytest.raises(GlowError, match="no gradient reaches any of @w"):
        differentiate(g.module, function_of(g))
    g = glow.GraphBuilder()
    g.save(g.floor(g.trainable(np.ones(3, np.float32), "w")), "y")
    with pytest.raises(NotDifferentiableError, match="floor"):
        differentiate(g.module, function_of(g))
