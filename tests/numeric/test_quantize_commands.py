"""glow-profile and glow-quantize from end to end, and their messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from graph_runner import Graph
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_compiler import quantization
from glow_dialects.ops.activation import SigmoidOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.relu import ReluOp
from glow_passes.quantize.profile import Profile
from glow_passes.quantize.schema import QuantizationError
from glow_tools import profile, quantize


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A network of two convolutions as an .mlir file with its weights."""
    rng = np.random.default_rng(0)
    g = Graph()
    x = g.input(np.zeros((1, 3, 8, 8), np.float32))
    for out, inner in ((8, 3), (8, 8)):
        w = (rng.standard_normal((out, inner, 3, 3)) / 5).astype(np.float32)
        x = g.b(ReluOp(g.b(ConvOp(x, g.constant(w), None, pads=(1, 1, 1, 1)))))
    g.save(g.b(SigmoidOp(x)))
    path = tmp_path / "net.mlir"
    glow.save(g.module, str(path))
    return path


def test_profile_then_quantize(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Many inputs in one .npy file, a profile, a quantised model that runs like the float one."""
    images = np.random.default_rng(1).standard_normal((5, 1, 3, 8, 8)).astype(np.float32)
    np.save(model.with_name("images.npy"), images)
    taken, out = model.with_name("profile.yaml"), model.with_name("q.mlir")
    options = ["--inputs", str(model.with_name("images.npy")), "--backend", "interpreter"]
    assert profile.main([str(model), *options, "-o", str(taken)]) == 0
    assert "5 batches" in capsys.readouterr().out
    page = model.with_name("report.html")
    arguments = [str(model), "--profile", str(taken), "-o", str(out), "--report", str(page)]
    assert quantize.main([*arguments, *options, "--calibration", "percentile"]) == 0
    assert "<table>" in page.read_text() and "quantized_conv" in out.read_text()
    nets = [glow.compile(p, backend="interpreter") for p in (model, out)]
    (name,) = [port.name for port in nets[0].inputs]
    want, have = (next(iter(net.run({name: images[0]}).values())) for net in nets)
    np.testing.assert_allclose(have, want, atol=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--schema", "odd"], "unknown schema 'odd'"),
        (["--calibration", "guess"], "unknown calibration 'guess'"),
        (["--precision", "int4"], "unknown precision 'int4'"),
        (["--bias", "int4"], "unknown bias precision 'int4'"),
    ],
)
def test_wrong_options(
    model: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that says what is wrong and what there is; nothing is written."""
    taken, out = model.with_name("profile.yaml"), model.with_name("q.mlir")
    profile.main(
        [str(model), "--random", "0", "--batches", "1", "--backend", "interpreter", "-o", str(taken)]
    )
    assert quantize.main([str(model), "--profile", str(taken), "-o", str(out), *options]) == 1
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert not out.exists()


def test_wrong_data(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No inputs, a missing file, a file of another shape: one message each."""
    out = str(model.with_name("profile.yaml"))
    assert profile.main([str(model), "-o", out]) == 1
    assert "--inputs" in capsys.readouterr().err
    assert profile.main([str(model), "--inputs", "none.npy", "-o", out]) == 1
    assert "No such file" in capsys.readouterr().err
    wrong = model.with_name("wrong.npy")
    np.save(wrong, np.zeros((2, 2), np.float32))
    assert profile.main([str(model), "--inputs", str(wrong), "-o", out]) == 1
    assert "shape (2, 2)" in capsys.readouterr().err
    wrong.write_text("text")
    assert profile.main([str(model), "--inputs", str(wrong), "-o", out]) == 1
    assert "not a .npy" in capsys.readouterr().err


@pytest.mark.slow
def test_open_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the data settles, shapes and a number that chooses a branch, is known to both commands."""
    weights = np.random.default_rng(0).standard_normal((12, 12)).astype(np.float32)
    constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array(16000), "rate")]

    def branch(*names: str) -> onnx.GraphProto:
        nodes, value = [], "x"
        for number, name in enumerate(names * 3):
            inputs = [value, "w"] if name == "MatMul" else [value]
            value = f"{names[0]}{number}"
            nodes.append(helper.make_node(name, inputs, [value]))
        out = helper.make_tensor_value_info(value, TensorProto.FLOAT, None)
        return helper.make_graph(nodes, f"branch_{names[0]}", [], [out])

    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["fast"]),
        helper.make_node(
            "If", ["fast"], ["y"], then_branch=branch("MatMul", "Tanh"), else_branch=branch("Tanh", "MatMul")
        ),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 12]),
        helper.make_tensor_value_info("sr", TensorProto.INT64, []),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 12])
    graph = helper.make_graph(nodes, "open", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path, data, taken, out = (str(tmp_path / n) for n in ("m.onnx", "a.npz", "p.yaml", "q.mlir"))
    onnx.save(model, path)
    x = np.random.default_rng(1).standard_normal((3, 12)).astype(np.float32)
    np.savez(data, x=x, sr=np.array(16000))
    assert profile.main([path, "--inputs", data, "-o", taken]) == 0
    assert quantize.main([path, "--profile", taken, "-o", out, "--report", "-", "--inputs", data]) == 0
    assert "fully_connected" in Path(out).read_text() or "matmul" in capsys.readouterr().out
    want = glow.compile(path).run({"x": x, "sr": np.array(16000)})["y"]
    have = glow.compile(out).run({"x": x, "sr": np.array(16000)})["y"]
    np.testing.assert_allclose(have, want, atol=0.15)


@pytest.mark.parametrize("sizes", ["", "x=2x3x8x8", "x=1x3x16x12"])
def test_a_profile_serves_every_size(sizes: str, tmp_path: Path) -> None:
    """What one batch of one size has told quantises the open model, and other batches and sizes."""
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[n, 3, h, w] x) => (float[n, 8, a, b] y) {
      c = Conv <pads = [1, 1, 1, 1]> (x, f)
      r = Relu(c)
      m = GlobalAveragePool(r)
      s = Mul(r, m)
      u = Resize <nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"> (s, , k)
      y = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (u, e) }"""
    made = onnx.parser.parse_model(text.replace("\n", " "))
    rng = np.random.default_rng(0)
    for name, shape in {"f": (8, 3, 3, 3), "e": (8, 8, 3, 3)}.items():
        weights = rng.standard_normal(shape).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(weights, name))
    made.graph.initializer.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "k"))
    path, taken, out = (str(tmp_path / n) for n in ("m.onnx", "p.yaml", "q.mlir"))
    onnx.save(made, path)
    options = ["--shape", "x=1x3x8x8", "--random", "0", "--batches", "1"]
    assert profile.main([path, *options, "-o", taken]) == 0
    fixed = ["--shape", sizes] if sizes else []
    assert quantize.main([path, "--profile", taken, *fixed, "-o", out, "--everything"]) == 0
    shape = [int(n) for n in sizes.partition("=")[2].split("x")] if sizes else [1, 3, 8, 8]
    x = rng.uniform(-1, 1, shape).astype(np.float32)  # inside the range of what was profiled
    want, have = (glow.compile(model).run({"x": x})["y"] for model in (path, out))
    assert 0 < np.abs(have - want).max() < 0.1 * np.abs(want).max()


@pytest.mark.parametrize("sizes", [(1, 8, 8), ("n", 8, 8), ("n", "h", "w")])
def test_other_paddings_are_another_graph(sizes: tuple[Any, ...], tmp_path: Path) -> None:
    """A profile serves no model whose pads differ, whatever the number of samples or open sizes."""

    def model(pads: int) -> onnx.ModelProto:
        rows, height, width = sizes
        text = f"""<ir_version: 8, opset_import: ["": 17]> g (float[{rows}, 3, {height}, {width}] x)
          => (float[a, 8, b, c] y) {{ c = Conv <pads = [1, {pads}, 1, 1]> (x, f) y = Relu(c) }}"""
        made = onnx.parser.parse_model(text.replace("\n", " "))
        made.graph.initializer.append(numpy_helper.from_array(np.ones((8, 3, 3, 3), np.float32), "f"))
        return made

    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    taken = tmp_path / "p.yaml"
    quantization.profile(model(1), [{"x": x}]).save(taken)
    ranges = Profile.load(taken)
    for shape in ((1, 3, 8, 8), (3, 3, 8, 8), (3, 3, 9, 8)):
        if sizes == (1, 8, 8) and shape[0] != 1 or sizes[1] == 8 and shape[2] != 8:
            continue
        ranges.check_graph(quantization.prepared(model(1), {"x": shape}))
        with pytest.raises(QuantizationError, match=r"node 0 is `conv .*1, 1.*` there, `.*1, 2"):
            ranges.check_graph(quantization.prepared(model(2), {"x": shape}))


def test_float_precisions(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """f16 and bf16 need no profile; integers do."""
    for name in ("f16", "bf16"):
        out = model.with_name(f"{name}.mlir")
        assert quantize.main([str(model), "--precision", name, "-o", str(out)]) == 0
        assert f"x{name}>" in out.read_text()
    with pytest.raises(SystemExit):
        quantize.main([str(model), "-o", str(out)])
    assert "need --profile" in capsys.readouterr().err
