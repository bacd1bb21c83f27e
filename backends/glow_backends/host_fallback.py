"""HostFallback: a device for supported nodes, compiled kernels of another backend for the rest."""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from glow_backends.base import Backend, Program, get_backend
from glow_backends.legalize import runs
from glow_backends.parts import Part, PartsProgram, check_states, compiled_part, ports_of
from glow_dialects.core.errors import CompileError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.module import FuncOp, functions
from glow_passes.partition.nodes import node_graph
from glow_passes.partition.split import extract, partition_of, split
from glow_passes.partition.support import by_support


class HostFallback(Backend):
    """Two backends as one: a device, and a host for what the device does not support.

    A node runs on the device if the device supports it, otherwise on the host. If neither supports it, it is
    decomposed. Consecutive nodes of one backend become one program, and values are copied between programs.
    The name of such a backend is `npu+cpu`.

    Args:
        device: The backend of the device.
        host: The backend of the host.
        threads: Threads of the host's programs.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> g.save(g.relu(g.placeholder("x", (2,))), "y")
        >>> net = glow.compile(g, backend=glow.HostFallback("interpreter", host="cpu"))
    """

    def __init__(self, device: Backend | str, host: Backend | str = "cpu", threads: int = 1) -> None:
        super().__init__(threads)
        self.device = get_backend(device) if isinstance(device, str) else device
        self.host = get_backend(host, threads=threads) if isinstance(host, str) else host
        self.name = f"{self.device.name}+{self.host.name}"

    def in_float(self, exact: bool = True) -> Self:
        made = super().in_float(exact)
        made.device, made.host = self.device.in_float(exact), self.host.in_float(exact)
        return made

    def supports(self, op: GraphOp) -> bool:
        return runs(self.device, op) or runs(self.host, op)

    def on_device(self, function: FuncOp) -> set[Operation]:
        """The nodes that run on the device; another shape of a value is where the value is."""
        found: set[Operation] = set()
        for op in function.walk():
            if not isinstance(op, GraphOp):
                continue
            if op.operands[0].owner in found if op.VIEW else runs(self.device, op):
                found.add(op)
        return found

    def compile_graph(self, module: ModuleOp, function: str = "main") -> Program:
        every = list(functions(module))
        if [f.sym_name.data for f in every] != [function]:
            raise CompileError(f"backend {self.name} compiles modules of one function, @{function}")
        inputs, outputs = ports_of(module, every[0])
        there = self.on_device(every[0])
        plan = by_support(node_graph(every[0]), (lambda op: op in there, lambda op: op not in there))
        backends = dict(plan)
        made = split(every[0], [part for part, _ in plan])
        check_states(made, f"backend {self.name}")
        where = [backends[partition_of(f) or 0] for f in made]
        parts = [self.part(f, (self.device, self.host)[at]) for f, at in zip(made, where, strict=True)]
        return PartsProgram(parts, inputs, outputs)

    def part(self, function: FuncOp, backend: Backend) -> Part:
        """The program of some nodes."""
        return Part(backend.name, compiled_part(extract(function), backend))
