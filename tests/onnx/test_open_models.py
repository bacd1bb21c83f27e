"""ONNX models that are loaded, quantised, trained and written with the sizes that they leave open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from test_open_sizes import OPERATORS, decoder, encoder

import glow_compiler as glow
from glow_backends.cpu.open_program import OpenProgram
from glow_compiler.quantization import quantize
from glow_dialects.core.types import Array
from glow_frontends.onnx.export import export_model
from glow_passes.graph.bind_sizes import symbols_of

RNG = np.random.default_rng(0)


def _normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def _network() -> ModelProto:
    """Two convolutions, a mean over the image and a layer, for any number and size of images."""
    weights = {"w1": _normal(16, 3, 3, 3) / 5, "w2": _normal(32, 16, 3, 3) / 12, "w3": _normal(32, 10) / 6}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("MatMul", ["f", "w3"], ["y"]),
    ]
    return _model(nodes, ["batch", 3, "height", "width"], ["batch", 10], weights)


def _model(nodes: list[Any], x: list[Any], y: list[Any], weights: dict[str, Array]) -> ModelProto:
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in (("x", x), ("y", y))]
    initializers = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _dims(value: onnx.ValueInfoProto) -> list[int | str]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def _answers(session: ort.InferenceSession, feed: dict[str, Array]) -> list[Any]:
    results: Any = session.run(None, feed)
    return list(results)


def _alike(first: ModelProto, second: ModelProto, feeds: list[dict[str, Array]]) -> None:
    """Whether onnxruntime gives the same for both models."""
    first.ir_version = 8
    sessions = [ort.InferenceSession(m.SerializeToString()) for m in (first, second)]
    for feed in feeds:
        for want, found in zip(*(_answers(s, feed) for s in sessions), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", [n for n in OPERATORS if n != "doubled"])
def test_operators_are_written_with_open_sizes(name: str) -> None:
    nodes, weights = OPERATORS[name]
    y: list[Any] = [None] * 4 if name in ("transposed", "moved") else ["b", None, "h2", "w2"]
    model = _model(nodes, ["b", 4, "h", "w"], y, weights)
    written = export_model(glow.load(model))
    assert _dims(written.graph.input[0]) == ["b", 4, "h", "w"]
    sizes = ((1, 8, 8), (2, 10, 16), (3, 12, 14))
    _alike(model, written, [{"x": _normal(b, 4, h, w)} for b, h, w in sizes])


def test_an_encoder_and_a_decoder_are_written_with_open_sizes() -> None:
    feeds: list[dict[str, Array]] = []
    for batch, length in ((1, 12), (3, 40), (1, 1)):
        ids = RNG.integers(0, 50, (batch, length))
        feeds.append({"ids": ids, "mask": np.ones_like(ids)})
    written = export_model(glow.load(encoder()))
    assert _dims(written.graph.output[0]) == ["b", "n", 32]
    _alike(encoder(), written, feeds)
    steps = [{"x": _normal(1, 4, s, 16), "past_k": _normal(1, 4, p, 16)} for s, p in ((3, 0), (1, 9), (5, 5))]
    written = export_model(glow.load(decoder()))
    assert _dims(written.graph.output[1]) == [1, 4, "past+s", 16]
    _alike(decoder(), written, [{**s, "past_v": s["past_k"] + 1} for s in steps])


@pytest.mark.slow
def test_a_quantised_model_is_for_every_size(tmp_path: Path) -> None:
    model = _network()
    quantized = quantize(model, [{"x": _normal(2, 3, 32, 32)} for _ in range(3)])
    conditions = symbols_of(quantized)
    assert conditions is not None and [s.name for s in conditions.symbols] == ["batch", "height", "width"]
    for form in ("q.mlir", "q.onnx"):
        glow.save(quantized, tmp_path / form)
    nets = [glow.compile(tmp_path / form) for form in ("q.mlir", "q.onnx")]
    session = ort.InferenceSession(tmp_path / "q.onnx")
    exact = glow.compile(model)
    for shape in ((2, 3, 32, 32), (1, 3, 16, 48), (5, 3, 40, 36), (7, 3, 33, 33)):
        feed = {"x": _normal(*shape)}
        (want,) = _answers(session, feed)
        for net in nets:
            np.testing.assert_allclose(net.run(feed)["y"], want, rtol=1e-3, atol=1e-4)
        assert np.abs(want - exact.run(feed)["y"]).max() < 0.02 * np.abs(want).max()
    assert all(isinstance(net.program, OpenProgram) for net in nets)


def test_calibration_takes_batches_of_several_sizes() -> None:
    feeds = [{"x": _normal(1, 3, size, 2 * size)} for size in (12, 16, 20)]
    quantized = quantize(_network(), feeds)
    assert glow.compile(quantized, "interpreter").run({"x": _normal(2, 3, 9, 9)})["y"].shape == (2, 10)


@pytest.mark.slow
def test_a_trained_model_is_for_every_size(tmp_path: Path) -> None:
    trainer = glow.Trainer(_network(), loss="cross_entropy", shapes={"x": (4, 3, 16, 16)})
    x, labels = _normal(4, 3, 16, 16), RNG.integers(0, 10, 4)
    trainer.fit((x, labels), 2, progress=False)
    trainer.export(tmp_path / "trained.onnx")
    model = onnx.load(tmp_path / "trained.onnx")
    assert _dims(model.graph.input[0]) == ["batch", 3, "height", "width"]
    session, net = (
        ort.InferenceSession(tmp_path / "trained.onnx"),
        glow.compile(trainer.module(), "interpreter"),
    )
    np.testing.assert_allclose(
        _answers(session, {"x": x})[0], trainer.predict({"x": x}), rtol=1e-3, atol=1e-4
    )
    other = {"x": _normal(3, 3, 20, 31)}
    np.testing.assert_allclose(_answers(session, other)[0], net.run(other)["y"], rtol=1e-3, atol=1e-4)


def test_sizes_that_cannot_stay_open_are_named() -> None:
    smooth = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", antialias=1)
    model = _model([smooth], ["h", "w"], [7, 7], {"sizes": np.array([7, 7])})
    model.opset_import[0].version = 18
    assert symbols_of(glow.load(model, {"x": (5, 6)})) is None
    with pytest.raises(glow.ShapeError, match="cannot be dynamic: "):
        glow.load(model)


def test_question_marks_are_no_name() -> None:
    """Tools write "?" for each size that they know nothing of: sizes that differ, here."""
    model = _network()
    for index in (0, 2, 3):
        model.graph.input[0].type.tensor_type.shape.dim[index].dim_param = "?"
    feed = {"x": _normal(1, 3, 8, 12)}
    expected = _answers(ort.InferenceSession(model.SerializeToString()), feed)[0]
    got = glow.compile(quantize(model, [feed])).run(feed)["y"]
    assert np.abs(got - expected).max() < 0.05 * np.abs(expected).max()
