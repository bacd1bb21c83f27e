"""Rates of devices: declared, measured once, or taken from what is known of no machine."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from host_networks import feed, layers

import glow_compiler as glow
from glow_backends.base import get_backend
from glow_backends.phases import common_phases, target_phases
from glow_dialects.dialects import context
from glow_dialects.ops.module import functions
from glow_passes.partition.nodes import node_graph
from glow_passes.pipeline import PassRunner
from glow_runtime.devices import rates
from glow_runtime.devices.rates import FOREIGN, rates_of


def test_what_is_declared_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "measure", pytest.fail)
    assert rates_of(glow.Device(flops=1e9, bandwidth=2e9, link=3e9)) == (1e9, 2e9, 3e9)
    assert rates_of(glow.Device("ray")) == FOREIGN
    assert rates_of(glow.Device("ray", link=5.0)) == (*FOREIGN[:2], 5.0)


def test_the_rest_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all devices of a backend, and for processes that come later where notes are kept."""
    measured: list[str] = []

    def counted(backend: Any) -> tuple[float, float]:
        measured.append(backend.name)
        return 6e10, 3e10

    monkeypatch.setattr(rates, "measure", counted)
    monkeypatch.setattr(rates, "MEASURED", {})
    backend = get_backend("cpu")
    monkeypatch.setattr(type(backend), "recall_note", lambda self, key: None)  # pyright: ignore
    notes: list[str] = []
    monkeypatch.setattr(type(backend), "remember_note", lambda self, key, text: notes.append(text))  # pyright: ignore
    assert rates_of(glow.Device(flops=1.0)) == (1.0, 3e10, float("inf"))
    assert rates_of(glow.Device("process")) == (6e10, 3e10, 1e10)
    assert measured == ["cpu"] and notes == ["6e+10 3e+10"]
    rates.MEASURED.clear()
    monkeypatch.setattr(type(backend), "recall_note", lambda self, key: "7e10 1e10")  # pyright: ignore
    assert rates_of(glow.Device())[:2] == (7e10, 1e10) and measured == ["cpu"]


def test_estimates_are_near_the_times_of_programs() -> None:
    """Products of some milliseconds, within a factor that a shared machine may be off by."""
    model = layers(4, 1024)
    module = model.module.clone()
    backend = get_backend("cpu")
    for _, passes in (*common_phases(backend), *target_phases(backend)):
        PassRunner(context()).run(module, passes)
    measured = rates.measure(backend)
    nodes = node_graph(next(functions(module))).nodes
    estimated = sum(max(n.work / measured[0], n.traffic / measured[1]) for n in nodes)
    net, inputs = glow.compile(model), feed(model)
    times: list[float] = []
    for _ in range(9):
        start = time.perf_counter()
        net.run(inputs)
        times.append(time.perf_counter() - start)
    assert min(times) / 6 < estimated < min(times) * 6


def test_work_of_convolutions_is_that_of_their_algorithm() -> None:
    """Tiles of Winograd take fewer products than the plain sum."""
    g = glow.GraphBuilder()
    filters = g.constant(np.ones((64, 64, 3, 3), np.float32), "w")
    g.save(g.conv(g.placeholder("x", (1, 64, 56, 56)), filters, pads=(1, 1, 1, 1)), "y")
    module, backend = g.module.clone(), get_backend("cpu")
    for _, passes in (*common_phases(backend), *target_phases(backend)):
        PassRunner(context()).run(module, passes)
    (node,) = [n for n in node_graph(next(functions(module))).nodes if n.op.name == "glow_cpu.conv"]
    tile = int(node.op.algorithm[-1])  # pyright: ignore
    plain = 2 * 64 * 56 * 56 * 64 * 9
    assert node.work == plain * (tile + 2) ** 2 // (9 * tile**2)
