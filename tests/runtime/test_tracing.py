"""Timelines: the behaviours that Glow's TraceEventsTest checks. Names of the list are in parentheses."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from host_networks import feed, layers, same
from onnx import TensorProto, helper

import glow_compiler as glow
from glow_runtime.host.tracing import Tracer


def spans(tracer: Tracer, category: str) -> list[dict[str, Any]]:
    return [e for e in tracer.events() if e.get("cat") == category]


def traced(devices: list[str], runs: int = 1, **options: Any) -> Tracer:
    """The timeline of some runs of a network."""
    tracer = glow.Tracer()
    model = layers(4)
    with glow.HostManager(devices, tracer=tracer) as host:
        host.add_network("net", model, **options)
        for future in [host.submit("net", feed(model)) for _ in range(runs)]:
            future.result(120)
    return tracer


def test_manual_events() -> None:
    """(manualEvents, emptyTrace)"""
    tracer = glow.Tracer()
    assert tracer.events() == []
    tracer.instant("here")
    tracer.span("there", "user", "track", 1.0, 2.0, size=3)
    there = next(e for e in spans(tracer, "user") if e["name"] == "there")
    assert there["dur"] == pytest.approx(1e6) and there["args"] == {"size": 3}


def test_scopes_nest_and_end_early() -> None:
    """(nested scopes, macro, early end)"""
    tracer = glow.Tracer()
    with pytest.raises(KeyError), tracer.scope("outer"), tracer.scope("inner"):
        time.sleep(0.01)
        raise KeyError
    inner, outer = (next(e for e in spans(tracer, "user") if e["name"] == n) for n in ("inner", "outer"))
    assert outer["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    assert inner["dur"] >= 1e4


@pytest.mark.parametrize("kind", ["cpu", "interpreter", "process"])
def test_automatic_events(kind: str) -> None:
    """(automatic instrumentation, device manager events) Request, queues, each partition on its device."""
    tracer = traced([kind] * 2, partition=4)
    parts = spans(tracer, "partition")
    assert sorted(e["name"] for e in parts) == [f"net@1/main_{i}" for i in range(4)]
    tracks = {e["tid"]: e["args"]["name"] for e in tracer.events() if e["ph"] == "M"}
    assert {tracks[e["tid"]] for e in parts} == {f"{kind}:0", f"{kind}:1"}
    (request,) = spans(tracer, "request")
    ordered = sorted(parts, key=lambda e: e["ts"])
    assert request["ts"] <= ordered[0]["ts"]
    assert ordered[-1]["ts"] + ordered[-1]["dur"] <= request["ts"] + request["dur"] + 1
    for first, second in zip(ordered, ordered[1:], strict=False):
        assert first["ts"] + first["dur"] <= second["ts"] + 1  # a chain: one after another
    assert spans(tracer, "device queue")


@pytest.mark.parametrize("kind", ["cpu", "interpreter", "process"])
@pytest.mark.parametrize("partition", ["auto", 2])
def test_kernels(kind: str, partition: Any, tmp_path: Path) -> None:
    """(automatic instrumentation per instruction, both) Kernels by nodes' names, inside their partitions."""
    path = tmp_path / "m.onnx"
    nodes = [helper.make_node(op, [a], [b], name=f"the {op}") for op, a, b in (
        ("Sin", "x", "s"), ("Softmax", "s", "t"), ("Softmax", "t", "y"))]  # fmt: skip
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [8, 500]) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    tracer = glow.Tracer(kernels=True)
    inputs = {"x": np.random.default_rng(0).standard_normal((8, 500)).astype(np.float32)}
    with glow.HostManager([kind] * 2, tracer=tracer) as host:
        host.add_network("net", path, partition)
        for _ in range(2):
            same(
                host.run("net", inputs),
                glow.compile(path, backend=host.devices[0].device.compiler().name).run(inputs),
            )
    kernels = spans(tracer, "kernel")
    named = {n for e in kernels for n in e["args"]["nodes"]}
    assert {"the Sin", "the Softmax"} <= named
    for event in kernels:
        around = [p for p in spans(tracer, "partition") if p["tid"] == event["tid"]]
        assert any(
            p["ts"] <= event["ts"] + 20 and event["ts"] + event["dur"] <= p["ts"] + p["dur"] + 20
            for p in around
        )
    assert {e["args"]["request"] for e in kernels} == {0, 1}


