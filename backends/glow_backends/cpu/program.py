"""A compiled program: native segments, and host steps where no kernel exists."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from llvmlite import ir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_backends.base import Port, Program, Report, ports, public_name
from glow_backends.cpu import cache
from glow_backends.cpu.builder import I64, PTR
from glow_backends.cpu.calls import CallContext, KernelCall, Packed
from glow_backends.cpu.jit import Linked, emit_object, new_module
from glow_backends.cpu.rules import call_for
from glow_backends.cpu.target import CpuTarget
from glow_backends.interpreter.backend import step
from glow_dialects.core.attributes import array_of
from glow_dialects.core.errors import CompileError
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.types import Array, bytes_of, dtype_of, shape_of, typed
from glow_dialects.instr.memory import (
    AllocOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    WeightOp,
    origin,
    view_offset,
)
from glow_dialects.ops.module import ConstantOp, lookup, placeholders

ALIGN = 64


def aligned(size: int) -> Array:
    """`size` bytes of zeros, 64-byte aligned."""
    raw = np.zeros(size + ALIGN, np.uint8)
    start = -raw.ctypes.data % ALIGN
    return raw[start : start + size]


def aligned_array(shape: Sequence[int], dtype: np.dtype) -> Array:
    """An uninitialised array, 64-byte aligned."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.empty(count + ALIGN, np.uint8)
    start = -raw.ctypes.data % ALIGN
    return raw[start : start + count].view(dtype).reshape(tuple(shape))


@dataclass
class Segment:
    """A run of kernel calls, compiled as one function."""

    calls: list[KernelCall]


@dataclass
class HostStep:
    """One instruction run by its reference."""

    op: InstrOp


