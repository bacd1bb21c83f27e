"""`glow info` of every kind of model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import refused, run
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_tools import info


def facts(path: Path, *options: str, status: int = 0) -> dict[str, Any]:
    """What --json prints; the text is printed, too."""
    assert run(info.main, path, *options).status == status
    done = run(info.main, path, *options, "--json")
    assert done.status == status, done
    return json.loads(done.output)


def saved(path: Path, op: str = "Relu") -> Path:
    """A product of open rows and weights, and an element-wise operator."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node(op, ["a"], ["y"], name="last")]
    weights = [numpy_helper.from_array(np.ones((4, 3), np.float32), "w")]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="me")
    onnx.save(made, path)
    return path


def test_onnx(tmp_path: Path) -> None:
    """Ports with names of dimensions, operators, opset, parameters, where each part runs, for which sizes."""
    found = facts(saved(tmp_path / "m.onnx"))
    assert found["kind"] == "an ONNX model"
    about = found["about"]
    assert about["operator set"] == "ai.onnx 17" and about["made by"] == "me"
    assert found["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["N", 4]}]
    assert found["operators"] == {"MatMul": 1, "Relu": 1}
    assert (found["parameters"], found["parameter_bytes"]) == (12, 48)
    assert found["runs"] == {"kernel": {"glow.matmul": 1, "glow.relu": 1}}
    assert found["assumed"] == "--shape N=1"
    assert "assumed" not in facts(tmp_path / "m.onnx", "--shape", "N=5")


def test_what_is_not_supported(tmp_path: Path) -> None:
    """Named, with status 1; the rest is told all the same."""
    found = facts(saved(tmp_path / "m.onnx", "Frobnicate"), status=1)
    assert found["unsupported"] == ["ai.onnx.Frobnicate"] and found["parameters"] == 12


def test_what_data_decide_runs_one_by_one(tmp_path: Path) -> None:
    """Nodes on texts, which no program has."""
    node = helper.make_node("StringNormalizer", ["x"], ["y"])
    x, y = (helper.make_tensor_value_info(n, TensorProto.STRING, [None]) for n in "xy")
    graph = helper.make_graph([node], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    found = facts(tmp_path / "m.onnx")
    assert found["runs"] == {"plan": {"StringNormalizer": 1}} and found["inputs"][0]["dtype"] == "strings"


def test_programs_and_files_of_them(tmp_path: Path) -> None:
    """IR text, StableHLO, saved programs, functions."""
    module = glow.load(saved(tmp_path / "m.onnx"))
    glow.save(module, tmp_path / "m.mlir")
    found = facts(tmp_path / "m.mlir")
    assert found["operators"] == {"glow.matmul": 1, "glow.relu": 1} and found["parameters"] == 12
    assert found["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["N", 4]}]
    net = glow.compile(tmp_path / "m.onnx")
    net.save(tmp_path / "m.glow", [{"x": (2, 4)}])
    found = facts(tmp_path / "m.glow")
    assert found["about"]["backend"] == "cpu" and "x 2x4" in found["about"]["programs"]
    text = "func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
    text += '  %b = "stablehlo.add"(%a, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>\n'
    text += "  func.return %b : tensor<2x3xf32>\n}\n"
    (tmp_path / "hlo.txt").write_text(text)
    assert facts(tmp_path / "hlo.txt")["kind"] == "StableHLO"

    def scaled(x: np.ndarray, by: float = 2.0) -> np.ndarray:
        return x * by

    compiled = glow.jit(scaled)
    compiled.save(tmp_path / "f.mlir")
    found = facts(tmp_path / "f.mlir")
    assert found["about"] == {"function": "scaled(x, by=2.0)"} and found["operators"]


def test_exported_program(tmp_path: Path) -> None:
    """A program of torch.export with open sizes."""
    torch = pytest.importorskip("torch")
    batch = torch.export.Dim("batch", min=2, max=64)
    module = torch.nn.Linear(4, 3)
    program = torch.export.export(module, (torch.ones(2, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "m.pt2")
    found = facts(tmp_path / "m.pt2")
    assert found["parameters"] == 15 and found["kind"] == "a program of torch.export"


def test_language_models(tmp_path: Path) -> None:
    """GGUF and folders: architecture, sizes, tensors; unknown architectures are told."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_block_count(2)
    writer.add_context_length(128)
    writer.add_tensor("token_embd.weight", np.zeros((8, 32), np.float16))
    writer.add_tensor("output.weight", np.zeros((4, 34), np.uint8), raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = facts(tmp_path / "m.gguf")
    assert found["about"]["layers"] == 2 and found["about"]["architecture"] == "llama"
    assert found["parameter_types"] == {"float16": 256, "Q8_0": 128}
    assert found["parameter_bytes"] == 256 * 2 + 4 * 34
    from safetensors.numpy import save_file

    save_file({"a.weight": np.zeros((3, 5), np.float32)}, tmp_path / "model.safetensors")
    for kind, status in (("llama", 0), ("nonesuch", 1)):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, "hidden_size": 5}))
        found = facts(tmp_path, status=status)
        assert found["parameters"] == 15 and found["about"]["width"] == 5


def test_other_files(tmp_path: Path) -> None:
    """Files that are no models, and what to do with them."""
    np.save(tmp_path / "x.npy", np.zeros(3))
    refused(run(info.main, tmp_path / "x.npy"), "expected a model", "NumPy")
    (tmp_path / "notes").write_text("hello")
    refused(run(info.main, tmp_path / "notes"), "not a model")
    refused(run(info.main, tmp_path / "none.onnx"), "No such file")
