"""One node of com.microsoft as a model, and how its results are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from glow_dialects.core.types import Array


@dataclass
class Case:
    """One node: inputs in order (None = absent), of which those at `weights` are initializers."""

    op: str
    inputs: Sequence[Any]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    weights: Sequence[int] = ()
    outputs: int = 1
    tolerance: float = 1e-4
    name: str = ""


def model(case: Case) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model of a case and what to feed."""
    names = ["" if v is None else f"i{k}" for k, v in enumerate(case.inputs)]
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, domain="com.microsoft", **case.attributes)
    given = {n: v for n, v in zip(names, case.inputs, strict=True) if n}
    known = {names[i] for i in case.weights if names[i]}
    weights = [numpy_helper.from_array(given[n], n) for n in sorted(known)]
    feeds = {n: v for n, v in given.items() if n not in known}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feeds.items()
    ]
    results = [onnx.ValueInfoProto(name=n) for n in outputs]
    graph = helper.make_graph([node], case.op, infos, results, weights)
    versions = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8), feeds


def agree(want: Array, got: Array, tolerance: float) -> None:
    """Shapes and dtypes are equal; floats within the tolerance of their scale, bytes within one step."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind in "iu" and want.dtype.itemsize == 1:
        assert np.abs(want.astype(int) - got.astype(int)).max(initial=0) <= 1
        return
    finite = want[np.isfinite(want)] if want.dtype.kind == "f" else want
    bound = tolerance * max(1.0, float(np.abs(finite).max(initial=0)))
    np.testing.assert_allclose(got, want, rtol=0, atol=bound)
