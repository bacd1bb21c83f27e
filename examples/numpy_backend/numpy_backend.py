"""A whole backend in one file: a program becomes the source text of one Python function.

It claims a few operators; all others are decomposed into these where their cards say how.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import SSAValue

from glow_backends.base import Backend, Port, Program, Report, ports, public_name
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.types import (
    Array,
    UniformQuantizedType,
    bytes_of,
    dtype_of,
    element_of,
    shape_of,
)
from glow_dialects.instr.memory import (
    AllocOp,
    CopyOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    WeightOp,
    instr_function,
)
from glow_dialects.ops.arithmetic import AddOp, MaxOp, MinOp, MulOp, SubOp
from glow_dialects.ops.module import constants, placeholders
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.unary_math import AbsOp, NegOp, SqrtOp

#: NumPy's name of each operator: `np.NAME(operands..., out=result)`.
UFUNCS: dict[type[GraphOp], str] = {
    AddOp: "add",
    SubOp: "subtract",
    MulOp: "multiply",
    MaxOp: "maximum",
    MinOp: "minimum",
    NegOp: "negative",
    AbsOp: "absolute",
    SqrtOp: "sqrt",
}


class NumpyBackend(Backend):
    """Runs programs of element-wise arithmetic as generated Python."""

    name = "numpy"

    def supports(self, op: GraphOp) -> bool:
        kinds = {element_of(v) for v in (*op.operands, *op.results)}
        plain = len(kinds) == 1 and kinds.isdisjoint([i1])  # NumPy has no -True
        quantized = any(isinstance(k, UniformQuantizedType) for k in kinds)
        return op.VIEW or (type(op) in (*UFUNCS, ReluOp) and plain and not quantized)

    def compile(self, module: ModuleOp, function: str = "main") -> Program:
        return NumpyProgram(module, instr_function(module, function))


class NumpyProgram(Program):
    """One generated function; `source` is its text."""

    def __init__(self, module: ModuleOp, function: InstrFuncOp) -> None:
        self.inputs = ports(module, "input")
        self.outputs: list[Port] = ports(module, "output")
        self.source = source_of(function)
        size = function.arena.value.data if function.arena else 0
        self.arena = np.zeros(size, np.uint8)
        self.constants = {name: op.array() for name, op in constants(module).items()}
        self.publics = {name: public_name(op) for name, op in placeholders(module).items()}
        self.report = Report(arena_bytes=size)
        namespace: dict[str, Any] = {"np": np}
        exec(self.source, namespace)
        self.run_source: Callable[[dict[str, Any], Array], None] = namespace["program"]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        outputs = {p.name: np.empty(p.shape, p.dtype) for p in self.outputs}
        arrays = {**inputs, **outputs}
        bound = {name: arrays[public] for name, public in self.publics.items()}
        with np.errstate(all="ignore"):
            self.run_source({**self.constants, **bound}, self.arena)
        return outputs


def source_of(function: InstrFuncOp) -> str:
    """`def program(weights, arena):` and one line an instruction."""
    names: dict[SSAValue, str] = {}
    lines = ["def program(weights, arena):"]
    for op in function.block.ops:
        if not isinstance(op, DeallocOp):
            for result in op.results:
                names[result] = f"v{len(names)}"
            lines.append(f"    {line_of(op, names)}")
    return "\n".join([*lines, "    return"])


def line_of(op: Any, names: Mapping[SSAValue, str]) -> str:
    """The Python statement of one instruction."""
    match op:
        case WeightOp():
            return f"{names[op.result]} = weights[{op.target!r}]"
        case AllocOp():
            start = op.offset.value.data
            part = f"arena[{start}:{start + bytes_of(op.result.type)}]"
            dtype = dtype_of(op.result.type).name
            return f"{names[op.result]} = {part}.view('{dtype}').reshape({shape_of(op.result)})"
        case ViewOp():
            start = op.offset.value.data * dtype_of(op.source.type).itemsize
            part = f"[{start}:{start + bytes_of(op.result.type)}]"
            flat = f"{names[op.source]}.reshape(-1).view('uint8'){part}"
            dtype = dtype_of(op.result.type).name
            return f"{names[op.result]} = {flat}.view('{dtype}').reshape({shape_of(op.result)})"
        case CopyOp():
            return f"np.copyto({names[op.dest]}, {names[op.src]})"
        case InstrOp() if op.GRAPH_OP is ReluOp:
            out, value = (names[v] for v in op.operands)
            return f"np.maximum({value}, 0, out={out})"
        case InstrOp() if op.GRAPH_OP in UFUNCS:
            out, *values = (names[v] for v in op.operands)
            return f"np.{UFUNCS[op.GRAPH_OP]}({', '.join(values)}, out={out})"
        case _:
            raise UnsupportedError(f"the numpy backend does not know {op.name}")


__all__ = ["NumpyBackend", "NumpyProgram", "source_of"]
