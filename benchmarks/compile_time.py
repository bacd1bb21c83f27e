"""How compile time grows: processor time of `glow.compile` for graphs of n and of 4 n nodes.

    python -m benchmarks.compile_time                    # every family, a line each
    python -m benchmarks.compile_time slices sums --n 500
    python -m benchmarks.compile_time slices --profile   # where the time goes at 4 n

Nothing is taken from a cache on the disk. Of time that grows with the nodes the ratio is 4.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow

Graph = Callable[[int], onnx.ModelProto]


class Model:
    """Nodes and constants of a model with the input x; `node` gives the name of the result."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [result], **attributes))
        return result

    def constant(self, *shape: int) -> str:
        """Numbers of a shape, other ones each time."""
        scale = max(1, np.prod(shape[1:])) ** 0.5
        return self.array((self.random.normal(size=shape) / scale).astype(np.float32))

    def array(self, array: object) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def done(self, *results: str) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)]
        outputs = [helper.make_tensor_value_info(r, TensorProto.FLOAT, None) for r in results]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def slices(n: int) -> onnx.ModelProto:
    """Rows of one tensor, put together in another order."""
    m = Model(n, 3)
    ends = [m.array(np.array([i])) for i in range(n + 1)]
    return m.done(m.node("Concat", *[m.node("Slice", "x", *ends[i : i + 2]) for i in range(n)][::-1], axis=0))


def aligned_slices(n: int) -> onnx.ModelProto:
    """Rows that may become views, each in a step of its own before they are put together."""
    m = Model(n, 64)
    ends = [m.array(np.array([i])) for i in range(n + 1)]
    rows = [m.node("Relu", m.node("Slice", "x", *ends[i : i + 2])) for i in range(n)]
    return m.done(m.node("Concat", *rows, axis=0))


def split(n: int) -> onnx.ModelProto:
    """One node with n results, a step each."""
    m = Model(n, 64)
    parts = [f"p{i}" for i in range(n)]
    m.nodes.append(helper.make_node("Split", ["x"], parts, axis=0, num_outputs=n))
    return m.done(m.node("Concat", *[m.node("Exp", p) for p in parts], axis=0))


def sums(n: int) -> onnx.ModelProto:
    """A sum of n products."""
    m = Model(2, 3)
    return m.done(m.node("Sum", *[m.node("Mul", "x", m.array(np.float32(i))) for i in range(n)]))


def adds(n: int) -> onnx.ModelProto:
    """n nodes on one tensor and a constant each, put together."""
    m = Model(1, 16)
    return m.done(m.node("Concat", *[m.node("Add", "x", m.constant(1, 16)) for _ in range(n)], axis=0))


