"""Compiling and calling a function for one set of argument types."""

from __future__ import annotations

import ctypes
import mmap
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from glow_backends.cpu.functions.direct_calls import DirectCall, Words
from glow_backends.cpu.functions.emit import Emitter
from glow_backends.cpu.functions.graphs import Graphs, Lower
from glow_backends.cpu.functions.layout import leaves, sizes
from glow_backends.cpu.functions.passing import Arguments, Results
from glow_backends.cpu.functions.runtime import FAILED, MAX_TAIL_CALLS, MEMORY, OVERFLOW, SHIFT, STACK
from glow_backends.cpu.jit import LARGE, Linked, emit_object, new_module
from glow_backends.cpu.memory import zeros_mapped
from glow_backends.cpu.target import CpuTarget, initialize_llvm
from glow_backends.interpreter.functions import RecursionLimitError
from glow_dialects.core.errors import GlowError, raised
from glow_dialects.fn.domain import NoneType, NotNative, Scalar, TensorType, Text, TupleType, Type
from glow_passes.fn.specialize import Instance, Specializer

STACK_BYTES = 256 << 20
#: Memory for the records and tensors of one run, and how much of it stays with the process.
HEAP_LIMIT, HEAP_KEPT = 4 << 30, 256 << 20
#: Characters of LLVM IR from which on a program of numbers, or of loops over elements, gets only cheap
#: passes: its code is all its work.
LARGE_OF_NUMBERS = 4 * LARGE


class _Memory:
    """The stack and heap that native functions of this process share; one runs at a time.

    Both are ranges of addresses: only what a run touches costs memory.
    """

    def __init__(self) -> None:
        try:
            self._stack, self._heap = zeros_mapped(STACK_BYTES), zeros_mapped(HEAP_LIMIT, reserved=True)
        except OSError:
            limit = f"{HEAP_LIMIT >> 30} GiB of address space"
            raise NotNative(f"{limit} are not available on this system") from None
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._stack))
        self.top = (base + STACK_BYTES - 64) & ~63
        self.limit = base + (1 << 16)
        self.first = ctypes.addressof(ctypes.c_char.from_buffer(self._heap))
        self.end = self.first + HEAP_LIMIT

    def release(self, used: int) -> None:
        """Give memory of a run back that is more than the next one is likely to need."""
        if used - self.first > HEAP_KEPT and hasattr(mmap, "MADV_DONTNEED"):
            self._heap.madvise(mmap.MADV_DONTNEED, HEAP_KEPT, HEAP_LIMIT - HEAP_KEPT)


_memory: list[_Memory] = []
_lock = threading.Lock()


class _Busy:
    """A word that is 1 while a program runs, for calls that do not take the lock."""

    def __init__(self) -> None:
        self._word = ctypes.c_int64(0)
        self.address = ctypes.addressof(self._word)

    def __enter__(self) -> None:
        self._word.value = 1

    def __exit__(self, *_: object) -> None:
        self._word.value = 0


_busy = _Busy()


