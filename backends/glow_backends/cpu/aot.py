"""Ahead of time: a program as one object file that any C program can link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import llvmlite.binding as llvm
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import public_name
from glow_backends.cpu.build import program_text
from glow_backends.cpu.calls import KernelCode
from glow_backends.cpu.jit import optimized
from glow_backends.cpu.memory import rounded
from glow_backends.cpu.select import select
from glow_backends.cpu.support import MAIN
from glow_backends.cpu.target import CpuTarget
from glow_backends.cpu.to_llvm import convert
from glow_dialects.core.attributes import array_of
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.types import Array, dtype_of, shape_of, typed
from glow_dialects.instr.memory import InstrFuncOp
from glow_dialects.ops.module import PlaceholderOp, placeholders


@dataclass(frozen=True)
class Tensor:
    """An entry of the table of pointers that the program takes.

    `initial` is the offset of its first contents in the weights (states and trainables), None for
    inputs and outputs.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    initial: int | None = None


@dataclass
class AotProgram:
    """`void NAME(void *const *tensors, const void *weights, void *arena)` and what it needs."""

    name: str
    object: bytes
    weights: bytes
    arena_bytes: int
    tensors: list[Tensor] = field(default_factory=list[Tensor])


def compile_ahead(module: ModuleOp, function: InstrFuncOp, target: CpuTarget, name: str) -> AotProgram:
    """The object of a planned function, for one thread.

    All symbols but `name` are local, so that several programs link together. Indices out of range are
    brought into range, as nobody could be told. Raises
    UnsupportedError where an instruction has no kernel, since there is no host to run it.
    """
    selection = select(function, target, checked=False)
    missing = sorted({s.op.name for s in selection.host_steps})
    if missing:
        raise UnsupportedError(f"no kernel for {', '.join(missing)}: it cannot run ahead of time")
    code = convert(module, function, selection, target)
    data = _link(selection.kernels, code.module, target, name)
    weights = bytearray(code.weights.build().tobytes())
    tensors = [_tensor(op, weights) for op in placeholders(module).values()]
    arena = rounded(selection.arena_bytes) + rounded(selection.scratch_bytes)
    return AotProgram(name, data, bytes(weights), arena, tensors)


def _link(kernels: Mapping[str, KernelCode], program: ModuleOp, target: CpuTarget, name: str) -> bytes:
    entry = f"""
target triple = "{target.triple}"
declare void @{MAIN}(ptr, ptr, ptr, i64)
define void @{name}(ptr %tensors, ptr %weights, ptr %arena) {{
  call void @{MAIN}(ptr %tensors, ptr %weights, ptr %arena, i64 0)
  ret void
}}
"""
    linked, machine = optimized(entry, target)
    linked.link_in(optimized(program_text(program, target), target)[0])
    for kernel in kernels.values():
        linked.link_in(optimized(kernel.text, target, kernel=True)[0])
    for function in linked.functions:
        if not function.is_declaration and function.name != name:
            function.linkage = llvm.Linkage.internal
    return machine.emit_object(linked)


def _tensor(op: PlaceholderOp, weights: bytearray) -> Tensor:
    kind, shape, dtype = op.kind.data, shape_of(op.type), dtype_of(op.type)
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    if kind in ("input", "output"):
        return Tensor(public_name(op), kind, shape, dtype.name, size)
    first: Array | None = array_of(op.init, typed(op.type)) if op.init is not None else None
    place = len(weights)
    contents = bytes(size) if first is None else first.astype(dtype).tobytes()
    weights += contents + bytes(rounded(size) - size)
    return Tensor(public_name(op), kind, shape, dtype.name, size, place)