class WeightBlob:
    """Constants and packed constants, placed one after another in aligned memory."""

    def __init__(self) -> None:
        self.offsets: dict[str, int] = {}
        self.makers: list[tuple[int, Array]] = []
        self.size = 0

    def place(self, key: str, array: Array) -> int:
        """Offset of an array, placed once a key."""
        if key not in self.offsets:
            self.offsets[key] = self.size
            self.makers.append((self.size, array))
            self.size += -(-array.nbytes // ALIGN) * ALIGN
        return self.offsets[key]

    def build(self) -> Array:
        """The memory, filled."""
        memory = aligned(self.size)
        for offset, array in self.makers:
            view = memory[offset : offset + array.nbytes]
            view.view(array.dtype)[...] = array.reshape(-1)
        self.makers = []
        return memory


class CpuProgram(Program):
    """An instruction function as machine code.

    Memory: `io` (one pointer a placeholder), one block of weights, one arena with scratch behind it.
    """

    def __init__(self, module: ModuleOp, function: InstrFuncOp, target: CpuTarget) -> None:
        self.inputs: list[Port] = ports(module, "input")
        self.outputs: list[Port] = ports(module, "output")
        self.target = target
        self.report = Report()
        self.function = function
        self.module = module
        self._slots: dict[str, int] = {n: i for i, n in enumerate(placeholders(module))}
        self._publics = {n: public_name(p) for n, p in placeholders(module).items()}
        self._blob = WeightBlob()
        start = time.perf_counter()
        self.steps = self._select()
        self.report.stages["select kernels"] = time.perf_counter() - start
        self._compile()
        start = time.perf_counter()
        self._weights = self._blob.build()
        self.report.stages["pack weights"] = time.perf_counter() - start
        self.report.weight_bytes = self._blob.size
        self.report.arena_bytes = self._arena_bytes
        self.report.notes["host instructions"] = sum(isinstance(s, HostStep) for s in self.steps)
        self._memory = aligned(self._arena_bytes + self._scratch)
        self._states: dict[str, Array] = self._make_states()
        self._io = (ctypes.c_void_p * max(1, len(self._slots)))()

    # --- selection ----------------------------------------------------------------------------
    def _select(self) -> list[Segment | HostStep]:
        context = CallContext(self.target)
        steps: list[Segment | HostStep] = []
        self._scratch = 0
        for op in self.function.block.ops:
            if isinstance(op, WeightOp | AllocOp | ViewOp | DeallocOp):
                continue
            if not isinstance(op, InstrOp):
                raise CompileError(f"cpu: {op.name} is not an instruction")
            call = call_for(op, context)
            if call is None:
                steps.append(HostStep(op))
                continue
            call.label = call.label or op.name.removeprefix("glow_instr.")
            self._scratch = max(self._scratch, call.scratch)
            if not steps or isinstance(steps[-1], HostStep):
                steps.append(Segment([]))
            segment = steps[-1]
            assert isinstance(segment, Segment)
            segment.calls.append(call)
        self._arena_bytes = self.function.arena.value.data if self.function.arena else 0
        self._arena_bytes = -(-self._arena_bytes // ALIGN) * ALIGN
        return steps

    # --- code ---------------------------------------------------------------------------------
    def _compile(self) -> None:
        start = time.perf_counter()
        objects: dict[str, bytes] = {}
        fresh = 0
        segments = [s for s in self.steps if isinstance(s, Segment)]
        for segment in segments:
            for call in segment.calls:
                name = call.kernel_name(self.target)
                if name in objects:
                    continue
                cached = cache.get(name)
                if cached is None:
                    cached = self._kernel_object(name, call)
                    cache.put(name, cached)
                    fresh += 1
                objects[name] = cached
        text = str(self._entries(segments))
        key = f"main_{cache.key(text, repr(self.target))}"
        entry = cache.get(key)
        if entry is None:
            entry = emit_object(text, self.target)
            cache.put(key, entry)
        self._linked = Linked([*objects.values(), entry], self.target)
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
        self._functions = {
            id(s): kind(self._linked.address(f"glow_segment_{i}")) for i, s in enumerate(segments)
        }
        self.report.kernels = len(objects)
        self.report.notes["kernels compiled"] = fresh
        self.report.stages["generate code"] = time.perf_counter() - start

    def _kernel_object(self, name: str, call: KernelCall) -> bytes:
        module = new_module(name, self.target)
        made = call.emit(module, name, call.spec, self.target)
        made.linkage = "external"
        return emit_object(module, self.target)

    def _entries(self, segments: Sequence[Segment]) -> ir.Module:
        module = new_module("program", self.target)
        kind = ir.FunctionType(ir.VoidType(), [PTR, PTR, PTR, I64])
        for number, segment in enumerate(segments):
            function = ir.Function(module, kind, f"glow_segment_{number}")
            builder = ir.IRBuilder(function.append_basic_block("entry"))
            for call in segment.calls:
                self._emit_call(module, builder, function, call)
            builder.ret_void()
        return module

    def _emit_call(
        self, module: ir.Module, builder: ir.IRBuilder, function: ir.Function, call: KernelCall
    ) -> None:
        pointers = [self._pointer(builder, function, o) for o in call.operands]
        if call.scratch:
            pointers.append(_offset(builder, function.args[2], self._arena_bytes))
        name = call.kernel_name(self.target)
        callee = module.globals.get(name)
        if callee is None:
            kind = ir.FunctionType(ir.VoidType(), [PTR] * len(pointers) + [I64])
            callee = ir.Function(module, kind, name)
        builder.call(callee, [*pointers, function.args[3]])

    def _pointer(self, builder: ir.IRBuilder, function: ir.Function, operand: SSAValue | Packed) -> ir.Value:
        io, weights, arena, _ = function.args
        if isinstance(operand, Packed):
            return _offset(builder, weights, self._blob.place(operand.key, operand.make()))
        base, skip = origin(operand), view_offset(operand)
        owner = base.owner
        if isinstance(owner, AllocOp):
            assert owner.offset is not None, "memory is planned before code is generated"
            return _offset(builder, arena, owner.offset.value.data + skip)
        assert isinstance(owner, WeightOp)
        target = lookup(owner, owner.target)
        if isinstance(target, ConstantOp):
            return _offset(builder, weights, self._place_constant(target) + skip)
        slot = self._slots[owner.target]
        address = builder.gep(io, [ir.Constant(I64, slot)], source_etype=PTR)
        return _offset(builder, builder.load(address, typ=PTR), skip)

    def _place_constant(self, constant: ConstantOp) -> int:
        array = constant.array()
        name = constant.sym_name.data
        if array is None:
            raise CompileError(f"constant @{name} has no values: its weights file is missing")
        return self._blob.place(name, array)

    # --- running --------------------------------------------------------------------------------
    def _make_states(self) -> dict[str, Array]:
        made: dict[str, Array] = {}
        for name, op in placeholders(self.module).items():
            if op.kind.data in ("state", "trainable"):
                made[name] = aligned_array(shape_of(op.type), dtype_of(op.type))
                initial = array_of(op.init, typed(op.type)) if op.init is not None else None
                made[name][...] = 0 if initial is None else initial
        return made

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        bound = dict(self._states)
        for name, op in placeholders(self.module).items():
            if op.kind.data == "input":
                array = inputs[self._publics[name]]
                if not array.flags.c_contiguous or array.ctypes.data % ALIGN:
                    copy = aligned_array(array.shape, array.dtype)
                    copy[...] = array
                    array = copy
                bound[name] = array
            elif op.kind.data == "output":
                bound[name] = aligned_array(shape_of(op.type), dtype_of(op.type))
        for name, array in bound.items():
            self._io[self._slots[name]] = array.ctypes.data
        weights, memory = self._weights.ctypes.data, self._memory.ctypes.data
        for item in self.steps:
            if isinstance(item, Segment):
                self._functions[id(item)](ctypes.addressof(self._io), weights, memory, 0)
            else:
                self._host(item.op, bound)
        return {
            self._publics[n]: bound[n]
            for n, op in placeholders(self.module).items()
            if op.kind.data == "output"
        }

    def _host(self, op: InstrOp, bound: Mapping[str, Array]) -> None:
        step(op, {v: self._array(v, bound) for v in op.operands})

    def _array(self, value: SSAValue, bound: Mapping[str, Array]) -> Array:
        base, skip = origin(value), view_offset(value)
        owner = base.owner
        if isinstance(owner, AllocOp):
            assert owner.offset is not None
            memory, skip = self._memory, skip + owner.offset.value.data
        else:
            assert isinstance(owner, WeightOp)
            target = lookup(owner, owner.target)
            if isinstance(target, ConstantOp):
                array = target.array()
                assert array is not None
                if base is value:
                    return array
                memory = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            else:
                memory = bound[owner.target].reshape(-1).view(np.uint8)
        part = memory[skip : skip + bytes_of(value.type)]
        return part.view(dtype_of(value.type)).reshape(shape_of(value))


def _offset(builder: ir.IRBuilder, pointer: ir.Value, offset: int) -> ir.Value:
    if offset == 0:
        return pointer
    return builder.gep(pointer, [ir.Constant(I64, offset)], inbounds=True, source_etype=ir.IntType(8))
