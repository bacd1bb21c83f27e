"""Calls: an instruction becomes a call of a specialised kernel."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from xdsl.ir import Attribute, SSAValue

from glow_backends.cpu import cache
from glow_backends.cpu.emit.builder import KernelFunction, mark_open, sizes_of
from glow_backends.cpu.jit import new_module
from glow_backends.cpu.memory import release
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.element_types import by
from glow_dialects.core.estimates import has_extents
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.mapped_files import mapping_of
from glow_dialects.core.types import Array, dtype_of, shape_of
from glow_dialects.instr.memory import WeightOp
from glow_dialects.ops.module import ConstantOp, lookup

if TYPE_CHECKING:
    from glow_backends.nests.dialect import KernelOp

Emitter = Callable[[ir.Module, str, Any, CpuTarget], ir.Function]


@dataclass(eq=False)
class Packed:
    """A constant in the form a kernel wants; made once, at compile time; a view will do."""

    key: str
    make: Callable[[], Array]
    #: The name of the module's constant that it is made of, if it is of one; else `key` says what it is.
    source: str | None = None
    #: The text of its packing: equal constants and equal texts give equal bytes.
    how: str = ""
    #: Whether denormal numbers become zeros where it is placed.
    normal: bool = False


Operand = SSAValue | Packed


@dataclass
class KernelCall:
    """One call: the kernel is `emit(spec)`, `operands` its pointers, `scratch` bytes of work space.

    `parts`: how many workers can share it, where that is known to be few. `checked`: what to call the
    operator where the kernel reports indices out of range, by a pointer behind its operands (see `faults`).

    Behind them the kernel takes its sizes, if it has any, and the number of the worker.
    """

    emit: Emitter
    spec: Any
    operands: Sequence[Operand]
    scratch: int = 0
    flops: int = 0
    label: str = ""
    parts: int | None = None
    checked: str | None = None
    #: The instruction that it computes, once it is a step of a program.
    op: InstrOp | None = None
    #: What describes the kernel of the spec on a target, under a name, if it is described.
    describe: Callable[[Any, CpuTarget, str], KernelOp] | None = None


@dataclass(frozen=True)
class KernelCode:
    """LLVM IR of a kernel, and the sizes that a call hands over; `name` is equal for equal code.

    `parts`: code of its own that it calls, and other kernels too.
    """

    name: str
    text: str
    sizes: tuple[int, ...]
    parts: tuple[KernelCode, ...] = ()

    @property
    def operands(self) -> list[Packed]:
        """The arguments after the operands of a call: the table of sizes, if there are any."""
        if not self.sizes:
            return []
        numbers = ",".join(map(str, self.sizes))
        return [Packed(f"sizes|{numbers}", lambda: np.array(self.sizes, np.int64))]


_STEM = "glow_kernel_in_the_making"


class KernelCodes:
    """The kernels of a program's calls; each is emitted once."""

    def __init__(self, target: CpuTarget) -> None:
        self.target = target
        self._machine = repr(target)
        self._codes: dict[tuple[Emitter, str], KernelCode] = {}

    def of(self, call: KernelCall) -> KernelCode:
        """The code that a call runs."""
        key = (call.emit, repr(call.spec))
        if key not in self._codes:
            self._codes[key] = self._emitted(call)
        return self._codes[key]

    def _emitted(self, call: KernelCall) -> KernelCode:
        module = new_module("kernel", self.target)
        if has_extents(call.spec):
            mark_open(module)
        kernel = call.emit(module, _STEM, call.spec, self.target)
        kind = f"glow_{call.emit.__name__.removeprefix('emit_')}"
        functions = {f.name: f for f in module.functions if isinstance(f, KernelFunction) and f.shared}
        parts = {name: self._part(part, kind) for name, part in functions.items()}
        kernel.linkage = "external"
        text = str(module)
        for stem, part in parts.items():
            text = text.replace(stem, part.name)
        return self._named(kind, _STEM, text, sizes_of(kernel), tuple(parts.values()))

    def _part(self, part: KernelFunction, kind: str) -> KernelCode:
        """The code of a part of a kernel's module, of which that keeps the declaration."""
        part.linkage = "external"
        body = str(part)
        named = set(re.findall(r'@"?([\w.]+)', body))
        others = [str(v) for name, v in part.module.globals.items() if name in named and v is not part]
        weights = [str(m) for m in part.module.metadata if re.search(rf"{m.get_reference()}\b", body)]
        part.blocks.clear()
        text = "\n".join([str(new_module("kernel", self.target)), *others, body, *weights])
        return self._named(f"{kind}_{part.name.rpartition('.')[2]}", part.name, text, part.sizes)

    def _named(
        self, kind: str, stem: str, text: str, sizes: tuple[int, ...], parts: tuple[KernelCode, ...] = ()
    ) -> KernelCode:
        digest = cache.key(text, self._machine)
        name = f"{kind}_{digest[:16]}"
        return KernelCode(name, text.replace(stem, name), sizes, parts)


@dataclass
class CallContext:
    """The context of kernels: the target, and the contents of constants."""

    target: CpuTarget
    #: Whether indices out of range are reported.
    checked: bool = True

    def constant(self, value: SSAValue) -> Array | None:
        """Contents of a constant weight, None for anything else."""
        owner = value.owner
        if not isinstance(owner, WeightOp) or not owner.constant:
            return None
        constant = lookup(owner, owner.target)
        return constant.array() if isinstance(constant, ConstantOp) else None

    def pack(self, value: SSAValue, how: str, make: Callable[[Array], Array]) -> Packed | None:
        """`make(constant)`, for products and sums, as an operand; None where `value` is not constant.

        `how` names all that `make` depends on but the constant, and nothing else: programs share by it. What
        is made is copied once, to its place: a view will do.
        """
        owner = value.owner
        if self.constant(value) is None or not isinstance(owner, WeightOp):
            return None

        def packed() -> Array:
            array = self.constant(value)  # not held till then: it may be what memory is short of
            assert array is not None
            made = make(array)
            if mapping_of(made) is None:
                release(array)  # of a file that has been read
            return made

        return Packed(f"{owner.target}|{how}", packed, owner.target, how, normal=True)


def table(name: str, array: Array) -> Packed:
    """A constant that the compiler made; equal ones are kept once."""
    digest = hashlib.sha256(array.tobytes()).hexdigest()[:24]
    return Packed(f"{name}|{array.dtype}|{array.shape}|{digest}", lambda: array)


def shape(value: SSAValue) -> tuple[int, ...]:
    """Static shape of a buffer."""
    return shape_of(value)


def dtype_name(value: SSAValue | Attribute) -> str:
    """f32, f64, i64, u8, i1...: the kernels' name of the element type of a value or type."""
    return _dtype_name(dtype_of(value.type if isinstance(value, SSAValue) else value))


@lru_cache
def _dtype_name(kind: np.dtype) -> str:
    return by("name")[kind.name].short


__all__ = [
    "CallContext",
    "KernelCall",
    "KernelCode",
    "KernelCodes",
    "Operand",
    "Packed",
    "dtype_name",
    "shape",
    "table",
]
