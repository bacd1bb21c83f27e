"""A program as text: its kernels and its functions, as one module of LLVM IR or one file of assembly."""

from __future__ import annotations

import llvmlite.binding as llvm
from xdsl.dialects.builtin import ModuleOp

from glow_backends.cpu.build import program_text
from glow_backends.cpu.jit import optimized
from glow_backends.cpu.select import select
from glow_backends.cpu.support import MAIN
from glow_backends.cpu.target import CpuTarget, initialize_llvm
from glow_backends.cpu.to_llvm import convert
from glow_backends.nests.dialect import KernelOp
from glow_dialects.core.errors import CompileError
from glow_dialects.core.times import Times
from glow_dialects.instr.memory import instr_functions


def listing(module: ModuleOp, target: CpuTarget, assembly: bool, times: Times | None = None) -> str:
    """Each kernel of the module's planned instruction functions once, then the program functions.

    One function is `glow_main`; of several, each has its name behind that. LLVM IR as it is emitted, before
    LLVM's optimiser; assembly behind it. Raises CompileError where the module has no instruction function
    with a memory plan. `times` get the seconds that LLVM takes.
    """
    times = times or Times()
    functions = tuple(instr_functions(module))
    if not functions:
        raise CompileError("the module has no instruction function; add `-p cpu` or `-p lower,instr`")
    initialize_llvm()
    machine = target.machine()
    whole = llvm.parse_assembly(f'target triple = "{target.triple}"')
    whole.data_layout = str(machine.target_data)
    seen: set[str] = set()
    for function in functions:
        name = function.sym_name.data
        if function.arena is None:
            raise CompileError(f"@{name} has no memory plan; add `-p glow-plan-memory`")
        selection = select(function, target)
        for kernel, code in selection.kernels.items():
            if kernel not in seen:
                seen.add(kernel)
                with times.part("LLVM"):
                    whole.link_in(_part(code.text, target, assembly, kernel=True))
        program = program_text(convert(module, function, selection, target).module, target)
        with times.part("LLVM"):
            part = _part(program, target, assembly)
            if len(functions) > 1:
                part.get_function(MAIN).name = f"{MAIN}_{name}"
            whole.link_in(part)
    with times.part("LLVM"):
        return machine.emit_assembly(whole) if assembly else str(whole)


def kernels_listing(module: ModuleOp, target: CpuTarget) -> str:
    """Each kernel of the module that is described as a nest, once, under the name that its code has."""
    functions = tuple(instr_functions(module))
    if not functions:
        raise CompileError("the module has no instruction function; add `-p cpu` or `-p lower,instr`")
    initialize_llvm()
    found: dict[str, KernelOp] = {}
    for function in functions:
        selection = select(function, target)
        for call in selection.calls:
            if call.describe is not None:
                name = selection.codes.of(call).name
                found.setdefault(name, call.describe(call.spec, target, name))
    return str(ModuleOp(list(found.values()))) + "\n"


def _part(text: str, target: CpuTarget, optimize: bool, kernel: bool = False) -> llvm.ModuleRef:
    """A module to link into the whole."""
    if optimize:
        return optimized(text, target, kernel)[0]
    parsed = llvm.parse_assembly(text)
    parsed.data_layout = str(target.machine().target_data)
    return parsed
