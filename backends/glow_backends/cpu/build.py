"""From a planned instruction function to a program: kernels selected, emitted, compiled, weights packed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glow_backends.cpu.debug.level import DebugInfo
    from glow_backends.cpu.debug.source import Source

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import public_name, used_symbols
from glow_backends.cpu import cache
from glow_backends.cpu.bundle import Bundle, Slot
from glow_backends.cpu.calls import KernelCode
from glow_backends.cpu.host import HostSteps
from glow_backends.cpu.jit import emit_object
from glow_backends.cpu.program import STATES, CpuProgram
from glow_backends.cpu.second_compiler import second_compiler
from glow_backends.cpu.select import Selection, select
from glow_backends.cpu.sharing import worth_sharing
from glow_backends.cpu.support import support_text
from glow_backends.cpu.target import CpuTarget
from glow_backends.cpu.weights import ProgramWeights, WeightPool
from glow_backends.report import Report
from glow_dialects.core.attributes import array_of
from glow_dialects.core.conditions import Conditions
from glow_dialects.core.errors import OpenSizes
from glow_dialects.core.extent import Extent, is_open
from glow_dialects.core.types import Array, dtype_of, shape_of, typed
from glow_dialects.instr.memory import InstrFuncOp
from glow_dialects.ops.module import placeholders


def compiled(
    module: ModuleOp,
    function: InstrFuncOp,
    target: CpuTarget,
    own: bool = False,
    pool: WeightPool | None = None,
    debug: DebugInfo = "none",
) -> CpuProgram:
    """The program of a planned instruction function; of a module of its `own` the constants go."""
    bundle, selection = build(module, function, target, own, pool, debug)
    if pool is not None:
        pool.add(bundle.weights, bundle.places)
    host = HostSteps(function, [s.op for s in selection.host_steps])
    if bundle.numbers is not None:
        from glow_backends.cpu.open_program import OpenProgram

        program: CpuProgram = OpenProgram(bundle, target)
    else:
        program = CpuProgram(bundle, target, host if selection.host_steps else None)
        program.selection = selection
    if bundle.source is not None:
        from glow_backends.cpu.debug.gdb_interface import tell_gdb
        from glow_backends.cpu.debug.perf_map import write_map

        tell_gdb(program.linked, bundle.objects)
        write_map(program.linked, bundle.objects, bundle.source)
    return program


def _stages(report: Report) -> Callable[[str], None]:
    """Called at the end of each stage with its name: writes the seconds since the stage before."""
    start = time.perf_counter()

    def stage(name: str) -> None:
        nonlocal start
        now = time.perf_counter()
        report.stages[name] = now - start
        start = now

    return stage


def build(
    module: ModuleOp,
    function: InstrFuncOp,
    target: CpuTarget,
    own: bool = False,
    pool: WeightPool | None = None,
    debug: DebugInfo = "none",
) -> tuple[Bundle, Selection]:
    """Select kernels, convert the program function, generate code and pack weights.

    A program with little to do is for one thread, whatever the target says.
    """
    report = Report()
    stage = _stages(report)
    selection = select(function, target)
    if target.threads > 1 and not worth_sharing(selection, target):
        target = replace(target, threads=1)
        selection = select(function, target)
    stage("select kernels")
    objects = Objects(target)
    for call in selection.calls:
        objects.want(selection.codes.of(call))
    stage("emit kernels")
    from glow_backends.cpu.to_llvm import NUMBERS, convert  # imports take their time while LLVM has work

    source = _source_of(function, selection, debug)
    code = convert(module, function, selection, target, own, ProgramWeights(pool))
    stage("convert to llvm")
    objects_in_order = objects.finished(code.module, report, source)
    stage("generate code")
    weights = code.weights.build()
    stage("pack weights")
    slots, states = _slots(module, function)
    if selection.numbers is not None:
        slots.append(Slot(NUMBERS, NUMBERS, "numbers", (), "int64"))
        selection.numbers.conditions = list(conditions_of(slots).met)
        if selection.host_steps:
            raise OpenSizes("an instruction without a kernel runs on the host")
    report.weight_bytes, report.arena_bytes = weights.nbytes, selection.arena_bytes
    report.notes |= {"host instructions": len(selection.host_steps), "threads": target.threads}
    if target.precision != "float32":
        report.notes["precision"] = precision_note(selection, target)
    bundle = Bundle(
        slots,
        objects_in_order,
        weights,
        selection.arena_bytes,
        selection.scratch_bytes,
        states,
        len(selection.host_steps),
        target.threads,
        report,
        code.weights.shared,
        code.weights.places,
        code.faults,
        selection.numbers,
        source,
    )
    return bundle, selection


def _slots(module: ModuleOp, function: InstrFuncOp) -> tuple[list[Slot], dict[str, Array]]:
    """What a call of the program takes and gives, and the first values of states."""
    slots: list[Slot] = []
    states: dict[str, Array] = {}
    used = used_symbols(function)
    declared = {w.target: w.initial() for w in function.weights()}
    for name, op in placeholders(module).items():
        kind, dtype = op.kind.data, dtype_of(op.type)
        role = kind if kind != "output" or name in used else "unused"
        slots.append(Slot(name, public_name(op), role, shape_of(op.type), dtype.name))
        if kind in STATES and not is_open(shape_of(op.type)):
            first = array_of(op.init, typed(op.type)) if op.init is not None else declared.get(name)
            states[name] = np.zeros(shape_of(op.type), dtype) if first is None else first
    return slots, states


def _source_of(function: InstrFuncOp, selection: Selection, debug: DebugInfo) -> Source | None:
    """What debuggers list, written to the cache; None where nothing is to be told."""
    if debug == "none":
        return None
    from glow_backends.cpu.debug.source import printed

    source = printed(function, selection, debug)
    source.write()
    return source


def conditions_of(slots: Sequence[Slot]) -> Conditions:
    """What the sizes of placeholders are decided by."""
    return next(d.conditions for s in slots for d in s.shape if isinstance(d, Extent))


_FEW = 6
"""Pieces of code that are compiled before a second process is worth its start."""


class Objects:
    """Machine code by name, from the cache or made while more is emitted: by a thread, and a second process.

    Each of two threads has the second process compile where that is idle; LLVM serves one of them at a time.
    """

    def __init__(self, target: CpuTarget) -> None:
        self._target = target
        self._objects: dict[str, bytes | Future[bytes]] = {}
        self._compiler = ThreadPoolExecutor(2)
        self._submitted = 0
        self._llvm = Lock()

    def want(self, code: KernelCode) -> None:
        """Ask for a kernel and its parts."""
        for piece in (*code.parts, code):
            self._want(piece.name, piece.text, kernel=True)

    def finished(self, program: ModuleOp, report: Report, source: Source | None = None) -> list[bytes]:
        """The kernels that were asked for, then the program functions and the support functions."""
        report.kernels = len(self._objects)
        report.notes["kernels compiled"] = sum(isinstance(o, Future) for o in self._objects.values())
        for text in (program_text(program, self._target, source), support_text(self._target)):
            self._want(f"text_{cache.key(text, repr(self._target))}", text)
        objects = [o if isinstance(o, bytes) else o.result() for o in self._objects.values()]
        self._compiler.shutdown()
        return objects

    def _want(self, name: str, text: str, kernel: bool = False) -> None:
        if name in self._objects:
            return
        kept = cache.get(name)
        if kept is None:
            self._submitted += 1
            if self._submitted == _FEW:
                second_compiler().start()
        self._objects[name] = kept or self._compiler.submit(self._compile, name, text, kernel)

    def _compile(self, name: str, text: str, kernel: bool) -> bytes:
        data = second_compiler().object_of(text, self._target, kernel)
        if data is None:
            with self._llvm:
                data = emit_object(text, self._target, kernel)
        cache.put(name, data)
        return data


def objects_of(
    program: ModuleOp, kernels: Iterable[KernelCode], target: CpuTarget, report: Report
) -> list[bytes]:
    """Machine code of kernels, once each, of the program functions and of the support functions."""
    objects = Objects(target)
    for code in kernels:
        objects.want(code)
    return objects.finished(program, report)


def program_text(program: ModuleOp, target: CpuTarget, source: Source | None = None) -> str:
    """LLVM IR of a converted program function, with the lines of its `source` for debuggers."""
    from xdsl.backend.llvm.convert import convert_module

    module = convert_module(program, fallback_target_triple=target.triple)
    if source is not None:
        from glow_backends.cpu.debug.dwarf import described

        return described(module, source)
    return str(module)


def precision_note(selection: Selection, target: CpuTarget) -> str:
    """Which layers compute products of float32 with rounded factors, by the instruction that they run on."""
    units: dict[str, list[str]] = {}
    for call in selection.calls:
        if call.describe is None:
            continue
        kernel = call.describe(call.spec, target, call.label)
        schedule = kernel.schedule
        if schedule is not None and schedule.data.unit.b == "bf16":
            units.setdefault(schedule.data.instruction, []).append(call.label)
    told = [f"{len(labels)} products by {unit}" for unit, labels in units.items()]
    return f"{target.precision}: {', '.join(told) or 'no products'}; the others are float32"
