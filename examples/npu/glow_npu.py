"""An accelerator: a scratchpad of 256 KiB, asynchronous DMA, a 16x16 matrix unit for floats and bytes.

Layers (fully connected, convolutions, those of stored integers) become loops over tiles that DMA brings into
the scratchpad; every other operator runs on the host, by its reference. With `hide`, DMA works on the next
tiles while the matrix unit works on these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr, f32, i32
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import BaseAttr, operand_def, opt_operand_def
from xdsl.passes import ModulePass

from glow_backends.base import Backend, Program
from glow_backends.hide_latency import HideLatencyPass
from glow_backends.interpreter.backend import InterpreterProgram
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import Access, InstrOp, own_instr
from glow_dialects.core.properties import int_prop, ints_prop
from glow_dialects.core.types import (
    Array,
    UniformQuantizedType,
    bytes_of,
    dtype_of,
    element_of,
    shape_of,
    tensor,
)
from glow_dialects.instr.loops import ForOp
from glow_dialects.instr.memory import (
    AllocOp,
    InstrFuncOp,
    StartCopyOp,
    WeightOp,
    instr_function,
    instr_functions,
)
from glow_dialects.instr.spaces import Memory, space_of
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.max_pool import MaxPoolOp
from glow_dialects.ops.module import ConstantOp
from glow_dialects.ops.quantized_avg_pool import QuantizedAvgPoolOp
from glow_dialects.ops.quantized_conv import QuantizedConvOp
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp
from glow_dialects.ops.requantize import finish, scale_of, zero_of
from glow_passes.contract import InstructionPass
from glow_passes.instr.cheapest import Cheapest
from glow_passes.instr.machine import Work
from glow_passes.instr.simulate import Timeline, simulate
from glow_passes.instr.tile import fitting_tile, tile
from glow_passes.instr.tiles import Place, Sizes, Tiler, conv_product, dense_product, followers, some_sizes
from glow_passes.instr.unroll import unroll_by

# The data sheet.
SCRATCH = "scratch"
MEMORY = Memory(size=256 << 10, alignment=64, bandwidth=16)  # bytes a cycle over DMA
DMA_START = 32  # cycles until the first byte arrives
SIDE = 16  # rows and columns of the matrix unit; floats: one deep a cycle, bytes: four
LANES = 16  # elements a cycle of the vector unit
UNROLL = 2  # tiles in a turn of the innermost loops

LAYERS = (FullyConnectedOp, ConvOp, QuantizedFullyConnectedOp, QuantizedConvOp)
#: What the vector unit does; convolutions are those with a group for each channel.
VECTOR = (MaxPoolOp, AvgPoolOp, QuantizedAvgPoolOp, ConvOp, QuantizedConvOp)


@own_instr
class BeginOp(InstrOp):
    """tile = bias in every row, or 0."""

    name = "npu_instr.begin"
    ACCESS = {"tile": Access.OUT, "bias": Access.IN}
    tile = operand_def(BaseAttr(MemRefType))
    bias = opt_operand_def(BaseAttr(MemRefType))

    def reference(self, tile: Array, bias: Array | None) -> None:
        tile[...] = 0 if bias is None else bias


@own_instr
class MacOp(InstrOp):
    """tile += (a - zero) x b."""

    name = "npu_instr.mac"
    ACCESS = {"tile": Access.INOUT, "a": Access.IN, "b": Access.IN}
    tile = operand_def(BaseAttr(MemRefType))
    a = operand_def(BaseAttr(MemRefType))
    b = operand_def(BaseAttr(MemRefType))
    zero = int_prop(0)

    def reference(self, tile: Array, a: Array, b: Array) -> None:
        wide = np.float32 if a.dtype == np.float32 else np.float64  # which holds sums of bytes exactly
        tile += np.matmul(a.astype(wide) - wide(self.zero), b.astype(wide)).astype(tile.dtype)


@own_instr
class RequantizeOp(InstrOp):
    """result = sums x a factor for each column, rounded and clipped where it is of stored integers."""

    name = "npu_instr.requantize"
    ACCESS = {"result": Access.OUT, "sums": Access.IN, "factors": Access.IN}
    result = operand_def(BaseAttr(MemRefType))
    sums = operand_def(BaseAttr(MemRefType))
    factors = operand_def(BaseAttr(MemRefType))
    low = int_prop(0)
    high = int_prop(0)

    def reference(self, result: Array, sums: Array, factors: Array) -> None:
        kind, real = element_of(self.operands[0]), sums.astype(np.float32) * factors
        result[...] = (
            finish(real, kind, self.low, self.high) if isinstance(kind, UniformQuantizedType) else real
        )


@own_instr
class PadOp(InstrOp):
    """result = source with a border; the host does it."""

    name = "npu_instr.pad"
    ACCESS = {"result": Access.OUT, "source": Access.IN}
    result = operand_def(BaseAttr(MemRefType))
    source = operand_def(BaseAttr(MemRefType))
    pads = ints_prop(())
    value = int_prop(0)

    def reference(self, result: Array, source: Array) -> None:
        half = len(self.pads) // 2
        border = [(0, 0), (0, 0), *zip(self.pads[:half], self.pads[half:], strict=True)]
        result[...] = np.pad(source, border, constant_values=self.value)


class NpuTiler(Tiler):
    """A layer's tiles on the matrix unit."""

    def __init__(self, layer: InstrOp) -> None:
        super().__init__(layer, SCRATCH, followers(layer))
        self.layer: Any = layer
        self.floats = element_of(layer.operands[1]) == f32
        self.zero = 0 if self.floats else zero_of(self.layer.operands[1].type.element_type)
        self.factors = None if self.floats or element_of(layer.operands[0]) == i32 else factors_of(layer)

    def run(self, sizes: Sizes) -> None:
        """Write the tiles in place of the layer."""
        layer = self.layer
        if "fully_connected" in layer.name:
            product = dense_product(*layer.operands[:3])
        else:
            y, _, b = layer.operands[:3]
            product = conv_product(y, self.padded(), b, layer.strides, layer.dilations)
        self.product(product, sizes, f32 if self.floats else i32)
        self.replace()

    def padded(self) -> SSAValue:
        """The input of a convolution with its border."""
        layer = self.layer
        if not any(layer.pads):
            return layer.input
        kind = MemRefType(element_of(layer.input), padded_shape(layer))
        made = self.add(AllocOp.of(kind)).result
        self.live[0].append(made)
        self.add(PadOp(made, layer.input, pads=layer.pads, value=self.zero))
        return made

    def begin(self, sums: SSAValue, column: Place) -> None:
        bias = self.layer.bias
        width = shape_of(sums)[1]
        self.add(BeginOp(sums, None if bias is None else self.load(bias, ((width, 1),), [column])))

    def accumulate(self, sums: SSAValue, a: SSAValue, b: SSAValue) -> None:
        self.add(MacOp(sums, a, b, zero=self.zero))

    def finish(self, tile: SSAValue, rows: int, column: Place) -> SSAValue:
        if self.factors is None:
            return tile
        result = self.buffer(shape_of(tile), element_of(self.layer.operands[0]))
        factors = self.load(self.factors, ((shape_of(tile)[-1], 1),), [column])
        limits = {"low": self.layer.low, "high": self.layer.high}
        self.add(RequantizeOp(self.matrix(result, rows), self.matrix(tile, rows), factors, **limits))
        return result


