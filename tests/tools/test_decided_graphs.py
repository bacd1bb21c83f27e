"""Models whose graph a single integer decides: tools take its value from --inputs, or say how it is given."""

from __future__ import annotations

import json
from pathlib import Path

import commands
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from glow_tools import bench, opt, run


def filtering(name: str, width: int) -> onnx.GraphProto:
    """A branch with a convolution of its own width."""
    kernel = np.full((1, 1, width), 0.5, np.float32)
    nodes = [
        helper.make_node("Constant", [], [f"{name}_w"], value=numpy_helper.from_array(kernel)),
        helper.make_node("Conv", ["x", f"{name}_w"], [f"{name}_c"], f"{name}_conv"),
    ]
    return helper.make_graph(
        nodes, name, [], [helper.make_tensor_value_info(f"{name}_c", TensorProto.FLOAT, None)]
    )


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A model of two filters by the rate of samples, and inputs at 16 kHz."""
    nodes = [
        helper.make_node("Constant", [], ["high"], value_int=16000),
        helper.make_node("Equal", ["rate", "high"], ["is_high"]),
        helper.make_node(
            "If",
            ["is_high"],
            ["y"],
            "choice",
            then_branch=filtering("wide", 5),
            else_branch=filtering("narrow", 2),
        ),
    ]
    sound = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1, "samples"])
    rate = helper.make_tensor_value_info("rate", TensorProto.INT64, [])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "sound", [sound, rate], [out])
    model, inputs = tmp_path / "sound.onnx", tmp_path / "inputs.npz"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    np.savez(inputs, x=np.arange(8, dtype=np.float32).reshape(1, 1, 8), rate=np.int64(16000))
    return model, inputs


def test_without_its_value(files: tuple[Path, Path]) -> None:
    """A value that the graph takes is chosen, and named."""
    done = commands.run(opt.main, files[0])
    assert done.status == 0 and "--input rate=" in done.messages, done


def test_opt(files: tuple[Path, Path]) -> None:
    """The graph is that of the value, and its passes are checked."""
    model, inputs = files
    done = commands.run(opt.main, model, "--inputs", inputs, "-p", "optimize", "--validate")
    assert done.status == 0, done
    assert "tensor<1x1x4xf32>" in done.output and "narrow" not in done.output


def test_run(files: tuple[Path, Path]) -> None:
    """The same inputs run it."""
    model, inputs = files
    done = commands.run(run.main, model, "--inputs", inputs, "--compare", "onnxruntime")
    assert done.status == 0 and "[1, 1, 4]" in done.output, done


@pytest.mark.slow
def test_profile(files: tuple[Path, Path]) -> None:
    """Kernels of the branch that runs."""
    model, inputs = files
    done = commands.run(
        bench.main, model, "--inputs", inputs, "--profile", "--accuracy", "--rounds", 1, "--json", "-"
    )
    assert done.status == 0, done
    (found,) = json.loads(done.output)["models"]
    assert any("wide_conv" in node for step in found["kernels"] for node in step["nodes"])
    assert found["accuracy"]
