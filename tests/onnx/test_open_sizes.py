"""Models whose sizes change from call to call: one program serves them all, as the interpreter computes."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_backends.cpu.open_program import OpenProgram

WIDTH, HEADS = 32, 4


def _model(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, np.ndarray]
) -> ModelProto:
    initializers = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def _node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), outputs.split(), name=outputs, **attributes)


def encoder() -> ModelProto:
    """Embedding, counted positions, masked attention of heads, layer norm and gelu, for any length."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    weights: dict[str, np.ndarray] = {
        "table": normal(50, WIDTH), "places": normal(600, WIDTH), "zero": np.array(0), "one": np.array(1),
        "heads": np.array([0, 0, HEADS, -1]), "flat": np.array([0, 0, WIDTH]), "axes": np.array([1, 2]),
        "scale": np.array(0.35, np.float32), "large": np.array(-1e4, np.float32),
        "unit": np.array(1, np.float32),
        "root": np.array(1.4142135, np.float32), "half": np.array(0.5, np.float32),
        "gamma": np.ones(WIDTH, np.float32), "beta": normal(WIDTH),
        "up": normal(WIDTH, 48), "down": normal(48, WIDTH),
        "bias": normal(48), **{w: normal(WIDTH, WIDTH) for w in ("wq", "wk", "wv", "wo")},
    }  # fmt: skip
    nodes = [
        _node("Gather", "table ids", "words"),
        _node("Shape", "ids", "shape"),
        _node("Gather", "shape one", "length"),
        _node("Range", "zero length one", "numbers"),
        _node("Gather", "places numbers", "position"),
        _node("Add", "words position", "x"),
        _node("Unsqueeze", "mask axes", "wide"),
        _node("Cast", "wide", "floats", to=TensorProto.FLOAT),
        _node("Sub", "unit floats", "gone"),
        _node("Mul", "gone large", "bar"),
    ]
    for name in "qkv":
        nodes += [
            _node("MatMul", f"x w{name}", f"{name}0"),
            _node("Reshape", f"{name}0 heads", f"{name}1"),
            _node("Transpose", f"{name}1", f"{name}", perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
        ]
    nodes += [
        _node("MatMul", "q k", "dots"),
        _node("Mul", "dots scale", "scaled"),
        _node("Add", "scaled bar", "barred"),
        _node("Softmax", "barred", "weights", axis=-1),
        _node("MatMul", "weights v", "mixed"),
        _node("Transpose", "mixed", "turned", perm=[0, 2, 1, 3]),
        _node("Reshape", "turned flat", "joined"),
        _node("MatMul", "joined wo", "out"),
        _node("Add", "x out", "sum"),
        _node("LayerNormalization", "sum gamma beta", "normal", axis=-1),
        _node("MatMul", "normal up", "h0"),
        _node("Add", "h0 bias", "h"),
        _node("Div", "h root", "h1"),
        _node("Erf", "h1", "h2"),
        _node("Add", "h2 unit", "h3"),
        _node("Mul", "h h3", "h4"),
        _node("Mul", "h4 half", "h5"),
        _node("MatMul", "h5 down", "last"),
        _node("Add", "normal last", "y"),
        _node("ReduceMean", "y", "mean", axes=[1], keepdims=0),
    ]
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "n"]) for n in ("ids", "mask")]
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "n", WIDTH]),
        helper.make_tensor_value_info("mean", TensorProto.FLOAT, ["b", WIDTH]),
    ]
    return _model(nodes, inputs, outputs, weights)


