"""The interpreter: each instruction is its NumPy reference, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from glow_backends.base import STEP_TIMES, Backend, Port, Program, TimedStep, ports, public_name
from glow_backends.report import Report
from glow_dialects.core.attributes import array_of
from glow_dialects.core.errors import CompileError, missing_values
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import Access, InstrOp
from glow_dialects.core.location import names
from glow_dialects.core.mapped_files import check_whole, mapping_of
from glow_dialects.core.types import Array, bytes_of, dtype_of, shape_of, typed
from glow_dialects.instr.loops import ForOp, YieldOp
from glow_dialects.instr.memory import (
    AllocOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    WeightOp,
    instr_function,
)
from glow_dialects.instr.regions import region_of
from glow_dialects.instr.spaces import MAIN, space_of
from glow_dialects.instr.strides import dense_strides, strides_of
from glow_dialects.ops.module import ConstantOp, lookup, placeholders


class InterpreterBackend(Backend):
    """Runs everything that has an instruction; the reference for all other backends.

    With `planned`, buffers lie where the memory plan puts them, in arenas that are poisoned when a buffer's
    life begins and ends: plans that let buffers overlap, and reads of what nobody wrote, show.

    `late`: asynchronous instructions run when they are waited for, not when they start. Both are right, so
    that results which differ show a program that touches what is under way.
    """

    name = "interpreter"

    def __init__(self, threads: int = 1, planned: bool = False, late: bool = False) -> None:
        super().__init__(threads)
        self.planned = planned
        self.late = late

    def supports(self, op: GraphOp) -> bool:
        return op.INSTR is not None or op.VIEW

    def compile(self, module: ModuleOp, function: str = "main") -> Program:
        return InterpreterProgram(module, instr_function(module, function), self.planned, self.late)

    def compile_timed(self, module: ModuleOp, function: str = "main") -> Program:
        return TimedProgram(module, instr_function(module, function), self.planned, self.late)


class InterpreterProgram(Program):
    """An instruction function walked instruction by instruction."""

    def __init__(
        self, module: ModuleOp, function: InstrFuncOp, planned: bool = False, late: bool = False
    ) -> None:
        self.planned = planned
        self.late = late
        #: Runs each instruction on its buffers; another function may look at these, too.
        self.step: Step = step
        self.inputs: list[Port] = [*ports(module, "input")]
        self.outputs: list[Port] = ports(module, "output", function)
        self.function = function
        self.report = Report(arena_bytes=function.arena.value.data if function.arena else 0)
        self.state: dict[str, Array] = {}
        self.names: dict[str, str] = {}
        declared = {w.target: w.initial() for w in function.weights()}
        for name, op in placeholders(module).items():
            self.names[name] = public_name(op)
            if op.kind.data in ("state", "trainable"):
                initial = array_of(op.init, typed(op.type)) if op.init is not None else declared.get(name)
                zero = np.zeros(shape_of(op.type), dtype_of(op.type))
                self.state[name] = zero if initial is None else np.array(initial)
        self._first = {name: array.copy() for name, array in self.state.items()}

    def new_state(self) -> dict[str, Array]:
        return {name: array.copy() for name, array in self._first.items()}

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return self.walked(inputs, self.step)

    def walked(self, inputs: Mapping[str, Array], step: Step) -> dict[str, Array]:
        """Outputs of a run of which `step` does the instructions."""
        outputs: dict[str, Array] = {}
        weights: dict[SSAValue, Array] = {}
        weights |= {w.result: self._weight(w, inputs, outputs) for w in self.function.weights()}
        memory = Arenas(self.function) if self.planned else Separate()
        _Walk(weights, memory, self.late, step).block(self.function.block)
        return {public: outputs[name] for name, public in self.names.items() if name in outputs}

    def _weight(self, op: WeightOp, inputs: Mapping[str, Array], outputs: dict[str, Array]) -> Array:
        target = lookup(self.function, op.target)
        if isinstance(target, ConstantOp):
            array = target.array()
            if array is None:
                raise missing_values(op.target)
            check_whole(mapping_of(array))
            return array
        assert target is not None
        if target.kind.data == "input":
            return np.array(inputs[public_name(target)])
        if target.kind.data == "output":
            return outputs.setdefault(op.target, np.zeros(shape_of(target.type), dtype_of(target.type)))
        return self.state[op.target]


class TimedProgram(InterpreterProgram):
    """A program that tells when each instruction ran; one that a loop repeats, when it ran last."""

    def __init__(
        self, module: ModuleOp, function: InstrFuncOp, planned: bool = False, late: bool = False
    ) -> None:
        super().__init__(module, function, planned, late)
        memory = WeightOp, AllocOp, ViewOp, DeallocOp
        ops = [op for op in function.walk() if isinstance(op, InstrOp) and not isinstance(op, memory)]
        self._number = {op: i for i, op in enumerate(ops)}
        self.steps = [TimedStep(op.name.removeprefix("glow_instr."), "", names(op.location)) for op in ops]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        times = np.zeros((len(self.steps), 2))

        def timed(op: InstrOp, arrays: Mapping[SSAValue, Array]) -> None:
            begun = time.perf_counter()
            self.step(op, arrays)
            times[self._number[op]] = begun, time.perf_counter()

        return {**self.walked(inputs, timed), STEP_TIMES: times}


Step = Callable[[InstrOp, Mapping[SSAValue, Array]], None]
POISON = 0xFF
"""A byte of which all floats are NaN."""


class Separate:
    """Memory of its own for each buffer."""

    def begin(self, op: AllocOp) -> Array:
        """The array of a buffer whose life begins."""
        return np.empty(shape_of(op.result), dtype_of(op.result.type))

    def end(self, array: Array) -> None:
        """The life of a buffer ends."""


class Arenas(Separate):
    """One arena for each memory of a planned function; CompileError for a buffer beyond its end."""

    def __init__(self, function: InstrFuncOp) -> None:
        sizes = {name: memory.size for name, memory in function.spaces().items()}
        sizes[MAIN] = function.arena.value.data if function.arena else 0
        self.arenas = {name: np.full(size, POISON, np.uint8) for name, size in sizes.items()}

    def begin(self, op: AllocOp) -> Array:
        """The poisoned place of a buffer in its arena."""
        if op.offset is None:
            raise CompileError("the interpreter needs planned memory: run glow-plan-memory first")
        start, size = op.offset.value.data, bytes_of(op.result.type)
        arena = self.arenas[space_of(op.result)]
        if start < 0 or start + size > arena.size:
            where = f"bytes {start} to {start + size}"
            raise CompileError(f"the plan puts a buffer at {where} of an arena of {arena.size}")
        place = arena[start : start + size]
        place[:] = POISON
        return place.view(dtype_of(op.result.type)).reshape(shape_of(op.result))

    def end(self, array: Array) -> None:
        """What lies there is no longer to be read."""
        array.reshape(-1).view(np.uint8)[:] = POISON


class _Walk:
    """One run: the arrays of buffers, the numbers of loops' indices, and what tokens stand for."""

    def __init__(self, buffers: dict[SSAValue, Array], memory: Separate, late: bool, run: Step) -> None:
        self.buffers = buffers
        self.memory = memory
        self.late = late
        self.run = run
        self.indices: dict[SSAValue, int] = {}
        self.pending: dict[SSAValue, Callable[[], None]] = {}

    def block(self, block: Block) -> None:
        """Run the operations of a function or of a turn."""
        buffers = self.buffers
        for op in block.ops:
            match op:
                case WeightOp() | YieldOp():
                    pass
                case AllocOp():
                    buffers[op.result] = self.memory.begin(op)
                case ViewOp():
                    buffers[op.result] = self.view(op)
                case DeallocOp():
                    self.memory.end(buffers.pop(op.buffer))
                case InstrOp():
                    self.instruction(op)
                case ForOp():
                    self.loop(op)
                case _:
                    raise CompileError(f"the interpreter does not know {op.name}")

    def instruction(self, op: InstrOp) -> None:
        """Run an instruction, or start one, once what it waits for has ended."""
        for token in op.operands:
            if (due := self.pending.pop(token, None)) is not None:
                due()
        if op.results and self.late:
            arrays = {v: self.buffers[v] for v in op.operands if v in self.buffers}
            self.pending[op.results[0]] = lambda: self.run(op, arrays)
        else:
            self.run(op, self.buffers)

    def loop(self, op: ForOp) -> None:
        """Run every turn, with the tokens of the one before."""
        tokens: Sequence[SSAValue] = op.tokens
        for number in op.turns:
            self.indices[op.index] = number
            self.hand_on(tokens, op.carried)
            self.block(op.block)
            tokens = op.yielded
        self.hand_on(tokens, op.last)

    def hand_on(self, tokens: Sequence[SSAValue], names: Sequence[SSAValue]) -> None:
        """Give what tokens stand for other names, all at once."""
        due = [self.pending.pop(token, None) for token in tokens]
        self.pending |= {name: do for name, do in zip(names, due, strict=True) if do is not None}

    def view(self, op: ViewOp) -> Array:
        """The array of a view."""
        if not op.terms() and strides_of(op.source.type) is None and strides_of(op.result.type) is None:
            return _view(op, self.buffers[op.source])
        where = region_of(op.result)
        memory = np.ascontiguousarray(self.buffers[where.base]).reshape(-1).view(np.uint8)
        start = where.start + sum(factor * self.indices[index] for index, factor in where.terms.items())
        return part_of(memory, start, op.result)


