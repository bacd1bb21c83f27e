"""Primitives that are graph operators, with the derivatives of the operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.attributes import to_python
from glow_dialects.core.types import element_of, element_type, is_float, shape_of
from glow_dialects.fn.array_functions.arrays import axes_of, axis_of, counted, summands
from glow_dialects.fn.array_functions.assign import setitem
from glow_dialects.fn.array_functions.getitem import getitem
from glow_dialects.fn.array_functions.signatures import COUNT, MAKERS
from glow_dialects.fn.array_keys import At, key_of, padded_key, shifted
from glow_dialects.fn.domain import ZERO as NOTHING
from glow_dialects.fn.domain import NoneType, Scalar, Text, TupleType
from glow_dialects.fn.primitive import (
    Function,
    Options,
    Primitive,
    Result,
    Subscript,
    Term,
    Terms,
    Typing,
    options_of,
    total,
)
from glow_dialects.fn.primitives.cotangents import SumLike
from glow_dialects.fn.primitives.fitted import fitted, fitting
from glow_dialects.fn.primitives.items import Item
from glow_dialects.fn.regions import plain_options
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.unit import Unit
from glow_dialects.fn.values import V, is_inactive, parts
from glow_dialects.ops import card_of
from glow_dialects.reverse import cotangents, expand, on_path


class ByOperators(Primitive):
    """A primitive on arrays whose derivatives are primitives `vjp:..`, made of its operators' gradients."""

    arity = None

    def vanishes(self, zeros: Sequence[bool]) -> bool:
        return True

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return m.tensors(self, op.attributes, x, where)

    def vjp(self, op: FnOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        """One primitive an operand."""
        options, before = _path_of(op)
        cotangents: list[Term | None] = [None] * len(op.operands)
        for i in reversed(range(len(op.operands))):  # the first may be made of d's own memory
            if op.is_constant(i):
                continue
            indices = DenseArrayBase.from_list(i64, [*before, i])
            first, *rest = [*(x[k] for k in range(len(op.operands))), d]
            cotangents[i] = first.prim(Vjp(self), *rest, **options, indices=indices)
        return cotangents

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        """The transpose of the operators' gradients, which are linear in the cotangent."""
        options, before = _path_of(op)
        tangents: list[Term] = []
        for i, change in enumerate(d):
            if change is not None:
                indices = DenseArrayBase.from_list(i64, [*before, i, len(x)])
                first, *rest = [*x, y, change]
                tangents.append(first.prim(Vjp(Vjp(self)), *rest, **options, indices=indices))
        return total(tangents)


def _path_of(op: FnOp) -> tuple[dict[str, Attribute], list[int]]:
    """The options without the operands that were differentiated by before, and these."""
    options = options_of(op)
    path = options.pop("indices", None)
    return options, [int(i) for i in path.get_values()] if isinstance(path, DenseArrayBase) else []


class Vjp(ByOperators):
    """The cotangent of one operand of a primitive: its operands, then the cotangent of the result.

    `indices` names the operand; of a `vjp:` of a `vjp:`, the operand of the inner one comes first.
    """

    def __init__(self, of: Primitive) -> None:
        self.of = of
        if isinstance(self.base, GetItem):
            self.types_only = (0,)
        elif isinstance(self.base, ArrayFunction) and self.base.stores:
            self.types_only = (0, 1)

    @property
    def text(self) -> str:
        return f"vjp:{self.of.text}"

    @property
    def base(self) -> Primitive:
        """The primitive that was differentiated, perhaps several times."""
        return self.of.base if isinstance(self.of, Vjp) else self.of

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if isinstance(self.base, GetItem) and isinstance(x[0].type, TupleType):
            return self._slice(m, op, x, where)
        wanted = x[_path(op.attributes)[-1]]
        number = isinstance(wanted.type, Scalar) and wanted.type.kind != "float"
        if number or isinstance(wanted.type, Text | NoneType) or is_inactive(wanted):
            return V(NOTHING)
        if (
            isinstance(self.of, ArrayFunction)
            and self.of.stores
            and all(isinstance(v.type, Scalar) for v in x[2:-1])
        ):
            return self._stored(m, op, x, where)
        return super().infer(m, op, x, where)

    def _stored(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        """Of a store at numbers: what it wrote gets the part of the cotangent there, and the rest zeros."""
        known = m.known_bounds(op.attributes, x, where)
        *operands, d = x
        if _path(op.attributes)[-1] == 0:
            zeroed = [d, m.number(0.0), *operands[2:]]
            return m.tensors(self.of, {"key": known["key"]}, zeroed, where)
        part = GetItem().at(m, {"key": shifted(known["key"], -1)}, [d, *operands[2:]], where)
        return SumLike().infer(m, op, [part, operands[1]], where)

    def _slice(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        """Of a part of a tuple: the cotangents of its items; what is applied to that takes the part again."""
        if not _takes_part(op.attributes, len(x)):
            return V(NOTHING)
        part = key_of(m.known_bounds(op.attributes, x, where))[0]
        if self.text.count("vjp:") % 2 == 0:
            return m.tuple(parts(x[-1])[part])
        items = [V(NOTHING)] * len(parts(x[0]))
        items[part] = parts(x[-1])
        return m.tuple(items)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        """The operators again, then their gradients backwards."""
        numbers = _path(attributes)
        inner = {**attributes, "indices": DenseArrayBase.from_list(i64, numbers[:-1])}
        *operands, d = x
        block = u.b.point.block
        before = set(block.ops)
        result = self.of.build(Unit(u.b, u.weak[:-1]), plain_options(inner), inner, operands)
        wanted = operands[numbers[-1]]
        zero = u.b.splat(0, wanted)
        if not is_float(element_of(wanted)):
            return zero
        seed = u.expand(u.cast(d, element_of(result)), shape_of(result))

        def ops() -> list[Operation]:
            return [op for op in block.ops if op not in before]

        replaced = expand(ops(), on_path(ops(), [result], [wanted]))
        result = replaced.get(result, result)
        cotangent = cotangents(ops(), {result: seed}, [wanted], u.b)[wanted]
        return zero if cotangent is None else cotangent


def _path(attributes: Options) -> list[int]:
    """The operands that were differentiated by, one after another."""
    path = attributes["indices"]
    assert isinstance(path, DenseArrayBase)
    return [int(i) for i in path.get_values()]


def _takes_part(attributes: Options, count: int) -> bool:
    """Whether a `vjp:` of getitem, with `count` operands, is by the operand in which it is linear.

    Of getitem, that is the first operand; of what is applied to its cotangent, the cotangent, which is last.
    """
    first, *rest = _path(attributes)
    own = count - 1 - len(rest)
    return first == 0 and rest == list(range(own, own + len(rest)))


class Operator(ByOperators):
    """An operator of the graph by its name: `op:relu`."""

    def __init__(self, operator: str) -> None:
        if card_of(operator) is None:
            raise VerifyException(f"there is no operator {operator}; see the reference of operators")
        self.operator = operator

    @property
    def text(self) -> str:
        return f"op:{self.operator}"

    @property
    def short(self) -> str:
        return "a matrix product" if self.operator == "batch_matmul" else self.operator

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        name, rank = self.operator, len(shape_of(x[0])) if x else 0
        if name.startswith("reduce_") and "axes" not in options:
            options["axes"] = axes_of(options.pop("axis", None), rank)
            options.setdefault("keepdims", False)
            if name in ("reduce_sum", "reduce_prod"):
                return u.op(name, summands(u, x[0]), **options)
            return u.cast(u.op(name, counted(u, x[0]), **options), element_of(x[0]))
        if name == "transpose" and "permutation" not in options:
            options["permutation"] = tuple(reversed(range(rank)))
        if "axis" in options and isinstance(options["axis"], int):
            options["axis"] = axis_of(options["axis"], rank)
        if name == "concat":
            return u.op(name, *[u.common(x, u.weak)], **options)
        if name == "batch_matmul":
            return _product(u, *u.common(x, u.weak))
        if name in ("softmax", "log_softmax"):
            options.setdefault("axis", rank - 1)
        return u.op(name, *x, **options)

    def subscripts(self, attributes: Options, shapes: Sequence[tuple[int, ...]]) -> list[Subscript]:
        return _along(attributes, shapes) if self.operator == "gather" else []


def _product(u: Unit, left: SSAValue, right: SSAValue) -> SSAValue:
    """numpy.matmul with vectors as well."""
    a, b = shape_of(left), shape_of(right)
    if not a or not b:
        raise VerifyException("matrix product of a number; multiply with *")
    wide_left = u.reshape(left, (1, *a)) if len(a) == 1 else left
    wide_right = u.reshape(right, (*b, 1)) if len(b) == 1 else right
    if shape_of(wide_left)[-1] != shape_of(wide_right)[-2]:
        text = " and ".join("x".join(map(str, s)) for s in (a, b))
        raise VerifyException(
            f"matrix product of {text}: {a[-1]} columns and {b[0] if len(b) == 1 else b[-2]} rows"
            "; these numbers must be equal"
        )
    kind = "matmul" if len(shape_of(wide_left)) == len(shape_of(wide_right)) == 2 else "batch_matmul"
    product = u.op(kind, wide_left, wide_right)
    shape = list(shape_of(product))
    if len(b) == 1:
        shape.pop()
    if len(a) == 1:
        shape.pop(-1 if len(b) == 1 else -2)
    return u.reshape(product, shape)


def _along(attributes: Options, shapes: Sequence[tuple[int, ...]]) -> list[Subscript]:
    axis = attributes.get("axis")
    if not isinstance(axis, IntegerAttr):
        return [(1, math.prod(shapes[0]))]
    return [(1, shapes[0][axis.value.data])]


def _keyed(attributes: Options, shapes: Sequence[tuple[int, ...]]) -> list[Subscript]:
    entries = [e for e in padded_key(key_of(attributes), len(shapes[0])) if e is not None]
    return [(e.place, size) for e, size in zip(entries, shapes[0], strict=False) if isinstance(e, At)]


#: Functions whose second operand becomes elements of the first.
_STORES = ("setitem", "insert")


class ArrayFunction(ByOperators):
    """A function of arrays by its name in NumPy: `np:cumsum`."""

    def __init__(self, function: str) -> None:
        if function not in MAKERS and function != "setitem":
            raise VerifyException(
                f"there is no function of arrays {function}; see the reference of functions"
            )
        self.of, self.stores = function, function == "setitem"

    @property
    def text(self) -> str:
        return f"np:{self.of}"

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if self.of in _STORES:
            x = [x[0], fitted(m, x[0], x[1], where), *x[2:]]
        return super().infer(m, op, x, where)

    def python(self, op: FnOp) -> Function:
        run = super().python(op)
        if self.of not in _STORES:
            return run
        return lambda whole, value, *places: run(whole, fitting(whole, value, op.source), *places)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        if self.of == "setitem":
            return setitem(u, key_of(attributes), x)
        arguments = {n: _listed(v) for n, v in options.items()}
        count = arguments.pop(COUNT, len(x))
        return MAKERS[self.of](u, *x[:count], **arguments)

    def subscripts(self, attributes: Options, shapes: Sequence[tuple[int, ...]]) -> list[Subscript]:
        if self.of == "setitem":
            return _keyed(attributes, shapes)
        return _along(attributes, shapes) if self.of in ("take", "take_along_axis") else []


def _listed(option: Any) -> Any:
    return [_listed(to_python(e)) for e in option.data] if isinstance(option, ArrayAttr) else option


class GetItem(ByOperators):
    """x[key] of slices and several subscripts; a part of a tuple."""

    name = "getitem"

    def vanishes(self, zeros: Sequence[bool]) -> bool:
        return zeros[0]

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        attributes = m.known_bounds(op.attributes, x, where)
        if isinstance(x[0].type, TupleType):
            return m.tuple(parts(x[0])[key_of(attributes)[0]])
        return self.at(m, attributes, x, where)

    def at(self, m: Typing, attributes: Options, x: list[V], where: str) -> V:
        """The part of an array."""
        result, *indices = x
        key = key_of(attributes)
        if all(isinstance(e, At) for e in key) and all(isinstance(v.type, Scalar) for v in indices):
            for index in indices:  # rows of memory are found without a copy
                result = Item().at(m, result, index, where)
            return result
        return m.tensors(self, attributes, x, where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return getitem(u, attributes, x)

    def subscripts(self, attributes: Options, shapes: Sequence[tuple[int, ...]]) -> list[Subscript]:
        return _keyed(attributes, shapes)


class Stack(ByOperators):
    """Arrays and numbers along a new axis."""

    name = "stack"

    @property
    def short(self) -> str:
        return "np.array"

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        same = u.common(x, [False] * len(x))  # a number in a list counts as an array of its type
        shape = shape_of(same[0])
        if any(shape_of(v) != shape for v in same):
            shapes = " and ".join(sorted({str(shape_of(v)) for v in same}))
            raise VerifyException(f"items of shapes {shapes}; give them the same shape")
        axis = options["axis"] % (len(shape) + 1)
        rows = [u.reshape(v, (*shape[:axis], 1, *shape[axis:])) for v in same]
        joined = u.op("concat", rows, axis=axis)  # pyright: ignore[reportArgumentType]
        return u.cast(joined, element_type(options["dtype"])) if "dtype" in options else joined


OPERATORS = (Operator, ArrayFunction, Vjp, GetItem, Stack)


def operator_primitive(text: str) -> Primitive | None:
    """The primitive of an operator of the graph, `op:relu`, or of a function of arrays, `np:cumsum`."""
    prefix, _, rest = text.partition(":")
    return Operator(rest) if prefix == "op" else ArrayFunction(rest) if prefix == "np" else None
