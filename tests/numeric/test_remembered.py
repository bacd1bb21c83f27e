"""Models with lengths that data decide: what was compiled for them is there in the next process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_compiler as glow
import glow_runtime.compile
from glow_frontends.builder import GraphBuilder
from glow_runtime.compile import module_key


def _positive_rows() -> onnx.ModelProto:
    """The places of the positive elements, and these elements doubled."""
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["positive"]),
        helper.make_node("NonZero", ["positive"], ["places"]),
        helper.make_node("Compress", ["x", "positive"], ["kept"], axis=0),
        helper.make_node("Add", ["kept", "kept"], ["doubled"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [9])],
        [
            helper.make_tensor_value_info("places", TensorProto.INT64, [1, None]),
            helper.make_tensor_value_info("doubled", TensorProto.FLOAT, [None]),
        ],
        [helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_segments_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path))
    x = np.random.default_rng(0).standard_normal(9).astype(np.float32)
    glow.compile(_positive_rows()).run({"x": x})

    def compiled(*args: object, **options: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(glow_runtime.compile, "compile_module", compiled)
    for data in (x, -x):
        got = glow.compile(_positive_rows()).run({"x": data})
        np.testing.assert_array_equal(got["places"], np.array(np.nonzero(data > 0)))
        np.testing.assert_array_equal(got["doubled"], 2 * data[data > 0])


def test_weights_are_part_of_what_a_module_is() -> None:
    def key(value: float) -> str | None:
        g = GraphBuilder()
        weights = np.random.default_rng(0).standard_normal((40, 40)).astype(np.float32)
        weights[39, 39] = value
        g.save(g.matmul(g.placeholder("x", (1, 40)), g.constant(weights, "w")), "y")
        return module_key(g.module)

    assert key(1.0) == key(1.0) != key(2.0)
