"""Sizes of tiles by cost: those that the simulator shows to take the fewest cycles, within the memory."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.types import bytes_of
from glow_dialects.dialects import context
from glow_dialects.instr.memory import DeallocOp, instr_function
from glow_dialects.instr.spaces import Memory
from glow_dialects.parse import parse_module
from glow_passes.instr.cheapest import Cheapest
from glow_passes.instr.hide_latency import hide_latency
from glow_passes.instr.machine import Work
from glow_passes.instr.simulate import simulate
from glow_passes.instr.tile import tile

RELU = """glow.placeholder @x input : tensor<64x64xf32>
glow.placeholder @y output : tensor<64x64xf32>
glow_instr.func @main declare {
  %x = glow_instr.weight @x mutable : memref<64x64xf32>
  %y = glow_instr.weight @y mutable : memref<64x64xf32>
} program {
  glow_instr.relu @out %y, @in %x : memref<64x64xf32>, memref<64x64xf32>
}"""
SIZES = [(64, 64), (32, 64), (16, 64), (8, 64), (4, 64), (1, 64), (1, 4)]


class Device:
    """Copies of 16 bytes a cycle after `start`, beside a unit of 8 elements a cycle."""

    def __init__(self, size: int, start: int) -> None:
        self.size = size
        self.start = start

    def memories(self) -> Mapping[str, Memory]:
        return {"scratch": Memory(size=self.size)}

    def units(self) -> Mapping[str, int]:
        return {"dma": 8, "vector": 1}

    def work(self, op: InstrOp) -> Work:
        size = bytes_of(op.operands[0].type)
        moves = op.name.endswith("copy")
        return Work("dma", self.start + size // 16) if moves else Work("vector", size // 32)


def instruction(device: Device) -> tuple[ModuleOp, InstrOp]:
    """The instruction that is cut, in its module."""
    module = parse_module(RELU, "relu", context())
    function = instr_function(module, "main")
    function.declare(device.memories())
    ops = [op for op in function.block.ops if isinstance(op, InstrOp) and not isinstance(op, DeallocOp)]
    return module, next(op for op in ops if op.name == "glow_instr.relu")


def write(op: InstrOp, sizes: tuple[int, ...]) -> None:
    tile(op, "scratch", sizes)


def cycles(device: Device, sizes: tuple[int, ...]) -> int:
    """What the simulator counts for tiles of a size, transfers hidden."""
    module, op = instruction(device)
    write(op, sizes)
    function = instr_function(module, "main")
    hide_latency(function, device)
    return simulate(function, device).cycles


@pytest.mark.slow
@pytest.mark.parametrize("size", [1 << 16, 1 << 13, 1 << 11])
@pytest.mark.parametrize("start", [4, 100, 1000])
def test_the_fewest_cycles(size: int, start: int) -> None:
    """Small tiles overlap, large ones start fewer transfers; the choice is near the best that fits."""
    device = Device(size, start)
    found = Cheapest(device)(instruction(device)[1], SIZES, write)
    assert found is not None and 2 * 4 * found[0] * found[1] <= size // 2
    fitting = [s for s in SIZES if 2 * 4 * s[0] * s[1] <= size // 2]
    assert cycles(device, found) <= 1.05 * min(cycles(device, s) for s in fitting)


def test_no_tile_fits() -> None:
    device = Device(64, 4)
    assert Cheapest(device)(instruction(device)[1], SIZES[:3], write) is None


def test_the_cheapest_of_some() -> None:
    """Neither the first nor the last, nor the largest: transfers start at 100 cycles each."""
    device = Device(1 << 16, 100)
    choose, op = Cheapest(device), instruction(device)[1]
    costs = {size: choose.cost(op, size, write) for size in SIZES}
    assert None not in costs.values()
    for some in (SIZES, SIZES[::-1]):
        assert Cheapest(device)(op, some, write) == min(SIZES, key=lambda s: costs[s] or 0)
    assert costs[1, 4] == max(costs.values(), key=lambda c: c or 0)


def test_what_fits() -> None:
    """Two buffers of a tile in half of a memory, or in all of it."""
    _, op = instruction(Device(1, 4))
    for size, room, fits in ((1 << 13, 0.5, True), ((1 << 13) - 1, 0.5, False), (1 << 12, 1.0, True)):
        cost = Cheapest(Device(size, 4), room).cost(op, (8, 64), write)
        assert (cost is not None) == fits


def test_alike_instructions_are_tried_once() -> None:
    device = Device(1 << 13, 20)
    choose, op = Cheapest(device), instruction(device)[1]
    first = choose(op, SIZES, write)
    assert choose(instruction(device)[1], (), write) == first
