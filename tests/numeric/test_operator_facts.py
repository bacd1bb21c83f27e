"""Passes ask operators for facts: an unknown operator is moved, trained and quantised by what it says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

import glow_compiler as glow
from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.layer_axes import LayerAxes
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.module import functions
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.quantize.magnified_errors import sensitive


@graph_op
class TurnOp(PureOp):
    """The rows of a matrix, the last first."""

    name = "glow.test_turn"
    MOVES_ELEMENTS = True
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        return [self.input.type]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        dy = grads[0]
        assert dy is not None
        return [b(TurnOp(dy))]

    def reference(self, result: Array, input: Array) -> None:
        result[...] = input[::-1]


@graph_op
class ProjectOp(PureOp):
    """[N, K] x [K, M] -> [N, M]."""

    name = "glow.test_project"
    LAYER = HOMOGENEOUS = True
    QUANTIZED = QuantizedFullyConnectedOp
    input = operand_def(Tensor)
    weights = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        return [tensor((shape_of(self.input)[0], shape_of(self.weights)[1]), element_of(self.input))]

    def layer_axes(self) -> LayerAxes:
        return LayerAxes(channels=-1, outputs=1, inputs=0)

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        dy = grads[0]
        assert dy is not None
        turned = [b(TransposeOp(v, permutation=(1, 0))) for v in (self.input, self.weights)]
        return [b(ProjectOp(dy, turned[1])), b(ProjectOp(turned[0], dy))]

    def reference(self, result: Array, input: Array, weights: Array) -> None:
        result[...] = input @ weights


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def network(w: Array, v: Array) -> glow.GraphBuilder:
    """relu(x w) turned, times v."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (6, 32))
    hidden = g.relu(g.one(ProjectOp, x, g.constant(w, "w")))
    g.save(g.one(ProjectOp, g.one(TurnOp, hidden), g.constant(v, "v")), "y")
    return g


def test_an_unknown_layer_is_quantised() -> None:
    w, v, x = random(32, 16) / 6, random(16, 8) / 4, random(6, 32)
    module = glow.quantize(network(w, v), [{"x": x}], everything=True, backend="interpreter")
    text = str(module)
    assert text.count("glow.quantized_fully_connected") == 2
    assert "test_project" not in text
    # The move between the layers is on integers: what comes of it was never dequantised.
    assert text.count("glow.dequantize ") == 0 and "test_turn" in text
    want = np.maximum(x @ w, 0)[::-1] @ v
    for backend in ("interpreter", "cpu"):
        have = glow.compile(module, backend=backend).run({"x": x})["y"]
        assert np.abs(have - want).max() < 0.03 * np.abs(want).max()


def test_an_unknown_layer_before_a_logarithm_stays_float() -> None:
    g = glow.GraphBuilder()
    x = g.placeholder("x", (6, 32))
    g.save(g.log(g.one(TurnOp, g.one(ProjectOp, x, g.constant(random(32, 16), "w")))), "y")
    (function,) = functions(g.module)
    assert {op.name for op in sensitive(function)} == {"glow.test_turn", "glow.test_project"}


def test_an_unknown_layer_takes_over_a_scale() -> None:
    """The normalisation after a layer goes into its weights."""
    g, w, s, x = glow.GraphBuilder(), random(32, 16), random(16) + 3, random(6, 32)
    product = g.one(ProjectOp, g.placeholder("x", (6, 32)), g.constant(w, "w"))
    g.save(g.mul(product, g.constant(s, "s")), "y")
    net = glow.compile(g, backend="interpreter")
    np.testing.assert_allclose(net.run({"x": x})["y"], x @ w * s, rtol=1e-4, atol=1e-4)


def test_an_unknown_layer_is_trained() -> None:
    w, v, x, y = random(32, 16) / 6, random(16, 8) / 4, random(6, 32), random(6, 8)
    optimizer = glow.optim.SGD(lr=0.05)
    trainer = glow.Trainer(network(w, v), "mse", optimizer, backend="interpreter", batch=6)
    losses = [float(trainer.step({"x": x}, y)) for _ in range(5)]
    hidden = np.maximum(x @ w, 0)[::-1]
    np.testing.assert_allclose(losses[0], np.mean((hidden @ v - y) ** 2), rtol=1e-4)
    assert losses[-1] < losses[0]
