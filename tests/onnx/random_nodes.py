"""Random nodes and their arguments from a seed, and the comparison of a family of them with onnxruntime."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import glow_compiler as glow

Array = np.ndarray
OPSET = 18


@dataclass
class Node:
    """One node: inputs (None = absent), which of them are initializers, attributes, outputs."""

    op: str
    inputs: list[Array | None]
    known: set[int] = field(default_factory=set)
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1

    def model(self) -> onnx.ModelProto:
        """A model of this node alone."""
        names = [f"in{i}" if a is not None else "" for i, a in enumerate(self.inputs)]
        outs = [f"out{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outs, **self.attributes)
        infos = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for i, (n, a) in enumerate(zip(names, self.inputs, strict=True))
            if a is not None and i not in self.known
        ]
        constants = [numpy_helper.from_array(self.inputs[i], f"in{i}") for i in sorted(self.known)]
        results = [onnx.ValueInfoProto(name=n) for n in outs]
        graph = helper.make_graph([node], "node", infos, results, constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        return onnx.shape_inference.infer_shapes(made)

    def feed(self) -> dict[str, Array]:
        """Run-time inputs."""
        return {f"in{i}": a for i, a in enumerate(self.inputs) if a is not None and i not in self.known}


class Source:
    """Random shapes, arrays and choices from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)

    def shape(self, least: int = 1, most: int = 4, largest: int = 6) -> tuple[int, ...]:
        """A shape of a random rank."""
        return tuple(self.rng.randint(1, largest) for _ in range(self.rng.randint(least, most)))

    def array(self, shape: tuple[int, ...], kinds: str = "float32") -> Array:
        """Numbers of one of some element types."""
        kind = self.rng.choice(kinds.split())
        if kind == "bool":
            return self.numbers.random(shape) < 0.5
        if kind.startswith("float"):
            return self.numbers.uniform(-2, 2, shape).astype(kind)
        return self.numbers.integers(0 if kind.startswith("u") else -9, 9, shape).astype(kind)

    def axis(self, rank: int) -> int:
        """An axis, counted from either end."""
        return self.rng.randrange(-rank, rank)

    def axes(self, rank: int) -> Array:
        """Some distinct axes."""
        chosen = self.rng.sample(range(rank), self.rng.randint(1, rank))
        return np.array([a - rank * self.rng.randint(0, 1) for a in chosen], np.int64)

    def indices(self, shape: tuple[int, ...], limit: int) -> Array:
        """Indices, some from the end."""
        return self.numbers.integers(-limit, limit, shape).astype(self.rng.choice(["int32", "int64"]))

    def flag(self) -> int:
        """0 or 1."""
        return self.rng.randint(0, 1)


def check_family(
    family: Callable[[Source], Node], count: int, backend: str, rtol: float, atol: float
) -> None:
    """Raise unless shapes, types and values of `count` nodes of a family are onnxruntime's."""
    for seed in range(count):
        node = family(Source(seed))
        model = node.model()
        wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, node.feed())
        made = glow.compile(model, backend=backend).run(node.feed())
        shapes = [None if a is None else a.shape for a in node.inputs]
        what = f"seed {seed}: {node.op} {node.attributes} {shapes}"
        for index, want in enumerate(wanted):
            got = made[f"out{index}"]
            assert (got.shape, got.dtype) == (want.shape, want.dtype), what
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=what)
