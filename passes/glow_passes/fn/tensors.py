"""Primitives on tensors as graph operators, their gradients by the cards' own, and their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, f64, i1, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.attributes import to_python
from glow_dialects.core.builder import Builder
from glow_dialects.core.errors import ShapeError, UnsupportedError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import (
    Array,
    Tensor,
    broadcast_shapes,
    dtype_of,
    element_of,
    element_type,
    is_float,
    shape_of,
    tensor,
    tensor_of,
    typed,
)
from glow_dialects.fn.arrays import COUNT, signature
from glow_dialects.fn.syntax import LINE
from glow_dialects.ops import card_of
from glow_passes.fn.arrays import ARRAYS, Maker, axes_of, axis_of, real
from glow_passes.fn.assign import item, item_put, rows, rows_put, setitem, taken, with_item
from glow_passes.fn.getitem import getitem, outside
from glow_passes.fn.matrices import MATRICES
from glow_passes.fn.subscripts import check
from glow_passes.fn.tensor_shapes import key_of, with_bounds

Attributes = Mapping[str, Attribute]

_UNARY = [
    "neg", "abs", "exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sign", "floor", "ceil", "round", "not",
]  # fmt: skip
_BINARY = ["add", "sub", "mul", "div", "floor_div", "mod", "pow", "max", "min", "fmod"]
_COMPARE = ["eq", "ne", "lt", "le", "gt", "ge"]


@dataclass(frozen=True)
class Kind:
    """The type of an argument; `weak` scalars take the element type of the tensors beside them."""

    type: Tensor
    weak: bool = False


class Unit:
    """Builds the operators of one primitive in a block whose arguments are its tensors."""

    def __init__(self, b: Builder, weak: Sequence[bool]) -> None:
        self.b = b
        self.weak = weak

    def op(
        self,
        name: str,
        *values: SSAValue | Sequence[SSAValue],
        results: Attribute | None = None,
        **options: object,
    ) -> SSAValue:
        """One operator of a card, by name."""
        card = card_of(name)
        assert card is not None, name
        found = next(
            c for c in vars(card).values() if isinstance(c, type) and getattr(c, "name", "") == f"glow.{name}"
        )
        return self.b(found(*values, results=results, **options))

    def cast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The value with another element type."""
        if element_of(value) == element:
            return value
        return self.op("cast", value, results=tensor(shape_of(value), element))

    def common(self, values: Sequence[SSAValue], weak: Sequence[bool]) -> list[SSAValue]:
        """Values of one element type: the widest of the tensors, weak scalars adapted to it."""
        strong = [dtype_of(v.type) for v, w in zip(values, weak, strict=True) if not w]
        dtype = reduce(np.promote_types, strong or [dtype_of(v.type) for v in values])
        if dtype.kind != "f" and any(dtype_of(v.type).kind == "f" for v in values):
            dtype = np.dtype(np.float64)
        return [self.cast(v, element_type(dtype)) for v in values]

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The same elements under another shape."""
        kind = tensor(shape, element_of(value))
        return value if value.type == kind else self.op("reshape", value, results=kind)

    def expand(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Broadcast to a shape."""
        kind = tensor(shape, element_of(value))
        return value if value.type == kind else self.op("expand", value, results=kind)

    def summed(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Summed over what a value of `shape` was broadcast along."""
        have, want = shape_of(value), tuple(shape)
        if have == want:
            return value
        lead = len(have) - len(want)
        if lead < 0:
            return self.expand(value, want)
        axes = [*range(lead)] + [i + lead for i, s in enumerate(want) if s == 1 and have[i + lead] != 1]
        total = self.op("reduce_sum", value, axes=tuple(axes), keepdims=True) if axes else value
        made = self.reshape(total, want) if int(np.prod(shape_of(total))) == int(np.prod(want)) else None
        return made if made is not None else self.expand(total, want)


def build(
    name: str, attributes: Attributes, values: Sequence[SSAValue], weak: Sequence[bool], b: Builder
) -> SSAValue:
    """The result of a primitive, made of operators at `b`; VerifyException where shapes do not fit."""
    u = Unit(b, weak)
    options = {n: to_python(a) for n, a in attributes.items() if n not in (LINE, "indices")}
    if name.startswith("vjp:"):
        return _gradient(u, name, attributes, values, weak)
    if name in _UNARY:
        return _unary(u, name, values[0])
    if name in _BINARY:
        left, right = u.common(values, weak)
        if name == "div" and not is_float(element_of(left)):
            left, right = u.cast(left, f64), u.cast(right, f64)
        return u.op(name, left, right)
    if name in _COMPARE:
        return u.op(f"cmp_{name}", *u.common(values, weak))
    if name.startswith("np:"):
        return _function(u, name.removeprefix("np:"), attributes, options, values)
    if name.startswith("op:"):
        return _card(u, name.removeprefix("op:"), options, values, weak)
    maker = _OTHERS.get(name)
    if maker is None:
        raise VerifyException(f"{name} is not defined for arrays")
    return maker(u, options, attributes, values)


def _function(
    u: Unit, name: str, attributes: Attributes, options: dict[str, Any], values: Sequence[SSAValue]
) -> SSAValue:
    """A function of arrays by its name in NumPy."""
    if name == "setitem":
        return setitem(u, key_of(attributes), values)
    known = signature(name)
    assert known is not None, name
    given = {n: _listed(v) for n, v in options.items()}
    count = given.pop(COUNT, len(values))
    return _FUNCTIONS[name](u, *values[:count], **{**known.options, **given})


def _listed(option: Any) -> Any:
    return [_listed(to_python(e)) for e in option.data] if isinstance(option, ArrayAttr) else option


def _unary(u: Unit, name: str, x: SSAValue) -> SSAValue:
    if name == "not":
        return u.op("not", u.op("cast", x, results=tensor(shape_of(x), i1)) if element_of(x) != i1 else x)
    integers = not is_float(element_of(x)) and name not in ("neg", "abs", "sign", "floor", "ceil", "round")
    return u.op(name, u.cast(x, f64) if integers else x)


def _card(
    u: Unit, name: str, options: dict[str, Any], values: Sequence[SSAValue], weak: Sequence[bool]
) -> SSAValue:
    if name.startswith("reduce_") and "axes" not in options:
        options["axes"] = axes_of(options.pop("axis", None), len(shape_of(values[0])))
        options.setdefault("keepdims", False)
        value = values[0] if element_of(values[0]) != i1 else u.cast(values[0], i64)
        return u.op(name, value, **options)
    if name == "transpose" and "permutation" not in options:
        options["permutation"] = tuple(reversed(range(len(shape_of(values[0])))))
    if "axis" in options and isinstance(options["axis"], int):
        options["axis"] = axis_of(options["axis"], len(shape_of(values[0])))
    if name == "concat":
        return u.op(name, *[u.common(values, weak)], **options)
    if name == "batch_matmul":
        return _product(u, *u.common(values, weak))
    if name in ("softmax", "log_softmax"):
        options.setdefault("axis", len(shape_of(values[0])) - 1)
    return u.op(name, *values, **options)


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
        )
    kind = "matmul" if len(shape_of(wide_left)) == len(shape_of(wide_right)) == 2 else "batch_matmul"
    made = u.op(kind, wide_left, wide_right)
    shape = list(shape_of(made))
    if len(b) == 1:
        shape.pop()
    if len(a) == 1:
        shape.pop(-1 if len(b) == 1 else -2)
    return u.reshape(made, shape)


def _gradient(
    u: Unit, name: str, attributes: Attributes, values: Sequence[SSAValue], weak: Sequence[bool]
) -> SSAValue:
    """The cotangent of one operand: the operator again, then the cards' gradients backwards."""
    from glow_dialects.reverse import cotangents, expand, on_path

    numbers = _path(attributes)
    inner = {**attributes, "indices": DenseArrayBase.from_list(i64, numbers[:-1])}
    *operands, d = values
    block = u.b.point.block
    before = set(block.ops)
    result = build(name.removeprefix("vjp:"), inner, operands, weak[:-1], u.b)
    wanted = operands[numbers[-1]]
    zero = u.b.splat(0, wanted)
    if not is_float(element_of(wanted)):
        return zero
    seed = u.expand(u.cast(d, element_of(result)), shape_of(result))

    def ops() -> list[Operation]:
        return [op for op in block.ops if op not in before]

    replaced = expand(ops(), on_path(ops(), [result], [wanted]))
    result = replaced.get(result, result)
    found = cotangents(ops(), {result: seed}, [wanted], u.b)[wanted]
    return zero if found is None else found


def _path(attributes: Attributes) -> list[int]:
    """The operands that were differentiated by, one after another."""
    path = attributes["indices"]
    assert isinstance(path, DenseArrayBase)
    return [int(i) for i in path.get_values()]


def vjp_operand(attributes: Attributes) -> int:
    """The operand whose cotangent a `vjp:` primitive gives."""
    return _path(attributes)[-1]


def takes_part(attributes: Attributes, count: int) -> bool:
    """Whether a `vjp:` of a linear primitive, with `count` operands, is by what the primitive is linear in.

    Of getitem, that is the first operand; of what is applied to its cotangent, the cotangent, which is last.
    """
    first, *rest = _path(attributes)
    own = count - 1 - len(rest)
    return first == 0 and rest == list(range(own, own + len(rest)))


def _safe_log(
    u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]
) -> SSAValue:
    x = values[0]
    zero = u.b.scalar(0, x)
    return u.op("select", u.op("cmp_gt", x, zero), u.op("log", x), zero)


