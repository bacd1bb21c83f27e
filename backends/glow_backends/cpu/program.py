"""A program that runs: a bundle linked into this process, its memory, and how it is called."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from ctypes import addressof
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from glow_backends.base import Bound, Port, Program, cores
from glow_backends.cpu.bundle import Bundle, slots_of
from glow_backends.cpu.faults import FAULT_SLOT, Faults
from glow_backends.cpu.jit import Linked
from glow_backends.cpu.memory import (
    ALIGN,
    NO_BYTE,
    Recycled,
    address,
    aligned_array,
    byte_of,
    work_memory,
    zeros,
)
from glow_backends.cpu.support import ENTER, MAIN, state_bytes
from glow_backends.cpu.target import CpuTarget
from glow_backends.cpu.weights import shared_slot
from glow_backends.cpu.workers import Workers
from glow_dialects.core.errors import BindingError, UnsupportedError
from glow_dialects.core.forks import ForkLock
from glow_dialects.core.mapped_files import check_whole, mapping_of
from glow_dialects.core.object_pool import Pool

if TYPE_CHECKING:
    from glow_backends.cpu.open_sizes import Sized
    from glow_backends.cpu.select import Selection
    from glow_dialects.core.types import Array

STATES = ("state", "trainable")
"""The kinds of placeholders that keep their values from run to run."""

HostStepRunner = Callable[[int, Mapping[str, np.ndarray], np.ndarray], None]
"""(number of the step, arrays by placeholder, arena): runs an instruction outside native code."""


WORD = 4
"""Bytes to which inputs are aligned, at least: kernels read small integers by words."""


Entry = tuple[Callable[[Any], None], Any, object]
"""A function, the argument with which it runs a program, and what must live as long."""


def check_places(state: Mapping[str, Array]) -> None:
    """BindingError where the code could not work on an array in place."""
    for name, array in state.items():
        if address(array) % ALIGN or not array.flags.c_contiguous:
            raise BindingError(f"state '{name}' is not aligned; take arrays of new_state")


def _beside_whole_files(enter: Callable[[Any], None], bundle: Bundle) -> Callable[[Any], None]:
    """What runs a program, if files that its constants are mapped from are as long as they were."""
    mappings = [m for b in (bundle.weights, *bundle.shared) if (m := mapping_of(b)) is not None]
    if not mappings:
        return enter

    def run(argument: Any) -> None:
        for mapping in mappings:
            check_whole(mapping)
        enter(argument)

    return run


def _refused(lacking: Sequence[str]) -> None:
    """Stands for a program that this machine cannot run; it can be saved for one that can."""
    raise UnsupportedError(
        f"the program is for processors with {', '.join(lacking)}, which this one does not have"
    )


class RunMemory:
    """The memory of one run in flight: arena with scratch behind it, pointers, faults, workers."""

    def __init__(self, program: CpuProgram) -> None:
        self._program = ref(program)  # which owns it
        self.bundle, self._linked, self._enter = program.bundle, program.linked, program.enter
        self._lacks = program.lacks
        bundle, count = self.bundle, len(self.bundle.slots)
        self._room = bundle.arena_bytes + bundle.scratch_bytes
        self._arena = work_memory(self._room)
        self._barrier = work_memory(state_bytes(bundle.threads))
        several = bundle.threads > 1
        self._workers = Workers(self._linked, bundle.threads, self._barrier) if several else None
        self.pointers = (ctypes.c_void_p * shared_slot(count, len(bundle.shared)))()
        self._callback = ctypes.CFUNCTYPE(None, ctypes.c_int64)(self._host)
        self.pointers[count] = ctypes.cast(self._callback, ctypes.c_void_p)
        self.pointers[count + 1] = address(self._barrier)
        self._faults = Faults(bundle.faults)
        self._may_fail = program.host_step is not None or bool(bundle.faults)
        self.pointers[count + FAULT_SLOT] = self._faults.address
        for number, block in enumerate(bundle.shared):
            self.pointers[shared_slot(count, number)] = address(block)
        self._failure: BaseException | None = None
        self.state: Mapping[str, Array] | None = None
        self._bound: dict[str, Array] = {}  # what a run's instructions on the host read and write
        slots = enumerate(slots_of(bundle, ["output"]))
        self._outputs = [(n, i, s.symbol, s.name, Recycled(s.port.dtype)) for n, (i, s) in slots]
        self._staging: dict[str, Array] = {}
        self._run_bound = self.entry(addressof(self.pointers))

    def point_to(self, state: Mapping[str, Array]) -> None:
        """Let the code find its states in these arrays."""
        if self.state is not state:
            self.state = state
            for index, slot in slots_of(self.bundle, STATES):
                self.pointers[index] = address(state[slot.symbol])

    def use_sizes(self, slot: int, sized: Sized) -> None:
        """Work on tensors of some sizes: with their table of numbers, and memory enough for them."""
        self.pointers[slot] = address(sized.table)
        if sized.bytes > self._room:
            self._room, self._arena = sized.bytes, work_memory(sized.bytes)
            self._run_bound = self.entry(addressof(self.pointers))

    def run(
        self, program: CpuProgram, inputs: Mapping[str, Array], shapes: Sequence[tuple[int, ...]]
    ) -> dict[str, Array]:
        """Outputs, of these shapes, by name."""
        io, bound, hosted = self.pointers, self._bound, program.host_step is not None
        for index, symbol, name, alignment in program.input_slots:
            array = inputs[name]
            try:
                where = addressof(byte_of(array))
            except NO_BYTE:
                where = address(array) if array.flags.c_contiguous else None
            if where is None or where % alignment:
                array = self._staged(symbol, array)
                where = address(array)
            if hosted:
                bound[symbol] = array
            io[index] = where
        results: dict[str, Array] = {}
        for number, index, symbol, name, memory in self._outputs:
            array, io[index] = memory.array(shapes[number])
            results[name] = array
            if hosted:
                bound[symbol] = array
        enter, frame, _ = self._run_bound
        enter(frame)
        if self._may_fail:
            bound.clear()
            self.check()
        return results

    def check(self) -> None:
        """Raise the error of an instruction on the host, or of an index that was out of range."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        self._faults.check()

    def entry(self, io: int) -> Entry:
        """How the program is run on a table of pointers."""
        weights, arena = address(self.bundle.weights), address(self._arena)
        if self._lacks:
            return _refused, self._lacks, None
        main, threads = self._linked.address(MAIN), self.bundle.threads
        numbers = [(ctypes.c_int64 * 5)(main, io, weights, arena, worker) for worker in range(threads)]
        first = ctypes.c_void_p(addressof(numbers[0]))  # the declared type itself: it converts fastest
        if self._workers is None:
            return _beside_whole_files(self._enter, self.bundle), first, numbers
        shared = (ctypes.c_void_p * threads)(*map(addressof, numbers))
        start, enter = self._workers.start, self._enter

        def run(first: ctypes.c_void_p) -> None:
            start(shared)
            enter(first)

        return _beside_whole_files(run, self.bundle), first, numbers

    def _staged(self, symbol: str, array: Array) -> Array:
        """An aligned copy of an input, in memory kept for it."""
        staging = self._staging.get(symbol)
        if staging is None or staging.shape != array.shape:
            staging = self._staging[symbol] = aligned_array(array.shape, array.dtype)
        np.copyto(staging, array)
        return staging

    def _host(self, number: int) -> None:
        """Called from native code: run an instruction that has no kernel."""
        if self._failure is not None:
            return
        try:
            program = self._program()
            assert program is not None and program.host_step is not None
            program.host_step(number, {**(self.state or {}), **self._bound}, self._arena)
        except BaseException as error:  # raised again by `check`: native frames cannot pass it on
            self._failure = error