def test_steps_are_in_order() -> None:
    """(incomplete coverage, gap) Each step begins where the one before has ended, or later."""
    tracer = glow.Tracer(kernels=True)
    model = layers(6, size=128)
    with glow.HostManager(["cpu"], tracer=tracer) as host:
        host.add_network("net", model)
        host.run("net", feed(model))
    kernels = spans(tracer, "kernel")
    assert len(kernels) >= 6
    for first, second in zip(kernels, kernels[1:], strict=False):
        assert first["ts"] + first["dur"] <= second["ts"] + 0.01


def test_events_of_users_and_of_runs() -> None:
    """(manualAndAutomatic, twoCompiles) Two networks and a block of the user's on one timeline."""
    tracer = glow.Tracer(kernels=True)
    with glow.HostManager(["cpu"], tracer=tracer) as host:
        for name in ("one", "two"):
            host.add_network(name, layers(2))
        with tracer.scope("both"):
            for name in ("one", "two"):
                host.run(name, feed(layers(2)))
    (both,) = spans(tracer, "user")
    requests = spans(tracer, "request")
    assert [e["name"] for e in requests] == ["one", "two"]
    assert all(both["ts"] <= e["ts"] and e["ts"] + e["dur"] <= both["ts"] + both["dur"] for e in requests)
    assert len({e["args"]["request"] for e in spans(tracer, "kernel")}) == 2


def test_runs_are_distinct() -> None:
    """(multipleRunsAreDistinct)"""
    tracer = traced(["cpu"], runs=5, partition=2)
    assert len(spans(tracer, "request")) == 5 and len(spans(tracer, "partition")) == 10


def test_inline_runs_are_noted() -> None:
    tracer = glow.Tracer()
    with glow.HostManager(["cpu"], tracer=tracer) as host:
        host.add_network("net", layers(1))
        host.run("net", feed(layers(1)))
    assert len(spans(tracer, "partition")) == 1


def test_levels() -> None:
    """(levels filter)"""
    tracer = Tracer(frozenset({"request"}))
    with glow.HostManager(["cpu"], tracer=tracer) as host:
        host.add_network("net", layers(1), partition=1)
        host.submit("net", feed(layers(1))).result(120)
    assert {e["cat"] for e in tracer.events() if e["ph"] == "X"} == {"request"}


def test_merging() -> None:
    """(merge contexts) In order of time, on one clock."""
    one, two = glow.Tracer(), glow.Tracer()
    one.instant("a")
    two.instant("b")
    one.instant("c")
    one.merge(two)
    assert [e["name"] for e in spans(one, "user")] == ["a", "b", "c"]


def test_a_bound_on_events() -> None:
    tracer = Tracer(limit=10)
    for number in range(25):
        tracer.instant(str(number))
    assert [e["name"] for e in spans(tracer, "user")] == [str(n) for n in range(15, 25)]


def test_from_many_threads() -> None:
    tracer = glow.Tracer()
    threads = [threading.Thread(target=lambda: [tracer.instant("x") for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(spans(tracer, "user")) == 2000


def test_the_file(tmp_path: Path) -> None:
    """What chrome://tracing and Perfetto read."""
    tracer = traced(["cpu"], partition=2)
    tracer.write(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert all({"name", "ph", "pid", "tid"} <= e.keys() for e in events)
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in events if e["ph"] == "X")


def test_the_picture(tmp_path: Path) -> None:
    """The paper's figure 9: partitions by device, in time; none where nothing has run."""
    tracer = traced(["cpu", "process"], partition=4)
    tracer.write(str(tmp_path / "t.svg"))
    picture = ElementTree.parse(tmp_path / "t.svg").getroot()
    boxes = picture.findall("{*}rect")
    assert len(boxes) == 4 and len({b.get("y") for b in boxes}) == 2
    texts = [t.text or "" for t in picture.findall("{*}text")]
    assert texts[:2] == ["cpu:0", "process:0"] and texts[2].endswith(" us")
    glow.Tracer().write(tmp_path / "empty.svg")
    assert ElementTree.parse(tmp_path / "empty.svg").getroot().findall("{*}rect") == []