def concat(n: int) -> onnx.ModelProto:
    """A concatenation of n parts along the last axis."""
    m = Model(4, 3)
    parts = [m.node("Softmax", m.node("Mul", "x", m.constant(3))) for _ in range(n // 2)]
    return m.done(m.node("Concat", *parts, axis=1))


def chain(n: int) -> onnx.ModelProto:
    """Element-wise nodes one after the other."""
    m = Model(4, 32)
    value = "x"
    for i in range(n):
        kind = ("Tanh", "Mul", "Sigmoid", "Add")[i % 4]
        value = m.node(kind, value, *([m.constant(32)] if kind in ("Mul", "Add") else []))
    return m.done(value)


def products(n: int) -> onnx.ModelProto:
    """Layers of dense networks, of few shapes."""
    m = Model(4, 16)
    value, width = "x", 16
    for i in range(n // 2):
        wide = (16, 24, 32)[i % 3]
        value = m.node("Relu", m.node("Gemm", value, m.constant(width, wide), m.constant(wide)))
        width = wide
    return m.done(value)


def convolutions(n: int) -> onnx.ModelProto:
    """Convolutions of few shapes, some with residuals."""
    m = Model(1, 16, 6, 6)
    value = "x"
    for i in range(n // 3):
        size = (3, 1)[i % 2]
        new = m.node("Conv", value, m.constant(16, 16, size, size), pads=[size // 2] * 4)
        value = m.node("Add", m.node("Relu", new), value)
    return m.done(value)


def diamonds(n: int) -> onnx.ModelProto:
    """Residual steps: each result is read on two ways."""
    m = Model(4, 16)
    value = "x"
    for i in range(n // 3):
        left = m.node(("Exp", "Tanh")[i % 2], value)
        value = m.node("Add", left, m.node("Softmax" if i % 5 == 0 else "Neg", value))
    return m.done(value)


def tree(n: int) -> onnx.ModelProto:
    """A balanced tree of sums over leaves that are products."""
    m = Model(4, 16)
    level = [m.node("Mul", "x", m.constant(16)) for _ in range(n // 2)]
    while len(level) > 1:
        level = [
            m.node("Add", *level[i : i + 2]) if i + 1 < len(level) else level[i]
            for i in range(0, len(level), 2)
        ]
    return m.done(level[0])


def outputs(n: int) -> onnx.ModelProto:
    """n outputs."""
    m = Model(4, 16)
    return m.done(*[m.node("Exp", m.node("Mul", "x", m.constant(16))) for _ in range(n // 2)])


def shared(n: int) -> onnx.ModelProto:
    """One computed tensor, used by n nodes of some kinds."""
    m = Model(4, 16)
    value = m.node("Softmax", "x")
    kinds = ("Exp", "Softmax", "Neg", "Tanh")
    used = [m.node("Mul", m.node(kinds[i % 4], value), m.constant(16)) for i in range(n // 2)]
    return m.done(m.node("Concat", *used, axis=0))


def branches(n: int) -> onnx.ModelProto:
    """Small separate branches from a slice each to a sum each."""
    m = Model(n, 16)
    found: list[str] = []
    for i in range(n // 4):
        part = m.node("Slice", "x", m.array(np.array([4 * i])), m.array(np.array([4 * i + 4])))
        part = m.node("Gemm", part, m.constant(16, 8))
        found.append(m.node("ReduceSum", m.node("Relu", part), m.array(np.array([1]))))
    return m.done(m.node("Concat", *found, axis=0))


def shuffles(n: int) -> onnx.ModelProto:
    """Transposes, reshapes and element-wise steps one after the other."""
    m = Model(4, 6, 8)
    value = "x"
    for i in range(n // 4):
        value = m.node("Transpose", value, perm=[0, 2, 1])
        value = m.node("Reshape", value, m.array(np.array([4, 6, 8])))
        value = m.node(("Erf", "Tanh")[i % 2], m.node("Softmax", value, axis=i % 3))
    return m.done(value)


def deep(n: int) -> onnx.ModelProto:
    """A value that is an operand of everything that follows it: n steps, each with a step far back."""
    m = Model(4, 16)
    values = [m.node("Exp", "x")]
    for i in range(n // 2):
        values.append(m.node("Softmax", m.node("Sub", values[-1], values[i // 2])))
    return m.done(values[-1])


def dense(n: int) -> onnx.ModelProto:
    """Concatenations that grow, as in DenseNet, of 8 steps each."""
    m = Model(1, 8)
    value = "x"
    for _ in range(n // 17):
        parts = [value]
        for _ in range(8):
            parts.append(m.node("Tanh", m.node("Concat", *parts, axis=1)))
            parts[-1] = m.node("Gemm", parts[-1], m.constant(8 * (len(parts) - 1), 8))
        value = parts[-1]
    return m.done(value)


FAMILIES: tuple[Graph, ...] = (
    slices,
    aligned_slices,
    split,
    sums,
    adds,
    concat,
    chain,
    products,
    convolutions,
    diamonds,
    tree,
    outputs,
    shared,
    branches,
    shuffles,
    deep,
    dense,
)


def seconds(graph: Graph, n: int, backend: str = "cpu") -> float:
    """Processor time of compiling a family's graph of n nodes."""
    model = graph(n)
    start = time.process_time()
    glow.compile(model, backend=backend)
    return time.process_time() - start


def profile(graph: Graph, n: int, most: int = 45) -> None:
    """Print the functions that take most of the time."""
    model, profiler = graph(n), cProfile.Profile()
    profiler.enable()
    glow.compile(model)
    profiler.disable()
    for order in ("tottime", "cumtime"):
        pstats.Stats(profiler).sort_stats(order).print_stats(most)


def measure(families: Iterable[Graph], n: int) -> None:
    """Print a line for each family."""
    print(f"| family | {n} | {4 * n} | ratio | ms a node |\n| --- | --- | --- | --- | --- |")
    for graph in families:
        small, large = seconds(graph, n), seconds(graph, 4 * n)
        row = (
            f"{graph.__name__} | {small:.2f} s | {large:.2f} s | {large / small:.1f} | {large / n * 250:.2f}"
        )
        print(f"| {row} |", flush=True)


def main() -> None:
    """Measure what was asked for and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = {f.__name__: f for f in FAMILIES}
    parser.add_argument("families", nargs="*", help=", ".join(names))
    parser.add_argument("--n", type=int, default=500, help="nodes of the smaller graph")
    parser.add_argument("--profile", action="store_true", help="where the time goes, of the larger graph")
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.families} - {*names}):
        parser.error(f"no families {', '.join(unknown)}; there are: {', '.join(names)}")
    chosen = [names[n] for n in arguments.families] or list(FAMILIES)
    os.environ["GLOW_CACHE_DIR"] = ""
    seconds(chain, 40)  # what only the first one pays
    if arguments.profile:
        for graph in chosen:
            profile(graph, 4 * arguments.n)
    else:
        measure(chosen, arguments.n)


if __name__ == "__main__":
    main()
