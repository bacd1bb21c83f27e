"""Random element-wise graphs of many element types against onnxruntime: one fused loop, many widths."""

from __future__ import annotations

import random

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, helper

import glow_compiler as glow

pytestmark = pytest.mark.slow

GRAPHS = 16
LENGTH = 16
SHAPES = ((3, 7), (1, 7), (3, 1), (7,))
FLOATS = ("float32", "float64")
WHOLE = ("int32", "int64", "int8", "uint8")


class Graph:
    """A graph under construction: values with their element types and shapes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        numbers = np.random.default_rng(seed)
        self.nodes = []
        self.values: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.feed: dict[str, np.ndarray] = {}
        for index in range(4):
            kind, shape = self.rng.choice([*FLOATS, *WHOLE, "bool"]), self.rng.choice(SHAPES)
            array = numbers.integers(0, 2 if kind == "bool" else 6, shape).astype(kind)
            self.feed[f"in{index}"] = array
            self.values[f"in{index}"] = (kind, shape)

    def pick(self, *kinds: str) -> str | None:
        """A value of one of some element types."""
        fits = [n for n, (k, _) in self.values.items() if k in kinds]
        return self.rng.choice(fits) if fits else None

    def add(self, op: str, inputs: list[str], kind: str, **attributes: object) -> None:
        """A node whose result has the broadcast shape."""
        name = f"v{len(self.nodes)}"
        shapes = [self.values[n][1] for n in inputs]
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        self.values[name] = (kind, np.broadcast_shapes(*shapes))

    def step(self) -> None:
        """One more node, if its operands exist."""
        kind = self.rng.choice([*FLOATS, *WHOLE])
        x, y, flag = self.pick(kind), self.pick(kind), self.pick("bool")
        other = self.pick("bool")
        match self.rng.randrange(7):
            case 0 if x and y:
                self.add(self.rng.choice(["Equal", "Less", "Greater", "LessOrEqual"]), [x, y], "bool")
            case 1 if x and y and flag:
                self.add("Where", [flag, x, y], kind)
            case 2 if flag and other:
                self.add(self.rng.choice(["And", "Or", "Xor"]), [flag, other], "bool")
            case 3 if flag:
                self.add("Not", [flag], "bool")
            case 4 if x and kind in FLOATS:
                self.add(self.rng.choice(["Relu", "Abs", "Neg", "Floor", "Tanh", "Sigmoid"]), [x], kind)
            case 5:
                source = self.pick("bool", *FLOATS, *WHOLE)
                assert source is not None
                # values stay small and not negative, so that every type holds them
                if self.values[source][0] in ("bool", "uint8", "int8") or kind in FLOATS:
                    target = kind if self.values[source][0] != "int8" else "int32"
                    code = helper.np_dtype_to_tensor_dtype(np.dtype(target))
                    self.add("Cast", [source], target, to=code)
            case _ if x and y:
                small = ["Add", "Mul"] if kind not in ("int8", "uint8") else ["Max", "Min"]
                if kind in FLOATS:
                    small = [*small, "Sub", "Max", "Min"]
                op = self.rng.choice(small)
                if op in ("Max", "Min") and kind in ("int8", "uint8"):
                    self.add("Where", [flag, x, y], kind) if flag else None
                else:
                    self.add(op, [x, y], kind)
            case _:
                pass

    def model(self) -> ModelProto:
        """Every value that nothing reads is an output."""
        used = {n for node in self.nodes for n in node.input}

        def info(name: str):
            kind, shape = self.values[name]
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)

        ends = [n for n in self.values if n not in used and n not in self.feed]
        made = helper.make_graph(self.nodes, "random", [info(n) for n in self.feed], [info(n) for n in ends])
        return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("seed", range(GRAPHS))
def test_random_types(seed: int, backend: str) -> None:
    """Types and values are onnxruntime's."""
    graph = Graph(seed)
    for _ in range(LENGTH):
        graph.step()
    model = graph.model()
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, graph.feed)
    results = glow.compile(model, backend=backend).run(graph.feed)
    for info, want in zip(model.graph.output, wanted, strict=True):
        got = results[info.name]
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
