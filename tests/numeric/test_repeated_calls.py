"""Calls whose inputs are like those of the call before, and those that only look so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import glow_compiler as glow
from glow_backends.cpu.memory import Recycled
from glow_dialects.core.errors import BindingError, ClosedError


def model(rows: int | str) -> ModelProto:
    """Two inputs added, of three columns."""
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [rows, 3]) for n in ("a", "b", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["y"])], "g", infos[:2], infos[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("rows", [2, "n"])
def test_a_call_like_the_last(rows: int | str, backend: str) -> None:
    net = glow.compile(model(rows), backend=backend)
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(net.run({"a": a, "b": b})["y"], a + 1)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"a": a}, "missing input 'b'"),
        ({"a": a, "b": b, "c": b}, "unknown input 'c'"),
        ({"a": a, "c": b}, "unknown input 'c'"),
        ({"a": a, "b": b.astype(np.float64)}, "dtype float64"),
        ({"a": a, "b": b.reshape(1, 2, 3)}, "shape"),
    ]
    for inputs, message in wrong:
        with pytest.raises(BindingError, match=message):
            net.run(inputs)
    others: list[dict[str, Any]] = [
        {"b": b.astype(">f4"), "a": a},
        {"a": np.asfortranarray(a), "b": b},
        {"a": a.T.copy().T, "b": np.broadcast_to(b[:1], (2, 3))},
    ]
    for inputs in [*others, *others]:
        np.testing.assert_array_equal(net.run(inputs)["y"], a + 1)
    for count in (5, 2, 5) if rows == "n" else ():
        more = np.full((count, 3), 7, np.float32)
        np.testing.assert_array_equal(net.run({"a": more, "b": more})["y"], more + more)
    net.close()
    with pytest.raises(ClosedError):
        net.run({"a": a, "b": b})


def test_results_of_other_sizes_take_memory_that_nobody_holds() -> None:
    """Sizes that grow a little find room where the last but one was; what is held stays as it is."""
    memory = Recycled(np.dtype(np.float32))
    first, _ = memory.array((1000,))
    first[...] = 1
    second, _ = memory.array((1010,))
    second[...] = 2
    del first
    places: set[int] = set()
    for size in range(1020, 1200, 10):
        third, place = memory.array((size,))
        assert not np.shares_memory(second, third)
        assert third.shape == (size,)
        assert place % 64 == 0
        third[...] = 3
        assert (second == 2).all()
        places.add(place)
        second, third = third, second  # the caller holds the newer one, as in a loop over its own outputs
        second[...] = 2
        del third
    assert len(places) <= 4
    small, place = memory.array((10,))
    assert place not in places, "a small array keeps no large memory"
    assert small.shape == (10,)
