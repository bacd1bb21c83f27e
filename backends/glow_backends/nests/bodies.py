"""Bodies of nests, written as arithmetic of the graph's operators on elements; and views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, NoneAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from glow_backends.nests.operations import Memory, MemoryAttr, NumberOp, View, YieldOp
from glow_dialects.core.element_types import by
from glow_dialects.core.extent import Extent
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Tensor, tensor
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.splat import SplatOp


@cache
def element(kind: str) -> Tensor:
    """The type of an element, by the short name of its type."""
    return tensor((), by("short")[kind].dtype)


def scalar(kind: str) -> Attribute:
    """The element type of a short name."""
    return element(kind).element_type


class Body:
    """A body under construction; `values` are the elements that it takes."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self.block = Block(arg_types=[element(k) for k in kinds])
        self.values: Sequence[SSAValue] = self.block.args

    def add(
        self,
        op: type[GraphOp],
        *values: SSAValue,
        kind: str | None = None,
        like: SSAValue | None = None,
        **properties: object,
    ) -> SSAValue:
        """What an operator gives, of the type of the first of `values` if no other is said."""
        result = element(kind) if kind is not None else (like or values[0]).type
        more: dict[str, Any] = properties
        made = op(*values, results=result, **more)
        self.block.add_op(made)
        return made.results[0]

    def number(self, value: float, kind: str) -> SSAValue:
        """A number."""
        return self.add(SplatOp, kind=kind, value=float(value))

    def size(self, value: SSAValue) -> SSAValue:
        """A number of the call, as i32."""
        op = NumberOp(operands=[value], result_types=[element("i32")])
        self.block.add_op(op)
        return op.result

    def cast(self, value: SSAValue, kind: str) -> SSAValue:
        """A value as an element of a type."""
        return value if value.type == element(kind) else self.add(CastOp, value, kind=kind)

    def finish(self, value: SSAValue) -> Region:
        """The body, which yields a value."""
        self.block.add_op(YieldOp(operands=[value]))
        return Region(self.block)


def body(kinds: Sequence[str], write: Callable[..., SSAValue]) -> Region:
    """A body that yields what `write(builder, elements...)` gives."""
    made = Body(kinds)
    return made.finish(write(made, *made.values))


def product_step(a: str, b: str, total: str) -> Region:
    """total + a * b, in the type of the total."""

    def write(t: Body, total_: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.add(AddOp, total_, t.add(MulOp, t.cast(x, total), t.cast(y, total)))

    return body((total, a, b), write)


def sum_step(a: str, total: str) -> Region:
    """total + a."""
    return body((total, a), lambda t, total_, x: t.add(AddOp, total_, t.cast(x, total)))


def view(shape: Sequence[int], kind: str, align: int = 1) -> View:
    """A view of a shape, open where only the call tells a size; `align`: what its lines are multiples of."""
    sizes = [DYNAMIC_INDEX if isinstance(n, Extent) else n for n in shape]
    memory = MemoryAttr(Memory(align)) if align > 1 else NoneAttr()
    return MemRefType(scalar(kind), sizes, NoneAttr(), memory)