def _where(u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]) -> SSAValue:
    return u.op("select", u.cast(values[0], i1), *u.common(values[1:], u.weak[1:]))


def _sum_like(
    u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]
) -> SSAValue:
    return u.summed(u.cast(values[0], element_of(values[1])), shape_of(values[1]))


def _like(u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]) -> SSAValue:
    return u.expand(u.cast(values[0], element_of(values[1])), shape_of(values[1]))


def _astype(u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]) -> SSAValue:
    return u.cast(values[0], element_type(options["dtype"]))


def _reshape_like(
    u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]
) -> SSAValue:
    return u.reshape(values[0], shape_of(values[1]))


def _reshaped(
    u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]
) -> SSAValue:
    shape = list(options["shape"])
    size = int(np.prod(shape_of(values[0])))
    if shape.count(-1) == 1:
        rest = -int(np.prod(shape))
        shape[shape.index(-1)] = size // max(rest, 1)
    if int(np.prod(shape)) != size:
        text = "x".join(map(str, shape_of(values[0])))
        raise VerifyException(f"reshape of {text} ({size} elements) to {tuple(options['shape'])}")
    return u.reshape(values[0], shape)


def _full(u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]) -> SSAValue:
    element = element_type(options["dtype"]) if "dtype" in options else element_of(values[0])
    return u.expand(u.cast(values[0], element), options["shape"])


