"""What an instruction becomes: a call of a specialised kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llvmlite import ir
from xdsl.ir import Attribute, SSAValue

from glow_backends.cpu import cache
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import Array, typed
from glow_dialects.instr.memory import WeightOp
from glow_dialects.ops.module import ConstantOp, lookup

Emitter = Callable[[ir.Module, str, Any, CpuTarget], ir.Function]


@dataclass(eq=False)
class Packed:
    """A constant in the form a kernel wants; made once, at compile time."""

    key: str
    make: Callable[[], Array]


Operand = SSAValue | Packed


@dataclass
class KernelCall:
    """One call: the kernel is `emit(spec)`, `operands` its pointers, `scratch` bytes of work space."""

    emit: Emitter
    spec: Any
    operands: Sequence[Operand]
    scratch: int = 0
    flops: int = 0
    label: str = ""

    def kernel_name(self, target: CpuTarget) -> str:
        """Equal for equal code."""
        name = f"{self.emit.__module__}.{self.emit.__qualname__}"
        digest = cache.key(name, repr(self.spec), repr(target))
        return f"glow_{self.emit.__name__.removeprefix('emit_')}_{digest[:16]}"


@dataclass
class CallContext:
    """What rules may ask: the target, and the contents of constants."""

    target: CpuTarget
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def constant(self, value: SSAValue) -> Array | None:
        """Contents of a constant weight, None for anything else."""
        owner = value.owner
        if not isinstance(owner, WeightOp) or not owner.constant:
            return None
        found = lookup(owner, owner.target)
        return found.array() if isinstance(found, ConstantOp) else None

    def pack(self, value: SSAValue, how: str, make: Callable[[Array], Array]) -> Packed | None:
        """`make(constant)` as an operand; None where `value` is not constant."""
        array = self.constant(value)
        owner = value.owner
        if array is None or not isinstance(owner, WeightOp):
            return None
        return Packed(f"{owner.target}|{how}", lambda: np.ascontiguousarray(make(array)))


Rule = Callable[[Any, CallContext], KernelCall | None]


def shape(value: SSAValue) -> tuple[int, ...]:
    """Static shape of a buffer."""
    return tuple(typed(value).get_shape())


def dtype_name(value: SSAValue | Attribute) -> str:
    """f32, f64, i64, u8, i1...: the kernels' name of the element type of a value or type."""
    from glow_dialects.core.types import dtype_of

    kind = dtype_of(value.type if isinstance(value, SSAValue) else value)
    names = {"bool": "i1", "bfloat16": "bf16"}
    if kind.name in names:
        return names[kind.name]
    return kind.name.replace("float", "f").replace("uint", "u").replace("int", "i")


__all__ = ["CallContext", "KernelCall", "Operand", "Packed", "Rule", "dtype_name", "shape"]
