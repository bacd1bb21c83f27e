"""Primitive: the base class of the operations of `glow_fn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.fn.domain import ZERO as NOTHING
from glow_dialects.fn.domain import Sets, TupleType, Type
from glow_dialects.fn.python_values import ZERO
from glow_dialects.fn.regions import evaluate
from glow_dialects.fn.syntax import LINE, FnOp
from glow_dialects.fn.values import V, is_zero

if TYPE_CHECKING:
    from glow_dialects.core.graph_op import GraphOp
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


class Term(Protocol):
    """A value in a formula: a derivative is written in terms (`maker.Term` inserts operations)."""

    @property
    def value(self) -> SSAValue:
        """The value."""
        ...

    @property
    def constant(self) -> bool | int | float | None:
        """The number that the value is known to be."""
        ...

    def prim(self, card: Card, *others: Term | float | int, **attributes: Attribute) -> Term:
        """A primitive of this value and others."""
        ...

    def of(self, other: Term | float | int) -> Term:
        """A number as a term."""
        ...

    def operator(self, kind: type[GraphOp], *others: Term) -> Term:
        """The primitive that a graph operator is, of this value and others."""
        ...

    def zero(self) -> Term:
        """The symbolic zero."""
        ...

    def sum_like(self, other: Term) -> Term:
        """Summed over the axes along which `other` was broadcast; nothing where `other` is no float."""
        ...

    def like(self, other: Term) -> Term:
        """Broadcast to the shape of `other`, in its type."""
        ...

    def plus(self, other: Term) -> Term:
        """The sum of two tangents or cotangents."""
        ...

    def __add__(self, other: Term | float | int) -> Term: ...

    def __sub__(self, other: Term | float | int) -> Term: ...

    def __mul__(self, other: Term | float | int) -> Term: ...

    def __truediv__(self, other: Term | float | int) -> Term: ...

    def __neg__(self) -> Term: ...


class Typing(Protocol):
    """The operations on typed values that cards use (`meaning.Meaning`); `t` is the target of the code."""

    sets: Sets
    t: Any
    #: The maps that go row by row.
    by_rows: Set[str]

    def convert(self, v: V, want: Type) -> V:
        """The value as another type that covers its own."""
        ...

    def number(self, value: float | int | bool) -> V:
        """A constant."""
        ...

    def tuple(self, items: Sequence[V], like: TupleType | None = None) -> V:
        """A tuple, with the names that another type of tuples has."""
        ...

    def env(self, entries: dict[str, V]) -> V:
        """Cotangents by function."""
        ...

    def zeros(self, kind: Type) -> V:
        """The zero of a type."""
        ...

    def add(self, a: V, b: V) -> V:
        """The sum of two cotangents."""
        ...

    def picked(self, d: V, n: int, i: int, of: str | None) -> V:
        """Item i of the last n cotangents of one function; of all, added, where it is not known."""
        ...

    def as_kind(self, v: V, want: str) -> V:
        """A scalar as one of another kind."""
        ...

    def truth(self, v: V, where: str) -> V:
        """A value as a bool."""
        ...

    def switch(self, condition: V, yes: V, no: V, where: str) -> V:
        """One of two values."""
        ...

    def get(self, v: V, index: int, where: str) -> V:
        """An item of a tuple."""
        ...

    def layer(self, index: V, values: Sequence[V], where: str) -> V:
        """The value at an index."""
        ...

    def inside(self, index: V, size: int, where: str) -> None:
        """Code that raises IndexError where a subscript lies outside an axis."""
        ...

    def known_bounds(self, attributes: Any, x: list[V], where: str) -> Any:
        """The attributes of a primitive, with the numbers of slices that are arguments."""
        ...

    def no_numbers(self, card: Primitive, x: Sequence[V], where: str) -> UnsupportedError:
        """The error of operands that are neither numbers nor arrays."""
        ...

    def scalar(self, card: Any, x: list[V], where: str) -> V:
        """A primitive on scalars."""
        ...

    def tensors(self, card: Primitive, attributes: Any, x: list[V], where: str) -> V:
        """A primitive on tensors: the type that its operators give."""
        ...


class Primitive:
    """One primitive: its number of operands, types and code, meaning in Python, and derivatives.

    `linear` are the operands that the result is linear in, `types_only` those of which only the type is
    used, `called` the functions of Python and NumPy that it is. `fits`: Python's ints beside arrays of ints
    must be of their type. `stores`: the first operand with other elements, in its memory where nothing
    reads it later. `maps`: of what is mapped over, it takes all rows. Primitives of one class and name
    are equal.
    """

    name: ClassVar[str] = ""
    arity: ClassVar[int | None] = 1
    linear: ClassVar[tuple[int, ...]] = ()
    types_only: tuple[int, ...] = ()
    fits: ClassVar[bool] = False
    stores: bool = False
    maps: ClassVar[bool] = False
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
    def typed(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        """The value for typed operands, symbolic zeros included."""
        zeros = [is_zero(v) for v in x]
        return V(NOTHING) if True in zeros and self.vanishes(zeros) else self.infer(m, op, x, where)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        """The type and code of the value for typed operands."""
        return m.tensors(self, op.attributes, x, where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        """The value for arrays, made of operators; VerifyException where shapes do not fit."""
        raise VerifyException(f"{self.short} is not defined for arrays; use numbers")

    def subscripts(self, attributes: Options, shapes: Sequence[tuple[int, ...]]) -> list[Subscript]:
        """Which operands are subscripts, for operands of these shapes, which fit."""
        return []

    # --- meaning ----------------------------------------------------------------------------------
    def function(self, op: FnOp) -> Function:
        """The value in the interpreter, symbolic zeros included."""
        return self.guarded(self.python(op))

    def guarded(self, run: Function) -> Function:
        """A function of values that are no symbolic zeros, for such too."""

        def guarded(*x: Any) -> Any:
            zeros = [v is ZERO for v in x]
            return ZERO if True in zeros and self.vanishes(zeros) else run(*x)

        return guarded

    def python(self, op: FnOp) -> Function:
        """The value of arrays in the interpreter; where there is none but `infer`, it is what that says."""
        return self.on_arrays(op)

    def on_arrays(self, op: FnOp) -> Function:
        """The value of arrays in the interpreter."""
        attributes = dict(op.attributes)
        return lambda *x: evaluate(self, attributes, x, op.source)

    # --- derivatives ------------------------------------------------------------------------------
    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        """The tangent of the result for those of the operands: itself, where it is linear in one."""
        if len(self.linear) != 1:
            raise UnsupportedError(f"{op.source}: no gradient for {self.short}; use glow.stop_gradient")
        (at,) = self.linear
        change = d[at]
        return (
            None if change is None else self.applied(op, [change if i == at else v for i, v in enumerate(x)])
        )

    def vjp(self, op: FnOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        """The cotangents of the operands for that of the result: the transpose, where it is linear."""
        if not self.linear:
            raise UnsupportedError(f"{op.source}: no gradient for {self.short}; use glow.stop_gradient")
        return [self.transpose(op, i, d, x) if i in self.linear else None for i in range(len(x))]

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        """The cotangent of operand `i`, which the result is linear in."""
        raise NotImplementedError(self.name)

    def applied(self, op: FnOp, x: Sequence[Term]) -> Term:
        """The primitive with the options of `op` on other operands."""
        return x[0].prim(self, *x[1:], **options_of(op))


#: A primitive, or the class of one without parameters.
Card = Primitive | type[Primitive]


class Constant(Primitive):
    """A primitive whose derivative is zero, or that asks for types only."""

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        return None

    def vjp(self, op: FnOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        return [None] * len(x)


class Pointwise(Primitive):
    """A primitive that works element by element, with broadcasting: its derivative is a product.

    The derivative by each operand is written once, and read in both directions.
    """

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        """`d` times the derivative of the result by operand `i`; None where that is zero."""
        raise NotImplementedError(self.name)

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        parts = [None if c is None else self.partial(i, c, x, lambda: y) for i, c in enumerate(d)]
        return total([None if part is None else part.like(y) for part in parts])

    def vjp(self, op: FnOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        cotangents: list[Term | None] = []
        for i in range(len(op.operands)):
            part = None if op.is_constant(i) else self.partial(i, d, x, y)
            cotangents.append(None if part is None else part.sum_like(x[i]))
        return cotangents


def total(terms: Terms) -> Term | None:
    """The sum of tangents; None where there are none."""
    known = [t for t in terms if t is not None]
    return reduce(lambda a, b: a.plus(b), known) if known else None


def options_of(op: FnOp) -> dict[str, Attribute]:
    """The options of a primitive, without the source line."""
    return {n: a for n, a in op.attributes.items() if n != LINE}


def number(op: FnOp, name: str) -> int:
    """An integer option."""
    attribute = op.attributes[name]
    assert isinstance(attribute, IntegerAttr)
    return attribute.value.data


def text(op: FnOp, name: str) -> str:
    """A text among the options."""
    attribute = op.attributes[name]
    assert isinstance(attribute, StringAttr)
    return attribute.data
