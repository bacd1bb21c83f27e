"""Bound programs: arrays that stay, calls that see what is in them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.core.errors import BindingError


def network(backend: str, threads: int = 1) -> glow.Executable:
    """y = relu(x) + 1, s = softmax(x)."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (3, 5))
    g.save(g.add(g.relu(x), g.constant(np.float32(1))), "y")
    g.save(g.softmax(x), "s")
    return glow.compile(g, backend=backend, threads=threads)


@pytest.mark.parametrize(("backend", "threads"), [("cpu", 1), ("cpu", 2), ("interpreter", 1)])
def test_bound_runs_follow_their_inputs(backend: str, threads: int) -> None:
    """Each call computes what run computes on the present contents, in the same output arrays."""
    net = network(backend, threads)
    rng = np.random.default_rng(0)
    bound = net.bind({"x": np.zeros((3, 5), np.float32)})
    outputs = dict(bound.outputs)
    for _ in range(3):
        x = rng.standard_normal((3, 5)).astype(np.float32)
        bound.inputs["x"][...] = x
        got, expected = bound(), net.run({"x": x})
        for name, value in expected.items():
            np.testing.assert_array_equal(got[name], value)
            assert got[name] is outputs[name]


def test_bindings_are_independent() -> None:
    """Two bindings of one program have memory of their own."""
    net = network("cpu")
    one = net.bind({"x": np.ones((3, 5), np.float32)})
    two = net.bind({"x": np.full((3, 5), -1, np.float32)})
    one()
    two()
    np.testing.assert_array_equal(one.outputs["y"], np.full((3, 5), 2, np.float32))
    np.testing.assert_array_equal(two.outputs["y"], np.ones((3, 5), np.float32))


def test_binding_checks_as_run_does() -> None:
    """Wrong names, shapes and dtypes."""
    net = network("cpu")
    with pytest.raises(BindingError, match="unknown input 'z'"):
        net.bind({"z": np.zeros(3, np.float32)})
    with pytest.raises(BindingError, match="shape"):
        net.bind({"x": np.zeros((5, 3), np.float32)})
    with pytest.raises(BindingError, match="dtype"):
        net.bind({"x": np.zeros((3, 5))})


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_inputs_out_of_a_pickle(backend: str) -> None:
    """Their dtypes are equal to NumPy's own, though not the same objects."""
    g = glow.GraphBuilder()
    x, y = (g.placeholder(name, (4,), np.dtype(np.int64)) for name in "xy")
    g.save(g.bitwise_and(x, y), "z")
    data = {"x": np.array([1, 2, 3, 4]), "y": np.array([3, 3, 3, 3])}
    received = pickle.loads(pickle.dumps(data))
    z = glow.compile(g, backend=backend).run(received)["z"]
    np.testing.assert_array_equal(z, data["x"] & data["y"])