def _stack(u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]) -> SSAValue:
    same = u.common(values, u.weak)
    shape = broadcast_shapes(*[shape_of(v) for v in same])
    axis = options["axis"] % (len(shape) + 1)
    rows = [u.reshape(u.expand(v, shape), (*shape[:axis], 1, *shape[axis:])) for v in same]
    made = u.op("concat", rows, axis=axis)  # pyright: ignore[reportArgumentType]
    return u.cast(made, element_type(options["dtype"])) if "dtype" in options else made


def _sum_items(
    u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]
) -> SSAValue:
    return u.op("reduce_sum", values[0], axes=(0,), keepdims=False)


def _spread(u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]) -> SSAValue:
    return u.expand(u.cast(values[1], element_of(values[0])), shape_of(values[0]))


def _to_float(
    u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]
) -> SSAValue:
    return real(u, values[0])


def _atan2(u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]) -> SSAValue:
    y, x = (real(u, v) for v in u.common(values, u.weak))
    zero, half = u.b.scalar(0, y), u.b.scalar(np.pi / 2, y)
    side = u.op("select", u.op("cmp_lt", y, zero), u.op("neg", half), half)
    behind = u.op("select", u.op("cmp_lt", x, zero), u.op("add", side, side), zero)
    straight = u.op("cmp_eq", x, zero)
    safe = u.op("select", straight, u.b.scalar(1, x), x)
    angle = u.op("add", u.op("atan", u.op("div", y, safe)), behind)
    upright = u.op("select", u.op("cmp_eq", y, zero), zero, side)
    return u.op("select", straight, upright, angle)


def _copysign(
    u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]
) -> SSAValue:
    x, sign = u.common(values, u.weak)
    size = u.op("abs", x)
    return u.op("select", u.op("cmp_lt", sign, u.b.scalar(0, sign)), u.op("neg", size), size)


_BITS = {"bitand": "and", "bitor": "or", "bitxor": "xor", "invert": "not"}
_SHIFTS = {"shl": "shift_left", "shr": "shift_right"}


def _bits(name: str) -> Maker:
    def make(
        u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]
    ) -> SSAValue:
        same = u.common(values, u.weak)
        kind = element_of(same[0])
        if is_float(kind):
            raise VerifyException(f"{name} of arrays of floats; use comparisons or ints")
        if name in _SHIFTS:
            return u.op(_SHIFTS[name], *same)
        return u.op(_BITS[name] if kind == i1 else f"bitwise_{_BITS[name]}", *same)

    return make


