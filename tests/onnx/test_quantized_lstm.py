"""DynamicQuantizeLSTM against its definition in NumPy: integers of 8 bits, of any zero points."""

from __future__ import annotations

from typing import Any

import exact_peer
import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import glow_compiler as glow

STEPS, INPUTS = 7, 5


def in_bytes(x: np.ndarray, axis: int | None) -> tuple[np.ndarray, np.ndarray]:
    """DynamicQuantizeLinear: stored numbers less the zero point, and the scale."""
    low, high = (np.asarray(f(x, axis=axis, keepdims=True, initial=0)) for f in (np.min, np.max))
    scale = ((high - low) / np.float32(255)).astype(np.float32)
    scale[scale == 0] = 1
    zero = np.clip(np.rint(-low / scale), 0, 255)
    return np.clip(np.rint(x / scale) + zero, 0, 255) - zero, scale


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def lstm(x: np.ndarray, parts: dict[str, np.ndarray], reverse: bool, d: int) -> np.ndarray:
    """Every state of one direction."""
    w, r = (parts[n][d].astype(np.int64) - parts[n + "_zero"][d].reshape(1, -1) for n in "wr")
    samples, hidden = x.shape[1], r.shape[0]
    whole, scale = in_bytes(x.reshape(-1, INPUTS), None)
    size = 4 * hidden
    own = (whole @ w * (scale * parts["w_scale"][d]) + parts["b"][d, :size] + parts["b"][d, size:]).astype(
        "f4"
    )
    own = own.reshape(STEPS, samples, size)
    h, c = np.zeros((samples, hidden), np.float32), np.zeros((samples, hidden), np.float32)
    out = np.zeros((STEPS, samples, hidden), np.float32)
    for t in range(STEPS - 1, -1, -1) if reverse else range(STEPS):
        whole, scale = in_bytes(h, 1)
        i, o, f, g = np.split((own[t] + whole @ r * (scale * parts["r_scale"][d])).astype("f4"), 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = out[t] = sigmoid(o) * np.tanh(c)
    return out


def model(parts: dict[str, np.ndarray], samples: int, hidden: int, direction: str) -> ModelProto:
    """The node with constant weights."""
    order = ["w", "r", "b", "", "", "", "", "w_scale", "w_zero", "r_scale", "r_zero"]
    node = helper.make_node(
        "DynamicQuantizeLSTM", ["x", *order], ["y"], domain="com.microsoft", hidden_size=hidden,
        direction=direction,
    )  # fmt: skip
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (STEPS, samples, INPUTS))]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constants = [numpy_helper.from_array(a, n) for n, a in parts.items()]
    graph = helper.make_graph([node], "g", ends, [output], constants)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=8)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize(
    ("kind", "channels", "samples", "hidden"),
    [(np.int8, True, 1, 16), (np.uint8, False, 1, 9), (np.uint8, True, 3, 40), (np.int8, False, 6, 33)],
)
def test_by_definition(
    kind: Any, channels: bool, samples: int, hidden: int, direction: str, backend: str
) -> None:
    """One scale and zero point, and one a column; rests of vectors; several samples."""
    rng, d, size = np.random.default_rng(0), 1 + (direction == "bidirectional"), 4 * hidden
    info = np.iinfo(kind)
    columns = (d, size) if channels else (d,)
    parts: dict[str, np.ndarray] = {"b": rng.standard_normal((d, 2 * size)).astype(np.float32)}
    for name, inner in (("w", INPUTS), ("r", hidden)):
        parts[name] = rng.integers(info.min, info.max + 1, (d, inner, size)).astype(kind)
        zeros = rng.integers(90, 160, columns) if kind is np.uint8 else np.zeros(columns)
        parts[name + "_zero"] = zeros.astype(kind)
        parts[name + "_scale"] = rng.uniform(0.002, 0.006, columns).astype(np.float32)
    x = rng.standard_normal((STEPS, samples, INPUTS)).astype(np.float32)
    net = glow.compile(model(parts, samples, hidden, direction), backend=backend)
    spread = {n: a.astype(np.int64) if "zero" in n else a for n, a in parts.items()}
    want = np.stack([lstm(x, spread, bool(i), i) for i in range(d)], 1)
    got = net.run({"x": x})["y"]
    # A state that is rounded otherwise at a tie moves by one of 255 steps.
    assert np.abs(got - want).max() < 2e-3
    assert np.abs(got - want).mean() < 2e-5


def test_as_onnxruntime_with_a_thread_a_sample() -> None:
    """There a thread rounds the states of its samples by one range; with one sample each it is ours."""
    if not exact_peer.is_exact():
        pytest.skip(exact_peer.SATURATES)
    samples, hidden = 4, 32
    rng, size = np.random.default_rng(3), 4 * hidden
    parts: dict[str, np.ndarray] = {"b": rng.standard_normal((1, 2 * size)).astype(np.float32)}
    for name, inner in (("w", INPUTS), ("r", hidden)):
        parts[name] = rng.integers(-128, 128, (1, inner, size)).astype(np.int8)
        parts[name + "_zero"] = np.zeros(1, np.int8)
        parts[name + "_scale"] = np.array([0.003], np.float32)
    made = model(parts, samples, hidden, "forward")
    x = rng.standard_normal((STEPS, samples, INPUTS)).astype(np.float32)
    one, each = (_onnxruntime(made, x, threads) for threads in (1, samples))
    got = glow.compile(made).run({"x": x})["y"]
    assert np.abs(got - each).max() < 1e-5 < 1e-4 < np.abs(got - one).max()


def _onnxruntime(made: ModelProto, x: np.ndarray, threads: int) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])