def decoder() -> ModelProto:
    """One step of attention over past keys and values, which grow by the step's."""
    depth = 16
    rng = np.random.default_rng(1)
    weights: dict[str, np.ndarray] = {"scale": np.array(0.25, np.float32)}
    weights |= {w: rng.standard_normal((depth, depth)).astype(np.float32) / 4 for w in ("wq", "wk", "wv")}
    nodes = [
        _node("MatMul", "x wq", "q"),
        _node("MatMul", "x wk", "k"),
        _node("MatMul", "x wv", "v"),
        _node("Concat", "past_k k", "present_k", axis=2),
        _node("Concat", "past_v v", "present_v", axis=2),
        _node("Transpose", "present_k", "kt", perm=[0, 1, 3, 2]),
        _node("MatMul", "q kt", "dots"),
        _node("Mul", "dots scale", "scaled"),
        _node("Softmax", "scaled", "weights", axis=-1),
        _node("MatMul", "weights present_v", "y"),
    ]

    def info(name: str, dim: Any) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, HEADS, dim, depth])

    inputs = [info("x", "s"), info("past_k", "past"), info("past_v", "past")]
    outputs = [info("y", "s"), info("present_k", "past + s"), info("present_v", "past + s")]
    return _model(nodes, inputs, outputs, weights)


def _encoder_inputs(batch: int, length: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(length)
    mask = (rng.random((batch, length)) < 0.8).astype(np.int64)
    mask[:, 0] = 1
    return {"ids": rng.integers(0, 50, (batch, length)), "mask": mask}


def _close(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert a.keys() == b.keys()
    for name, values in b.items():
        assert a[name].shape == values.shape
        np.testing.assert_allclose(a[name], values, rtol=1e-4, atol=2e-5, err_msg=name)


@pytest.fixture(scope="module")
def encoders() -> tuple[glow.Executable, glow.Executable]:
    """On the CPU after two lengths, and on the interpreter."""
    net = glow.compile(encoder())
    for length in (12, 40):
        net.run(_encoder_inputs(1, length))
    return net, glow.compile(encoder(), backend="interpreter")


@pytest.mark.parametrize("length", [40, 33, 41, 49, 65, 100, 127, 250, 511])
def test_every_length_is_right_without_another_program(
    encoders: tuple[glow.Executable, glow.Executable], length: int, caplog: pytest.LogCaptureFixture
) -> None:
    net, reference = encoders
    with caplog.at_level(logging.INFO, "glow"):
        found = net.run(_encoder_inputs(1, length))
    assert not caplog.messages
    assert isinstance(net.program, OpenProgram)
    _close(found, reference.run(_encoder_inputs(1, length)))


@pytest.mark.parametrize(
    ("batch", "length"),
    [(1, 1), (1, 2), (1, 5), (1, 13), (1, 16), (1, 17), (1, 32), (1, 48), (2, 9), (3, 9), (3, 33), (5, 8)],
)
def test_other_lengths_and_batches_are_right(
    encoders: tuple[glow.Executable, glow.Executable], batch: int, length: int
) -> None:
    net, reference = encoders
    _close(net.run(_encoder_inputs(batch, length)), reference.run(_encoder_inputs(batch, length)))


def test_a_decoder_compiles_nothing_after_its_second_step(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(3)
    steps = [rng.standard_normal((1, HEADS, n, 16)).astype(np.float32) for n in (20, *[1] * 60)]
    results: list[list[np.ndarray]] = []
    compiled: list[int] = []
    for backend in ("cpu", "interpreter"):
        net = glow.compile(decoder(), backend=backend)
        past = {n: np.zeros((1, HEADS, 0, 16), np.float32) for n in ("past_k", "past_v")}
        results.append([])
        for number, x in enumerate(steps):
            with caplog.at_level(logging.INFO, "glow"):
                out = net.run({"x": x, **past})
            if caplog.messages and backend == "cpu":
                compiled.append(number)
            caplog.clear()
            past = {n: out[n.replace("past", "present")] for n in past}
            results[-1].append(out["y"])
    assert compiled == [1]
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_arrays_bound_to_a_program_of_any_size() -> None:
    net = glow.compile(encoder())
    for length in (12, 40):
        net.run(_encoder_inputs(1, length))
    inputs = _encoder_inputs(1, 23)
    bound = net.bind(inputs)
    _close(dict(bound()), net.run(inputs))


def test_inputs_that_disagree_are_refused(encoders: tuple[glow.Executable, glow.Executable]) -> None:
    net, _ = encoders
    inputs = _encoder_inputs(1, 40)
    with pytest.raises(glow.GlowError, match="do not broadcast"):
        net.run({**inputs, "mask": inputs["mask"][:, :39]})
