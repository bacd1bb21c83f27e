"""Gradient of ai.onnx.preview.training, against PyTorch's autograd."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

import glow_compiler as glow

torch = pytest.importorskip("torch")

DOMAIN = "ai.onnx.preview.training"


def model(nodes: list[NodeProto], of: tuple[str, ...] = ("x",)) -> ModelProto:
    """A network of x [1, 2, 2, 3] that gives dy/dv as `dv` for each v of `of`."""
    outs = [f"d{v}" for v in of]
    last = helper.make_node("Gradient", of, outs, domain=DOMAIN, xs=list(of), y="y")
    shape = [1, 2, 2, 3]
    graph = helper.make_graph(
        [*nodes, last],
        "gradient",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, shape) for o in outs],
        [helper.make_tensor(n, TensorProto.FLOAT, [2], v) for n, v in (("s", [1, 2]), ("b", [0, 3]))],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    )


X = np.random.default_rng(5).normal(size=(1, 2, 2, 3)).astype(np.float32)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_operators_that_are_taken_apart(backend: str) -> None:
    """A normalisation has a gradient by its decomposition; its own value is used as well."""
    norm = helper.make_node("InstanceNormalization", ["x", "s", "b"], ["t"])
    nodes = [norm, helper.make_node("Mul", ["t", "x"], ["q"]), helper.make_node("ReduceSum", ["q"], ["y"])]
    x = torch.tensor(X, requires_grad=True)
    (
        torch.nn.functional.instance_norm(x, weight=torch.tensor([1.0, 2]), bias=torch.tensor([0.0, 3])) * x
    ).sum().backward()
    got = glow.compile(model(nodes), backend=backend).run({"x": X})["dx"]
    np.testing.assert_allclose(got, np.asarray(x.grad), rtol=1e-4, atol=1e-5)


def test_intermediate_values_are_independent() -> None:
    """By x and by what is computed of x: each as if the other did not change."""
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("Mul", ["e", "x"], ["q"]),
        helper.make_node("ReduceSum", ["q"], ["y"]),
    ]
    got = glow.compile(model(nodes, ("x", "e"))).run({"x": X})
    np.testing.assert_allclose(got["dx"], np.exp(X), rtol=1e-5)
    np.testing.assert_allclose(got["de"], X, rtol=1e-5)


def test_values_that_do_not_matter() -> None:
    """Zeros of the value's shape where only steps are in between."""
    nodes = [helper.make_node("Floor", ["x"], ["t"]), helper.make_node("ReduceSum", ["t"], ["y"])]
    assert np.array_equal(glow.compile(model(nodes)).run({"x": X})["dx"], np.zeros_like(X))
