"""The instruction level in the form of the Glow IR document: `declare { } program { }`."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.attributes import to_python
from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.types import UniformQuantizedType, dtype_of, element_of, shape_of
from glow_dialects.instr.memory import (
    AllocOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    WeightOp,
    instr_functions,
)

_NAMES = {"float32": "float", "float64": "double", "int64": "index", "int32": "i32", "bool": "bool"}


def print_glow_ir(module: ModuleOp) -> str:
    """All instruction functions of a module."""
    return "\n".join(_Listing(f).text() for f in instr_functions(module))


class _Listing:
    def __init__(self, function: InstrFuncOp) -> None:
        self.function = function
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
        lines += ["}", "", "program {"]
        lines += [f"  {self._instruction(op)}" for op in self.function.program()]
        return "\n".join([*lines, "}", ""])

    def _instruction(self, op: Operation) -> str:
        match op:
            case AllocOp():
                return f"{self.name(op.result, 'allo')} = alloc {_type(op.result)}"
            case ViewOp():
                source = self.name(op.source, "allo")
                return f"{self.name(op.result, 'view')} = tensorview {_type(op.result)} @in {source}"
            case DeallocOp():
                return f"dealloc @out {self.name(op.buffer, 'allo')}"
            case InstrOp():
                members = [
                    _member(to_python(a))
                    for n, a in op.properties.items()
                    if n != SEGMENTS and op.property_defaults().get(n) != a
                ]
                shown = f" [{' '.join(members)}]" if members else ""
                operands = ", ".join(f"@{a.value} {self.name(v, 'allo')}" for a, v in op.accesses())
                return f"{op.name.removeprefix('glow_instr.')}{shown} {operands}"
            case _:
                return str(op)


def _member(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _type(value: SSAValue) -> str:
    element = element_of(value)
    name = dtype_of(element).name
    text = str(element) if isinstance(element, UniformQuantizedType) else _NAMES.get(name, name)
    return f"{text}<{' x '.join(map(str, shape_of(value)))}>"


__all__ = ["print_glow_ir"]
