"""`exact=True`: quantised operators in float, beside NumPy emulations of their definitions in float64."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import commands
import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from test_quantized_lstm import INPUTS, STEPS, model, sigmoid

import glow_compiler as glow
from glow_dialects.core.types import Array
from glow_runtime.devices.device import Device
from glow_tools import bench, run, serve

RNG = np.random.default_rng(0)
BACKENDS = pytest.mark.parametrize("backend", ["cpu", "interpreter"])


def made(
    nodes: list[Any], inputs: dict[str, Array], weights: dict[str, Array], y: int = TensorProto.FLOAT
) -> ModelProto:
    """A model with one output y."""
    ends = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
    ]
    output = helper.make_tensor_value_info("y", y, None)
    constants = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", ends, [output], constants)
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=10)


def stored(x: Array, scale: float, zero: int) -> Array:
    """QuantizeLinear to unsigned bytes."""
    return np.clip(np.rint(x.astype("f4") / np.float32(scale)).astype("f8") + zero, 0, 255)


def real(q: Array, scale: Any, zero: Any) -> Array:
    """DequantizeLinear, in float64."""
    return (q.astype("f8") - zero) * np.float64(scale)


def convolved(x: Array, w: Array) -> Array:
    """A convolution [C, H, W] by [F, C, K, K], no padding."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(1, 2))
    return np.einsum("chwij,fcij->fhw", windows, w)


def qdq_conv() -> tuple[ModelProto, dict[str, Array], dict[str, Array]]:
    """QDQ around a convolution whose real bias lies between two units of its products."""
    c = {
        "x_scale": np.array(0.05, "f4"), "x_zero": np.array(120, "u1"),
        "w": RNG.integers(-9, 10, (8, 4, 3, 3)).astype("i1"), "w_scale": np.array(0.9, "f4"),
        "w_zero": np.array(0, "i1"), "b": (RNG.random(8) * 0.02).astype("f4"),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "x_scale", "x_zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["v"]),
        helper.make_node("Conv", ["d", "v", "b"], ["y"]),
    ]
    feed = {"x": RNG.uniform(-5, 5, (1, 4, 9, 9)).astype("f4")}
    return made(nodes, feed, c), feed, c


@BACKENDS
def test_bias_between_two_units(backend: str) -> None:
    """Integer kernels round the bias to a unit of the products; the float form keeps it."""
    net, feed, c = qdq_conv()
    want = by_definition(feed, c)
    errors = [
        np.abs(glow.compile(net, backend=backend, exact=exact).run(feed)["y"][0] - want).max()
        for exact in (True, False)
    ]
    assert errors[0] < 2e-4 < 2e-3 < errors[1]


@BACKENDS
def test_qlinear_operators(backend: str) -> None:
    """QLinearConv and QLinearMatMul: the rounded results of float64."""
    c = {
        "s": np.array(0.04, "f4"), "z": np.array(131, "u1"), "t": np.array(0.70711, "f4"),
        "o": np.array(99, "u1"),
        "w": RNG.integers(-127, 128, (6, 5, 3, 3)).astype("i1"), "v": np.array(0.01, "f4"),
        "n": np.array(0, "i1"), "u": np.array(3.3, "f4"), "p": np.array(117, "u1"),
        "m": RNG.integers(-127, 128, (7, 11)).astype("i1"),
    }  # fmt: skip
    nodes = [
        helper.make_node("QLinearConv", ["x", "s", "z", "w", "v", "n", "t", "o"], ["a"]),
        helper.make_node("QLinearMatMul", ["a", "t", "o", "m", "v", "n", "u", "p"], ["y"]),
    ]
    feed = {"x": RNG.integers(0, 256, (1, 5, 9, 9)).astype("u1")}
    net = glow.compile(made(nodes, feed, c, TensorProto.UINT8), backend=backend, exact=True)
    a = convolved(real(feed["x"][0], c["s"], 131), real(c["w"], c["v"], 0))
    b = real(stored(a, 0.70711, 99), c["t"], 99) @ real(c["m"], c["v"], 0)
    got, ratio = net.run(feed)["y"][0].astype(int), b / np.float64(c["u"])
    ties = np.abs(ratio - np.floor(ratio) - 0.5) < 1e-4
    assert not (got != stored(b, 3.3, 117))[~ties].any() and ties.mean() < 0.01


