"""A compiled program: one native function, its memory, and how it is called."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Mapping

import numpy as np
from xdsl.backend.llvm.convert import convert_module
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_backends.base import Port, Program, Report, ports, public_name
from glow_backends.cpu import cache
from glow_backends.cpu.calls import KernelCall
from glow_backends.cpu.jit import Linked, emit_object, new_module
from glow_backends.cpu.memory import ALIGN, address, aligned_array
from glow_backends.cpu.select import select
from glow_backends.cpu.support import BARRIER_BYTES, support_text
from glow_backends.cpu.target import CpuTarget
from glow_backends.cpu.to_llvm import MAIN, convert
from glow_backends.cpu.workers import Workers
from glow_backends.interpreter.backend import step
from glow_dialects.core.attributes import array_of
from glow_dialects.core.types import Array, bytes_of, dtype_of, shape_of, typed
from glow_dialects.instr.memory import AllocOp, InstrFuncOp, WeightOp, origin, view_offset
from glow_dialects.ops.module import ConstantOp, PlaceholderOp, lookup, placeholders


class CpuProgram(Program):
    """An instruction function as machine code.

    Memory: a table of pointers (`io`), one block of weights, one arena with scratch behind it.
    `run` may be called from several threads; calls wait for each other.
    """

    def __init__(self, module: ModuleOp, function: InstrFuncOp, target: CpuTarget) -> None:
        self.inputs: list[Port] = ports(module, "input")
        self.outputs: list[Port] = ports(module, "output")
        self.target = target
        self.function = function
        self.report = Report()
        start = time.perf_counter()
        self.selection = select(function, target)
        self._host_ops = [s.op for s in self.selection.host_steps]
        self._stage("select kernels", start)
        start = time.perf_counter()
        code = convert(module, function, self.selection, target)
        self._stage("convert to llvm", start)
        start = time.perf_counter()
        self._linked = Linked(self._objects(code.module), target)
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
        self._main = kind(self._linked.address(MAIN))
        self._stage("generate code", start)
        start = time.perf_counter()
        self._weights = code.weights.build()
        self._stage("pack weights", start)
        self.report.weight_bytes = code.weights.size
        self.report.arena_bytes = self.selection.arena_bytes
        self.report.notes["host instructions"] = len(self._host_ops)
        self._prepare(module, code.slots)

    def _stage(self, name: str, start: float) -> None:
        self.report.stages[name] = time.perf_counter() - start

    # --- code ---------------------------------------------------------------------------------
    def _objects(self, program: ModuleOp) -> list[bytes]:
        """Machine code of every kernel once, the program function and the support functions."""
        kernels = {c.kernel_name(self.target): c for c in self.selection.calls}
        fresh = 0
        objects: list[bytes] = []
        for name, call in kernels.items():
            made = cache.get(name)
            if made is None:
                made = kernel_object(name, call, self.target)
                cache.put(name, made)
                fresh += 1
            objects.append(made)
        for text in (program_text(program, self.target), support_text(self.target)):
            key = f"text_{cache.key(text, repr(self.target))}"
            made = cache.get(key)
            if made is None:
                made = emit_object(text, self.target)
                cache.put(key, made)
            objects.append(made)
        self.report.kernels = len(kernels)
        self.report.notes["kernels compiled"] = fresh
        return objects

    # --- memory -------------------------------------------------------------------------------
    def _prepare(self, module: ModuleOp, slots: Mapping[str, int]) -> None:
        """Everything a run needs that does not change from run to run."""
        kind = np.dtype(np.uint8)
        self._arena = aligned_array(
            (self.selection.arena_bytes + self.selection.scratch_bytes,), kind
        )
        self._io = (ctypes.c_void_p * (len(slots) + 2))()
        self._arguments = (ctypes.addressof(self._io), address(self._weights), address(self._arena))
        self._bound: dict[str, Array] = {}
        self._input_slots: list[tuple[str, str, int]] = []
        self._output_slots: list[tuple[str, str, int, tuple[int, ...], np.dtype]] = []
        self._staging: dict[str, Array] = {}
        for name, op in placeholders(module).items():
            shape, dtype, slot = shape_of(op.type), dtype_of(op.type), slots[name]
            match op.kind.data:
                case "input":
                    self._input_slots.append((name, public_name(op), slot))
                case "output":
                    self._output_slots.append((name, public_name(op), slot, shape, dtype))
                case _:
                    self._bound[name] = _initial(op, shape, dtype)
                    self._io[slot] = address(self._bound[name])
        self._barrier = aligned_array((BARRIER_BYTES,), kind)
        self._barrier[...] = 0
        self._failure: BaseException | None = None
        self._callback = ctypes.CFUNCTYPE(None, ctypes.c_int64)(self._host)
        self._io[len(slots)] = ctypes.cast(self._callback, ctypes.c_void_p)
        self._io[len(slots) + 1] = address(self._barrier)
        self._lock = threading.Lock()
        self._workers = Workers(self.target.threads) if self.target.threads > 1 else None

    @property
    def state(self) -> dict[str, Array]:
        """Placeholders that keep their values between runs, by symbol."""
        return {n: self._bound[n] for n in self._bound if n not in self._transient()}

    def _transient(self) -> set[str]:
        return {s[0] for s in self._input_slots} | {s[0] for s in self._output_slots}

    # --- running ------------------------------------------------------------------------------
    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        with self._lock:
            io, bound = self._io, self._bound
            for name, public, slot in self._input_slots:
                array = inputs[public]
                where = address(array)
                if where % ALIGN or not array.flags.c_contiguous:
                    array = self._staged(name, array)
                    where = address(array)
                bound[name] = array
                io[slot] = where
            results: dict[str, Array] = {}
            for name, public, slot, shape, dtype in self._output_slots:
                made = aligned_array(shape, dtype)
                results[public] = bound[name] = made
                io[slot] = address(made)
            if self._workers is None:
                self._main(*self._arguments, 0)
            else:
                self._workers.run(lambda worker: self._main(*self._arguments, worker))
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
        return results

    def _staged(self, name: str, array: Array) -> Array:
        """An aligned copy of an input, in memory kept for it."""
        staging = self._staging.get(name)
        if staging is None:
            staging = self._staging[name] = aligned_array(array.shape, array.dtype)
        np.copyto(staging, array)
        return staging

    def _host(self, number: int) -> None:
        """Called from native code: run one instruction by its reference."""
        if self._failure is not None:
            return
        try:
            op = self._host_ops[number]
            step(op, {v: self._array(v) for v in op.operands})
        except BaseException as error:  # raised again by `run`: native frames cannot pass it on
            self._failure = error

    def _array(self, value: SSAValue) -> Array:
        """The memory of a buffer."""
        base, skip = origin(value), view_offset(value)
        owner = base.owner
        if isinstance(owner, AllocOp):
            assert owner.offset is not None
            memory, skip = self._arena, skip + owner.offset.value.data
        else:
            assert isinstance(owner, WeightOp)
            target = lookup(self.function, owner.target)
            if isinstance(target, ConstantOp):
                array = target.array()
                assert array is not None
            else:
                array = self._bound[owner.target]
            if base is value:
                return array
            memory = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        part = memory[skip : skip + bytes_of(value.type)]
        return part.view(dtype_of(value.type)).reshape(shape_of(value))


def _initial(op: PlaceholderOp, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """A state's memory with its first value."""
    made = aligned_array(shape, dtype)
    initial = array_of(op.init, typed(op.type)) if op.init is not None else None
    made[...] = np.zeros((), dtype) if initial is None else initial
    return made


def kernel_object(name: str, call: KernelCall, target: CpuTarget) -> bytes:
    """Machine code of one kernel under an exported name."""
    module = new_module(name, target)
    call.emit(module, name, call.spec, target).linkage = "external"
    return emit_object(module, target)


def program_text(program: ModuleOp, target: CpuTarget) -> str:
    """LLVM IR of a converted program function."""
    return str(convert_module(program, fallback_target_triple=target.triple))
