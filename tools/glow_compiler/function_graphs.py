"""Functions as files: every phase as text in the manner of MindIR, and as graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from glow_compiler.ir_text import Saver, body_text
from glow_dialects.fn.dialect import CallOp, ReturnOp
from glow_dialects.fn.domain import BOTTOM, NONE, Bottom, FnType, Scalar, TensorType, TupleType, Type, text
from glow_dialects.fn.values import V
from glow_passes.fn.optimize import pipeline
from glow_passes.fn.specialize import Instance, Specializer

if TYPE_CHECKING:
    from glow_compiler.functions import CompiledFunction


def save_graphs(function: CompiledFunction, folder: Path, level: int) -> list[Path]:
    """Write the phases of a function to `folder`; returns the files.

    Level 1: the imported program, and the closed one with what differentiation derived from it; 2: also each
    specialised program with all types, and the LLVM IR; 3: also before and after every pass, and SVG.
    """
    saver = Saver(folder, level)
    program = function.program
    saver.module("import", program.source)
    if level == 3:
        module = program.source.clone()
        for name, run in pipeline(program.name, program.unroll):
            saver.module(f"before_{name}", module)
            run(module)
            saver.module(f"after_{name}", module)
    saver.module("closed", program.module)
    if level >= 2:
        for instance in program.instances.values():
            stem = saver.stem("specialized")
            if instance.types is not None and instance.root is not None:
                saver.file(f"{stem}.ir", typed_text(instance.types, instance.root))
            llvm = getattr(instance.native, "llvm", None)
            if llvm is not None:
                saver.file(f"{stem}.ll", llvm)
    return saver.written


def typed_text(types: Specializer, root: Instance) -> str:
    """Each instance that a program for certain argument types consists of, every node with its types."""
    parts = [f"# entry: {root.name}.{root.number}"]
    for instance in types.instances:
        values = _values(types, instance)
        result = _kind(types.sets.resolve(instance.result))
        title = f"subgraph @{instance.name}.{instance.number} -> {result} "

        def typed(value: SSAValue, known: dict[SSAValue, Type] = values) -> str:
            return _kind(known.get(value) or BOTTOM)

        parts.append(body_text(title, instance.function.block, typed))
    return "\n\n".join(parts) + "\n"


def _values(types: Specializer, instance: Instance) -> dict[SSAValue, Type]:
    """The types of all values of an instance."""
    values: dict[SSAValue, V] = {}
    for argument, kind in zip(instance.function.block.args, instance.parameters, strict=True):
        values[argument] = V(types.sets.resolve(kind))
    for op in instance.function.block.ops:
        if isinstance(op, ReturnOp):
            break
        operands = [values[v] for v in op.operands]
        if any(isinstance(v.type, Bottom) for v in operands):
            values[op.results[0]] = V(BOTTOM)
        elif isinstance(op, CallOp):
            values[op.result] = types.call(op, operands, instance)
        else:
            values[op.results[0]] = types.step(op, operands, instance)
    return {v: types.sets.resolve(info.type) for v, info in values.items()}


def _kind(kind: Type) -> str:
    match kind:
        case Scalar():
            name = {"bool": "i1", "int": "i64", "float": "f64"}[kind.kind]
            return name if kind.const is None else f"{name}={kind.const}"
        case TensorType():
            return f"tensor<{'x'.join(map(str, (*kind.shape, kind.dtype)))}>"
        case TupleType():
            return f"({', '.join(map(_kind, kind.items))})"
        case FnType():
            shown = [f"@{n}({', '.join(map(_kind, c))})" if c else f"@{n}" for n, c in kind.entries]
            whole = " | ".join(shown)
            return whole if len(whole) < 160 else f"{whole[:157]}..."
        case _:
            return "none" if kind is NONE else "never" if kind is BOTTOM else text(kind)
