"""Graph pictures: Graphviz text (the paper's dumpDAG) and a rendering of it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from glow_dialects.core.attributes import to_python
from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, PlaceholderOp, SaveOp, functions


def to_dot(module: ModuleOp) -> str:
    """Every graph function as a cluster; reads and writes of memory have colours of their own."""
    function_list = list(functions(module))
    if not function_list:
        raise UnsupportedError("there is no glow.func to draw; pictures show the graph level")
    lines = [
        "digraph glow {",
        "  rankdir=TB;",
        '  node [shape=record, style="rounded,filled", fillcolor=white,',
        "    fontname=Helvetica, fontsize=10];",
    ]
    for number, function in enumerate(function_list):
        lines += _cluster(number, function)
    lines += _transfers(function_list)
    return "\n".join([*lines, "}", ""])


def _cluster(number: int, function: FuncOp) -> list[str]:
    ids = {op: f"n{number}_{i}" for i, op in enumerate(function.body.block.ops)}
    lines = [f"  subgraph cluster_{number} {{", f'    label="{_escape(function.sym_name.data)}";']
    for op, key in ids.items():
        lines.append(f'    {key} [label="{_label(op)}", fillcolor={_color(op)}];')
        for operand in op.operands:
            if isinstance(operand.owner, Operation) and operand.owner in ids:
                shape = _escape(_shape(str(operand.type)))
                lines.append(f'    {ids[operand.owner]} -> {key} [label="{shape}"];')
    return [*lines, "  }"]


def _transfers(every: Sequence[FuncOp]) -> list[str]:
    """Edges from the saves of values that partitions hand on to where they are read."""
    ids = {op: f"n{n}_{i}" for n, f in enumerate(every) for i, op in enumerate(f.body.block.ops)}
    saves = {
        op.symbol.root_reference.data: key
        for op, key in ids.items()
        if isinstance(op, SaveOp) and _is_transfer(op)
    }
    reads = ((op.symbol.root_reference.data, key) for op, key in ids.items() if isinstance(op, GetOp))
    return [f"  {saves[name]} -> {key} [style=dashed];" for name, key in reads if name in saves]


def _is_transfer(op: SaveOp) -> bool:
    target = op.target()
    return isinstance(target, PlaceholderOp) and target.kind.data == "transfer"


def _label(op: Operation) -> str:
    parts = [op.name.removeprefix("glow.")]
    for name, value in op.properties.items():
        if name != SEGMENTS:
            shown = str(to_python(value))
            parts.append(_escape(f"{name} : {shown if len(shown) < 60 else '...'}"))
    parts += [_escape(f"output : {_shape(str(r.type))}") for r in op.results]
    return "{" + "|".join(parts) + "}"


def _color(op: Operation) -> str:
    if isinstance(op, GetOp):
        return "lightgrey" if isinstance(op.target(), ConstantOp) else "lightblue"
    return "lightblue" if isinstance(op, SaveOp) else "white"


def _shape(text: str) -> str:
    return text.removeprefix("tensor<").removesuffix(">")


def _escape(text: str) -> str:
    for character in '\\"{}<>|':
        text = text.replace(character, "\\" + character)
    return text


def to_svg(module: ModuleOp) -> str:
    """The picture of a module; UnsupportedError where Graphviz is not installed."""
    return drawn(to_dot(module))


def drawn(text: str) -> str:
    """Graphviz text as SVG, by its `dot`; UnsupportedError where that is not installed."""
    if shutil.which("dot") is None:
        raise UnsupportedError("svg needs Graphviz: install it, or write -t dot and render it elsewhere")
    done = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnsupportedError(f"Graphviz failed: {done.stderr.strip()}")
    return done.stdout
