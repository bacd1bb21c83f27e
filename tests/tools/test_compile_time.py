"""Graphs of many nodes: compiled in seconds, and right. Growth is measured by benchmarks/compile_time.py."""

from __future__ import annotations

import ctypes
import time

import numpy as np
import onnxruntime
import pytest

import glow_compiler as glow
from benchmarks import compile_time
from benchmarks.compile_time import Graph
from glow_backends.cpu.jit import Linked, emit_object
from glow_backends.cpu.target import host

#: A family and nodes: before, each took ten times as long as now, or more.
MANY: tuple[tuple[Graph, int], ...] = (
    (compile_time.slices, 400),
    (compile_time.sums, 400),
    (compile_time.concat, 400),
    (compile_time.branches, 400),
)


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "nodes"), MANY, ids=lambda v: getattr(v, "__name__", str(v)))
def test_many_nodes(graph: Graph, nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOW_CACHE_DIR", "")
    model = graph(nodes)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    feed = {"x": np.random.default_rng(0).normal(size=shape).astype(np.float32)}
    start = time.process_time()
    net = glow.compile(model)
    assert time.process_time() - start < 6  # some 1.5; the processor may be busy
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    got = net.run(feed)
    for name, want in zip(got, session.run(list(got), feed), strict=True):
        np.testing.assert_allclose(got[name], np.asarray(want), rtol=1e-4, atol=1e-5)


def test_many_calls() -> None:
    """Machine code of one block of thousands of calls, whose addresses are used again."""
    count = 6000
    lines = [f"%p{i} = getelementptr inbounds i8, ptr %x, i64 {8 * i + 8}" for i in range(count)]
    lines += [f"call void @step(ptr %x, ptr %p{i})" for i in (*range(count), *reversed(range(count)))]
    step = "%v = load i64, ptr %a\n %w = load i64, ptr %b\n %s = add i64 %v, %w\n store i64 %s, ptr %a"
    text = f"define void @step(ptr %a, ptr %b) noinline {{\n {step}\n ret void\n}}\n"
    text += "\n".join(["define void @main(ptr %x) {", *lines, "ret void", "}", ""])
    start = time.process_time()
    code = emit_object(f'target triple = "{host().triple}"\n{text}', host())
    assert time.process_time() - start < 2 or "x86" not in host().triple  # 0.2; before, 5
    linked = Linked([code], host())
    numbers = np.arange(count + 1)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(linked.address("main"))(numbers.ctypes.data)
    assert numbers[0] == count * (count + 1)
