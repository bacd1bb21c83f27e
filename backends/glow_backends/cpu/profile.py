"""Profiling: the same program with a clock read after every kernel."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from llvmlite import ir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_backends.base import TimedStep, check_inputs
from glow_backends.cpu.build import build, program_text
from glow_backends.cpu.calls import KernelCall, Packed
from glow_backends.cpu.emit.builder import PTR
from glow_backends.cpu.host import HostSteps
from glow_backends.cpu.jit import Linked, emit_object, new_module
from glow_backends.cpu.memory import address, work_memory
from glow_backends.cpu.select import HostStep, Selection
from glow_backends.cpu.target import CpuTarget
from glow_backends.cpu.timed import STAMP, STAMPS, TimedProgram
from glow_backends.cpu.to_llvm import Conversion, ProgramCode
from glow_backends.cpu.weights import ProgramWeights
from glow_dialects.core.location import names
from glow_dialects.core.types import Array, bytes_of
from glow_dialects.instr.memory import InstrFuncOp
from glow_dialects.ops.module import placeholders


@dataclass(frozen=True)
class KernelTime:
    """One step of a program: median seconds a run until its last worker is done, and what it did in them.

    `least` is the seconds of its shortest run, `busy` the seconds that each worker computed. `flops`
    counts the floating-point operations of the plain algorithm (0: not counted; Winograd needs fewer,
    so that its rate may pass the machine's peak), `bytes` the operands once each. `start` is the median
    of the seconds from the start of the run, `nodes` the names of what the step computes: of a model's
    nodes, or lines of a file.
    """

    label: str
    kernel: str
    start: float
    seconds: float
    flops: int
    bytes: int
    busy: tuple[float, ...] = ()
    least: float = 0.0
    nodes: tuple[str, ...] = ()

    @property
    def balance(self) -> float:
        """The part of their time that the workers compute, rather than wait for the last one."""
        return sum(self.busy) / len(self.busy) / self.seconds if self.busy and self.seconds else 1.0

    @property
    def gflops(self) -> float:
        """10^9 floating-point operations a second."""
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def best_gflops(self) -> float:
        """10^9 floating-point operations a second in the shortest run."""
        return self.flops / self.least / 1e9 if self.least else 0.0

    @property
    def gbytes(self) -> float:
        """10^9 bytes a second."""
        return self.bytes / self.seconds / 1e9 if self.seconds else 0.0


@dataclass(frozen=True)
class Profile:
    """The steps of a program, and the best rate of multiply-adds (GFLOP/s) found between its runs."""

    steps: list[KernelTime]
    peak: float


class _Stamped(Conversion):
    """The conversion, with a call of the clock on both sides of every step, and the bytes of its operands."""

    def run(self) -> None:
        self.bytes: list[int] = []
        self.packed: dict[str, int] = {}
        self.stamps = 0
        super().run()

    def kernel_call(self, call: KernelCall) -> None:
        self._stamp()
        super().kernel_call(call)
        self._stamp()
        self.bytes.append(sum(self._size(o) for o in call.operands))

    def host_call(self, number: int) -> None:
        self._stamp()
        super().host_call(number)
        self._stamp()
        op = self.selection.host_steps[number].op
        self.bytes.append(sum(bytes_of(v.type) for v in op.operands))

    def _stamp(self) -> None:
        self.call(STAMP, [self.constant(self.stamps), self.block.args[3]])
        self.stamps += 1

    def _size(self, operand: SSAValue | Packed) -> int:
        if isinstance(operand, Packed):
            if operand.key not in self.packed:
                self.packed[operand.key] = operand.make().nbytes
            return self.packed[operand.key]
        return bytes_of(operand.type)


def _stamp_module(count: int, target: CpuTarget) -> ir.Module:
    module = new_module("stamps", target)
    word = ir.IntType(64)
    kind = ir.ArrayType(ir.ArrayType(word, count), target.threads)
    table = ir.GlobalVariable(module, kind, STAMPS)
    table.initializer = ir.Constant(kind, None)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [word, word]), STAMP)
    clock = ir.Function(module, ir.FunctionType(word, []), "llvm.readcyclecounter")
    builder = ir.IRBuilder(function.append_basic_block())
    place = builder.gep(table, [word(0), function.args[1], function.args[0]], inbounds=True)
    builder.store(builder.call(clock, []), place)
    builder.ret_void()
    return module


def stamped_program(
    module: ModuleOp, function: InstrFuncOp, target: CpuTarget
) -> tuple[TimedProgram, Selection, list[int]]:
    """The program with stamps, its steps, and bytes a step."""
    bundle, selection = build(module, function, target)
    target = replace(target, threads=bundle.threads)
    slots = {name: i for i, name in enumerate(placeholders(module))}
    code = ProgramCode(ModuleOp([]), ProgramWeights(), slots)
    conversion = _Stamped(code, function, selection, target)
    conversion.run()
    stamps = emit_object(_stamp_module(conversion.stamps, target), target)
    text = emit_object(program_text(code.module, target), target)
    # The program function is the last object but one; the support functions follow it.
    objects = [*bundle.objects[:-2], text, bundle.objects[-1], stamps]
    host = HostSteps(function, [s.op for s in selection.host_steps]) if selection.host_steps else None
    steps = [_step(step, selection) for step in selection.steps]
    program = TimedProgram(replace(bundle, objects=objects, steps=steps), target, host)
    program.selection = selection
    return program, selection, conversion.bytes


def _step(step: KernelCall | HostStep, selection: Selection) -> TimedStep:
    """What a step does, on the host or by a kernel."""
    nodes = names(step.op.location) if step.op is not None else ()
    if isinstance(step, HostStep):
        return TimedStep(step.op.name.removeprefix("glow_instr."), "(host)", nodes)
    return TimedStep(step.label, selection.codes.of(step).name, nodes)


def profile(
    module: ModuleOp,
    function: InstrFuncOp,
    target: CpuTarget,
    inputs: Mapping[str, Array],
    runs: int = 20,
) -> Profile:
    """Times over `runs` runs of a planned function, step by step."""
    program, selection, sizes = stamped_program(module, function, target)
    shape = program.bundle.threads, len(selection.steps), 2
    stamps = (ctypes.c_int64 * prod(shape)).from_address(program.linked.address(STAMPS))
    arrays = check_inputs(program.inputs, inputs)
    program.run(arrays)
    taken = np.empty((runs, *shape), np.int64)
    began: list[float] = []
    burst, peak = Burst(target), 0.0
    for row in taken:
        peak = max(peak, burst.gflops())
        began.append(time.perf_counter())
        program.run(arrays)
        row.flat[:] = stamps
    ticks = int(taken[-1, 0, 0, 0] - taken[0, 0, 0, 0])
    rate = ticks / (began[-1] - began[0]) if runs > 1 else 1e9  # ticks of the clock a second
    begin, end = taken[..., 0], taken[..., 1]
    first = begin.min(axis=1)  # by run and step
    starts = np.median(first - first[:, :1], axis=0) / rate
    seconds = (end.max(axis=1) - first) / rate
    busy = np.median(end - begin, axis=0).T / rate
    steps: list[KernelTime] = []
    for i, (step, told) in enumerate(zip(selection.steps, program.steps, strict=True)):
        flops = 0 if isinstance(step, HostStep) else step.flops
        median, least = float(np.median(seconds[:, i])), float(seconds[:, i].min())
        workers = tuple(busy[i].tolist())
        rates = float(starts[i]), median, flops, sizes[i], workers, least, told.nodes
        steps.append(KernelTime(told.operation, told.kernel, *rates))
    return Profile(steps, peak * program.bundle.threads)


_CHAINS = 12
"""Independent sums, enough to hide the latency of one multiply-add."""
_TURNS = 30_000
"""Multiply-adds of each sum in a burst: some tens of microseconds."""


class Burst:
    """A burst of f32 multiply-adds on registers, on one core."""

    def __init__(self, target: CpuTarget) -> None:
        vector, word = ir.VectorType(ir.FloatType(), target.lanes), ir.IntType(64)
        module = new_module("peak", target)
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, word]), "glow_peak")
        kind = ir.FunctionType(vector, [vector] * 3)
        fma = ir.Function(module, kind, f"llvm.fma.v{target.lanes}f32")
        entry, loop, done = (function.append_basic_block(n) for n in ("entry", "loop", "done"))
        builder = ir.IRBuilder(entry)
        memory, turns = function.args
        places = [builder.gep(memory, [word(i)], source_etype=vector) for i in range(_CHAINS)]
        first = [builder.load(p, align=target.vector_bytes, typ=vector) for p in places]
        builder.branch(loop)
        builder.position_at_end(loop)
        counter = builder.phi(word)
        counter.add_incoming(word(0), entry)
        sums = [builder.phi(vector) for _ in range(_CHAINS)]
        following = [builder.call(fma, [first[0], first[0], s]) for s in sums]
        for phi, start, value in zip(sums, first, following, strict=True):
            phi.add_incoming(start, entry)
            phi.add_incoming(value, loop)
        more = builder.add(counter, word(1))
        counter.add_incoming(more, loop)
        builder.cbranch(builder.icmp_signed("<", more, turns), loop, done)
        builder.position_at_end(done)
        for place, value in zip(places, following, strict=True):
            builder.store(value, place, align=target.vector_bytes)
        builder.ret_void()
        self._linked = Linked([emit_object(module, target)], target)
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self._linked.address("glow_peak"))
        self._sums = work_memory(_CHAINS * target.vector_bytes)
        self._flops = _TURNS * _CHAINS * target.lanes * 2

    def gflops(self, count: int = 5) -> float:
        """The best rate of `count` bursts, in 10^9 operations a second."""
        best, where = 0.0, address(self._sums)
        for _ in range(count):
            start = time.perf_counter()
            self._run(where, _TURNS)
            best = max(best, self._flops / (time.perf_counter() - start) / 1e9)
        return best
