"""Weights of few bits: MatMulNBits as onnxruntime computes it, calibration, language models, messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow

INPUTS, HIDDEN, OUTPUTS = 64, 96, 40


def _model(folder: Path, skewed: bool = False) -> tuple[Path, np.ndarray]:
    """Two products with a bias and a rectifier between, and activations: `skewed`, few of them large."""
    r = np.random.default_rng(0)
    shapes = {"w1": (INPUTS, HIDDEN), "w2": (HIDDEN, OUTPUTS), "c": (OUTPUTS,)}
    weights = {n: r.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Gemm", ["b", "w2", "c"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "two",
        [value("x", TensorProto.FLOAT, ["n", INPUTS])],
        [value("y", TensorProto.FLOAT, ["n", OUTPUTS])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "two.onnx")
    x = r.standard_normal((50, INPUTS)).astype(np.float32)
    if skewed:
        x *= np.where(np.arange(INPUTS) % 16 == 3, 20.0, 1.0).astype(np.float32)
    return folder / "two.onnx", x


@pytest.mark.parametrize(
    ("options", "most"),
    [({}, 0.12), ({"bits": 8}, 0.02), ({"activations": "f32"}, 0.12), ({"group": 16, "bits": 4}, 0.1)],
)
def test_matmul_n_bits(options: dict[str, Any], most: float, tmp_path: Path) -> None:
    """What is exported computes the same in onnxruntime, and is imported as it was."""
    path, x = _model(tmp_path)
    want = glow.compile(path).run({"x": x})["y"]
    module = glow.quantize_weights(path, shapes={"x": x.shape}, **options)
    made = glow.compile(module).run({"x": x})["y"]
    assert 1e-3 < np.abs(made - want).max() / np.abs(want).max() < most
    glow.save(module, tmp_path / "few.onnx")
    exported = onnx.load(tmp_path / "few.onnx")
    onnx.checker.check_model(exported)
    assert [n.op_type for n in exported.graph.node] == ["MatMulNBits", "Relu", "MatMulNBits", "Add"]
    floats = [t for t in exported.graph.initializer if t.data_type == TensorProto.FLOAT]
    assert max(np.prod(t.dims) for t in floats) <= INPUTS * HIDDEN // options.get("group", 32)
    session = ort.InferenceSession(tmp_path / "few.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(
        np.asarray(session.run(None, {"x": x})[0]), made, atol=1e-5 * np.abs(want).max()
    )
    np.testing.assert_array_equal(glow.compile(tmp_path / "few.onnx").run({"x": x})["y"], made)


def test_points(tmp_path: Path) -> None:
    """Points of blocks, whole ones and others, are written as the node has them."""
    from glow_dialects.ops.dequantize_blocks import DequantizeBlocksOp, dequantize_blocks, pack

    r = np.random.default_rng(1)
    codes, scales = pack(r.integers(0, 16, (24, 64)).astype(np.uint8), 4), r.random((24, 2), np.float32)
    x = r.standard_normal((3, 64)).astype(np.float32)
    form: dict[str, Any] = {"bits": 4, "block": 32, "depth": 64, "point": 0.0}
    whole = r.integers(0, 16, (24, 2)).astype(np.float32)
    for points in (whole, whole + 0.25):
        g = glow.GraphBuilder()
        parts = [g.constant(a, n) for a, n in ((codes, "codes"), (scales, "scales"), (points, "points"))]
        g.save(
            g.matmul(g.placeholder("x", x.shape), g.transpose(g.one(DequantizeBlocksOp, *parts, **form))), "y"
        )
        glow.save(g, tmp_path / "points.onnx")
        session = ort.InferenceSession(tmp_path / "points.onnx", providers=["CPUExecutionProvider"])
        want = x @ dequantize_blocks(codes, scales, points, levels=None, **form).T
        np.testing.assert_allclose(np.asarray(session.run(None, {"x": x})[0]), want, rtol=1e-4, atol=1e-4)


def test_calibration(tmp_path: Path) -> None:
    """Errors are smaller where activations are large."""
    path, x = _model(tmp_path, skewed=True)
    want = glow.compile(path).run({"x": x})["y"]

    def error(**options: Any) -> float:
        module = glow.quantize_weights(path, shapes={"x": x.shape}, activations="f32", **options)
        return float(np.square(glow.compile(module).run({"x": x})["y"] - want).mean())

    assert error(data=[{"x": x[::2].repeat(2, 0)}]) < 0.9 * error()


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "bits": ({"bits": 3}, "weights of 3 bits are not supported; use 4 or 8"),
    "group": ({"group": 0}, "group=0: expected a number of inputs"),
    "large": ({"group": 512}, "no product by constant weights with groups of 512 inputs"),
    "activations": ({"activations": "f16"}, "activations='f16': expected int8 or f32"),
    "data": ({"data": []}, "the calibration data is empty"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options(name: str, tmp_path: Path) -> None:
    path, x = _model(tmp_path)
    options, message = BAD[name]
    with pytest.raises(glow.QuantizationError, match=message):
        glow.quantize_weights(path, shapes={"x": x.shape}, **options)


@pytest.mark.slow
def test_calibrated_language_model(tmp_path: Path) -> None:
    """Texts make the weights of a language model better: a model some of whose features are large."""
    lms = pytest.importorskip("language_models")
    own = lms.written(tmp_path, "llama")
    with lms.torch.no_grad():
        for layer in own.model.layers:
            for norm in (layer.input_layernorm, layer.post_attention_layernorm):
                norm.weight[5::16] *= 12
    own.save_pretrained(tmp_path, max_shard_size="80KB")
    prompt = lms.prompt_of(60)
    with lms.torch.no_grad():
        want = own(lms.torch.tensor([prompt])).logits[0].numpy()

    def error(**options: Any) -> float:
        few = glow.LanguageModel(tmp_path, weights="int4", activations="f32", **options)
        return float(np.square(few.logits(prompt) - want).mean())

    assert error(calibration=[lms.prompt_of(90), lms.prompt_of(70)]) < 0.95 * error()
    for calibration, message in (
        ([[1, 97]], "token 97 is out of range"),
        ("a text", "calibration is a list"),
    ):
        with pytest.raises(glow.GlowError, match=message):
            glow.LanguageModel(tmp_path, weights="int4", calibration=calibration)
