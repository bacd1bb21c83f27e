"""Kernel: the base of kernels, from the instructions that one computes to its code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar
from weakref import WeakKeyDictionary

from llvmlite import ir
from xdsl.ir import SSAValue

from glow_backends.cpu.calls import CallContext, KernelCall, Operand, dtype_name, shape
from glow_backends.cpu.emit import values
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.operator import Operator
from glow_dialects.instr.memory import origin

if TYPE_CHECKING:
    from glow_backends.nests.dialect import KernelOp

O = TypeVar("O", bound=Operator)
S = TypeVar("S")


class Kernel(ABC, Generic[O, S]):
    """A kernel for instructions of the operators `O`, whose code depends on a spec `S` and on the target.

    An instruction has the fields of its operator. A spec is a frozen dataclass; `emit` writes the code of
    one, the other methods say how an instruction calls it. Where several kernels are for one operator, the
    first that matches an instruction takes it.
    """

    #: Whose instructions it computes.
    OPS: ClassVar[tuple[type[Operator], ...]] = ()
    #: Operators that stay whole for it: a pass makes one of OPS of them.
    MADE_FROM: ClassVar[tuple[type[GraphOp], ...]] = ()

    @staticmethod
    def emit(module: ir.Module, name: str, spec: Any, target: CpuTarget) -> ir.Function:
        """Write the kernel `name(operands..., worker)` of a spec into a module."""
        raise NotImplementedError

    #: Describes the kernel of a spec on a target under a name, where that is a nest (`glow_backends.nests`).
    describe: ClassVar[Callable[[Any, CpuTarget, str], KernelOp] | None] = None

    def supports(self, node: GraphOp) -> bool:
        """Whether a node, of OPS or MADE_FROM, is for this kernel: what has no kernel may be decomposed."""
        return True

    @abstractmethod
    def match(self, op: O, context: CallContext) -> S | None:
        """The spec of an instruction; None where the kernel does not compute it."""

    def operands(self, op: O, spec: S, context: CallContext) -> Sequence[Operand | None]:
        """The operands of the kernel: all buffers in order; None in place of an unsuitable one."""
        return [v for name, _ in op.operand_groups() for v in op.operand_group(name)]

    def scratch(self, spec: S, target: CpuTarget) -> int:
        """Bytes of work space."""
        return 0

    def flops(self, spec: S) -> int:
        """Products and sums, where they dominate the time."""
        return 0

    def parts(self, spec: S, target: CpuTarget) -> int | None:
        """How many workers can share it, where that is known to be few."""
        return None

    def checked(self, op: O, spec: S) -> str | None:
        """The operator's name where the kernel reports indices out of range."""
        return None

    def call(self, op: O, context: CallContext) -> KernelCall | None:
        """The call that computes an instruction; None where the kernel does not."""
        spec = self.match(op, context)
        if spec is None:
            return None
        operands = self.operands(op, spec, context)
        known = [v for v in operands if v is not None]
        if len(known) < len(operands):
            return None
        target = context.target
        return KernelCall(
            self.emit,
            spec,
            known,
            self.scratch(spec, target),
            self.flops(spec),
            parts=self.parts(spec, target),
            checked=self.checked(op, spec),
            describe=type(self).describe,
        )


def once_per_operation(make: Callable[[O], S]) -> Callable[[O], S]:
    """The result of `make` for an operation whose facts no longer change, kept with it."""
    memo: WeakKeyDictionary[O, S] = WeakKeyDictionary()

    def remembered(op: O) -> S:
        if op not in memo:
            memo[op] = make(op)
        return memo[op]

    return remembered


def operator_of(op: Operator) -> type[Operator]:
    """The graph operator of an instruction; the class itself of a node, and of an instruction without one."""
    return op.GRAPH_OP or type(op) if isinstance(op, InstrOp) else type(op)


def known(op: Operator) -> bool:
    """Whether kernels know the element types of all buffers of an instruction."""
    return all(values.has(dtype_name(v)) for v in op.operands)


def float_typed(op: Operator) -> str | None:
    """The one floating-point type of all buffers of an instruction (its predicate aside), if it has one."""
    kinds = {dtype_name(v) for v in op.operands if v is not op.predicate}
    kind = kinds.pop()
    return kind if not kinds and values.is_float(kind) else None


def plain_f32(op: Operator) -> bool:
    """Whether an instruction has no predicate, and all its buffers are f32 and not empty."""
    return op.predicate is None and all(dtype_name(v) == "f32" and 0 not in shape(v) for v in op.operands)


def inplace(result: SSAValue, extras: Sequence[SSAValue]) -> bool:
    """Whether a result lies where one of the extra operands does."""
    return any(origin(v) is origin(result) for v in extras)