_FUNCTIONS = {**ARRAYS, **MATRICES}
_OTHERS = {
    "safe_log": _safe_log, "where": _where, "sum_like": _sum_like, "like": _like, "astype": _astype,
    "reshape_like": _reshape_like, "reshape": _reshaped, "full": _full, "getitem": getitem, "item": item,
    "item_put": item_put, "rows": rows, "rows_put": rows_put, "with_item": with_item, "taken": taken,
    **{n: _bits(n) for n in (*_BITS, *_SHIFTS)},
    "stack_values": _stack, "atan2": _atan2, "copysign": _copysign, "sum_items": _sum_items,
    "spread": _spread, "to_float": _to_float, "cotangent": _like, "outside": outside,
    "to_int": lambda u, o, a, v: u.cast(v[0], i64),
    "to_bool": lambda u, o, a, v: u.op("cmp_ne", v[0], u.b.scalar(0, v[0])),
    "gadd": lambda u, o, a, v: u.op("add", *v),
    "hypot": lambda u, o, a, v: u.op(
        "sqrt", u.op("add", u.op("mul", v[0], v[0]), u.op("mul", v[1], v[1]))
    ),
}  # fmt: skip


@dataclass
class Region:
    """A primitive for certain types: its operators and the value they end in."""

    block: Block
    result: SSAValue

    @property
    def type(self) -> Tensor:
        """The type of the result."""
        return typed(self.result)


_REGIONS: dict[Any, Region] = {}


def region(name: str, attributes: Attributes, kinds: Sequence[Kind], where: str) -> Region:
    """The operators of a primitive; ShapeError, with the place, where the types do not fit."""
    key = (name, tuple(sorted((n, a) for n, a in attributes.items() if n != LINE)), tuple(kinds))
    found = _REGIONS.get(key)
    if found is None:
        block = Block(arg_types=[k.type for k in kinds])
        b = Builder.at_end(block)
        try:
            result = build(name, attributes, list(block.args), [k.weak for k in kinds], b)
        except VerifyException as error:
            raise ShapeError(f"{where}: {error}") from None
        except (TypeError, AssertionError) as error:
            shapes = ", ".join(str(k.type) for k in kinds)
            raise UnsupportedError(f"{where}: {name.split(':')[-1]} of {shapes}: {error}") from None
        _drop_unused(block, result)
        found = _REGIONS[key] = Region(block, result)
    return found


def _drop_unused(block: Block, result: SSAValue) -> None:
    """Remove what the result does not need, as the value of an operator whose cotangent is wanted."""
    for op in reversed(list(block.ops)):
        if result.owner is not op and all(r.first_use is None for r in op.results):
            op.detach()
            op.erase()


def evaluate_tensors(name: str, attributes: Attributes, values: Sequence[Any], where: str) -> Any:
    """The value of a primitive for arrays (and Python numbers, whose type is weak)."""
    kinds: list[Kind] = []
    arrays: list[Array] = []
    options = dict(with_bounds(attributes, values))
    if name in ("reshape", "full"):
        at = 1 if name == "reshape" else 0
        options["shape"] = shape_attribute(values[at])
        values = [v for i, v in enumerate(values) if i != at]
    for value in values:
        weak = isinstance(value, bool | int | float)
        if not weak and not isinstance(value, np.ndarray | np.generic):
            raise UnsupportedError(f"{where}: {name.split(':')[-1]} of a {type(value).__name__} and arrays")
        array = np.asarray(value)
        arrays.append(array)
        kinds.append(Kind(tensor_of(array), weak))
    made = region(name, options, kinds, where)
    check(name, options, arrays, where)
    known: dict[SSAValue, Array] = dict(zip(made.block.args, arrays, strict=True))
    for op in made.block.ops:
        assert isinstance(op, GraphOp)
        known.update(zip(op.results, op.evaluate([known[v] for v in op.operands]), strict=True))
    found = known[made.result]
    return found.item() if found.ndim == 0 and found.dtype.name in ("float64", "int64", "bool") else found


def shape_attribute(value: Any) -> Attribute:
    """A shape as an option; a number is a shape of one axis."""
    numbers = (value,) if isinstance(value, int | np.integer) else tuple(value)
    return DenseArrayBase.from_list(i64, [int(v) for v in numbers])
