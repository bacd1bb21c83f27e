"""The instruction level in the form of the Glow IR document: `declare { } program { }`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.attributes import to_python
from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.element_types import by
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.location import names
from glow_dialects.core.types import UniformQuantizedType, dtype_of, element_of, shape_of
from glow_dialects.instr.loops import ForOp, YieldOp
from glow_dialects.instr.memory import (
    AllocOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    WeightOp,
    instr_functions,
)
from glow_dialects.instr.spaces import space_of
from glow_dialects.instr.strides import strides_of


def print_glow_ir(module: ModuleOp) -> str:
    """All instruction functions of a module."""
    return "\n".join(Listing(f).text() for f in instr_functions(module))


class Listing:
    """One function as text, with the `nodes` that instructions come from behind them where wanted."""

    def __init__(self, function: InstrFuncOp, nodes: bool = False) -> None:
        self.function = function
        self.nodes = nodes
        #: The lines of instructions, once there is a text; the first line is 1.
        self.lines: dict[Operation, int] = {}
        self.names: dict[SSAValue, str] = {}
        self.used: set[str] = set()

    def name(self, value: SSAValue, prefix: str) -> str:
        """A readable unique name: a weight's symbol, else the hint of the IR, else `prefix`."""
        if value not in self.names:
            hint = prefix if isinstance(value.owner, WeightOp) else value.name_hint or prefix
            base = "".join(c if c.isalnum() or c == "_" else "_" for c in hint)
            name, number = base, 0
            while name in self.used:
                name, number = f"{base}{number}", number + 1
            self.used.add(name)
            self.names[value] = f"%{name}"
        return self.names[value]

    def text(self) -> str:
        """The listing."""
        lines = [f"function {self.function.sym_name.data}", "declare {"]
        for weight in self.function.weights():
            name = self.name(weight.result, weight.target)
            init = "" if weight.init.data == "none" else f", {weight.init.data}, {to_python(weight.value)}"
            lines.append(f"  {name} = weight {_type(weight.result)}, {weight.mutability.data}{init}")
        for name, memory in self.function.spaces().items():
            lines.append(f"  {name} = memory {memory.size}, align {memory.alignment}")
        lines += ["}", "", "program {"]
        for op in self.function.program():
            self.lines[op] = len(lines) + 1
            lines += [f"  {line}" for line in self._lines(op)]
        return "\n".join([*lines, "}", ""])

    def _lines(self, op: Operation) -> list[str]:
        """An instruction, or a loop with its body."""
        if not isinstance(op, ForOp):
            shown = isinstance(op, InstrOp) and not isinstance(op, DeallocOp)
            told = names(op.location) if self.nodes and shown else ()
            return [self._instruction(op) + (f"  // {' + '.join(told)}" if told else "")]
        turns, given = op.turns, self._given(op.last)
        head = f"{given}for {self.name(op.index, 'i')} = {turns.start} to {turns.stop} step {turns.step}"
        pairs = zip(op.carried, op.tokens, strict=True)
        carried = ", ".join(f"{self.name(inner, 'token')} = {self.name(t, 'token')}" for inner, t in pairs)
        body = [f"  {line}" for inner in op.block.ops for line in self._lines(inner)]
        return [f"{head} carry({carried}) {{" if carried else f"{head} {{", *body, "}"]

    def _given(self, tokens: Sequence[SSAValue]) -> str:
        return "".join(f"{self.name(token, 'token')}, " for token in tokens)[:-2] + " = " * bool(tokens)

    def _instruction(self, op: Operation) -> str:
        match op:
            case AllocOp():
                return f"{self.name(op.result, 'allo')} = alloc {_type(op.result)}"
            case ViewOp():
                source = self.name(op.source, "allo")
                place = [str(op.offset.value.data)] if op.offset.value.data else []
                place += [f"{factor} * {self.name(index, 'i')}" for index, factor in op.terms().items()]
                at = f" at {' + '.join(place)}" if place else ""
                return f"{self.name(op.result, 'view')} = tensorview {_type(op.result)} @in {source}{at}"
            case YieldOp():
                return f"yield {', '.join(self.name(t, 'token') for t in op.tokens)}"
            case DeallocOp():
                return f"dealloc @out {self.name(op.buffer, 'allo')}"
            case InstrOp():
                members = [
                    _member(to_python(a))
                    for n, a in op.properties.items()
                    if n != SEGMENTS and op.property_defaults().get(n) != a
                ]
                shown = f" [{' '.join(members)}]" if members else ""
                for region in op.regions:
                    *inner, _ = (o.name.partition(".")[2] for o in region.block.ops)
                    shown += f" {{{' '.join(inner)}}}"
                operands = ", ".join(f"@{a.value} {self.name(v, 'allo')}" for a, v in op.accesses())
                return f"{self._given(op.results)}{op.name.removeprefix('glow_instr.')}{shown} {operands}"
            case _:
                return str(op)


def _member(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _type(value: SSAValue) -> str:
    element = element_of(value)
    text = (
        str(element) if isinstance(element, UniformQuantizedType) else by("name")[dtype_of(element).name].glow
    )
    space = space_of(value)
    strides = strides_of(value.type)
    apart = "" if strides is None else f", strides {' '.join(map(str, strides))}"
    return f"{text}<{' x '.join(map(str, shape_of(value)))}{apart}>" + (f" in {space}" if space else "")


__all__ = ["Listing", "print_glow_ir"]
