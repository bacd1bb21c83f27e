"""The graphs that native functions call: compiled like networks, with memory of their own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue

from glow_backends.cpu.build import objects_of
from glow_backends.cpu.calls import KernelCode
from glow_backends.cpu.faults import FAULT_SLOT, Faults
from glow_backends.cpu.functions.tensors import COMPARED, Node, Run
from glow_backends.cpu.host import HostSteps
from glow_backends.cpu.memory import ALIGN, address, aligned_array
from glow_backends.cpu.select import select
from glow_backends.cpu.support import MAIN, state_bytes
from glow_backends.cpu.target import CpuTarget
from glow_backends.cpu.to_llvm import convert
from glow_backends.cpu.weights import shared_slot
from glow_backends.report import Report
from glow_dialects.core.types import Array, bytes_of, dtype_of, shape_of
from glow_dialects.instr.memory import instr_function
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, PlaceholderOp, SaveOp

Lower = Callable[[ModuleOp], object]
"""Takes a graph module to planned instructions for this CPU."""
Compiled = tuple[str, Array, "HostSteps | None", Faults]
"""Name, weights, steps on the host and table of faults of a graph."""
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class Graphs:
    """Compiles the graphs of some runs, each that differs once, and gives the runs their memory."""

    def __init__(self, runs: Sequence[Run], lower: Lower, target: CpuTarget) -> None:
        self.report = Report()
        self.keep: list[Any] = []
        self.failure: BaseException | None = None
        self.names: dict[Run, str] = {}
        self._program = ModuleOp([])
        self.kernels: dict[str, KernelCode] = {}
        self.faults: list[Faults] = []
        self._target = target
        self._sizes = [0]
        compiled: dict[tuple[Any, ...], Compiled] = {}
        faults: dict[Run, Faults] = {}
        for run in runs:
            key = key_of(run)
            if key not in compiled:
                compiled[key] = self._compile(f"fn_graph_{len(compiled)}", graph_of(run), lower)
            self.names[run], run.weights, run.host, faults[run] = compiled[key]
        self._arena = aligned_array((max(self._sizes),), np.dtype(np.uint8))
        self._barrier = aligned_array((state_bytes(1),), np.dtype(np.uint8))
        self._barrier[...] = 0
        self.report.arena_bytes = max(self._sizes)
        hosted = [h for _, _, h, _ in compiled.values() if h is not None]
        self.report.notes.update({"graphs": len(compiled), "host instructions": len(hosted)})
        for run in runs:
            self._prepare(run, faults[run])

    def objects(self) -> list[bytes]:
        """Machine code of the graphs and their kernels."""
        return (
            objects_of(self._program, self.kernels.values(), self._target, self.report) if self.names else []
        )

    def _compile(self, name: str, module: ModuleOp, lower: Lower) -> Compiled:
        lower(module)
        function = instr_function(module, "main")
        selection = select(function, self._target)
        code = convert(module, function, selection, self._target)
        body = self._program.body.block
        declared = {op.sym_name.data for op in body.ops if isinstance(op, llvm.FuncOp)}
        for op in tuple(code.module.body.block.ops):
            assert isinstance(op, llvm.FuncOp)
            if op.sym_name.data not in declared:
                op.detach()
                if op.sym_name.data == MAIN:
                    op.properties["sym_name"] = StringAttr(name)
                body.add_op(op)
        self.kernels |= selection.kernels
        self._sizes.append(selection.arena_bytes + selection.scratch_bytes)
        weights = code.weights.build()
        self.report.weight_bytes += weights.nbytes
        steps = [s.op for s in selection.host_steps]
        self.keep += [weights, module]
        faults = Faults(code.faults)
        if code.faults:
            self.faults.append(faults)
        return name, weights, HostSteps(function, steps) if steps else None, faults

    def _prepare(self, run: Run, faults: Faults) -> None:
        """The table of pointers of a run, memory for its numbers, and the addresses in its code."""
        inputs, outputs = len(run.inputs), len(run.outputs)
        count = inputs + outputs
        table = (ctypes.c_void_p * shared_slot(count, 0))()
        numbers = aligned_array((max(count, 1) * ALIGN,), np.dtype(np.uint8))
        for index, node in enumerate([*run.inputs, *run.outputs]):
            if node.scalar is not None:
                table[index] = address(numbers) + index * ALIGN
        callback = _CALLBACK(lambda number, run=run: self._host(run, number))
        table[count] = ctypes.cast(callback, ctypes.c_void_p)
        table[count + 1] = address(self._barrier)
        table[count + FAULT_SLOT] = faults.address
        run.io = table
        self.keep += [table, numbers, callback, faults]
        io = ctypes.addressof(table)
        places = {
            "io": lambda i: io,
            "weights": lambda i: address(run.weights),
            "arena": lambda i: address(self._arena),
            "slot": lambda i: io + 8 * i,
            "out": lambda i: io + 8 * (inputs + i),
            "scalar": lambda i: address(numbers) + i * ALIGN,
            "out scalar": lambda i: address(numbers) + (inputs + i) * ALIGN,
        }
        for constant, what, index in run.patches:
            constant.constant = places[what](index)

    def _host(self, run: Run, number: int) -> None:
        """Called from native code: run an instruction that has no kernel."""
        if self.failure is not None:
            return
        try:
            bound: dict[str, Array] = {}
            inputs = len(run.inputs)
            for index, node in enumerate([*run.inputs, *run.outputs]):
                name = f"in{index}" if index < inputs else f"out{index - inputs}"
                memory: Any = (ctypes.c_uint8 * bytes_of(node.type)).from_address(run.io[index] or 0)
                held = np.frombuffer(memory, np.uint8).view(dtype_of(node.type))
                bound[name] = held.reshape(shape_of(node.type))
            assert run.host is not None
            run.host(number, bound, self._arena)
        except BaseException as error:  # raised again after the run: native frames cannot pass it on
            self.failure = error


def key_of(run: Run) -> tuple[Any, ...]:
    """The key of the graph that a run calls."""
    number = {node: index for index, node in enumerate(run.inputs)}
    key: list[Any] = [node.type for node in run.inputs]
    for node in run.nodes:
        for operand in node.operands:
            if operand not in number:
                assert operand.const is not None
                number[operand] = len(number)
                whole = operand.const.nbytes <= COMPARED
                key.append((operand.type, operand.const.tobytes() if whole else id(operand)))
        key.append((id(node.template), *[number[n] for n in node.operands]))
        number[node] = len(number)
    key.append(tuple(number[n] for n in run.outputs))
    return tuple(key)


def graph_of(run: Run) -> ModuleOp:
    """The graph that a run calls."""
    module = ModuleOp([])
    function = FuncOp.of("main")
    block = function.body.block
    known: dict[Node, SSAValue] = {}
    for index, node in enumerate(run.inputs):
        place = PlaceholderOp.of(f"in{index}", node.type)
        module.body.block.add_op(place)
        got = GetOp.of(place)
        block.add_op(got)
        known[node] = got.result
    for index, node in enumerate(run.outputs):
        module.body.block.add_op(PlaceholderOp.of(f"out{index}", node.type, "output"))
    places = [op for op in module.body.block.ops if isinstance(op, PlaceholderOp)]
    for node in run.nodes:
        assert node.template is not None
        for operand in node.operands:
            if operand in known:
                continue
            assert operand.const is not None
            constant = ConstantOp.of(f"c{len(known)}", operand.const)
            module.body.block.add_op(constant)
            got = GetOp.of(constant)
            block.add_op(got)
            known[operand] = got.result
        mapping: dict[SSAValue, SSAValue] = {}
        for argument, operand in zip(node.template.block.args, node.operands, strict=True):
            mapping[argument] = known[operand]
        for op in node.template.block.ops:
            block.add_op(op.clone(mapping))
        known[node] = mapping.get(node.template.result, node.template.result)
    for node, place in zip(run.outputs, places[len(run.inputs) :], strict=True):
        block.add_op(SaveOp.of(known[node], place))
    module.body.block.add_op(function)
    return module
