"""Scheduling for a device's units: the same numbers in fewer cycles, within its memory."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pytest
from device_programs import ROWS, TILES
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import get_backend
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.types import bytes_of
from glow_dialects.dialects import context
from glow_dialects.instr.memory import instr_function
from glow_dialects.instr.spaces import Memory
from glow_dialects.parse import parse_module
from glow_passes.instr.hide_latency import hide_latency
from glow_passes.instr.machine import Work
from glow_passes.instr.simulate import Timeline, simulate
from glow_passes.instr.unroll import UnrollPass
from glow_passes.pipeline import INSTR


class Device:
    """Copies of 16 bytes a cycle, after 20, beside a unit for everything else."""

    def __init__(self, depth: int = 4) -> None:
        self.depth = depth

    def memories(self) -> Mapping[str, Memory]:
        return {}

    def units(self) -> Mapping[str, int]:
        return {"dma": self.depth, "alu": 1}

    def work(self, op: InstrOp) -> Work:
        moves = op.name.endswith("copy")
        return Work("dma", 20 + bytes_of(op.buffers()[0].type) // 16) if moves else Work("alu", 50)


def scheduled(text: str, by: int, device: Device) -> tuple[Timeline, Timeline, ModuleOp]:
    """The timelines of a program unrolled `by` turns, as written and with latency hidden."""
    module = parse_module(text, "program", context())
    UnrollPass(by).apply(context(), module)
    function = instr_function(module, "main")
    before = simulate(function, device)
    hide_latency(function, device)
    for item in INSTR:
        item.apply(context(), module)
        module.verify()
    return before, simulate(function, device), module


@pytest.mark.parametrize(
    ("text", "by"), [(TILES, 1), (TILES, 2), (TILES, 4), (TILES, 0), (ROWS, 3), (ROWS, 0)]
)
@pytest.mark.parametrize("size", [2048, 6144])
@pytest.mark.parametrize("depth", [1, 4])
def test_numbers_stay(text: str, by: int, size: int, depth: int) -> None:
    """Whether copies come early or late; the verifier has seen every wait, the planner every byte."""
    before, after, module = scheduled(text.replace("2048", str(size)), by, Device(depth))
    assert before.bound <= after.cycles <= before.cycles
    assert after.busy() == before.busy()
    for late in (False, True):
        program = get_backend("interpreter", late=late, planned=True).compile(module)
        data = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
        data = data[: program.inputs[0].shape[0]]
        np.testing.assert_array_equal(program.run({"x": data})["y"], np.maximum(data, 0))


def test_transfers_are_hidden() -> None:
    """Four tiles a turn keep the busiest unit busy, where the memory has room for more than one."""
    before, after, _ = scheduled(TILES.replace("2048", "6144"), 4, Device())
    assert before.cycles > 1.25 * before.bound
    assert after.cycles < 1.02 * after.bound
    before, after, _ = scheduled(TILES, 4, Device())
    assert after.cycles == before.cycles


def test_timeline() -> None:
    timeline = scheduled(ROWS, 0, Device())[1]
    lines = timeline.text(40).splitlines()
    assert [line[:5] for line in lines] == ["alu |", "dma |"]
    assert lines[0].endswith(f"| {timeline.busy()['alu']} of {timeline.cycles}")
    events = [e for e in json.loads(timeline.trace())["traceEvents"] if e["ph"] == "X"]
    assert sum(e["dur"] for e in events) == timeline.busy().total()


def test_unknown_unit() -> None:
    class Lost(Device):
        def work(self, op: InstrOp) -> Work:
            return Work("gpu", 1)

    with pytest.raises(UnsupportedError, match=r"runs on unit 'gpu'; there are: dma, alu"):
        scheduled(TILES, 1, Lost())
