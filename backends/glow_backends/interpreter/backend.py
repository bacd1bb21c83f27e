"""The interpreter: each instruction is its NumPy reference, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_backends.base import Backend, Port, Program, Report, ports, public_name
from glow_dialects.core.attributes import array_of
from glow_dialects.core.errors import CompileError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.types import Array, bytes_of, dtype_of, shape_of, typed
from glow_dialects.instr.memory import (
    AllocOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    WeightOp,
    instr_function,
)
from glow_dialects.ops.module import ConstantOp, lookup, placeholders


class InterpreterBackend(Backend):
    """Runs everything that has an instruction; the reference for all other backends."""

    name = "interpreter"

    def supports(self, op: GraphOp) -> bool:
        return op.INSTR is not None or op.VIEW

    def compile(self, module: ModuleOp, function: str = "main") -> Program:
        return InterpreterProgram(module, instr_function(module, function))


class InterpreterProgram(Program):
    """An instruction function walked instruction by instruction."""

    def __init__(self, module: ModuleOp, function: InstrFuncOp) -> None:
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

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        buffers: dict[SSAValue, Array] = {}
        outputs: dict[str, Array] = {}
        for op in self.function.block.ops:
            match op:
                case WeightOp():
                    buffers[op.result] = self._weight(op, inputs, outputs)
                case AllocOp():
                    buffers[op.result] = np.empty(shape_of(op.result), dtype_of(op.result.type))
                case ViewOp():
                    buffers[op.result] = _view(op, buffers[op.source])
                case DeallocOp():
                    buffers.pop(op.buffer, None)
                case InstrOp():
                    step(op, buffers)
                case _:
                    raise CompileError(f"the interpreter does not know {op.name}")
        return {public: outputs[name] for name, public in self.names.items() if name in outputs}

    def _weight(self, op: WeightOp, inputs: Mapping[str, Array], outputs: dict[str, Array]) -> Array:
        target = lookup(self.function, op.target)
        if isinstance(target, ConstantOp):
            array = target.array()
            if array is None:
                raise CompileError(f"constant @{op.target} has no values: its weights file is missing")
            return array
        assert target is not None
        if target.kind.data == "input":
            return np.array(inputs[public_name(target)])
        if target.kind.data == "output":
            return outputs.setdefault(op.target, np.zeros(shape_of(target.type), dtype_of(target.type)))
        return self.state[op.target]


def _view(op: ViewOp, source: Array) -> Array:
    shape = shape_of(op.result)
    start = op.offset.value.data
    kind = dtype_of(op.result.type)
    count = bytes_of(op.result.type) // source.itemsize
    part = np.ascontiguousarray(source).reshape(-1)[start : start + count]
    return (part if part.dtype == kind else part.view(kind)).reshape(shape)


def step(op: InstrOp, buffers: Mapping[SSAValue, Array]) -> None:
    """Run one instruction on arrays; results are written where an operand shares their memory too."""
    arrays = [buffers[v] for v in op.operands]
    outs = [buffers[v] for v in op.written()]
    shared = any(np.shares_memory(o, buffers[v]) for o in outs for v in op.read())
    if shared:
        arrays = [a.copy() if not _is_out(op, i) else a for i, a in enumerate(arrays)]
    op.run_reference(arrays)


def _is_out(op: Operation, index: int) -> bool:
    assert isinstance(op, InstrOp)
    return op.accesses()[index][0].writes