class CpuProgram(Program):
    """An instruction function as machine code.

    Memory: one block of weights; for each run in flight a table of pointers (`io`), an arena and scratch.
    `run` may be called from several threads at once: as many run as there are cores for them, others wait.
    Runs on the program's own states follow each other.
    """

    def __init__(self, bundle: Bundle, target: CpuTarget, host: HostStepRunner | None = None) -> None:
        self.inputs: list[Port] = [s.port for _, s in slots_of(bundle, ["input"])]
        self.outputs: list[Port] = [s.port for _, s in slots_of(bundle, ["output"])]
        self.bundle = bundle
        self.target = target
        self.report = bundle.report
        self.selection: Selection | None = None
        self.lacks = target.lacks
        start = time.perf_counter()
        self.linked = Linked(bundle.objects, target)
        self.enter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.linked.address(ENTER))
        self.report.stages["link"] = time.perf_counter() - start
        self.host_step = host
        self.own = ForkLock()
        self.state = self.new_state()
        slots = slots_of(bundle, ["input"])
        self.input_slots = [(i, s.symbol, s.name, max(WORD, s.port.dtype.itemsize)) for i, s in slots]
        self._shapes = [p.shape for p in self.outputs]
        this = ref(self)

        def memory_of_run() -> RunMemory:
            program = this()
            assert program is not None
            return RunMemory(program)

        self.memories = Pool(memory_of_run, max(1, cores() // bundle.threads))
        self.memories.give(self.memories.take())  # who compiles a program runs it

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        if not self.state:
            return self.run_on(inputs, self.state)
        with self.own:
            return self.run_on(inputs, self.state)

    def run_with(self, inputs: Mapping[str, Array], state: Mapping[str, Array]) -> dict[str, Array]:
        self.check_state(state)
        return self.run_on(inputs, state)

    def run_on(self, inputs: Mapping[str, Array], state: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs of a run on states, which are checked and no other run's."""
        memory = self.memories.take()
        try:
            if memory.state is not state:
                memory.point_to(state)
            return memory.run(self, inputs, self._shapes)
        finally:
            self.give_memory(memory)

    def give_memory(self, memory: RunMemory) -> None:
        """Give the memory of a run back, which lets go of a caller's states."""
        if memory.state is not self.state:
            memory.state = None
        self.memories.give(memory)

    def new_state(self) -> dict[str, Array]:
        made: dict[str, Array] = {}
        for symbol, first in self.bundle.states.items():
            made[symbol] = zeros(first.shape, first.dtype)
            if first.any():  # pages of zeros are not touched
                made[symbol][...] = first
        return made

    def use_state(self, state: Mapping[str, Array]) -> None:
        with self.own:
            super().use_state(state)

    def check_state(self, state: Mapping[str, Array]) -> None:
        super().check_state(state)
        check_places({name: state[name] for name in self.state})

    def bind(self, inputs: Mapping[str, Array]) -> Bound:
        if self.host_step is not None:
            return super().bind(inputs)
        return CpuBound(self, inputs)


class CpuBound(Bound):
    """A program with a table of pointers of its own: a call is one call of native code."""

    def __init__(self, program: CpuProgram, inputs: Mapping[str, Array]) -> None:
        self.program = program
        self._memories = program.memories
        self._entries: dict[RunMemory, tuple[Entry, object]] = {}
        self.inputs: dict[str, Array] = {}
        self.outputs: dict[str, Array] = {}
        self._addresses: list[tuple[int, int]] = []
        for kind, arrays in (("input", self.inputs), ("output", self.outputs)):
            for index, slot in slots_of(program.bundle, [kind]):
                memory = arrays[slot.name] = aligned_array(slot.shape, slot.port.dtype)
                memory[...] = inputs[slot.name] if kind == "input" else 0
                self._addresses.append((index, address(memory)))
        self._lock = program.own if program.state else ForkLock()

    def __call__(self) -> dict[str, Array]:
        with self._lock:
            memory = self._memories.take()
            try:
                (enter, frame, _), _ = self._entries.get(memory) or self._entry(memory)
                enter(frame)
                memory.check()
            finally:
                self._memories.give(memory)
        return self.outputs

    def _entry(self, memory: RunMemory) -> tuple[Entry, object]:
        """How the arrays' program is run in some memory, with the table of pointers for it."""
        memory.point_to(self.program.state)
        io = type(memory.pointers).from_buffer_copy(memory.pointers)
        for index, where in self._addresses:
            io[index] = where
        entry = self._entries[memory] = memory.entry(addressof(io)), io
        return entry