class NativeFunction:
    """Machine code of one instance; call it with Python numbers, arrays and tuples.

    `lower` takes the graphs of tensor operators to planned instructions for `target`.
    """

    def __init__(
        self,
        inferred: Specializer,
        root: Instance,
        name: str,
        target: CpuTarget,
        lower: Lower,
        counting: bool = False,
    ) -> None:
        start = time.perf_counter()
        initialize_llvm()
        llvm.initialize_native_asmparser()
        if (
            "x86" not in target.triple or "windows" in target.triple
        ):  # the entry keeps to System V's registers
            raise NotNative(f"functions on {target.triple}")
        module = new_module(name, target)
        self.name, self._target = name, target
        self._direct: DirectCall | None = None
        #: Runs of each instance so far, by its number, where they are counted.
        self.counts = np.zeros(len(inferred.instances) if counting else 0, np.int64)
        emitter = Emitter(inferred, root, module, target, self.counts.ctypes.data if counting else 0)
        functions = inferred.functions
        self._places = {i.number: (i.name, functions.place(i.name)) for i in inferred.instances}
        self.parameters = [inferred.sets.resolve(t) for t in root.parameters]
        self.result = inferred.sets.resolve(root.result)
        if not _plain(self.result):
            raise NotNative("a function as the result")
        inputs = [leaf for t in self.parameters for leaf in leaves(t)]
        outputs = leaves(self.result)
        function = emitter.emit_all()
        self._failures = emitter.support.failures
        emitter.support.entry(function, inputs, outputs, sizes(self.result), emitter.copied_arguments())
        #: Copies that the program does not ask for, with their places.
        self.copies = emitter.owners.told
        now = time.perf_counter()
        self.seconds = {"emit": now - start}
        self.graphs = Graphs(emitter.t.tensors.runs, lower, target)
        self.constants = emitter.t.tensors.keep
        for run, graph in self.graphs.names.items():
            run.call.replace_callee(emitter.t.tensors.graph(graph))
        self.seconds["graphs"] = time.perf_counter() - now
        start = time.perf_counter()
        self.llvm = str(module)
        loops = emitter.survey.over_elements
        large = LARGE_OF_NUMBERS if loops or not emitter.tensorial else LARGE
        code = emit_object(self.llvm, target, large=large, loops=loops)
        self._linked = Linked([code, *self.graphs.objects()], target)
        self._run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(self._linked.address("fn_run"))
        self.seconds["llvm"] = time.perf_counter() - start
        self._values, self._inputs = Results(self.result), Arguments(self.parameters)
        self._setup = self._words()
        self._place = ctypes.addressof(self._setup)

    def _words(self) -> ctypes.Array[ctypes.c_int64]:
        """What a run is given: where arguments, results and memory are."""
        if not _memory:
            _memory.append(_Memory())
        memory = _memory[0]
        words = (
            self._inputs.address, self._values.address, memory.first, memory.end, memory.top, memory.limit,
            0, self._values.places_address,
        )  # fmt: skip
        return (ctypes.c_int64 * 8)(*words)

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """The value; RecursionLimitError and GlowError where a limit is reached, NotNative for large ints."""
        with _lock, _busy:
            held = self._inputs.fill(arguments)
            self._values.prepare()
            code = self._run(self._place)
            del held
            if self.graphs.failure is not None:
                failure, self.graphs.failure = self.graphs.failure, None
                raise failure
            for faults in self.graphs.faults:
                faults.check()
            result = None if code else self._values.taken()
            _memory[0].release(self._setup[6])
        number, code = code >> SHIFT, code & (1 << SHIFT) - 1
        if code == MEMORY:
            raise GlowError(f"{self.name}: more than {HEAP_LIMIT >> 30} GiB of memory; use fewer steps")
        if code == OVERFLOW:
            raise NotNative("an int of more than 64 bits")
        if code == FAILED:
            raise raised(*self._failures[number])
        if code:
            limit = 5_000_000 if code == STACK else MAX_TAIL_CALLS
            raise RecursionLimitError(*self._places.get(number, (self.name, "")), limit)
        return result

    def direct(self, slow: Callable[..., Any]) -> Callable[..., Any] | None:
        """A builtin function that runs this one for a few numbers and small arrays, else calls `slow`."""
        call = DirectCall(self._inputs, self._values, self.parameters, self.result)
        if self.graphs.hosted or self.graphs.faults or self.counts.size or not call.possible:
            return None
        words = Words(
            self._linked.address("fn_run"), self._place, _busy.address, _memory[0].first + HEAP_KEPT
        )
        self._direct = call
        return call.made(words, slow, self._target)


def _plain(kind: Type) -> bool:
    if isinstance(kind, TupleType):
        return all(map(_plain, kind.items))
    return isinstance(kind, Scalar | TensorType | NoneType | Text)
