"""Calls whose sizes alternate find their programs at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_compiler as glow
from glow_dialects.core.errors import BindingError


def _doubled(dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(n, dtype, ["n", 3]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _rows(count: int) -> dict[str, Any]:
    return {"x": np.full((count, 3), count, np.float32)}


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_shapes_met_before(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither keys nor conditions are looked at again, and each size has its results and its report."""
    net = glow.compile(_doubled(), backend=backend)
    for count in (2, 5, 2, 5):
        net.run(_rows(count))
    monkeypatch.setattr(type(net), "_met", None)
    monkeypatch.setattr(type(net), "_program", None)
    for count in (5, 2, 2, 5):
        result = net.run(_rows(count))["y"]
        np.testing.assert_array_equal(result, np.full((count, 3), 2 * count))
        assert net.program.report is net.report()


def test_what_is_forgotten() -> None:
    """Programs that are no longer kept are not held here, and a wrong type is told as ever."""
    net = glow.compile(_doubled(), backend="interpreter")
    for count in range(1, 40):
        np.testing.assert_array_equal(net.run(_rows(count))["y"], np.full((count, 3), 2 * count))
    held = net._recent[1] if net._recent is not None else {}
    assert set(map(id, held.values())) <= {*map(id, net._programs.values()), id(net.program)}
    with pytest.raises(BindingError, match="float64"):
        net.run({"x": np.zeros((2, 3))})
    net.close()
    assert net._recent is None
