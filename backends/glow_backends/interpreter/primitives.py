"""What the primitives of `glow_fn` do to Python numbers, arrays, tuples and closures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from glow_backends.interpreter.cotangents import (
    TUPLES,
    ZERO,
    add_cotangents,
    alike,
    env_item,
    fill,
    is_tuple,
    put,
)
from glow_backends.interpreter.records import RECORDS, is_dict
from glow_dialects.core.attributes import array_of, to_attribute, to_python
from glow_dialects.core.errors import GlowError, UnsupportedError, raised
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import typed
from glow_dialects.fn.dialect import ConstantOp, PrimOp
from glow_dialects.fn.primitives import SCALAR
from glow_dialects.fn.record import Record
from glow_dialects.fn.tensors import TensorsOp
from glow_dialects.ops.module import ConstantOp as GraphConstant
from glow_dialects.ops.module import GetOp
from glow_passes.fn.subscripts import message
from glow_passes.fn.tensor_shapes import key_of, with_bounds
from glow_passes.fn.tensors import evaluate_tensors, takes_part
from glow_passes.fn.values import failure


class Closure(NamedTuple):
    """A function with its captured values, which are its first arguments."""

    name: str
    captured: tuple[Any, ...]


_ANNIHILATE = {"mul", "div", "neg", "sum_like", "like", "where", "reshape_like", "like_source"}


def constant_value(op: ConstantOp) -> Any:
    """The Python value of a constant."""
    from xdsl.dialects.builtin import UnitAttr

    if isinstance(op.value, UnitAttr):
        return None
    made = to_python(op.value)
    if isinstance(made, bool | int | float | str):
        return made
    return array_of(op.value, typed(op.result))


def evaluated(op: TensorsOp, values: Sequence[Any]) -> tuple[Any, ...]:
    """The tensors of a part of a graph."""
    known: dict[SSAValue, Any] = dict(zip(op.body.block.args, map(np.asarray, values), strict=True))
    for inner in op.body.block.ops:
        if isinstance(inner, GetOp):
            source = inner.target()
            assert isinstance(source, GraphConstant)
            known[inner.result] = source.array()
        elif isinstance(inner, GraphOp):
            found = inner.evaluate([known[v] for v in inner.operands])
            known.update(zip(inner.results, found, strict=True))
    return tuple(known[v] for v in op.yielded)


def select(condition: Any, yes: Any, no: Any) -> Any:
    """One of two values, by a boolean."""
    return yes if condition else no


def number(op: PrimOp, name: str) -> int:
    """An integer option."""
    found = op.attributes[name]
    assert isinstance(found, IntegerAttr)
    return found.value.data


def primitive(op: PrimOp) -> Callable[..., Any]:
    """The function of a primitive."""
    name = op.prim.data
    if name in _STRUCTURE:
        return _STRUCTURE[name](op)
    if name in SCALAR:
        return _scalar(op, name, SCALAR[name][1])
    return _tensor(op)


def _scalar(op: PrimOp, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    on_tensors = _tensor(op)

    def run(*x: Any) -> Any:
        for value in x:
            kind = type(value)
            if kind is float or kind is int or kind is bool:
                continue
            if isinstance(value, np.ndarray | np.generic):
                return on_tensors(*x)
            if value is ZERO:
                return _with_zero(name, x)
            if kind in TUPLES and name == "add":
                return x[0] + x[1]
            if name in ("eq", "ne"):
                return (x[0] == x[1]) == (name == "eq")
            raise GlowError(f"{op.source}: {name} of {_kind(value)}; use numbers or arrays")
        return function(*x)

    return run


def _kind(value: Any) -> str:
    if isinstance(value, Closure):
        return "a function"
    return {"tuple": "a tuple", "NoneType": "None", "str": "a text"}.get(type(value).__name__, "this value")


def _with_zero(name: str, x: tuple[Any, ...]) -> Any:
    if name in _ANNIHILATE:
        return ZERO
    if name == "add":
        return x[1] if x[0] is ZERO else x[0]
    if name == "sub":
        return x[0] if x[1] is ZERO else -x[1]
    raise AssertionError(name)


def _slice_cotangent(op: PrimOp, x: tuple[Any, ...]) -> Any:
    """`vjp:getitem` of a tuple."""
    if not takes_part(op.attributes, len(x)):
        return ZERO
    (part,) = key_of(with_bounds(op.attributes, x))
    if op.prim.data.count("vjp:") % 2 == 0:
        return x[-1][part]
    items = [ZERO] * len(x[0])
    items[part] = x[-1]
    return tuple(items)


def _tensor(op: PrimOp) -> Callable[..., Any]:
    attributes = dict(op.attributes)
    sliced = op.prim.data.endswith(":getitem")

    def run(*x: Any) -> Any:
        if sliced and is_tuple(x[0]) and x[-1] is not ZERO:
            return _slice_cotangent(op, x)
        if any(v is ZERO for v in x):
            if op.prim.data in ("add", "sub"):
                return _with_zero(op.prim.data, x)
            return ZERO
        return evaluate_tensors(op.prim.data, attributes, x, op.source)

    return run


# --- structure ----------------------------------------------------------------------------------------
def _fill_argument(op: PrimOp) -> Callable[..., Any]:
    def run(d: Any, x: Any) -> Any:
        if isinstance(x, bool | int | str | Closure):
            kind = "a function" if isinstance(x, Closure) else f"of type {type(x).__name__}"
            hint = "differentiate by floats, arrays and tuples of them"
            raise UnsupportedError(f"grad: argument {number(op, 'position')} is {kind}; {hint}")
        return fill(d, x)

    return run


def _one_like(op: PrimOp) -> Callable[..., Any]:
    def run(x: Any) -> Any:
        if isinstance(x, float) or (isinstance(x, np.ndarray | np.generic) and x.shape == ()):
            return 1.0 if isinstance(x, float) else np.ones_like(x)
        if isinstance(x, np.ndarray):
            raise UnsupportedError(f"grad: the function returns an array of shape {x.shape}; return a number")
        kind = _kind(x) if not isinstance(x, bool | int) else f"a value of type {type(x).__name__}"
        raise UnsupportedError(f"grad: the function returns {kind}; return a float")

    return run


def _sum_like(op: PrimOp) -> Callable[..., Any]:
    on_tensors = _tensor(op)

    def run(d: Any, x: Any) -> Any:
        if d is ZERO or isinstance(x, bool | int) or x is ZERO:
            return ZERO
        if isinstance(d, float) and isinstance(x, float):
            return d
        if isinstance(x, np.ndarray | np.generic) and x.dtype.kind not in "fV":
            return ZERO
        return on_tensors(d, x)

    return run


def _cotangent(op: PrimOp) -> Callable[..., Any]:
    on_tensors = _tensor(op)

    def run(d: Any, x: Any) -> Any:
        if d is ZERO or d is None or isinstance(x, bool | int):
            return ZERO
        if is_tuple(x) and is_tuple(d) and len(x) == len(d):
            return tuple(run(a, b) for a, b in zip(d, x, strict=True))
        if isinstance(x, float) and isinstance(d, bool | int | float):
            return float(d)
        if isinstance(x, np.ndarray) and (np.ndim(d) == 0 or np.shape(d) == x.shape):
            return on_tensors(d, x)
        raise UnsupportedError(f"{op.source}: the declared gradient gives {_kind(d)} for {_kind(x)}")

    return run


def _like(op: PrimOp) -> Callable[..., Any]:
    on_tensors = _tensor(op)

    def run(d: Any, x: Any) -> Any:
        if d is ZERO or x is ZERO:
            return ZERO
        return d if not isinstance(x, np.ndarray | np.generic) else on_tensors(d, x)

    return run


def _item(op: PrimOp) -> Callable[..., Any]:
    on_tensors = _tensor(op)

    def run(t: Any, i: Any) -> Any:
        if t is ZERO:
            return ZERO
        if isinstance(i, np.ndarray) and i.ndim and isinstance(t, np.ndarray):
            return on_tensors(t, i)
        if isinstance(i, str):
            return t[_place(op, t, i)]
        try:
            made = t[int(i)]
        except IndexError:
            raise raised("IndexError", message(len(t)), op.source) from None
        return np.asarray(made) if isinstance(t, np.ndarray) else made

    return run


def _array_of(x: Any) -> Any:
    """A tuple as an array of its items."""
    if not is_tuple(x):
        return x
    return evaluate_tensors("stack_values", {"axis": to_attribute(0)}, [_array_of(v) for v in x], "")


def _items_like(d: Any, x: Any) -> Any:
    if d is ZERO or not is_tuple(x):
        return d
    rows = [row if row.ndim else row.item() for row in map(np.asarray, d)]
    return tuple(_items_like(row, item) for row, item in zip(rows, x, strict=True))


def _with_item(op: PrimOp) -> Callable[..., Any]:
    on_tensors = _tensor(op)

    def run(t: Any, i: Any, v: Any) -> Any:
        if t is ZERO:
            return ZERO if v is ZERO else None
        if isinstance(t, np.ndarray):
            return on_tensors(t, i, 0.0 if v is ZERO else _array_of(v))
        if isinstance(i, str):
            made = dict(zip(t.names[1:], t, strict=True)) | {i: v}
            return Record.of(("dict", *made), list(made.values()))
        if not -len(t) <= int(i) < len(t):
            raise raised("IndexError", message(len(t)), op.source)
        return alike(t, [v if at == int(i) % len(t) else x for at, x in enumerate(t)])

    return run


def _taken(op: PrimOp) -> Callable[..., Any]:
    on_tensors = _tensor(op)

    def run(d: Any, i: Any, v: Any) -> Any:
        if d is ZERO or v is ZERO or isinstance(v, bool | int) and not is_tuple(d):
            return ZERO
        return d[int(i)] if is_tuple(d) else _items_like(on_tensors(d, i, _array_of(v)), v)

    return run


def _with_field(op: PrimOp) -> Callable[..., Any]:
    def run(t: Any, like: Any, v: Any) -> Any:
        if t is ZERO and v is ZERO:
            return ZERO
        if is_dict(like) and _name(op) not in like.names[1:]:
            items = (ZERO,) * len(like) if t is ZERO else tuple(t)
            if len(items) > len(like):
                return items[: len(like)]
            made = (*items, v)
            return Record.of((*t.names, _name(op)), made) if isinstance(t, Record) else made
        at = _place(op, like)
        items = [ZERO] * len(like) if t is ZERO else list(t)
        items[at] = v
        return tuple(items) if t is ZERO else alike(t, items)

    return run


def _item_put(op: PrimOp) -> Callable[..., Any]:
    on_tensors = _tensor(op)

    def run(t: Any, i: Any, d: Any) -> Any:
        if d is ZERO:
            return ZERO
        if isinstance(i, str):
            return put(len(t), _place(op, t, i), d)
        return on_tensors(t, i, d) if isinstance(t, np.ndarray) else put(len(t), int(i) % len(t), d)

    return run


def _spread(t: Any, d: Any) -> Any:
    if d is ZERO:
        return ZERO
    return (d,) * len(t) if is_tuple(t) else np.broadcast_to(d, t.shape).copy()


def _sum_items(t: Any) -> Any:
    if t is ZERO:
        return ZERO
    total = t[0] if len(t) else 0
    for value in t[1:]:
        total = add_cotangents(total, value)
    return total


def _where(op: PrimOp) -> Callable[..., Any]:
    on_tensors = _tensor(op)

    def run(c: Any, a: Any, b: Any) -> Any:
        if a is ZERO or b is ZERO:
            return ZERO
        if isinstance(c, np.ndarray | np.generic):
            return on_tensors(c, a, b)
        return a if c else b

    return run


def _part(op: PrimOp) -> Callable[..., Any]:
    first = number(op, "part") == 0
    return lambda d, a, b: ZERO if d is ZERO else d[: len(a)] if first else d[len(a) :]


def _join(op: PrimOp) -> Callable[..., Any]:
    first = number(op, "part") == 0

    def run(d: Any, a: Any, b: Any) -> Any:
        if d is ZERO:
            return ZERO
        return d + (ZERO,) * len(b) if first else (ZERO,) * len(a) + d

    return run


def _place(op: PrimOp, value: Any, name: Any = None) -> int:
    """Where the item of a name stands, which the primitive gives unless it is given."""
    name = to_python(op.attributes["field"]) if name is None else name
    names = value.names if isinstance(value, Record) else ()
    if name in names[1:]:
        return names.index(name, 1) - 1
    what = f"a {names[0]}" if names else _kind(value)
    raise GlowError(
        f"{op.source}: attribute '{name}' of {what} cannot be compiled; use a named tuple or a dict"
    )


def _name(op: PrimOp) -> str:
    return str(to_python(op.attributes["field"]))


def _field_of(op: PrimOp) -> Callable[..., Any]:
    def run(d: Any, t: Any) -> Any:
        if d is ZERO:
            return ZERO
        return d[-1] if is_dict(t) and _name(op) not in t.names[1:] else d[_place(op, t)]

    return run


def _field(op: PrimOp) -> Callable[..., Any]:
    def run(t: Any) -> Any:
        if isinstance(t, np.ndarray) and _name(op) in ("size", "dtype"):
            return int(t.size) if _name(op) == "size" else t.dtype.name
        return ZERO if t is ZERO else t[_place(op, t)]

    return run


def _kinds(value: Any) -> set[str]:
    """The names of types that a value is an instance of."""
    if isinstance(value, Closure):
        return {"function"}
    if isinstance(value, Record):
        return {value.names[0]} | ({"tuple"} if value.names[0] != "dict" else set[str]())
    found = {type(value).__name__}
    if isinstance(value, np.ndarray) and value.dtype == bool:
        found.add("mask")
    return found | {"bool": {"int"}, "tuple": {"list"}}.get(type(value).__name__, set[str]())


def _tuple_put(op: PrimOp) -> Callable[..., Any]:
    i = number(op, "i")
    return lambda t, d: put(len(t), i % len(t), d)


def _rows(op: PrimOp) -> Callable[..., Any]:
    return lambda t: ZERO if t is ZERO else tuple(t) if is_tuple(t) else tuple(np.asarray(r) for r in t)


def _fail(op: PrimOp) -> Any:
    error = failure(op)
    assert error is not None
    raise raised(*error)


def _getitem(op: PrimOp) -> Callable[..., Any]:
    on_tensors = _tensor(op)

    def run(x: Any, *bounds: int) -> Any:
        if is_tuple(x):
            return x[key_of(with_bounds(op.attributes, (x, *bounds)))[0]]
        return on_tensors(x, *bounds)

    return run


def _astype_as(op: PrimOp) -> Callable[..., Any]:
    def run(x: Any, kind: str) -> Any:
        if x is ZERO:
            return ZERO
        return evaluate_tensors("astype", {"dtype": to_attribute(kind)}, [x], op.source)

    return run


_STRUCTURE: dict[str, Callable[[PrimOp], Callable[..., Any]]] = {
    "zero": lambda op: lambda: ZERO,
    "fail": lambda op: lambda: _fail(op),
    **dict.fromkeys(("stop", "fixed", "varied", "copy", "assigned"), lambda op: lambda x: x),
    "are_floats": lambda op: lambda *x: all(isinstance(v, float) for v in x),
    "gadd": lambda op: add_cotangents,
    "env_drop": lambda op: lambda d, n=number(op, "n"): ZERO if d is ZERO else (d[: len(d) - n] or ZERO),
    "env_pad": lambda op: lambda d, n=number(op, "n"): ZERO if d is ZERO else d + (ZERO,) * n,
    "env_item": lambda op: lambda d, n=number(op, "n"), i=number(op, "i"): env_item(d, n, i),
    "env_put": lambda op: (
        lambda d, n=number(op, "n" if "n" in op.attributes else "of"), i=number(op, "i"): put(n, i, d)
    ),
    "tuple_put": _tuple_put,
    "item_at": lambda op: lambda d, i=number(op, "i"): ZERO if d is ZERO else d[i],
    "item": _item,
    "array_of": lambda op: _array_of,
    "items_like": lambda op: _items_like,
    "item_put": _item_put,
    "field": _field,
    "field_put": lambda op: (
        lambda t, d: ZERO if d is ZERO or isinstance(t, np.ndarray) else put(len(t), _place(op, t), d)
    ),
    "field_of": _field_of,
    "is_a": lambda op: lambda x: bool(_kinds(x) & {n.data for n in op.attributes["kinds"]}),  # pyright: ignore
    "with_item": _with_item,
    "with_field": _with_field,
    "taken": _taken,
    "sum_items": lambda op: _sum_items,
    "spread": lambda op: _spread,
    "concat_tuples": lambda op: lambda a, b: ZERO if a is ZERO or b is ZERO else a + b,
    "tuple_part": _part,
    "tuple_join": _join,
    "one_like": _one_like,
    "fill_like": _fill_argument,
    "sum_like": _sum_like,
    "cotangent": _cotangent,
    "like": _like,
    "where": _where,
    "len": lambda op: len,
    "shape": lambda op: lambda x: tuple(int(s) for s in np.shape(x)),
    "to_tuple": _rows,
    "like_source": lambda op: lambda d, x: d if d is ZERO or is_tuple(x) else np.stack(fill(d, tuple(x))),
    "getitem": _getitem,
    "astype_as": _astype_as,
    **RECORDS,
}
