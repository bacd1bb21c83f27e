"""Compile one kernel and call it on NumPy arrays."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from glow_backends.cpu.emit.builder import TICKET_BYTES, sizes_of
from glow_backends.cpu.jit import Linked
from glow_backends.cpu.target import CpuTarget, named

CPU = os.environ.get("GLOW_TEST_CPU", "host")  # such as haswell, on a machine that can run it
Emitter = Callable[[ir.Module, str, Any, CpuTarget], ir.Function]


def aligned(array: np.ndarray) -> np.ndarray:
    """A contiguous copy whose first element is 64-byte aligned."""
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class Kernel:
    """A compiled kernel; calling it runs every worker in turn."""

    def __init__(self, emit: Emitter, spec: Any, threads: int = 1) -> None:
        target = named(CPU, threads)
        module = ir.Module("test")
        module.triple = target.triple
        function = emit(module, "kernel", spec, target)
        function.linkage = "external"
        parsed = llvm.parse_assembly(str(module))
        parsed.verify()
        self.linked = Linked([target.machine().emit_object(parsed)], target)
        self.threads = threads
        self.sizes = np.array(sizes_of(function), np.int64)
        several = threads > 1
        operands = len(function.args) - 1 - several
        kind = ctypes.CFUNCTYPE(
            None, *[ctypes.c_void_p] * operands, ctypes.c_int64, *[ctypes.c_void_p] * several
        )
        self.call = kind(self.linked.address("kernel"))

    def __call__(self, *buffers: np.ndarray) -> None:
        """Run on aligned buffers, results first."""
        pointers = [b.ctypes.data for b in buffers]
        if self.sizes.size:
            pointers.append(self.sizes.ctypes.data)
        tickets = [aligned(np.zeros(self.threads * TICKET_BYTES, np.uint8))] if self.threads > 1 else []
        for worker in range(self.threads):
            self.call(*pointers, worker, *(t.ctypes.data for t in tickets))


def run_kernel(
    emit: Emitter,
    spec: Any,
    outputs: Sequence[tuple[tuple[int, ...], Any]],
    inputs: Sequence[np.ndarray],
    threads: int = 1,
    initial: Sequence[np.ndarray] = (),
) -> list[np.ndarray]:
    """Compile, run on fresh outputs (or copies of `initial`) between guard bytes, return them."""
    kernel = Kernel(emit, spec, threads)
    results = [aligned(a) for a in initial]
    guards: list[np.ndarray] = []
    for shape, dtype in outputs[len(results) :]:
        count = int(np.prod(shape))
        whole = aligned(np.full(count * np.dtype(dtype).itemsize + 64, 0xA5, np.uint8))
        guards.append(whole[-64:])
        results.append(whole[:-64].view(dtype).reshape(shape))
    kernel(*results, *(aligned(np.asarray(a)) for a in inputs))
    for guard in guards:
        assert (guard == 0xA5).all(), "kernel wrote past its result"
    return results
