"""A program as text: its kernels and its function, as LLVM IR or assembly."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from glow_backends.cpu.build import program_text
from glow_backends.cpu.jit import optimized
from glow_backends.cpu.select import select
from glow_backends.cpu.target import CpuTarget
from glow_backends.cpu.to_llvm import convert
from glow_dialects.core.errors import CompileError
from glow_dialects.instr.memory import instr_functions


def listing(module: ModuleOp, target: CpuTarget, assembly: bool) -> str:
    """Each kernel of the module's planned instruction functions once, then the program functions.

    LLVM IR as it is emitted, before LLVM's optimiser; assembly behind it. Raises CompileError where
    the module has no instruction function with a memory plan.
    """
    functions = tuple(instr_functions(module))
    if not functions:
        raise CompileError("the module has no instruction function; add `-p cpu` or `-p lower,instr`")
    parts: list[str] = []
    seen: set[str] = set()
    for function in functions:
        if function.arena is None:
            raise CompileError(f"@{function.sym_name.data} has no memory plan; add `-p glow-plan-memory`")
        selection = select(function, target)
        for name, code in selection.kernels.items():
            if name not in seen:
                seen.add(name)
                parts.append(_text(code.text, target, assembly))
        program = convert(module, function, selection, target)
        parts.append(_text(program_text(program.module, target), target, assembly))
    return "\n".join(parts)


def _text(code: str, target: CpuTarget, assembly: bool) -> str:
    if not assembly:
        return code
    parsed, machine = optimized(code, target)
    return machine.emit_assembly(parsed)
