"""Primitives: Python's in-place changes, as new values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import SSAValue

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.types import element_of, shape_of
from glow_dialects.fn.domain import TensorType, TupleType, Type
from glow_dialects.fn.domain import text as text_of
from glow_dialects.fn.primitive import Options, Primitive, Term, Typing, number, text
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.values import V

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


class Apart(Primitive):
    """A value that is read after a second one was changed in place: refused where they may share memory.

    `whole`: the first is or holds the second; else it is held by it, and stays where the second is a list.
    `list`: the number of the one that holds the other if it is a list; an array holds nothing.
    """

    name, arity, linear, types_only = "apart", 2, (0,), (1,)

    def vanishes(self, zeros: Sequence[bool]) -> bool:
        return zeros[0]

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        changed = x[1].type
        if "list" in op.attributes and isinstance(x[number(op, "list")].type, TensorType):
            return x[0]
        array = isinstance(changed, TensorType) and bool(changed.shape)
        if _may_share(x[0].type, array, isinstance(changed, TupleType) and _is_whole(op)):
            raise UnsupportedError(f"{where}: {text(op, 'message')}")
        return x[0]

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d


def _is_whole(op: FnOp) -> bool:
    return op.attributes["whole"] == BoolAttr.from_bool(True)


def _may_share(kind: Type, array: bool, items: bool) -> bool:
    """Whether a value may share memory with an array, or with a list whose items change."""
    if isinstance(kind, TupleType):
        return items or any(_may_share(t, array, False) for t in kind.items)
    return (array or items) and isinstance(kind, TensorType) and bool(kind.shape)


class InPlace(Primitive):
    """The value of a name after `x += v`: an array keeps its shape and type."""

    name, arity, linear, types_only = "in_place", 2, (1,), (0,)

    def vanishes(self, zeros: Sequence[bool]) -> bool:
        return zeros[1]

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        old, new = x[0].type, x[1].type
        if not isinstance(old, TensorType) or not old.shape or isinstance(new, TupleType):
            return x[1]
        if isinstance(new, TensorType):
            _check(old.shape, old.dtype, new.shape, new.dtype, where)
            if (old.shape, old.dtype) == (new.shape, new.dtype):
                return x[1]
        return m.tensors(self, op.attributes, x, where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.expand(u.cast(x[1], element_of(x[0])), shape_of(x[0]))

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return x[1].prim(InPlace, d)


def _check(shape: tuple[int, ...], dtype: str, new: tuple[int, ...], kind: str, where: str) -> None:
    """Refuse what NumPy refuses: an array in place of one of another shape or of a lesser kind."""
    plain = "bfloat16" not in (dtype, kind)
    if plain and not np.can_cast(np.dtype(kind), np.dtype(dtype), "same_kind"):
        what = f"{kind} instead of {dtype}, which NumPy refuses; write x = x + v"
        raise UnsupportedError(f"{where}: {what}")
    if len(new) > len(shape) or np.broadcast_shapes(shape, new) != shape:
        old, other = (text_of(TensorType(s, dtype)) for s in (shape, new))
        raise UnsupportedError(f"{where}: {other} instead of {old}; write x = x + v")


CHANGES = (Apart, InPlace)
