"""Inputs with default values: initializers that the graph lists as inputs, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.errors import BindingError, ShapeError
from glow_tools import run

BACKENDS = pytest.mark.parametrize("backend", ["interpreter", "cpu"])
ONES = np.ones((2, 3), np.float32)
W = np.arange(3, dtype=np.float32)


def _model(
    nodes: list[onnx.NodeProto],
    weights: dict[str, np.ndarray],
    inputs: dict[str, tuple[Any, ...]],
    outputs: list[str],
    ir_version: int = 10,
) -> onnx.ModelProto:
    """A float model whose `inputs` are (type, dims...) by name."""
    infos = [helper.make_tensor_value_info(n, kind, dims) for n, (kind, *dims) in inputs.items()]
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    given = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", infos, outs, given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version)


def _scaled(ir_version: int = 10, rows: int | str = 2) -> onnx.ModelProto:
    nodes = [helper.make_node("Mul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "c"], ["y"])]
    inputs = {"x": (TensorProto.FLOAT, rows, 3), "w": (TensorProto.FLOAT, 3)}
    return _model(nodes, {"w": W, "c": W}, inputs, ["y"], ir_version)


@BACKENDS
@pytest.mark.parametrize("ir_version", [3, 10])
@pytest.mark.parametrize("rows", [2, "n"])
def test_a_default_is_a_constant_that_a_call_may_replace(
    backend: str, ir_version: int, rows: int | str
) -> None:
    net = glow.compile(_scaled(ir_version, rows), backend=backend)
    assert [s.name for s in net.inputs] == ["x"]
    assert [s.name for s in net.defaults] == ["w"]
    for w in (None, 5 * W, None, 6 * W):
        given = {"x": ONES} if w is None else {"x": ONES, "w": w}
        np.testing.assert_array_equal(net.run(given)["y"], ONES * (W if w is None else w) + W)
    np.testing.assert_array_equal(net.bind({"x": ONES, "w": 7 * W})()["y"], 8 * W * ONES)
    np.testing.assert_array_equal(net(ONES), 2 * W * ONES)


def test_onnxruntime_does_the_same() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model = _scaled()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    net = glow.compile(model)
    assert [i.name for i in session.get_overridable_initializers()] == [s.name for s in net.defaults]
    for given in ({"x": ONES}, {"x": ONES, "w": W - 4}):
        np.testing.assert_array_equal(net.run(given)["y"], session.run(None, given)[0])


@BACKENDS
def test_shapes_make_it_an_input_like_the_others(backend: str) -> None:
    net = glow.compile(_scaled(), backend=backend, shapes={"w": (3,)})
    assert [s.name for s in net.inputs] == ["x", "w"]
    assert not net.defaults
    np.testing.assert_array_equal(net(ONES, W + 1), ONES * (W + 1) + W)
    with pytest.raises(BindingError, match="missing input 'w'"):
        net.run({"x": ONES})


@BACKENDS
def test_a_default_decides_a_shape(backend: str) -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    inputs = {"x": (TensorProto.FLOAT, 2, 3), "s": (TensorProto.INT64, 2)}
    net = glow.compile(_model([node], {"s": np.array([3, 2])}, inputs, ["y"]), backend=backend)
    assert net.report().stages  # compiled at once: without another value nothing is open
    for s, shape in ((None, (3, 2)), ([1, -1], (1, 6)), ([6, 1], (6, 1))):
        given = {"x": ONES} if s is None else {"x": ONES, "s": np.array(s)}
        assert net.run(given)["y"].shape == shape


@BACKENDS
def test_a_default_of_a_model_cut_into_segments(backend: str) -> None:
    nodes = [helper.make_node("Mul", ["x", "w"], ["m"]), helper.make_node("Unique", ["m"], ["u"])]
    nodes.append(helper.make_node("Add", ["u", "b"], ["y"]))
    inputs = {n: (TensorProto.FLOAT, *dims) for n, dims in (("x", (2, 3)), ("w", (3,)), ("b", (1,)))}
    net = glow.compile(_model(nodes, {"w": W, "b": W[1:2]}, inputs, ["y"]), backend=backend)
    np.testing.assert_array_equal(net.run({"x": ONES})["y"], [1, 2, 3])
    np.testing.assert_array_equal(net.run({"x": ONES, "w": 2 * W})["y"], [1, 3, 5])
    np.testing.assert_array_equal(net.run({"x": ONES, "b": W[:1]})["y"], [0, 1, 2])
    np.testing.assert_array_equal(net.run({"x": ONES})["y"], [1, 2, 3])


def test_messages_say_what_a_name_is() -> None:
    net = glow.compile(_scaled(), backend="interpreter")
    with pytest.raises(
        BindingError, match=r"unknown input 'c'.*'c' is a constant.*graph\.input lists it.*: w"
    ):
        net.run({"x": ONES, "c": W})
    with pytest.raises(BindingError, match="unknown input 'q'; the inputs are: x; .*default values are: w"):
        net.run({"x": ONES, "q": W})
    with pytest.raises(BindingError, match=r"'w' has shape \(2,\), expected \(3,\)"):
        net.run({"x": ONES, "w": W[:2]})
    with pytest.raises(ShapeError, match="no input 'c'; it is a constant"):
        glow.load(_scaled(), shapes={"c": (3,)})


def test_glow_run_replaces_a_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(_scaled(), str(tmp_path / "m.onnx"))
    for name, array in (("x", ONES), ("w", 9 * W)):
        np.save(tmp_path / f"{name}.npy", array)
    given = [f"--input={n}={tmp_path / n}.npy" for n in ("x", "w")]
    arguments = [
        str(tmp_path / "m.onnx"),
        *given,
        "--backend=interpreter",
        "--output",
        str(tmp_path / "out.npz"),
    ]
    assert run.main(arguments) == 0
    capsys.readouterr()
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], 10 * W * ONES)
