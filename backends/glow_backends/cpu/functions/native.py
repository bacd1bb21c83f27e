"""Compiling and calling a function for one set of argument types."""

from __future__ import annotations

import ctypes
import mmap
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import llvmlite.binding as llvm

from glow_backends.cpu.functions.emit import Emitter
from glow_backends.cpu.functions.layout import F64, I1, leaves
from glow_backends.cpu.functions.runtime import MAX_TAIL_CALLS, MEMORY, STACK
from glow_backends.cpu.jit import Linked, emit_object, new_module
from glow_backends.cpu.target import host, initialize_llvm
from glow_backends.interpreter.functions import RecursionLimitError
from glow_dialects.core.errors import GlowError
from glow_passes.fn.domain import NoneType, NotNative, Scalar, Text, TupleType, Type
from glow_passes.fn.specialize import Instance, Specializer

STACK_BYTES = 256 << 20
#: Memory for the records of one run.
HEAP_LIMIT = 4 << 30
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_GROW = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))


class _Memory:
    """The stack and heap that native functions of this process share; one runs at a time."""

    def __init__(self) -> None:
        self.stack = mmap.mmap(-1, STACK_BYTES, flags=_FLAGS)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.stack))
        self.top = (base + STACK_BYTES - 64) & ~63
        self.limit = base + (1 << 16)
        self.first = ctypes.create_string_buffer(1 << 20)
        self.blocks: list[Any] = []
        self.used = 0
        self.grow = _GROW(self._grow)
        self.grow_address = ctypes.cast(self.grow, ctypes.c_void_p).value or 0

    def _grow(self, size: int, end: Any) -> int:
        count = max(size, min(64 << 20, (1 << 20) << min(len(self.blocks), 6)))
        self.used += count
        if self.used > HEAP_LIMIT:
            return 0
        block = mmap.mmap(-1, count, flags=_FLAGS)
        self.blocks.append(block)
        base = ctypes.addressof(ctypes.c_char.from_buffer(block))
        end[0] = base + count
        return base

    def release(self) -> None:
        """Give the blocks of a run back."""
        if self.blocks:
            self.blocks.clear()
            self.used = 0


_memory: list[_Memory] = []
_lock = threading.Lock()


class NativeFunction:
    """Machine code of one instance; call it with Python numbers and tuples."""

    def __init__(self, inferred: Specializer, root: Instance, name: str) -> None:
        start = time.perf_counter()
        target = host()
        initialize_llvm()
        llvm.initialize_native_asmparser()
        if "x86" not in target.triple:
            raise NotNative(f"functions on {target.triple}")
        module = new_module(name, target)
        self.name = name
        emitter = Emitter(inferred, module)
        self.parameters = [inferred.sets.resolve(t) for t in root.parameters]
        self.result = inferred.sets.resolve(root.result)
        if not _plain(self.result):
            raise NotNative("a function as the result")
        inputs = [leaf for t in self.parameters for leaf in leaves(t)]
        outputs = leaves(self.result)
        function = emitter.emit_all(root)
        emitter.support.entry(function, inputs, outputs)
        self.seconds = {"emit": time.perf_counter() - start}
        start = time.perf_counter()
        self.llvm = str(module)
        self._linked = Linked([emit_object(self.llvm, target)], target)
        self._run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(self._linked.address("fn_run"))
        self.seconds["llvm"] = time.perf_counter() - start
        self._format = "=" + "".join("d" if leaf == F64 else "q" for leaf in inputs)
        self._out = "=" + "".join("d" if leaf == F64 else "q" for leaf in outputs)
        self._bits = [leaf == I1 for leaf in outputs]
        if not _memory:
            _memory.append(_Memory())
        memory = _memory[0]
        self._arguments = ctypes.create_string_buffer(max(8, 8 * len(inputs)))
        self._results = ctypes.create_string_buffer(max(8, 8 * len(outputs)))
        first = ctypes.addressof(memory.first)
        words = (
            ctypes.addressof(self._arguments), ctypes.addressof(self._results), first,
            first + len(memory.first), memory.top, memory.limit, memory.grow_address,
        )  # fmt: skip
        self._setup = (ctypes.c_int64 * 7)(*words)
        self._place = ctypes.addressof(self._setup)
        self._simple = all(isinstance(t, Scalar) for t in self.parameters)

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """The value; RecursionLimitError and GlowError where a limit is reached."""
        values = arguments if self._simple else list(_flattened(arguments))
        with _lock:
            try:
                struct.pack_into(self._format, self._arguments, 0, *values)
            except struct.error:
                raise NotNative("an int of more than 64 bits") from None
            code = self._run(self._place)
            _memory[0].release()
            found = iter(struct.unpack_from(self._out, self._results))
        if code:
            if code == MEMORY:
                raise GlowError(f"{self.name}: more than {HEAP_LIMIT >> 30} GiB of records; use fewer steps")
            limit = 5_000_000 if code == STACK else MAX_TAIL_CALLS
            raise RecursionLimitError(self.name, limit)
        return _rebuilt(self.result, found)


def _plain(kind: Type) -> bool:
    if isinstance(kind, TupleType):
        return all(map(_plain, kind.items))
    return isinstance(kind, Scalar | NoneType | Text)


def _flattened(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from _flattened(value)
        elif value is not None and not isinstance(value, str):
            yield value


def _rebuilt(kind: Type, values: Iterator[Any]) -> Any:
    match kind:
        case TupleType():
            return tuple(_rebuilt(t, values) for t in kind.items)
        case Scalar():
            found = next(values)
            return bool(found & 1) if kind.kind == "bool" else found
        case Text():
            return kind.value
        case _:
            return None
