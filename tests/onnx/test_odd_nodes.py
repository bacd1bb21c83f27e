"""Nodes that real models and mutants have and the suite has not, against onnxruntime on both backends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ValueInfoProto, helper

import glow_compiler as glow
from glow_dialects.core.types import Array

RNG = np.random.default_rng(3)


def real(*dims: int) -> Array:
    """Normal float32 numbers."""
    return RNG.normal(size=dims).astype(np.float32)


@dataclass
class Case:
    """One node of an opset."""

    op: str
    inputs: list[Array]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    opset: int = 17
    outputs: int = 1
    note: str = ""


CASES = [
    Case("Affine", [real(2, 3)], {"alpha": 2.0, "beta": 0.5}, 7),
    Case("Scale", [real(2, 3)], {"scale": 0.25}, 7),
    Case("ScaledTanh", [real(2, 3)], {"alpha": 2.0, "beta": 0.5}, 7),
    Case("ParametricSoftplus", [real(2, 3)], {"alpha": 2.0, "beta": 0.5}, 7),
    Case("ImageScaler", [real(2, 3, 4, 5)], {"scale": 0.5, "bias": [0.1, 0.2, -0.3]}, 7),
    Case("Crop", [real(2, 3, 6, 7)], {"border": [1, 2, 3, 1]}, 7),
    Case("Crop", [real(2, 3, 6, 7)], {"border": [1, 2, 0, 0], "scale": [3, 2]}, 7, note="size"),
    Case("LayerNormalization", [real(2, 3, 5), real(5), real(5)], {"axis": -1}, 9, 3, "early"),
    Case("LayerNormalization", [real(2, 3, 5), real(5), real(1)], {"axis": 1}, 17, 1, "broadcast"),
    Case("RMSNormalization", [real(2, 3, 5), real(3, 5)], {}, 23, 1, "wide"),
    Case("RMSNormalization", [real(2, 3, 5), real(2, 1, 5)], {"axis": 0}, 23, 1, "thin"),
    Case("RMSNormalization", [real(2, 3, 5), real(1, 1, 1)], {"axis": 1}, 23, 1, "one"),
    Case("Upsample", [real(1, 1, 2, 0), np.array([1, 1, 2, 2], np.float32)], {"mode": "nearest"}, 9),
    Case("Conv", [real(2, 4, 5, 5), real(0, 4, 3, 3)], {}, 17, 1, "nothing"),
    Case("ReduceSum", [real(2, 3), np.array([1])], {"keepdims": 2}, 17, 1, "neither"),
]


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.op}-{c.note}" if c.note else c.op)
def test_node(case: Case, backend: str) -> None:
    """Shapes and values."""
    names = [f"x{i}" for i in range(len(case.inputs))]
    outputs = [f"y{i}" for i in range(case.outputs)]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, case.inputs, strict=True)
    ]
    node = helper.make_node(case.op, names, outputs, **case.attributes)
    results = [ValueInfoProto(name=n) for n in outputs]
    graph = helper.make_graph([node], "odd", infos, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=10)
    feed = dict(zip(names, case.inputs, strict=True))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    wanted: Any = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feed)
    made = glow.compile(model, backend=backend).run(feed)
    for name, want in zip(outputs, wanted, strict=True):
        assert (made[name].shape, made[name].dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(made[name], want, rtol=1e-5, atol=1e-5)


def test_bytes_that_are_no_picture() -> None:
    """ImageDecoder says so."""
    node = helper.make_node("ImageDecoder", ["x"], ["y"])
    info = helper.make_tensor_value_info("x", 2, [9])
    graph = helper.make_graph([node], "odd", [info], [helper.make_tensor_value_info("y", 2, [None, None, 3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    with pytest.raises(glow.GlowError, match="no picture"):
        glow.compile(model).run({"x": np.arange(9, dtype=np.uint8)})
