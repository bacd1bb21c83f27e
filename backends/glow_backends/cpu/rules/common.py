"""What several rules ask about instructions."""

from __future__ import annotations

import hashlib
from typing import Any

from glow_backends.cpu.calls import Packed, dtype_name
from glow_backends.cpu.emit import values
from glow_dialects.core.types import Array, present
from glow_dialects.instr.memory import origin


def known(op: Any) -> bool:
    """Whether kernels know the element types of all buffers of an instruction."""
    return all(values.has(dtype_name(v)) for v in op.operands)


def float_typed(op: Any) -> str | None:
    """The one floating-point type of all buffers of an instruction (its predicate aside), if it has one."""
    kinds = {dtype_name(v) for v in (*op.written(), *op.read()) if v not in present(op.predicate)}
    kind = kinds.pop()
    return kind if not kinds and values.is_float(kind) else None


def inplace(op: Any) -> bool:
    """Whether the result of an instruction lies where one of its extra operands does."""
    return any(origin(v) is origin(op.result) for v in op.extras)


def table(name: str, array: Array) -> Packed:
    """A constant that the compiler made; equal ones are kept once."""
    digest = hashlib.sha256(array.tobytes()).hexdigest()[:24]
    return Packed(f"{name}|{array.dtype}|{array.shape}|{digest}", lambda: array)
