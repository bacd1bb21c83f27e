"""Scheduling for a device's units: the same numbers in fewer cycles, within its memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from xml.etree import ElementTree

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


def test_pictures_of_a_timeline() -> None:
    """A box for each instruction that is wide enough, a row for each unit."""
    timeline = scheduled(ROWS, 0, Device())[1]
    picture = ElementTree.fromstring(timeline.svg())
    boxes = picture.findall("{http://www.w3.org/2000/svg}rect")
    assert len(boxes) == len(timeline.events)
    assert len({box.get("y") for box in boxes}) == len(timeline.busy())
    twice = Timeline.joined([timeline, timeline])
    assert (twice.cycles, twice.stalls) == (2 * timeline.cycles, 2 * timeline.stalls)
    assert twice.events[len(timeline.events)].start == timeline.events[0].start + timeline.cycles


LOADS = """
glow.placeholder @x input : tensor<{n}x512xf32>
glow.placeholder @y output : tensor<{n}x512xf32>
glow_instr.func @main attributes {{memories = {{near = {{size = {size} : i64}}}}}} declare {{
  %x = glow_instr.weight @x mutable : memref<{n}x512xf32>
  %y = glow_instr.weight @y mutable : memref<{n}x512xf32>
}} program {{
  glow_instr.for %i = 0 to {n} step 1 {{
    %a = glow_instr.alloc : memref<512xf32, "near">
    %v = glow_instr.tensorview %x offset 512 * %i : memref<{n}x512xf32> to memref<512xf32>
    %t = glow_instr.start_copy @out %a, @in %v : memref<512xf32, "near">, memref<512xf32>
    glow_instr.wait @after %t : !glow_instr.token
    %w = glow_instr.tensorview %y offset 512 * %i : memref<{n}x512xf32> to memref<512xf32>
    glow_instr.relu @out %w, @in %a : memref<512xf32>, memref<512xf32, "near">
    glow_instr.dealloc @out %a : memref<512xf32, "near">
  }}
}}
"""


@pytest.mark.parametrize("turns", [2, 3, 6, 7])
def test_loops_load_for_the_next_turn(turns: int) -> None:
    """Without unrolling, all transfers but the first go on beside the work; the numbers stay."""
    before, after, module = scheduled(LOADS.format(n=turns, size=8192), 1, Device())
    assert after.busy() == before.busy()
    assert before.cycles == turns * (148 + 50)
    assert after.cycles == turns * 148 + 50
    data = np.random.default_rng(0).standard_normal((turns, 512)).astype(np.float32)
    for late in (False, True):
        program = get_backend("interpreter", late=late, planned=True).compile(module)
        np.testing.assert_array_equal(program.run({"x": data})["y"], np.maximum(data, 0))


def test_memories_without_room_for_two_buffers_have_one() -> None:
    before, after, module = scheduled(LOADS.format(n=6, size=2048), 1, Device())
    assert after.cycles == before.cycles
    assert "carry" not in str(module)