def part_of(memory: Array, start: int, buffer: SSAValue) -> Array:
    """The elements of a view, strided ones too, in the bytes that it is a part of."""
    kind, shape = dtype_of(buffer.type), shape_of(buffer)
    strides = strides_of(buffer.type) or dense_strides(shape)
    return np.ndarray(shape, kind, memory.data, start, [s * kind.itemsize for s in strides])


def _view(op: ViewOp, source: Array) -> Array:
    shape = shape_of(op.result)
    start = op.offset.value.data
    kind = dtype_of(op.result.type)
    count = bytes_of(op.result.type) // source.itemsize
    part = np.ascontiguousarray(source).reshape(-1)[start : start + count]
    return (part if part.dtype == kind else part.view(kind)).reshape(shape)


def step(op: InstrOp, buffers: Mapping[SSAValue, Array]) -> None:
    """Run one instruction on arrays; results are written where an operand shares their memory too."""
    arrays = [buffers[v] for v in op.operands if v in buffers]  # all but tokens
    outs = [buffers[v] for v in op.written()]
    shared = any(np.shares_memory(o, buffers[v]) for o in outs for v in op.read())
    if shared:
        arrays = [a if writes else a.copy() for a, writes in zip(arrays, _writes(op), strict=True)]
    op.run_reference(arrays)


def _writes(op: InstrOp) -> list[bool]:
    return [access.writes for access, _ in op.accesses() if access is not Access.AFTER]
