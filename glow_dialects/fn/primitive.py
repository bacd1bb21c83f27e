"""Primitive: the base of the cards of `glow_fn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.fn.domain import ZERO as NOTHING
from glow_dialects.fn.python_values import ZERO
from glow_dialects.fn.regions import evaluate
from glow_dialects.fn.syntax import LINE
from glow_dialects.fn.values import V, is_zero

if TYPE_CHECKING:
    from glow_dialects.fn.dialect import PrimOp
    from glow_dialects.fn.maker import Term
    from glow_dialects.fn.meaning import Meaning
    from glow_dialects.fn.unit import Unit

#: The function that the interpreter runs.
Function = Callable[..., Any]
Options = Mapping[str, Attribute]
#: Tangents or cotangents of the operands, None where there is nothing to be added.
Terms = Sequence["Term | None"]
#: The result of a primitive, computed when it is first asked for.
Result = Callable[[], "Term"]
#: (operand, size of the axis that it is a subscript of).
Subscript = tuple[int, int]


class Primitive:
    """One primitive: its number of operands, types and code, meaning in Python, and derivatives.

    `linear` are the operands that the result is linear in, `types_only` those of which only the type is
    used, `called` the functions of Python and NumPy that it is. Primitives of one class and name are equal.
    """

    name: ClassVar[str] = ""
    arity: ClassVar[int | None] = 1
    linear: ClassVar[tuple[int, ...]] = ()
    types_only: ClassVar[tuple[int, ...]] = ()
    called: ClassVar[tuple[Any, ...]] = ()

    @property
    def text(self) -> str:
        """The name in the text of a program."""
        return self.name

    @property
    def short(self) -> str:
        """The name in messages to users."""
        return self.text.split(":")[-1]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.text == other.text  # pyright: ignore

    def __hash__(self) -> int:
        return hash(self.text)

    def vanishes(self, zeros: Sequence[bool]) -> bool:
        """Whether the result is the symbolic zero where some operands are."""
        return any(zeros[i] for i in self.linear)

    # --- types and code ---------------------------------------------------------------------------
    def typed(self, m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
        """The value for typed operands, symbolic zeros included."""
        zeros = [is_zero(v) for v in x]
        return V(NOTHING) if True in zeros and self.vanishes(zeros) else self.infer(m, op, x, where)

    def infer(self, m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
        """The type and code of the value for typed operands."""
        return m.tensors(self, op.attributes, x, where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        """The value for arrays, made of operators; VerifyException where shapes do not fit."""
        raise VerifyException(f"{self.short} is not defined for arrays")

    def subscripts(self, attributes: Options, shapes: Sequence[tuple[int, ...]]) -> list[Subscript]:
        """Which operands are subscripts, for operands of these shapes, which fit."""
        return []

    # --- meaning ----------------------------------------------------------------------------------
    def function(self, op: PrimOp) -> Function:
        """The value in the interpreter, symbolic zeros included."""
        run = self.python(op)

        def guarded(*x: Any) -> Any:
            zeros = [v is ZERO for v in x]
            return ZERO if True in zeros and self.vanishes(zeros) else run(*x)

        return guarded

    def python(self, op: PrimOp) -> Function:
        """The value of Python's numbers, tuples and NumPy's arrays in the interpreter."""
        return self.on_arrays(op)

    def on_arrays(self, op: PrimOp) -> Function:
        """The value of arrays in the interpreter."""
        attributes = dict(op.attributes)
        return lambda *x: evaluate(self, attributes, x, op.source)

    # --- derivatives ------------------------------------------------------------------------------
    def jvp(self, op: PrimOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        """The tangent of the result for those of the operands: itself, where it is linear in one."""
        if len(self.linear) != 1:
            raise UnsupportedError(f"{op.source}: no gradient for {self.short}; use glow.stop_gradient")
        (at,) = self.linear
        change = d[at]
        return (
            None if change is None else self.applied(op, [change if i == at else v for i, v in enumerate(x)])
        )

    def vjp(self, op: PrimOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        """The cotangents of the operands for that of the result: the transpose, where it is linear."""
        if not self.linear:
            raise UnsupportedError(f"{op.source}: no gradient for {self.short}; use glow.stop_gradient")
        return [self.transpose(op, i, d, x) if i in self.linear else None for i in range(len(x))]

    def transpose(self, op: PrimOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        """The cotangent of operand `i`, which the result is linear in."""
        raise NotImplementedError(self.name)

    def applied(self, op: PrimOp, x: Sequence[Term]) -> Term:
        """The primitive with the options of `op` on other operands."""
        return x[0].prim(self, *x[1:], **options_of(op))


#: A primitive, or the class of one without parameters.
Card = Primitive | type[Primitive]


class Constant(Primitive):
    """A primitive whose derivative is zero, or that asks for types only."""

    def jvp(self, op: PrimOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        return None

    def vjp(self, op: PrimOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        return [None] * len(x)


class Pointwise(Primitive):
    """A primitive that works element by element, with broadcasting: its derivative is a product.

    The derivative by each operand is written once, and read in both directions.
    """

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        """`d` times the derivative of the result by operand `i`; None where that is zero."""
        raise NotImplementedError(self.name)

    def jvp(self, op: PrimOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        total: Term | None = None
        for i, change in enumerate(d):
            part = None if change is None else self.partial(i, change, x, lambda: y)
            if part is not None:
                total = part.like(y) if total is None else total.plus(part.like(y))
        return total

    def vjp(self, op: PrimOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        cotangents: list[Term | None] = []
        for i in range(len(op.operands)):
            part = None if op.is_constant(i) else self.partial(i, d, x, y)
            cotangents.append(None if part is None else part.sum_like(x[i]))
        return cotangents


def options_of(op: PrimOp) -> dict[str, Attribute]:
    """The options of a primitive, without the source line."""
    return {n: a for n, a in op.attributes.items() if n != LINE}


def number(op: PrimOp, name: str) -> int:
    """An integer option."""
    attribute = op.attributes[name]
    assert isinstance(attribute, IntegerAttr)
    return attribute.value.data


def text(op: PrimOp, name: str) -> str:
    """A text among the options."""
    attribute = op.attributes[name]
    assert isinstance(attribute, StringAttr)
    return attribute.data
