"""Our quantised models as QDQ ONNX: what onnxruntime and OpenVINO make of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import exact_peer
import numpy as np
import onnx
import onnxruntime as ort
import pytest

import glow_compiler as glow
from glow_compiler.quantization import quantize
from glow_dialects.core.types import Array
from glow_passes.quantize.schema import SCHEMAS

pytestmark = pytest.mark.slow


def _network() -> tuple[glow.GraphBuilder, dict[str, Array]]:
    """Convolutions with relu, clip and swish between them, pools, a sum and a concat."""
    rng = np.random.default_rng(0)
    g = glow.GraphBuilder()

    def conv(value: Any, inner: int, size: int = 3) -> Any:
        w = (rng.standard_normal((16, inner, size, size)) / np.sqrt(inner * size * size)).astype(np.float32)
        return g.conv(value, g.constant(w), pads=(size // 2,) * 4)

    x = g.relu(conv(g.placeholder("x", (1, 3, 12, 12)), 3))
    y = g.max_pool(g.swish(conv(x, 16)), kernel=(2, 2), strides=(2, 2))
    y = g.relu(g.add(conv(g.clip(conv(y, 16), -0.5, 0.75), 16), y))
    y = conv(g.concat([y, conv(y, 16)], axis=1), 32)
    g.save(g.reduce_mean(y, axes=(2, 3)), "y")
    return g, {"x": rng.standard_normal((1, 3, 12, 12)).astype(np.float32)}


def _exported(schema: str, per_channel: bool, path: Path) -> tuple[Array, dict[str, Array]]:
    g, feed = _network()
    made = quantize(g, [feed], schema=schema, per_channel=per_channel, everything=True)
    glow.save(made, str(path))
    return glow.compile(made, backend="interpreter").run(feed)["y"], feed


def _decibels(want: Array, have: Array) -> float:
    return 10 * float(np.log10((want**2).sum() / max(float(((want - have) ** 2).sum()), 1e-20)))


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_onnxruntime_agrees(schema: str, per_channel: bool, tmp_path: Path) -> None:
    """onnxruntime's integer operators round as ours do, up to a last step here and there."""
    if per_channel and not exact_peer.is_exact():
        pytest.skip(exact_peer.SATURATES)
    path = tmp_path / "q.onnx"
    want, feed = _exported(schema, per_channel, path)
    (have,) = ort.InferenceSession(str(path)).run(None, feed)
    assert _decibels(want, np.asarray(have)) > 40


def test_activations_are_unsigned_and_limits_real(tmp_path: Path) -> None:
    """Zero points of activations are bytes without sign; a relu costs no operator of integers."""
    path = tmp_path / "q.onnx"
    _exported("asymmetric", True, path)
    graph = onnx.load(str(path)).graph
    zeros = {n.input[2] for n in graph.node if n.op_type == "QuantizeLinear"}
    kinds = {i.data_type for i in graph.initializer if i.name in zeros}
    assert kinds == {onnx.TensorProto.UINT8}
    weights = Counter(i.data_type for i in graph.initializer if len(i.dims) == 4)
    assert set(weights) == {onnx.TensorProto.INT8}
    after = {i: n.op_type for n in graph.node for i in n.input}
    clips = [n for n in graph.node if n.op_type == "Clip"]
    assert all(after[n.output[0]] == "QuantizeLinear" for n in clips)


@pytest.mark.peers
@pytest.mark.parametrize("schema", SCHEMAS)
def test_openvino_runs_it(schema: str, tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    path = tmp_path / "q.onnx"
    want, feed = _exported(schema, True, path)
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(str(path)), "CPU")
    (have,) = compiled([feed["x"]]).values()
    assert _decibels(want, have) > 25


@pytest.mark.parametrize("rows", [1, 5])
def test_dynamic_products_stay_integers(rows: int, tmp_path: Path) -> None:
    """Rows with scales of their own: integer products in onnxruntime; read back, the same numbers."""
    rng = np.random.default_rng(rows)
    g = glow.GraphBuilder()
    x = g.placeholder("x", (rows, 32))
    w, b, v = (g.constant(rng.standard_normal(s).astype(np.float32)) for s in ((32, 24), (24,), (24, 8)))
    g.save(g.matmul(g.fully_connected(x, w, b), v), "y")
    path = tmp_path / "q.onnx"
    made = glow.quantize_dynamic(g)
    glow.save(made, str(path))
    counts = Counter(n.op_type for n in onnx.load(path).graph.node)
    assert counts["MatMulInteger"] == 2 and not counts["DequantizeLinear"] and not counts["Gemm"]
    feed = {"x": rng.standard_normal((rows, 32)).astype(np.float32) * np.logspace(-3, 3, rows)[:, None]}
    feed = {n: a.astype(np.float32) for n, a in feed.items()}
    want = glow.compile(made, backend="interpreter").run(feed)["y"]
    for backend in ("interpreter", "cpu"):
        np.testing.assert_allclose(
            glow.compile(path, backend=backend).run(feed)["y"], want, rtol=1e-5, atol=1e-6
        )
    if exact_peer.is_exact():
        (have,) = ort.InferenceSession(str(path)).run(None, feed)
        np.testing.assert_allclose(np.asarray(have), want, rtol=1e-5, atol=1e-6)
