"""Calls in the forms that people bring: onnxruntime's, and arrays of other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper

import glow_compiler as glow
from glow_dialects.core.errors import BindingError


def model(shape: list[int | str], dtype: int = TensorProto.FLOAT) -> ModelProto:
    """a = x + x, b = -x."""
    nodes = [helper.make_node("Add", ["x", "x"], ["a"]), helper.make_node("Neg", ["x"], ["b"])]
    x, a, b = (helper.make_tensor_value_info(n, dtype, shape) for n in "xab")
    graph = helper.make_graph(nodes, "two", [x], [a, b])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("shape", [[3, 4], ["n", 4]], ids=str)
def test_calls_of_onnxruntime(shape: list[int | str]) -> None:
    """Names of outputs, or None, then the inputs: a list in that order, from threads too."""
    proto = model(shape)
    net = glow.compile(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    forms: list[Sequence[str] | None] = [None, ["b"], ["b", "a"], ("a", "a"), []]
    for names in forms:
        want = session.run(names, {"x": X})
        for got in (net.run(names, {"x": X}), net.submit(names, {"x": X}).result()):
            assert isinstance(got, list) and len(got) == len(want)
            for one, other in zip(got, want, strict=True):
                np.testing.assert_array_equal(one, other)


def test_calls_of_onnxruntime_with_mistakes() -> None:
    """Wrong names of outputs and of inputs, and arguments in another order."""
    net = glow.compile(model(["n", 4]))
    for names, inputs, word in (
        (["z"], {"x": X}, "no output 'z'; the outputs are: a, b"),
        ([1], {"x": X}, "no output 1"),
        ("a", {"x": X}, r"run\(\[name of an output\], \{name: array\}\)"),
        ({"x": X}, {"x": X}, "no states"),
        (None, {"z": X}, "unknown input 'z'"),
        (None, {}, r"missing input 'x'.*x float32\(n, 4\)"),
    ):
        with pytest.raises(BindingError, match=word):
            net.run(names, inputs)  # pyright: ignore
    with pytest.raises(BindingError, match="no states"):
        net.run({"x": X}, object())  # pyright: ignore


class OnlyDlpack:
    """An array of a library that NumPy does not know."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("shape", [[3, 4], ["n", 4]], ids=str)
def test_arrays_of_others(shape: list[int | str]) -> None:
    """What has DLPack alone, tensors of PyTorch that gradients are taken by, arrays of JAX."""
    net = glow.compile(model(shape))
    given: list[Any] = [OnlyDlpack(X)]
    torch = pytest.importorskip("torch")
    given += [torch.tensor(X, requires_grad=True), torch.tensor(X), torch.nn.Parameter(torch.tensor(X))]
    jax = pytest.importorskip("jax")
    given.append(jax.numpy.asarray(X))
    for value in given:
        np.testing.assert_array_equal(net.run({"x": value})["a"], X + X)


def test_bfloat16_of_others() -> None:
    """Tensors and arrays of a type that NumPy has not."""
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    x = helper.make_tensor_value_info("x", TensorProto.BFLOAT16, [3, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])
    graph = helper.make_graph([node], "cast", [x], [y])
    net = glow.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    for value in (
        torch.tensor(X).bfloat16(),
        torch.tensor(X).bfloat16().requires_grad_(),
        jax.numpy.asarray(X, jax.numpy.bfloat16),
        X.astype(ml_dtypes.bfloat16),
    ):
        np.testing.assert_array_equal(net.run({"x": value})["y"], X)


@pytest.mark.parametrize("shape", [[3, 4], ["n", 4]], ids=str)
def test_what_is_no_array(shape: list[int | str]) -> None:
    """Each is refused by a message with the name of the input and what it is."""
    net = glow.compile(model(shape))
    values: dict[str, Any] = {
        "is None": None,
        "is text .'abc'.": "abc",
        "is text .'a'.": [["a"] * 4] * 3,
        "MaskedArray.*filled": np.ma.masked_array(X, X > 2),
        "is a dict": {"a": 1},
        "is a set": {1.0},
        "is a object|builtins.object": object(),
        "Python objects": np.array([[None] * 4] * 3),
        "rows of different lengths": [[1.0], [1.0, 2.0]],
    }
    for word, value in values.items():
        with pytest.raises(BindingError, match=f"input 'x'.*({word})"):
            net.run({"x": value})


def test_every_missing_input_is_named() -> None:
    """With types and the model's names of dimensions, where sizes are open."""
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 2]) for n in "pqy"]
    graph = helper.make_graph([helper.make_node("Add", ["p", "q"], ["y"])], "sum", ports[:2], ports[2:])
    net = glow.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    with pytest.raises(BindingError) as caught:
        net.run({})
    for word in ("missing input 'p'", "missing input 'q'", "p float32(batch, 2)", "q float32(batch, 2)"):
        assert word in str(caught.value)


def test_shapes_that_are_no_dict() -> None:
    """Numbers in place of a dict of shapes."""
    for wrong in ((2,), [2, 3], 5, "x"):
        with pytest.raises(glow.ShapeError, match="a dict of name -> shape"):
            glow.compile(model(["n", 4]), shapes=wrong)  # pyright: ignore
