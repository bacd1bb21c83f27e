"""Primitives of derivatives: tangents and cotangents of numbers, arrays, tuples and closures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.types import element_of, shape_of
from glow_dialects.fn.domain import (
    BOOL,
    FLOAT,
    INT,
    FnType,
    NamedType,
    NoneType,
    Scalar,
    TensorType,
    Text,
    TupleType,
    Type,
    marked,
    text,
    widened,
)
from glow_dialects.fn.domain import ZERO as NOTHING
from glow_dialects.fn.primitive import (
    Constant,
    Function,
    Options,
    Primitive,
    Result,
    Term,
    Terms,
    Typing,
    number,
    total,
)
from glow_dialects.fn.python_values import (
    ZERO,
    add_cotangents,
    env_item,
    put,
)
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.values import V, components, is_zero, parts

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


class Zero(Constant):
    """The symbolic zero: the tangent or cotangent of any value."""

    name, arity = "zero", 0

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return V(NOTHING)

    def python(self, op: FnOp) -> Function:
        return lambda: ZERO


class AddAny(Primitive):
    """The sum of two tangents or cotangents; tuples of captured values are aligned at their ends."""

    name, arity = "add_any", 2

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return m.add(x[0], x[1])

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.op("add", *x)

    def python(self, op: FnOp) -> Function:
        return add_cotangents

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        return total(d)

    def vjp(self, op: FnOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        return [d, d]


class _Like(Primitive):
    """The first operand in the form that the second has; linear in the first."""

    arity, linear, types_only = 2, (0,), (1,)


class SumLike(_Like):
    """Summed over the axes of broadcasting; nothing where the value is no float."""

    name = "sum_like"

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        d, kind = x[0], x[1].type
        if not isinstance(kind, Scalar | TensorType):
            return V(NOTHING)
        if isinstance(kind, Scalar):
            if kind.kind != "float":
                return V(NOTHING)
            if isinstance(d.type, Scalar):
                return m.as_kind(d, "float")
        elif kind.inactive or np.dtype(kind.dtype if kind.dtype != "bfloat16" else "float32").kind != "f":
            return V(NOTHING)
        return m.tensors(self, op.attributes, x, where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.summed(u.cast(x[0], element_of(x[1])), shape_of(x[1]))

    def python(self, op: FnOp) -> Function:
        on_arrays = self.on_arrays(op)

        def run(d: Any, x: Any) -> Any:
            if isinstance(x, bool | int) or x is ZERO:
                return ZERO
            if isinstance(d, float) and isinstance(x, float):
                return d
            if isinstance(x, np.ndarray | np.generic) and x.dtype.kind not in "fV":
                return ZERO
            return on_arrays(d, x)

        return run

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.like(x[0])


class BroadcastLike(_Like):
    """Broadcast to the shape of a value, in its type, which must hold a number that is an int."""

    name, fits = "broadcast_like", True

    def vanishes(self, zeros: Sequence[bool]) -> bool:
        return True

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if isinstance(x[0].type, Scalar) and isinstance(x[1].type, Scalar):
            if x[0].type.kind == "int" and x[1].type.kind == "bool":
                return m.truth(x[0], where)
            return m.as_kind(x[0], "float") if x[1].type.kind == "float" else x[0]
        return m.tensors(self, op.attributes, x, where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.expand(u.cast(x[0], element_of(x[1])), shape_of(x[1]))

    def python(self, op: FnOp) -> Function:
        on_arrays = self.on_arrays(op)

        def run(d: Any, x: Any) -> Any:
            if isinstance(x, np.ndarray | np.generic):
                return on_arrays(d, x)
            return type(x)(d) if isinstance(x, float | bool) and isinstance(d, int) else d

        return run

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.sum_like(x[0])


class ReshapeLike(_Like):
    """The elements under the shape of another value."""

    name = "reshape_like"

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.reshape(x[0], shape_of(x[1]))

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(ReshapeLike, x[0])


class OnesLike(Constant):
    """1 in the type of a value, which is a number: the first cotangent."""

    name, types_only = "ones_like", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        kind = x[0].type
        if kind == FLOAT:
            return m.number(1.0)
        if isinstance(kind, TensorType) and not kind.shape:
            return m.tensors(BroadcastLike(), {}, [m.number(1.0), x[0]], where)
        place = where or "grad"
        raise UnsupportedError(f"{place}: grad of a function that returns {text(kind)}; return a float")


class Fill(_Like):
    """A cotangent without symbolic zeros, as declared gradients take it, for a value like the second."""

    name = "fill"

    def vanishes(self, zeros: Sequence[bool]) -> bool:
        return False

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        d, kind = x[0], x[1].type
        other = not isinstance(kind, TensorType | TupleType) and widened(kind) != FLOAT
        return d if is_zero(d) and other else filled(m, d, kind)

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        return d[0]

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d


class InstantiateZeros(Fill):
    """A gradient without symbolic zeros, for a value that can be differentiated by."""

    name = "instantiate_zeros"

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        kind = x[1].type
        if isinstance(kind, FnType | NamedType | Scalar | Text | NoneType) and widened(kind) != FLOAT:
            hint = "differentiate by floats, arrays and tuples of them"
            raise UnsupportedError(f"grad: argument {number(op, 'position')} is {text(kind)}; {hint}")
        return filled(m, x[0], kind)


def filled(m: Typing, d: V, kind: Type) -> V:
    """A cotangent without symbolic zeros, for a value of a type."""
    if isinstance(kind, TupleType):
        items = [V(NOTHING)] * len(kind.items) if is_zero(d) else parts(d)
        return m.tuple([filled(m, a, t) for a, t in zip(items, kind.items, strict=True)], kind)
    return m.zeros(kind) if is_zero(d) else d


class CheckCotangent(_Like):
    """A parameter's cotangent by a declared gradient: None is nothing, a number may stand for an array."""

    name, types_only = "check_cotangent", ()

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        d, like = x
        if is_zero(d) or isinstance(d.type, NoneType) or like.type in (INT, BOOL):
            return V(NOTHING)
        match d.type, like.type:
            case TupleType(), TupleType() if len(like.type.items) == len(d.type.items):
                pairs = zip(parts(d), parts(like), strict=True)
                return m.tuple([self.infer(m, op, [a, b], where) for a, b in pairs])
            case Scalar(), Scalar():
                return m.as_kind(d, "float")
            case (Scalar(), TensorType()):
                return m.tensors(BroadcastLike(), {}, x, where)
            case (TensorType(), TensorType()) if like.type.shape == d.type.shape:
                return m.tensors(SumLike(), {}, x, where)
            case _:
                what = f"{text(d.type)} for {text(like.type)}; give one of the same type and shape, or None"
                raise UnsupportedError(f"{where}: the declared gradient gives {what}")

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return BroadcastLike().build(u, options, attributes, x)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d


