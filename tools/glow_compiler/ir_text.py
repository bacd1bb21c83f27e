"""A module as files for people: `.ir` text in the manner of MindIR, Graphviz, and a picture of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from io import StringIO
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.printer import Printer

from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.fn.dialect import RefOp
from glow_dialects.fn.prim import PrimOp
from glow_dialects.fn.syntax import LINE
from glow_dialects.fn.types import AnyType

#: Longest option that is written out.
LONGEST = 80
#: Nodes of one picture.
MOST_NODES = 4000

Typed = Callable[[SSAValue], str]


def plain_type(value: SSAValue) -> str:
    """The type of a value, nothing where it is not known yet."""
    return "" if isinstance(value.type, AnyType) else str(value.type)


def primitive_name(op: Operation) -> str:
    """The first input of a CNode: the primitive's name, or the operation's kind."""
    return op.prim.data if isinstance(op, PrimOp) else op.name.removeprefix("glow_fn.")


def symbol(op: Operation) -> str:
    """The name of an operation that has one."""
    for key in ("sym_name", "sym_hint"):
        attribute = op.properties.get(key) or op.attributes.get(key)
        if isinstance(attribute, StringAttr):
            return attribute.data
    return ""


def source_line(op: Operation) -> str:
    """`file:line` of the text that an operation comes from, where that is known."""
    attribute = op.attributes.get(LINE) or op.attributes.get("name") or op.properties.get("name")
    return attribute.data if isinstance(attribute, StringAttr) else ""


def module_text(module: ModuleOp) -> str:
    """Every function with its nodes: `%3 = mul(%1, %2) : (f64, f64) -> f64  # file:line`."""
    names: dict[SSAValue, str] = {}
    parts: list[str] = []
    single: list[str] = []
    for op in module.body.block.ops:
        if op.regions:
            parts.append("\n".join(_with_body(op, names, "", plain_type)))
        else:
            single += _node(op, names, "", plain_type)
    return "\n\n".join(["\n".join(single), *parts] if single else parts) + "\n"


def body_text(title: str, block: Block, typed: Typed) -> str:
    """One function body under a title, with types from elsewhere."""
    return "\n".join(_block(block, title, {}, "", typed))


def _name(value: SSAValue, names: dict[SSAValue, str]) -> str:
    if value not in names:
        hint = f"_{value.name_hint}" if value.name_hint else ""
        names[value] = f"%{len(names)}{hint}"
    return names[value]


def _with_body(op: Operation, names: dict[SSAValue, str], indent: str, typed: Typed) -> list[str]:
    results = ", ".join(_name(r, names) for r in op.results)
    what = "lambda" if op.results and op.name == "glow_fn.lambda" else "subgraph"
    what = what if op.name.startswith("glow_fn.") else op.name
    title = f"{results} = {what} @{symbol(op)}" if results else f"{what} @{symbol(op)}"
    lines: list[str] = []
    for region in op.regions:
        for block in region.blocks:
            lines += _block(block, title, names, indent, typed)
    return lines


def _block(block: Block, title: str, names: dict[SSAValue, str], indent: str, typed: Typed) -> list[str]:
    parameters = ", ".join(_name(a, names) + (f" : {typed(a)}" if typed(a) else "") for a in block.args)
    lines = [f"{indent}{title}({parameters}) {{"]
    for op in block.ops:
        inner = indent + "  "
        lines += _with_body(op, names, inner, typed) if op.regions else _node(op, names, inner, typed)
    return [*lines, f"{indent}}}"]


def _node(op: Operation, names: dict[SSAValue, str], indent: str, typed: Typed) -> list[str]:
    inputs = ", ".join(_name(v, names) for v in op.operands)
    options = {**op.properties, **op.attributes}
    shown = [f"{n}: {_short(a)}" for n, a in options.items() if n not in (LINE, "prim", SEGMENTS)]
    target = ", ".join(_name(r, names) for r in op.results)
    text = f"{target} = " if target else ""
    text += f"{primitive_name(op)}({inputs})" + (f" {{{', '.join(shown)}}}" if shown else "")
    have = [typed(v) or "?" for v in op.operands]
    result_types = [typed(r) for r in op.results]
    if any(result_types):
        text += (
            f" : ({', '.join(have)}) -> {', '.join(result_types)}"
            if have
            else f" : {', '.join(result_types)}"
        )
    where = source_line(op)
    return [f"{indent}{text}" + (f"  # {where}" if where else "")]


def _short(attribute: Attribute) -> str:
    text = str(attribute)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


# --- graphs -------------------------------------------------------------------------------------------
def _bodies(module: ModuleOp) -> Iterator[tuple[str, Block]]:
    for op in module.body.block.ops:
        for region in op.regions:
            for block in region.blocks:
                yield symbol(op) or op.name, block


def module_dot(module: ModuleOp) -> str:
    """Graphviz: a cluster a function, a node an operation, an edge a use."""
    lines = ["digraph functions {", "  node [shape=box, fontname=Helvetica];"]
    number: dict[SSAValue, str] = {}
    for index, (name, block) in enumerate(_bodies(module)):
        lines += [f"  subgraph cluster_{index} {{", f'    label="@{name}";']
        _dot_block(block, number, lines)
        lines.append("  }")
    return "\n".join([*lines, "}"]) + "\n"


def _dot_block(block: Block, number: dict[SSAValue, str], lines: list[str]) -> None:
    for argument in block.args:
        number[argument] = f"n{len(number)}"
        lines.append(f'    {number[argument]} [label="{argument.name_hint or ""}", shape=ellipse];')
    for op in block.ops:
        for region in op.regions:
            for inner in region.blocks:
                _dot_block(inner, number, lines)
        own = f"r{len(lines)}"
        for result in op.results:
            own = number.setdefault(result, f"n{len(number)}")
        for result in op.results:
            number[result] = own
        lines.append(f'    {own} [label="{_label(op)}"];')
        lines += [f"    {number[v]} -> {own};" for v in op.operands if v in number]


def _label(op: Operation) -> str:
    return primitive_name(op) + (f" @{op.target}" if isinstance(op, RefOp) else "")


def module_svg(module: ModuleOp) -> str:
    """A picture: functions below each other, every node under those that it uses."""
    shapes: list[str] = []
    top, width, count = 30, 0, 0
    for name, block in _bodies(module):
        count += len(block.ops)
        if count > MOST_NODES:
            break
        right, bottom = _picture(name, block, top, shapes)
        width, top = max(width, right), bottom + 50
    size = f'width="{width + 20}" height="{top}"'
    style = "font-family='Helvetica' font-size='11'"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join(shapes) + "\n</svg>\n"


def _picture(name: str, block: Block, top: int, shapes: list[str]) -> tuple[int, int]:
    """Draw one body below `top`; its right and bottom ends."""
    depth: dict[SSAValue, int] = dict.fromkeys(block.args, 0)
    rows: list[list[tuple[str, tuple[SSAValue, ...], tuple[SSAValue, ...]]]] = [[]]
    for argument in block.args:
        rows[0].append((argument.name_hint or "parameter", (argument,), ()))
    for op in block.ops:
        row = 1 + max((depth.get(v, 0) for v in op.operands), default=0)
        depth.update(dict.fromkeys(op.results, row))
        rows += [[] for _ in range(row + 1 - len(rows))]
        rows[row].append((_label(op), tuple(op.results), tuple(op.operands)))
    shapes.append(f'<text x="10" y="{top}" font-weight="bold">@{escape(name)}</text>')
    place: dict[SSAValue, tuple[int, int]] = {}
    right = 0
    for number, row in enumerate(rows):
        x, y = 10, top + 14 + 44 * number
        for text, results, operands in row:
            wide = 14 + 7 * len(text)
            for value in operands:
                if value in place:
                    a, b = place[value]
                    shapes.append(f'<path d="M{a} {b}L{x + wide // 2} {y}" stroke="#999" fill="none"/>')
            box = f'<rect x="{x}" y="{y}" width="{wide}" height="22" rx="4" fill="#eef" stroke="#336"/>'
            shapes.append(box + f'<text x="{x + 7}" y="{y + 15}">{escape(text)}</text>')
            place.update(dict.fromkeys(results, (x + wide // 2, y + 22)))
            x += wide + 16
        right = max(right, x)
    return right, top + 14 + 44 * len(rows)


# --- files --------------------------------------------------------------------------------------------
class Saver:
    """Numbered files of the phases of a program in a folder, weights beside; level 3 adds pictures."""

    def __init__(self, folder: Path, level: int) -> None:
        from glow_runtime.weights import WeightWriter

        self.weights = WeightWriter()
        if level not in (1, 2, 3):
            raise UnsupportedError(f"save_graphs: level is 1, 2 or 3, got {level}")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.level = folder, level
        self.written: list[Path] = []
        self.number = 0

    def module(self, name: str, module: ModuleOp) -> None:
        """The files of a module: `.ir`, `.mlir` with its weights, `.dot`, and at level 3 `.svg`."""
        stem = self.stem(name)
        self.file(f"{stem}.ir", module_text(module))
        text = StringIO()
        Printer(text).print_op(module)
        self.file(f"{stem}.mlir", f"{text.getvalue()}\n")
        self.weights(module)(self.folder / f"{stem}.mlir")
        self.file(f"{stem}.dot", module_dot(module))
        if self.level == 3:
            self.file(f"{stem}.svg", module_svg(module))

    def stem(self, name: str) -> str:
        """The next number with a name."""
        stem = f"{self.number:02}_{name}"
        self.number += 1
        return stem

    def file(self, name: str, content: str) -> None:
        """Write one file."""
        path = self.folder / name
        path.write_text(content, encoding="utf-8")
        self.written.append(path)
