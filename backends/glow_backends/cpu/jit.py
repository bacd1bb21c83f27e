"""From LLVM IR to code in this process: optimise, emit an object, link it."""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.binding as llvm
from llvmlite import ir

from glow_backends.cpu.target import CpuTarget, initialize_llvm


def new_module(name: str, target: CpuTarget) -> ir.Module:
    """An empty module for the target."""
    module = ir.Module(name, context=ir.Context())
    module.triple = target.triple
    return module


def optimized(module: ir.Module | str, target: CpuTarget) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    """Parse, verify and run LLVM's O3 pipeline."""
    initialize_llvm()
    machine = target.machine()
    parsed = llvm.parse_assembly(str(module))
    parsed.data_layout = str(machine.target_data)
    parsed.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    return parsed, machine


def emit_object(module: ir.Module | str, target: CpuTarget) -> bytes:
    """The optimised object file of a module."""
    parsed, machine = optimized(module, target)
    return machine.emit_object(parsed)


class Linked:
    """Objects linked into this process; keeps their memory alive."""

    def __init__(self, objects: Sequence[bytes], target: CpuTarget) -> None:
        initialize_llvm()
        machine = target.machine()
        backing = llvm.parse_assembly("")
        self._engine = llvm.create_mcjit_compiler(backing, machine)
        for data in objects:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Address of an exported function."""
        found = self._engine.get_function_address(name)
        assert found, f"{name} was not linked"
        return found
