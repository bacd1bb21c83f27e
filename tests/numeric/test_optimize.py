"""Steps of training functions against formulas in NumPy: optimisers, clipping, groups, running averages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from glow_backends.interpreter.backend import InterpreterBackend, InterpreterProgram
from glow_backends.legalize import LegalizePass
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_dialects.ops.module import FuncOp, functions
from glow_dialects.parse import parse_module
from glow_passes.autodiff.differentiate import count_step, differentiate, save_gradients
from glow_passes.autodiff.optimize import LEARNING_RATE, Optimizer, apply_optimizer
from glow_passes.autodiff.training import STEP
from glow_passes.pipeline import LOWER, PassRunner

#: The loss is the sum of x w + z v: the gradients are x and z.
LINEAR = """
glow.placeholder @x input : tensor<3xf32>
glow.placeholder @z input : tensor<2xf32>
glow.placeholder @w trainable : tensor<3xf32>
glow.placeholder @v trainable : tensor<2xf32>
glow.placeholder @loss output : tensor<f32>
glow.func @main {
  %x = glow.get @x : tensor<3xf32>
  %z = glow.get @z : tensor<2xf32>
  %w = glow.get @w : tensor<3xf32>
  %v = glow.get @v : tensor<2xf32>
  %p = glow.mul %x, %w : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %q = glow.mul %z, %v : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %s = glow.reduce_sum %p {axes = array<i64: 0>, keepdims = false} : (tensor<3xf32>) -> tensor<f32>
  %t = glow.reduce_sum %q {axes = array<i64: 0>, keepdims = false} : (tensor<2xf32>) -> tensor<f32>
  %l = glow.add %s, %t : (tensor<f32>, tensor<f32>) -> tensor<f32>
  glow.save %l to @loss : tensor<f32>
}
"""
W, V = np.array([1, -2, 3], np.float32), np.array([0.5, -0.25], np.float32)


def parsed(text: str) -> tuple[ModuleOp, FuncOp]:
    module = parse_module(text, "program", context())
    function = next(iter(functions(module)))
    assert isinstance(function, FuncOp)
    return module, function


def trained(chosen: Optimizer, names: Mapping[str, str] | None = None) -> InterpreterProgram:
    """The training function of the linear loss."""
    module, function = parsed(LINEAR)
    training = differentiate(module, function)
    apply_optimizer(module, training, chosen, names)
    count_step(module, training)
    return program(module)


def program(module: ModuleOp, function: str = "main_training") -> InterpreterProgram:
    module.verify()
    PassRunner(context()).run(module, [LegalizePass(InterpreterBackend()), *LOWER])
    made = InterpreterBackend().compile(module, function)
    assert isinstance(made, InterpreterProgram)
    return made


def steps(chosen: Optimizer, count: int = 4, names: Mapping[str, str] | None = None) -> dict[str, Array]:
    """The state after some steps, whose gradients differ."""
    made = trained(chosen, names)
    made.state["w"][...], made.state["v"][...] = W, V
    rate = {LEARNING_RATE: np.array(0.1, np.float32)} if chosen.lr is None else {}
    for number in range(count):
        x, z = gradients(number)
        made.run({"x": x, "z": z, **rate})
    return made.state


def gradients(number: int) -> tuple[Array, Array]:
    """The gradients of a step."""
    return np.array([1, -2, 0.5], np.float32) * (number + 1), np.array([3, number - 1], np.float32)


Step = Callable[[Array, Array, int, dict[str, Any]], Array]


def followed(step: Step, count: int = 4) -> dict[str, Array]:
    """What a formula makes of the weights: of weight, gradient, number of the step, and its own memory."""
    found: dict[str, Array] = {}
    for place, (name, first) in enumerate((("w", W), ("v", V))):
        value, memory = first.astype(np.float64), dict[str, Any]()
        for number in range(count):
            value = step(value, gradients(number)[place].astype(np.float64), number, memory)
        found[name] = value
    return found


def momentum(w: Array, g: Array, number: int, m: dict[str, Any]) -> Array:
    g = g + 0.01 * w
    m["v"] = 0.9 * m["v"] + 0.5 * g if number else g
    return w - 0.1 * m["v"]


def adam(
    w: Array, g: Array, number: int, m: dict[str, Any], largest: bool = False, apart: float = 0
) -> Array:
    w = w * (1 - 0.1 * apart)
    m["a"] = 0.9 * m.get("a", 0) + 0.1 * g
    m["b"] = 0.999 * m.get("b", 0) + 0.001 * g * g
    m["c"] = np.maximum(m.get("c", 0), m["b"]) if largest else m["b"]
    a, b = m["a"] / (1 - 0.9 ** (number + 1)), m["c"] / (1 - 0.999 ** (number + 1))
    return w - 0.1 * a / (np.sqrt(b) + 1e-8)


def rmsprop(w: Array, g: Array, number: int, m: dict[str, Any]) -> Array:
    m["s"] = 0.99 * m.get("s", 0) + 0.01 * g * g
    m["m"] = 0.99 * m.get("m", 0) + 0.01 * g
    m["v"] = 0.8 * m.get("v", 0) + g / (np.sqrt(m["s"] - m["m"] ** 2) + 1e-8)
    return w - 0.1 * m["v"]


def adagrad(w: Array, g: Array, number: int, m: dict[str, Any]) -> Array:
    m["s"] = m.get("s", 0.25) + g * g
    return w - 0.1 / (1 + 0.5 * number) * g / (np.sqrt(m["s"]) + 1e-10)


RECIPES: dict[str, tuple[Optimizer, Step]] = {
    "sgd": (Optimizer("sgd", 0.1), lambda w, g, n, m: w - 0.1 * g),
    "sgd at a rate that is given": (Optimizer("sgd"), lambda w, g, n, m: w - 0.1 * g),
    "sgd with decay": (Optimizer("sgd", 0.1, 0.2), lambda w, g, n, m: w - 0.1 * (g + 0.2 * w)),
    "momentum": (Optimizer("sgd", 0.1, 0.01, options={"momentum": 0.9, "dampening": 0.5}), momentum),
    "adam": (Optimizer("adam", 0.1), adam),
    "amsgrad": (
        Optimizer("adam", 0.1, options={"amsgrad": True}),
        lambda w, g, n, m: adam(w, g, n, m, largest=True),
    ),
    "adamw": (Optimizer("adamw", 0.1, 0.3), lambda w, g, n, m: adam(w, g, n, m, apart=0.3)),
    "rmsprop": (Optimizer("rmsprop", 0.1, options={"centered": True, "momentum": 0.8}), rmsprop),
    "adagrad": (Optimizer("adagrad", 0.1, options={"initial": 0.25, "lr_decay": 0.5}), adagrad),
    "clipped by value": (
        Optimizer("sgd", 0.1, clip_value=1.5),
        lambda w, g, n, m: w - 0.1 * np.clip(g, -1.5, 1.5),
    ),
}


@pytest.mark.parametrize("name", RECIPES)
def test_steps(name: str) -> None:
    """Two weights, four steps."""
    chosen, step = RECIPES[name]
    state, want = steps(chosen), followed(step)
    for weight in ("w", "v"):
        np.testing.assert_allclose(state[weight], want[weight], rtol=2e-4, atol=2e-5)
    counted = name in ("adam", "amsgrad", "adamw", "adagrad", "momentum")
    assert (STEP in state) == counted
    if counted:
        assert state[STEP] == 4


def test_clipping_by_the_norm_of_all() -> None:
    """Of both gradients together; one that is short enough stays."""
    x, z = gradients(0)
    norm = np.sqrt((x * x).sum() + (z * z).sum())
    for bound, factor in ((2.0, 2.0 / norm), (100.0, 1.0)):
        state = steps(Optimizer("sgd", 0.1, clip_norm=bound), 1)
        np.testing.assert_allclose(state["w"], W - 0.1 * factor * x, rtol=1e-5)
        np.testing.assert_allclose(state["v"], V - 0.1 * factor * z, rtol=1e-5)


def test_groups() -> None:
    """Weights whose names in the model match have a decay and a part of the rate of their own."""
    groups = {"layer.*": {"weight_decay": 0.0, "lr_scale": 0.5}, "*": {"weight_decay": 0.4}}
    state = steps(Optimizer("sgd", 0.1, 0.2, groups=groups), 1, {"w": "layer.w", "v": "head"})
    x, z = gradients(0)
    np.testing.assert_allclose(state["w"], W - 0.05 * x, rtol=1e-6)
    np.testing.assert_allclose(state["v"], V - 0.1 * (z + 0.4 * V), rtol=1e-6)
    with pytest.raises(GlowError, match=r"sgd: no weight matches the group 'other\*'"):
        trained(Optimizer("sgd", 0.1, groups={"other*": {}}))
    with pytest.raises(GlowError, match="no optimizer 'best'; there are: sgd"):
        trained(Optimizer("best", 0.1))


def test_gradients_are_saved() -> None:
    """Those of what is asked for; zeros of what has none."""
    module, function = parsed(LINEAR.replace("glow.add %s, %t", "glow.add %s, %s"))
    save_gradients(module, differentiate(module, function))
    out = program(module).run({"x": W, "z": V})
    np.testing.assert_array_equal(out["w.grad"], 2 * W)
    np.testing.assert_array_equal(out["v.grad"], [0, 0])
    module, function = parsed(LINEAR)
    save_gradients(module, differentiate(module, function, wrt=["z", "v"]))
    out = program(module).run({"x": W, "z": V})
    assert {"z.grad", "v.grad"} <= out.keys() and "w.grad" not in out
    with pytest.raises(GlowError, match=r"with respect to @u, @t"):
        differentiate(*parsed(LINEAR), wrt=["w", "u", "t"])
    with pytest.raises(GlowError, match="with respect to no trainable placeholder"):
        differentiate(*parsed(LINEAR.replace("trainable", "state")))
    with pytest.raises(GlowError, match=r"no output @z to differentiate; the outputs are @loss"):
        differentiate(*parsed(LINEAR), loss="z")


NORM = """
glow.placeholder @x input : tensor<4x2x3x3xf32>
glow.placeholder @s trainable : tensor<2xf32>
glow.placeholder @b trainable : tensor<2xf32>
glow.placeholder @m state : tensor<2xf32>
glow.placeholder @v state : tensor<2xf32>
glow.placeholder @y output : tensor<4x2x3x3xf32>
glow.func @main {
  %x = glow.get @x : tensor<4x2x3x3xf32>
  %s = glow.get @s : tensor<2xf32>
  %b = glow.get @b : tensor<2xf32>
  %m = glow.get @m : tensor<2xf32>
  %v = glow.get @v : tensor<2xf32>
  %y = $NORM(%x)
  glow.save %y to @y : tensor<4x2x3x3xf32>
}
"""
ONE = """glow.batch_norm $X, %s, %b, %m, %v {epsilon = 1.0e-05 : f64, momentum = 0.75 : f64} :
  (tensor<4x2x3x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4x2x3x3xf32>"""


@pytest.mark.parametrize(("given", "kept"), [(None, 0.75), (0.5, 0.5), (0.0, 0.0)])
@pytest.mark.parametrize("layers", [1, 2])
def test_running_averages(given: float | None, kept: float, layers: int) -> None:
    """Of the mean and the unbiased variance of a batch; a layer that is used twice goes on from its own."""
    text = NORM.replace("$NORM(%x)", ONE.replace("$X", "%x"))
    if layers == 2:
        text = text.replace("%y = ", "%h = ").replace(
            "  glow.save", f"  %y = {ONE.replace('$X', '%h')}\n  glow.save"
        )
    module, function = parsed(text)
    training = differentiate(module, function, momentum=given)
    save_gradients(module, training)
    made = program(module)
    made.state["s"][...], made.state["b"][...], made.state["v"][...] = [1, 2], [0, 3], [1, 1]
    x = np.random.default_rng(0).standard_normal((4, 2, 3, 3)).astype(np.float32)
    made.run({"x": x})
    mean, variance, value = np.zeros(2), np.ones(2), x
    for _ in range(layers):
        m, v = value.mean((0, 2, 3)), value.var((0, 2, 3))
        mean, variance = kept * mean + (1 - kept) * m, kept * variance + (1 - kept) * v * 36 / 35
        scale, bias = (np.array(a).reshape(1, 2, 1, 1) for a in ([1, 2], [0, 3]))
        shown = (value - m.reshape(1, 2, 1, 1)) / np.sqrt(v.reshape(1, 2, 1, 1) + 1e-5)
        value = shown * scale + bias
    np.testing.assert_allclose(made.state["m"], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made.state["v"], variance, rtol=1e-4, atol=1e-5)


def test_fixed_statistics_stay() -> None:
    """A layer whose statistics are inputs is frozen: it computes with these."""
    module, function = parsed(
        NORM.replace("$NORM(%x)", ONE.replace("$X", "%x")).replace("@m state", "@m input")
    )
    training = differentiate(module, function)
    names = [op.name for op in training.function.walk()]
    assert "glow.batch_norm_train" not in names
    save_gradients(module, training)
    made = program(module)
    made.state["s"][...], made.state["v"][...] = [1, 2], [4, 9]
    x = np.random.default_rng(0).standard_normal((4, 2, 3, 3)).astype(np.float32)
    means = np.array([1, -1], np.float32)
    out = made.run({"x": x, "m": means})
    norm = (x - means.reshape(1, 2, 1, 1)) / np.sqrt(np.array([4, 9]).reshape(1, 2, 1, 1) + 1e-5)
    np.testing.assert_allclose(out["s.grad"], norm.sum((0, 2, 3)), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(made.state["v"], [4, 9])
