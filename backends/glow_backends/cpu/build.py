"""From a planned instruction function to a program: kernels selected, emitted, compiled, weights packed."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from xdsl.backend.llvm.convert import convert_module
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Report, public_name
from glow_backends.cpu import cache
from glow_backends.cpu.bundle import Bundle, Slot
from glow_backends.cpu.calls import KernelCode
from glow_backends.cpu.host import HostSteps
from glow_backends.cpu.jit import emit_object
from glow_backends.cpu.program import CpuProgram
from glow_backends.cpu.select import Selection, select
from glow_backends.cpu.support import support_text
from glow_backends.cpu.target import CpuTarget
from glow_backends.cpu.to_llvm import convert
from glow_dialects.core.attributes import array_of
from glow_dialects.core.types import Array, dtype_of, shape_of, typed
from glow_dialects.instr.memory import InstrFuncOp
from glow_dialects.ops.module import placeholders


def compiled(module: ModuleOp, function: InstrFuncOp, target: CpuTarget) -> CpuProgram:
    """The program of a planned instruction function."""
    bundle, selection = build(module, function, target)
    host = HostSteps(function, [s.op for s in selection.host_steps])
    program = CpuProgram(bundle, target, host if selection.host_steps else None)
    program.selection = selection
    return program


def build(module: ModuleOp, function: InstrFuncOp, target: CpuTarget) -> tuple[Bundle, Selection]:
    """Select kernels, convert the program function, generate code and pack weights."""
    report = Report()
    start = time.perf_counter()

    def stage(name: str) -> None:
        nonlocal start
        now = time.perf_counter()
        report.stages[name] = now - start
        start = now

    selection = select(function, target)
    stage("select kernels")
    kernels = selection.kernels
    stage("emit kernels")
    code = convert(module, function, selection, target)
    stage("convert to llvm")
    objects = objects_of(code.module, kernels, target, report)
    stage("generate code")
    weights = code.weights.build()
    stage("pack weights")
    slots: list[Slot] = []
    states: dict[str, Array] = {}
    for name, op in placeholders(module).items():
        kind, dtype = op.kind.data, dtype_of(op.type)
        slots.append(Slot(name, public_name(op), kind, shape_of(op.type), dtype.name))
        if kind not in ("input", "output"):
            first = array_of(op.init, typed(op.type)) if op.init is not None else None
            states[name] = np.zeros(shape_of(op.type), dtype) if first is None else first
    report.weight_bytes = weights.nbytes
    report.arena_bytes = selection.arena_bytes
    report.notes["host instructions"] = len(selection.host_steps)
    made = Bundle(
        slots,
        objects,
        weights,
        selection.arena_bytes,
        selection.scratch_bytes,
        states,
        len(selection.host_steps),
        report,
    )
    return made, selection


def objects_of(
    program: ModuleOp, kernels: Mapping[str, KernelCode], target: CpuTarget, report: Report
) -> list[bytes]:
    """Machine code of every kernel once, of the program functions and of the support functions."""
    fresh = 0
    objects: list[bytes] = []
    for name, code in kernels.items():
        made = cache.get(name)
        if made is None:
            made = emit_object(code.text, target)
            cache.put(name, made)
            fresh += 1
        objects.append(made)
    for text in (program_text(program, target), support_text(target)):
        key = f"text_{cache.key(text, repr(target))}"
        made = cache.get(key)
        if made is None:
            made = emit_object(text, target)
            cache.put(key, made)
        objects.append(made)
    report.kernels = len(kernels)
    report.notes["kernels compiled"] = fresh
    return objects


def program_text(program: ModuleOp, target: CpuTarget) -> str:
    """LLVM IR of a converted program function."""
    return str(convert_module(program, fallback_target_triple=target.triple))
