"""What several rules ask about instructions."""

from __future__ import annotations

from typing import Any

from glow_backends.cpu import values
from glow_backends.cpu.calls import dtype_name


def known(op: Any) -> bool:
    """Whether kernels know the element types of all buffers of an instruction."""
    return all(values.has(dtype_name(v)) for v in op.operands)


def float_typed(op: Any) -> str | None:
    """The one floating-point type of all buffers of an instruction (its predicate aside), if it has one."""
    kinds = {dtype_name(v) for v in (*op.written(), *op.read()) if v not in op.group("predicate")}
    kind = kinds.pop()
    return kind if not kinds and values.is_float(kind) else None