@BACKENDS
def test_dynamic_products(backend: str) -> None:
    """DynamicQuantizeMatMul is DynamicQuantizeLinear, MatMulInteger and the scales: x is rounded."""
    c = {
        "w": RNG.integers(0, 256, (48, 16)).astype("u1"), "s": np.array([0.02], "f4"),
        "z": np.array([130], "u1"),
    }  # fmt: skip
    node = helper.make_node("DynamicQuantizeMatMul", ["x", "w", "s", "z"], ["y"], domain="com.microsoft")
    feed = {"x": RNG.standard_normal((5, 48)).astype("f4")}
    x = feed["x"]
    scale = (x.max() - x.min()) / np.float32(255)
    zero = np.rint(-x.min() / scale)
    want = real(np.clip(np.rint(x / scale) + zero, 0, 255), scale, zero) @ real(c["w"], c["s"], 130)
    for exact in (True, False):  # both: it is integer by definition
        got = glow.compile(made([node], feed, c), backend=backend, exact=exact).run(feed)["y"]
        np.testing.assert_allclose(got, want, atol=2e-5)


@BACKENDS
def test_lstm(backend: str) -> None:
    """DynamicQuantizeLSTM in its float form: weights as they are meant, no state or input is rounded."""
    hidden, samples = 16, 2
    parts: dict[str, Array] = {"b": RNG.standard_normal((1, 8 * hidden)).astype("f4")}
    for name, inner in (("w", INPUTS), ("r", hidden)):
        parts[name] = RNG.integers(0, 256, (1, inner, 4 * hidden)).astype("u1")
        parts[name + "_zero"] = RNG.integers(90, 160, (1, 4 * hidden)).astype("u1")
        parts[name + "_scale"] = RNG.uniform(0.002, 0.006, (1, 4 * hidden)).astype("f4")
    x = RNG.standard_normal((STEPS, samples, INPUTS)).astype("f4")
    w, r = (real(parts[n][0], parts[n + "_scale"][0], parts[n + "_zero"][0].astype(int)) for n in "wr")
    h = c = np.zeros((samples, hidden))
    want: list[Array] = []
    for own in x.astype("f8") @ w + parts["b"][0, : 4 * hidden] + parts["b"][0, 4 * hidden :]:
        i, o, f, g = np.split(own + h @ r, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        want.append(h)
    net = model(parts, samples, hidden, "forward")
    errors = [
        np.abs(
            glow.compile(net, backend=backend, exact=exact).run({"x": x})["y"][:, 0] - np.stack(want)
        ).max()
        for exact in (True, False)
    ]
    assert errors[0] < 2e-6 < 1e-3 < errors[1]


@BACKENDS
def test_activations_of_few_bit_products(backend: str) -> None:
    """MatMulNBits lets activations be rounded (accuracy_level 4): they are not."""
    rows, depth, block = 24, 64, 32
    codes = RNG.integers(0, 16, (rows, depth)).astype("u1")
    c = {
        "w": (codes[:, ::2] | codes[:, 1::2] << 4).reshape(rows, -1, block // 2),
        "s": RNG.uniform(0.01, 0.1, (rows * depth // block)).astype("f4"),
    }
    sizes: dict[str, Any] = {"K": depth, "N": rows, "bits": 4, "block_size": block, "accuracy_level": 4}
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **sizes)
    feed = {"x": RNG.standard_normal((3, depth)).astype("f4")}
    scales = np.repeat(c["s"].reshape(rows, -1), block, 1)
    want = feed["x"].astype("f8") @ ((codes.astype("f8") - 8) * scales).T
    errors = [
        np.abs(glow.compile(made([node], feed, c), backend=backend, exact=e).run(feed)["y"] - want).max()
        for e in (True, False)
    ]
    assert errors[0] < 1e-5 < 1e-3 < errors[1]


def test_a_program_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that the cache keeps are told apart; a pipeline of the user's may be exact, too."""
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path))
    net, feed, _ = qdq_conv()
    both = [[glow.compile(net, exact=e).run(feed)["y"] for e in (False, True)] for _ in range(2)]
    assert not np.array_equal(both[0][0], both[0][1])
    assert all(np.array_equal(a, b) for a, b in zip(*both, strict=True))
    pipeline = glow.Pipeline.default("cpu").remove("glow-cpu-images")
    own = glow.compile(net, pipeline=pipeline, exact=True)
    np.testing.assert_allclose(own.run(feed)["y"], both[0][1], atol=1e-4)
    with pytest.raises(glow.GlowError, match="no pass 'glow-match-qdq'"):
        glow.compile(net, pipeline=pipeline.remove("glow-match-qdq"), exact=True)


def by_definition(feed: dict[str, Array], c: dict[str, Array]) -> Array:
    """The result of `qdq_conv`."""
    d = real(stored(feed["x"], 0.05, 120), c["x_scale"], 120)
    return convolved(d[0], real(c["w"], c["w_scale"], 0)) + c["b"].reshape(-1, 1, 1)


DEVICES = (["--device", "process"], ["--device", "cpu:0", "--device", "interpreter"], ["--partition", "2"])


@pytest.mark.parametrize("more", [[], *(pytest.param(d, marks=pytest.mark.slow) for d in DEVICES)])
def test_on_the_command_line(more: list[str], tmp_path: Path) -> None:
    """glow-run --exact runs the float form, on devices and in partitions, too."""
    net, feed, c = qdq_conv()
    onnx.save(net, tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", **feed)  # pyright: ignore[reportArgumentType]
    out = tmp_path / "out.npz"
    arguments = ["--exact", "--inputs", str(tmp_path / "in.npz"), "--output", str(out), *more]
    assert run.main([str(tmp_path / "m.onnx"), *arguments]) == 0
    np.testing.assert_allclose(np.load(out)["y"][0], by_definition(feed, c), atol=2e-4)


def test_on_devices() -> None:
    """A host's devices compute in float where they are made for it, one network whole or in parts."""
    net, feed, c = qdq_conv()
    want, errors = by_definition(feed, c), list[float]()
    for device in (Device(exact=True), Device.parse("cpu,exact=1"), Device()):
        with glow.HostManager([device] * 2) as host:
            for partition in ("none", 2):
                host.add_network(f"in {partition}", net, partition)
                errors.append(float(np.abs(host.run(f"in {partition}", feed)["y"][0] - want).max()))
    assert max(errors[:4]) < 2e-4 < 2e-3 < min(errors[4:])


def test_of_two_backends() -> None:
    """Where a device computes some nodes and a host the rest, both do it in float."""
    net, feed, c = qdq_conv()
    got = glow.compile(net, backend=glow.HostFallback("interpreter", "cpu"), exact=True).run(feed)["y"]
    np.testing.assert_allclose(got[0], by_definition(feed, c), atol=2e-4)


def test_accuracy_of_kernels(tmp_path: Path) -> None:
    """glow-bench --accuracy measures float convolutions: of a quantised model there are some with --exact."""
    onnx.save(qdq_conv()[0], tmp_path / "m.onnx")
    found: list[Any] = []
    for more in ([], ["--exact"]):
        done = commands.run(bench.main, tmp_path / "m.onnx", "--accuracy", "--json", "-", *more)
        assert done.status == 0, done
        found.append(json.loads(done.output)["models"][0]["accuracy"])
    assert found[0] == [] and [item["shapes"] for item in found[1]] == ["1x4x9x9, 8x4x3x3"]
    assert 0 < found[1][0]["error"] < 1e-5


def test_serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """glow-serve --exact: its devices compute in float."""
    pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
    net, feed, c = qdq_conv()
    onnx.save(net, tmp_path / "m.onnx")
    answers: list[Array] = []

    async def answer(a: Any, count: int, server: Any, places: Any, signals: Any) -> None:
        answers.append(server.models.host.run("m:1", feed)["y"][0])

    monkeypatch.setattr(serve, "_serve", answer)
    for more in ([], ["--exact"]):
        assert serve.main([str(tmp_path / "m.onnx"), *more]) == 0
    integers, floats = (np.abs(y - by_definition(feed, c)).max() for y in answers)
    assert floats < 2e-4 < 2e-3 < integers
