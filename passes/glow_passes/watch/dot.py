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


#: Seconds that Graphviz may take: of thousands of nodes it needs minutes.
MOST_SECONDS = 20


def to_svg(module: ModuleOp, seconds: float = MOST_SECONDS) -> str:
    """The picture of a module; UnsupportedError where Graphviz is not installed, or takes longer."""
    return drawn(to_dot(module), seconds)


def drawn(text: str, seconds: float = MOST_SECONDS) -> str:
    """Graphviz text as SVG, by its `dot`; UnsupportedError where that is not installed, or takes longer."""
    if shutil.which("dot") is None:
        raise UnsupportedError("svg needs Graphviz: install it, or write -t dot and render it elsewhere")
    try:
        done = _run_dot(text, seconds / 2)
    except subprocess.TimeoutExpired:  # once more, with fewer rounds to find the order within layers
        try:
            done = _run_dot(
                text, seconds / 2, "-Gnslimit=1", "-Gnslimit1=1", "-Gmclimit=0.1", "-Gsplines=line"
            )
        except subprocess.TimeoutExpired:
            raise UnsupportedError(
                f"Graphviz does not draw these {text.count(' [label=')} nodes and edges in {seconds:g} s; "
                "glow-opt --html FILE draws them, and -t dot leaves the drawing to another program"
            ) from None
    if done.returncode:
        raise UnsupportedError(f"Graphviz failed: {done.stderr.strip()}")
    return done.stdout


def _run_dot(text: str, seconds: float, *settings: str) -> subprocess.CompletedProcess[str]:
    command = ["dot", "-Tsvg", *settings]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=seconds)
