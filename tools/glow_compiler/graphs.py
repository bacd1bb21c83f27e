"""Functions as files: every phase as text in the manner of MindIR, and as graphs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.fn.dialect import FuncOp, LambdaOp, PrimOp, RefOp
from glow_dialects.fn.syntax import LINE, FnOp
from glow_dialects.fn.types import AnyType
from glow_passes.fn.domain import NONE, Scalar, TensorType, Type, text
from glow_passes.fn.specialize import Instance, Specializer

if TYPE_CHECKING:
    from glow_compiler.functions import CompiledFunction


def save_graphs(function: CompiledFunction, folder: Path, level: int) -> list[Path]:
    """Write the phases of a function to `folder`; returns the files.

    Level 1: the imported and the closed program; 2: also each specialised instance with types, and the
    LLVM IR; 3: also before and after every pass, and SVG where graphviz is installed.
    """
    if level not in (1, 2, 3):
        raise UnsupportedError(f"save_graphs: level is 1, 2 or 3, got {level}")
    folder.mkdir(parents=True, exist_ok=True)
    program = function.program
    phases = [("import", program.source), *(_passes(program.source) if level == 3 else [])]
    phases.append(("close_and_differentiate", program.module))
    written: list[Path] = []
    for number, (name, module) in enumerate(phases):
        stem = f"{number:02}_{name}"
        written.append(_write(folder / f"{stem}.ir", module_text(module)))
        written.append(_write(folder / f"{stem}.mlir", f"{module}\n"))
        written.append(_write(folder / f"{stem}.dot", module_dot(module)))
        if level == 3:
            written += _svg(folder / f"{stem}.dot")
    if level >= 2:
        for index, found in enumerate(program.instances.values()):
            stem = f"{len(phases) + index:02}_specialized"
            if found.types is not None and found.root is not None:
                written.append(_write(folder / f"{stem}.ir", typed_text(found.types, found.root)))
            llvm = getattr(found.native, "llvm", None)
            if llvm is not None:
                written.append(_write(folder / f"{stem}.ll", llvm))
    return written


def _passes(source: ModuleOp) -> Iterator[tuple[str, ModuleOp]]:
    """The module before and after each pass on functions."""
    from glow_dialects.dialects import context
    from glow_passes.fn.expand_grad import ExpandGradPass
    from glow_passes.fn.lift_closures import LiftClosuresPass

    module = source.clone()
    for item in (LiftClosuresPass(), ExpandGradPass()):
        yield f"before_{item.name}", module.clone()
        item.apply(context(), module)
        yield f"after_{item.name}", module.clone()


def _write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def _svg(path: Path) -> list[Path]:
    import shutil
    import subprocess

    if shutil.which("dot") is None:
        return []
    target = path.with_suffix(".svg")
    subprocess.run(["dot", "-Tsvg", str(path), "-o", str(target)], check=False, timeout=60)
    return [target] if target.exists() else []


# --- text ---------------------------------------------------------------------------------------------
def module_text(module: ModuleOp) -> str:
    """Each function with its nodes: `%3 = mul(%1, %2) : type  # file:line`."""
    parts: list[str] = []
    for op in module.body.block.ops:
        if isinstance(op, FuncOp):
            names: dict[SSAValue, str] = {}
            parts.append("\n".join(_block(op.block, f"subgraph @{op.sym_name.data}", names, "")))
    return "\n\n".join(parts) + "\n"


def _name(value: SSAValue, names: dict[SSAValue, str]) -> str:
    if value not in names:
        hint = f"_{value.name_hint}" if value.name_hint else ""
        names[value] = f"%{len(names)}{hint}"
    return names[value]


def _block(block: Block, title: str, names: dict[SSAValue, str], indent: str) -> list[str]:
    parameters = ", ".join(f"{_name(a, names)}{_typed(a)}" for a in block.args)
    lines = [f"{indent}{title}({parameters}) {{"]
    for op in block.ops:
        if isinstance(op, LambdaOp):
            title = f"{_name(op.result, names)} = lambda @{op.sym_hint.data if op.sym_hint else ''}"
            lines += _block(op.block, title, names, indent + "  ")
            continue
        inputs = ", ".join(_name(v, names) for v in op.operands)
        options = {n: a for n, a in {**op.properties, **op.attributes}.items() if n not in (LINE, "prim")}
        shown = f" {{{', '.join(f'{n}: {a}' for n, a in options.items())}}}" if options else ""
        target = f"{_name(op.results[0], names)} = " if op.results else ""
        kind = _typed(op.results[0]) if op.results else ""
        source = f"  # {op.source}" if isinstance(op, FnOp) and op.source else ""
        lines.append(f"{indent}  {target}{primitive_name(op)}({inputs}){shown}{kind}{source}")
    return [*lines, f"{indent}}}"]


def _typed(value: SSAValue) -> str:
    return "" if isinstance(value.type, AnyType) else f" : {value.type}"


def primitive_name(op: Operation) -> str:
    """The first input of a CNode: the primitive's name, or what the operation does."""
    return op.prim.data if isinstance(op, PrimOp) else op.name.removeprefix("glow_fn.")


def typed_text(types: Specializer, root: Instance) -> str:
    """Each instance that a program for certain argument types consists of, with its types."""
    lines = [f"# entry: {root.name}"]
    for instance in types.instances:
        inputs = ", ".join(_kind(types.sets.resolve(t)) for t in instance.parameters)
        result = _kind(types.sets.resolve(instance.result))
        lines.append(f"subgraph @{instance.name}.{instance.number}({inputs}) -> {result}")
    return "\n".join(lines) + "\n"


def _kind(kind: Type) -> str:
    if isinstance(kind, Scalar):
        return {"bool": "i1", "int": "i64", "float": "f64"}[kind.kind]
    if isinstance(kind, TensorType):
        return f"tensor<{'x'.join(map(str, (*kind.shape, kind.dtype)))}>"
    return "none" if kind is NONE else text(kind)


# --- graphs -------------------------------------------------------------------------------------------
def module_dot(module: ModuleOp) -> str:
    """Graphviz: a cluster a function, a node an operation, an edge a use."""
    lines = ["digraph functions {", "  node [shape=box, fontname=Helvetica];"]
    number: dict[SSAValue, str] = {}
    for index, function in enumerate(f for f in module.body.block.ops if isinstance(f, FuncOp)):
        lines += [f"  subgraph cluster_{index} {{", f'    label="@{function.sym_name.data}";']
        _dot_block(function.block, number, lines)
        lines.append("  }")
    return "\n".join([*lines, "}"]) + "\n"


def _dot_block(block: Block, number: dict[SSAValue, str], lines: list[str]) -> None:
    for argument in block.args:
        number[argument] = f"n{len(number)}"
        lines.append(f'    {number[argument]} [label="{argument.name_hint or ""}", shape=ellipse];')
    for op in block.ops:
        if isinstance(op, LambdaOp):
            _dot_block(op.block, number, lines)
        label = primitive_name(op) + (f" @{op.target}" if isinstance(op, RefOp) else "")
        if op.results:
            number[op.results[0]] = f"n{len(number)}"
            own = number[op.results[0]]
        else:
            own = f"r{len(lines)}"
        lines.append(f'    {own} [label="{label}"];')
        lines += [f"    {number[v]} -> {own};" for v in op.operands if v in number]
