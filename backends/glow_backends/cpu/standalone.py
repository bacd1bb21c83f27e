"""Compile and call one kernel by itself: for tests, for measuring, and for a measured search."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from glow_backends.cpu.emit.builder import I64, PTR, TICKET_BYTES, sizes_of
from glow_backends.cpu.jit import Linked, new_module, optimized
from glow_backends.cpu.target import CpuTarget

Emitter = Callable[[ir.Module, str, Any, CpuTarget], ir.Function]


def aligned(array: np.ndarray) -> np.ndarray:
    """A C-ordered copy of `array` that starts on a 64-byte boundary."""
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class StandaloneKernel:
    """A compiled kernel; calling it with aligned arrays runs all its workers one after another."""

    def __init__(self, emit: Emitter, spec: object, target: CpuTarget) -> None:
        module = new_module("standalone", target)
        kernel = emit(module, "kernel", spec, target)
        sizes = sizes_of(kernel)
        several = target.threads > 1
        count = len(kernel.args) - 1 - bool(sizes) - several
        entry = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR] * count + [I64, PTR]), "entry")
        builder = ir.IRBuilder(entry.append_basic_block())
        tables: list[ir.Value] = []
        if sizes:
            kind = ir.ArrayType(I64, len(sizes))
            table = ir.GlobalVariable(module, kind, "sizes")
            table.initializer = ir.Constant(kind, sizes)
            tables = [table]
        operands, worker, tickets = entry.args[:-2], entry.args[-2], entry.args[-1]
        builder.call(kernel, [*operands, *tables, worker, *[tickets] * several])
        builder.ret_void()
        parsed, machine = optimized(module, target)
        self.threads = target.threads
        self.assembly = machine.emit_assembly(parsed)
        self._linked = Linked([machine.emit_object(parsed)], target)
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count, ctypes.c_int64, ctypes.c_void_p)
        self._function = kind(self._linked.address("entry"))

    def __call__(self, *arrays: np.ndarray) -> None:
        """Run every worker's share on the given operands (result first)."""
        tickets = aligned(np.zeros(self.threads * TICKET_BYTES, np.uint8))
        for worker in range(self.threads):
            self.run_worker(worker, tickets, *arrays)

    def run_worker(self, worker: int, tickets: np.ndarray, *arrays: np.ndarray) -> None:
        """Run what one worker does; `tickets` are those of all, zeros at first."""
        self._function(*(a.ctypes.data for a in arrays), worker, tickets.ctypes.data)