class Identity(Primitive):
    """A value as it is."""

    linear = (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return x[0]

    def python(self, op: FnOp) -> Function:
        return lambda x: x

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        return d[0]

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d


class StopGradient(Identity, Constant):
    """A value that counts as constant."""

    name, linear = "stop_gradient", ()

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        return None


class Inactive(StopGradient):
    """A value whose arrays nothing that is differentiated by reaches: they have no cotangents."""

    name, maps = "inactive", True

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return V(marked(m.sets.resolve(x[0].type), True), x[0].code)


class Active(Identity):
    """A value whose arrays may be differentiated by."""

    name, maps = "active", True

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return V(marked(m.sets.resolve(x[0].type), False), x[0].code)


class AreFloats(Constant):
    """Whether all values are floats."""

    name, arity = "are_floats", None

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return m.number(all(v.type == FLOAT for v in x))


# --- cotangents of functions: the tuple of those of their captured values, aligned at its end ----
class EnvItem(Primitive):
    """Item `i` of the last `n` cotangents; of the function `of` only, where it is given."""

    name, linear = "env_item", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return m.picked(x[0], number(op, "n"), number(op, "i"), _of(op))

    def python(self, op: FnOp) -> Function:
        return lambda d, n=number(op, "n"), i=number(op, "i"): env_item(d, n, i)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return EnvPut().applied(op, [d])


class EnvPut(Primitive):
    """The cotangents of which item `i` of the last `n` is given."""

    name, linear = "env_put", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        n, i = number(op, "n"), number(op, "i")
        slots = m.tuple([V(NOTHING)] * i + [x[0]] + [V(NOTHING)] * (n - i - 1))
        of = _of(op)
        return slots if of is None else m.env({of: slots})

    def python(self, op: FnOp) -> Function:
        n = number(op, "n" if "n" in op.attributes else "of")
        return lambda d, i=number(op, "i"): put(n, i, d)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return EnvItem().applied(op, [d])


class EnvDrop(Primitive):
    """All cotangents but the last `n`."""

    name, linear = "env_drop", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        n = number(op, "n")
        kept = {name: parts(v)[: max(len(parts(v)) - n, 0)] for name, v in components(x[0]).items()}
        entries = {name: m.tuple(items) for name, items in kept.items() if items}
        return m.env(entries) if entries else V(NOTHING)

    def python(self, op: FnOp) -> Function:
        return lambda d, n=number(op, "n"): d[: len(d) - n] or ZERO

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return EnvPad().applied(op, [d])


class EnvPad(Primitive):
    """The cotangents followed by `n` zeros."""

    name, linear = "env_pad", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        zeros = [V(NOTHING)] * number(op, "n")
        return m.env({n: m.tuple([*parts(v), *zeros]) for n, v in components(x[0]).items()})

    def python(self, op: FnOp) -> Function:
        return lambda d, n=number(op, "n"): d + (ZERO,) * n

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return EnvDrop().applied(op, [d])


def _of(op: FnOp) -> str | None:
    name = op.attributes.get("of")
    return name.data if isinstance(name, StringAttr) else None


COTANGENTS = (
    Zero, AddAny, SumLike, BroadcastLike, ReshapeLike, OnesLike, InstantiateZeros, Fill, CheckCotangent,
    StopGradient, Inactive, Active, AreFloats, EnvItem, EnvPut, EnvDrop, EnvPad,
)  # fmt: skip
