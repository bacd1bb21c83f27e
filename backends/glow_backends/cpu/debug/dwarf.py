"""Debug information as LLVM's metadata: lines of the printed program, a function inlined for each node.

The function of a step is called after its nodes, so that `bt` shows them; its one line is where debuggers
stop: only the call has it, not what prepares its operands, which LLVM moves about.
"""

from __future__ import annotations

from pathlib import Path

from llvmlite import ir

from glow_backends.cpu.debug.source import Source
from glow_backends.cpu.debug.variables import Variables
from glow_backends.cpu.support import BARRIER, MAIN

_WARNING = 2
"""What LLVM does where modules differ in one of these."""
_VERSIONS = {"Dwarf Version": 4, "Debug Info Version": 3}


class Metadata:
    """The debug information of one module: its file, its compile unit, and functions."""

    def __init__(self, module: ir.Module, file: Path) -> None:
        self.module = module
        self.file = self.add("DIFile", filename=file.name, directory=str(file.parent))
        self.unit = self.add(
            "DICompileUnit",
            distinct=True,
            language=ir.DIToken("DW_LANG_C99"),
            file=self.file,
            producer="glow",
            isOptimized=True,
            runtimeVersion=0,
            emissionKind=ir.DIToken("FullDebug"),
        )
        self.none = self.add("DISubroutineType", types=module.add_metadata([]))
        module.add_named_metadata("llvm.dbg.cu", self.unit)
        word = ir.IntType(32)
        for name, value in _VERSIONS.items():
            module.add_named_metadata("llvm.module.flags", [word(_WARNING), name, word(value)])

    def add(self, kind: str, distinct: bool = False, **fields: object) -> ir.DIValue:
        """A piece of metadata."""
        return self.module.add_debug_info(kind, fields, is_distinct=distinct)

    def function(self, name: str, line: int) -> ir.DIValue:
        """A function of the source."""
        return self.add(
            "DISubprogram",
            distinct=True,
            name=name,
            scope=self.file,
            file=self.file,
            line=line,
            scopeLine=line,
            type=self.none,
            spFlags=ir.DIToken("DISPFlagLocalToUnit | DISPFlagDefinition | DISPFlagOptimized"),
            unit=self.unit,
        )


def described(module: ir.Module, source: Source) -> str:
    """The text of a program function whose calls have the lines of their instructions.

    It is the last of the module; those of turns, before it, are not told of.
    """
    metadata = Metadata(module, source.file)
    function = [f for f in module.functions if f.blocks][-1]
    whole = metadata.function(MAIN, source.line)
    function.set_metadata("dbg", whole)
    calls = [i for i in function.blocks[0].instructions if _is_step(i)]
    variables = Variables(metadata, function.args) if source.level == "full" else None
    for call, step in zip(calls, source.steps, strict=True):
        site = metadata.add("DILocation", distinct=True, line=step.line, scope=whole)
        node = metadata.function(step.name, step.line)
        place = metadata.add("DILocation", line=step.line, scope=node, inlinedAt=site)
        call.set_metadata("dbg", place)
        if variables is not None:
            variables.describe(step, node, place)
    return str(module) if variables is None else variables.text(module)


def _is_step(instruction: ir.Instruction) -> bool:
    return isinstance(instruction, ir.CallInstr) and instruction.callee.name != BARRIER
