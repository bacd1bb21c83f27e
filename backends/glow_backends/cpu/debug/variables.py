"""Buffers of a program as debugger variables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.debug.source import Step
from glow_dialects.core.extent import is_open
from glow_dialects.core.types import dtype_of, shape_of
from glow_dialects.instr.memory import AllocOp, WeightOp, origin, view_offset
from glow_dialects.ops.module import placeholders

if TYPE_CHECKING:
    from glow_backends.cpu.debug.dwarf import Metadata

_ENCODINGS = {"f": "DW_ATE_float", "i": "DW_ATE_signed", "u": "DW_ATE_unsigned", "b": "DW_ATE_boolean"}
_IO, _ARENA = 0, 2
"""The program function's arguments."""
_POINTER = 8
"""Bytes of an entry of the io table."""
_AT = re.compile(r", !dbg (!\d+)$")


class Variables:
    """The variables of a program function: text that stands in front of its calls."""

    def __init__(self, metadata: Metadata, arguments: Sequence[ir.Value]) -> None:
        self._metadata = metadata
        self._arguments = [a.get_reference() for a in arguments]
        self._types: dict[tuple[tuple[int, ...], str], ir.DIValue] = {}
        self._lines: dict[str, list[str]] = {}
        self._slots: dict[str, int] | None = None

    def describe(self, step: Step, scope: ir.DIValue, place: ir.DIValue) -> None:
        """Make the operands of a step variables of its function, but constants."""
        values = dict(zip(step.operands, step.op.operands, strict=True))
        for name, value in values.items():
            found = None if is_open(shape_of(value)) else self._found(step, value)
            if found is None:
                continue
            argument, expression = found
            variable = self._metadata.add(
                "DILocalVariable",
                name=name,
                scope=scope,
                file=self._metadata.file,
                line=step.line,
                type=self._type(value.type),
            )
            self._lines.setdefault(place.get_reference(), []).append(
                f"  call void @llvm.dbg.value(metadata ptr {self._arguments[argument]}, "
                f"metadata {variable.get_reference()}, metadata !DIExpression({expression})), "
                f"!dbg {place.get_reference()}"
            )

    def text(self, module: ir.Module) -> str:
        """The module with its variables."""
        out: list[str] = []
        for line in str(module).split("\n"):
            found = _AT.search(line)
            out += self._lines.get(found[1], []) if found is not None else []
            out.append(line)
        return "\n".join([*out, "declare void @llvm.dbg.value(metadata, metadata, metadata)", ""])

    def _found(self, step: Step, value: SSAValue) -> tuple[int, str] | None:
        """The argument that leads to a buffer, and how; None for constants."""
        owner, skip = origin(value).owner, view_offset(value)
        if isinstance(owner, AllocOp) and owner.offset is not None:
            return _ARENA, f"DW_OP_plus_uconst, {owner.offset.value.data + skip}, DW_OP_stack_value"
        slot = self._slots_of(step).get(owner.target) if isinstance(owner, WeightOp) else None
        if slot is None:
            return None
        read = f"DW_OP_plus_uconst, {_POINTER * slot}, DW_OP_deref"
        return _IO, f"{read}, DW_OP_plus_uconst, {skip}, DW_OP_stack_value"

    def _slots_of(self, step: Step) -> dict[str, int]:
        """The places of placeholders in the io table."""
        if self._slots is None:
            function = step.op.parent_op()
            module = None if function is None else function.parent_op()
            assert isinstance(module, ModuleOp)
            self._slots = {name: i for i, name in enumerate(placeholders(module))}
        return self._slots

    def _type(self, kind: Attribute) -> ir.DIValue:
        """A tensor: the address of an array that debuggers index and print."""
        shape, element = shape_of(kind), dtype_name(kind)
        if (shape, element) not in self._types:
            add, word = self._metadata.add, dtype_of(kind)
            encoding = ir.DIToken(_ENCODINGS.get(word.kind, "DW_ATE_unsigned"))
            bits = 8 * word.itemsize
            made = add("DIBasicType", name=element, size=bits, encoding=encoding)
            if shape:
                sizes = [add("DISubrange", count=size) for size in shape]
                made = add(
                    "DICompositeType",
                    tag=ir.DIToken("DW_TAG_array_type"),
                    baseType=made,
                    size=bits * prod(shape),
                    elements=self._metadata.module.add_metadata(sizes),
                )
            made = add("DIDerivedType", tag=ir.DIToken("DW_TAG_pointer_type"), baseType=made, size=64)
            name = f"tensor<{'x'.join(map(str, (*shape, element)))}>"
            tag = ir.DIToken("DW_TAG_typedef")
            made = add("DIDerivedType", tag=tag, name=name, baseType=made, file=self._metadata.file)
            self._types[shape, element] = made
        return self._types[shape, element]
