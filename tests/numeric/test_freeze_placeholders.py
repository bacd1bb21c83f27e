"""Trained placeholders become constants: which do, with which values, and what goes."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import glow_compiler as glow
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_dialects.ops.module import constants, functions, placeholders
from glow_dialects.parse import parse_module
from glow_passes.autodiff.freeze_placeholders import freeze_placeholders
from glow_passes.autodiff.make_trainable import make_trainable

#: y = x w + s, where nothing is written but `count`; `spare` is of the training function alone.
MODULE = """
glow.placeholder @x input : tensor<2xf32>
glow.placeholder @unread input : tensor<2xf32>
glow.placeholder @w trainable : tensor<2xf32>
glow.placeholder @s state : tensor<2xf32>
glow.placeholder @count state : tensor<2xf32>
glow.placeholder @spare state : tensor<2xf32>
glow.placeholder @y output : tensor<2xf32>
glow.func @main {
  %x = glow.get @x : tensor<2xf32>
  %w = glow.get @w : tensor<2xf32>
  %s = glow.get @s : tensor<2xf32>
  %c = glow.get @count : tensor<2xf32>
  %p = glow.mul %x, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %q = glow.add %p, %s : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  glow.save %q to @y : tensor<2xf32>
  %d = glow.add %c, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  glow.save %d to @count : tensor<2xf32>
}
glow.func @main_training training {
  %w = glow.get @w : tensor<2xf32>
  %z = glow.get @spare : tensor<2xf32>
  %n = glow.add %w, %z : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  glow.save %n to @w : tensor<2xf32>
}
"""


def parsed() -> ModuleOp:
    return parse_module(MODULE, "module", context())


def held(module: ModuleOp) -> dict[str, Array | None]:
    return {name: op.array() for name, op in constants(module).items()}


def test_what_becomes_constant() -> None:
    """Weights and states that only training wrote; what is written still, and what is fed, stays."""
    module, w = parsed(), np.array([3, -2], np.float32)
    assert freeze_placeholders(module, {"w": w}) == ["w", "s"]
    module.verify()
    w[0] = 7  # the module has its own copy
    np.testing.assert_equal(held(module), {"w": np.array([3, -2], np.float32), "s": np.zeros(2, np.float32)})
    assert {n: p.kind.data for n, p in placeholders(module).items()} == {
        **{"x": "input", "unread": "input", "count": "state", "y": "output"}
    }
    assert [f.sym_name.data for f in functions(module)] == ["main"]
    net = glow.compile(module, backend="interpreter")
    out = net.run({"x": np.array([1, 2], np.float32), "unread": np.zeros(2, np.float32)})
    np.testing.assert_array_equal(out["y"], [3, -4])


def test_values_must_fit() -> None:
    """In shape and in type, each by itself."""
    for wrong in (np.zeros(3, np.float32), np.zeros(2, np.float64)):
        with pytest.raises(GlowError, match=r"@w is tensor<2xf32>, its value is float\d\d\[\d\]"):
            freeze_placeholders(parsed(), {"w": wrong})


def test_there_and_back() -> None:
    """Constants that become trainable keep their values as first contents, and get them back."""
    g = glow.GraphBuilder()
    w, k = np.array([1.5, -2], np.float32), np.array([1, 0], np.int32)
    x = g.gather(g.mul(g.placeholder("x", (2,)), g.constant(w, "w")), g.constant(k, "k"))
    g.save(g.add(x, g.constant(w + 1, "u")), "y")
    module = g.module
    assert make_trainable(module, ["*", "!u"]) == ["w"]
    assert {n: p.kind.data for n, p in placeholders(module).items()}["w"] == "trainable"
    assert set(constants(module)) == {"k", "u"}
    assert freeze_placeholders(module) == ["w"]
    np.testing.assert_equal(held(module), {"w": w, "k": k, "u": w + 1})