def padded_shape(layer: Any) -> list[int]:
    """The shape of a convolution's input with its border."""
    half, (count, depth, *sizes) = len(layer.pads) // 2, shape_of(layer.input)
    ends = zip(sizes, layer.pads[:half], layer.pads[half:], strict=True)
    return [count, depth, *(n + a + b for n, a, b in ends)]


def tile_sizes(layer: Any) -> list[Sizes]:
    """Tiles that fit the scratchpad twice; none: the host does it."""
    kinds = [element_of(v) for v in layer.operands[:3]]
    bytes_only = layer.GRAPH_OP in (QuantizedConvOp, QuantizedFullyConnectedOp)
    if any(dtype_of(k).itemsize != 1 for k in kinds[1:]) if bytes_only else set(kinds) != {f32}:
        return []
    y, (outs, depth, *kernel) = shape_of(layer.operands[0]), shape_of(layer.operands[2])
    row = 1
    if "conv" in layer.name:
        if layer.group != 1 or layer.layout != "NCHW":
            return []
        lines, row, deep = y[2], prod(y[3:]), prod(kernel)
    else:
        lines, deep, depth, outs = y[0], 1, outs, depth
    if not prod(y) * depth * deep:
        return []
    width = dtype_of(kinds[1]).itemsize

    def tile_bytes(sizes: Sizes) -> int:
        rows, part = sizes.rows * row, sizes.depth * deep
        return (rows * part + part * sizes.columns) * width + rows * sizes.columns * 4

    return some_sizes(Sizes(lines, outs, depth), SIDE, tile_bytes, MEMORY.size // 2)


def factors_of(layer: InstrOp) -> SSAValue:
    """A constant of the module: what the sums of each column are multiplied by."""
    y, a, b = (element_of(v) for v in layer.operands[:3])
    assert isinstance(a, UniformQuantizedType) and isinstance(b, UniformQuantizedType)
    unit = scale_of(a) / scale_of(y) if isinstance(y, UniformQuantizedType) else scale_of(a)
    columns = shape_of(layer.operands[2])[1 if "fully" in layer.name else 0]
    factors = np.broadcast_to((b.scale_array * unit).astype(np.float32), (columns,)).copy()
    function: Any = layer.parent_op()
    module: Any = function.parent_op()
    name = f"npu_factors{len(module.body.block.ops)}"
    module.body.block.insert_op_before(ConstantOp.of(name, factors, tensor((columns,))), function)
    weight = WeightOp.of(StringAttr(name), MemRefType(f32, (columns,)), constant=True)
    function.block.insert_op_before(weight, function.block.first_op)
    return weight.result


@dataclass(frozen=True)
class NpuTilePass(InstructionPass):
    """Layers become loops over tiles of the scratchpad."""

    name = "npu-tile"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        cheapest = Cheapest(NpuBackend())
        for function in instr_functions(op):
            for layer in [o for o in function.block.ops if isinstance(o, InstrOp)]:
                if layer.parent is None:
                    continue  # it followed another one
                if layer.GRAPH_OP in LAYERS and (sizes := cheapest(layer, tile_sizes(layer), tile_layer)):
                    tile_layer(layer, sizes)
                elif layer.GRAPH_OP in VECTOR:
                    some = [fitting_tile(layer, MEMORY.size // part) for part in (4, 8, 16, 32)]
                    sizes = cheapest(layer, filter(None, some), tile_vector)
                    if sizes:
                        tile_vector(layer, sizes)
            unroll_tiles(function)


def tile_layer(layer: InstrOp, sizes: Sizes) -> None:
    """The tiles of a layer on the matrix unit."""
    NpuTiler(layer).run(sizes)


def tile_vector(layer: InstrOp, sizes: Sequence[int]) -> None:
    """The tiles of what the vector unit does."""
    tile(layer, SCRATCH, sizes)


def unroll_tiles(function: InstrFuncOp) -> None:
    """Several tiles in each turn of the innermost loops, as many as divide them."""
    for loop in [o for o in function.walk() if isinstance(o, ForOp)][::-1]:
        if not any(isinstance(o, ForOp) for o in loop.block.ops):
            unroll_by(loop, max(n for n in range(1, UNROLL + 1) if len(loop.turns) % n == 0))


class NpuBackend(Backend):
    """Programs for the accelerator, as its simulator runs them; `hide`: transfers beside computing."""

    name = "npu"

    def __init__(self, threads: int = 1, hide: bool = True, late: bool = False) -> None:
        super().__init__(threads)
        self.hide, self.late = hide, late

    def supports(self, op: GraphOp) -> bool:
        return op.INSTR is not None or op.VIEW

    def memories(self) -> Mapping[str, Memory]:
        return {SCRATCH: MEMORY}

    def units(self) -> Mapping[str, int]:
        return {"dma": 16, "matrix": 1, "vector": 1, "host": 1}

    def work(self, op: InstrOp) -> Work:
        size = bytes_of(op.operands[0].type)
        match op:
            case StartCopyOp():
                return Work("dma", DMA_START + round(size / MEMORY.bandwidth))
            case MacOp():
                (rows, columns), deep = shape_of(op.operands[0]), shape_of(op.operands[1])[1]
                deep = deep if element_of(op.operands[1]) == f32 else -(-deep // 4)
                return Work("matrix", -(-rows // SIDE) * -(-columns // SIDE) * deep)
            case BeginOp() | RequantizeOp():
                return Work("vector", -(-size // (LANES * 4)))
            case InstrOp() if space_of(op.operands[0]) == SCRATCH:
                return Work("vector", -(-op.arithmetic() // LANES))
            case _:
                return Work("host", size // 64)

    def instr_passes(self) -> Sequence[ModulePass]:
        return (NpuTilePass(), HideLatencyPass(self)) if self.hide else (NpuTilePass(),)

    def compile(self, module: ModuleOp, function: str = "main") -> Program:
        return NpuProgram(module, instr_function(module, function), self)

    @classmethod
    def passes(cls) -> Sequence[type[ModulePass]]:
        return (NpuTilePass,)

    @classmethod
    def dialects(cls) -> Mapping[str, Callable[[], Dialect]]:
        return {"npu_instr": lambda: Dialect("npu_instr", [BeginOp, MacOp, RequantizeOp, PadOp])}


class NpuProgram(InterpreterProgram):
    """A program on the simulator: its numbers by the references, on the planned memories; its cycles."""

    def __init__(self, module: ModuleOp, function: InstrFuncOp, device: NpuBackend) -> None:
        super().__init__(module, function, planned=True, late=device.late)
        self.device = device

    def timeline(self) -> Timeline:
        """What each unit does when."""
        return simulate(self.function, self.device)
