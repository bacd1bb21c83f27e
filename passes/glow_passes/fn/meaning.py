"""The types and code of constants and primitives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import UnitAttr

from glow_dialects.core.attributes import array_of, to_python
from glow_dialects.core.errors import UnknownNumberError, UnsupportedError
from glow_dialects.core.types import dtype_of, shape_of, tensor, typed
from glow_dialects.fn.dialect import ConstantOp, PrimOp
from glow_dialects.fn.primitives import SCALAR
from glow_dialects.fn.tensors import TensorsOp
from glow_passes.fn.domain import (
    BOOL,
    FLOAT,
    INT,
    RANK,
    ZERO,
    EnvType,
    NoneType,
    NotNative,
    Scalar,
    TensorType,
    Text,
    TupleType,
    ZeroType,
    marked,
    text,
)
from glow_passes.fn.records import RECORDS
from glow_passes.fn.structure import STRUCTURE, scalar_or_tensor, slice_cotangent
from glow_passes.fn.subscripts import subscripts
from glow_passes.fn.tensor_shapes import UnknownNumber, with_bounds
from glow_passes.fn.tensors import Kind, region, vjp_operand
from glow_passes.fn.tuples import TUPLES
from glow_passes.fn.values import V, Values, parts

_FLOATING = {
    *("div", "atan2", "hypot", "copysign", "fmod", "exp", "expm1", "log", "log1p", "safe_log", "sqrt"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("erf", "to_float"),
}
_TESTS = {"eq", "ne", "lt", "le", "gt", "ge", "not", "to_bool"}
_INTEGRAL = {"floor", "ceil", "round", "to_int"}
_ANNIHILATE = {"mul", "div", "neg", "where", "reshape_like", "like_source", "tuple_part", "tuple_join"}
_BITS = {"bitand", "bitor", "bitxor", "shl", "shr", "invert"}


#: What primitives are called in Python.
_SHOWN = {"stack_values": "np.array", "to_float": "float", "to_int": "int", "to_bool": "a condition",
          "op:batch_matmul": "a matrix product"}  # fmt: skip


class Meaning(Values):
    """Primitives on typed values."""

    def literal(self, op: ConstantOp) -> V:
        """A constant."""
        if isinstance(op.value, UnitAttr):
            return V(NoneType())
        made = to_python(op.value)
        if isinstance(made, bool | int | float):
            return self.number(made)
        if isinstance(made, str):
            return V(Text(made))
        array = array_of(op.value, typed(op.result))
        assert array is not None
        return V(TensorType(tuple(array.shape), array.dtype.name), self.t.array(array))

    def truth(self, v: V, where: str) -> V:
        """A value as a bool."""
        if isinstance(v.type, Scalar):
            if v.type.kind == "bool":
                return v
            const = None if v.type.const is None else bool(v.type.const)
            return V(Scalar("bool", const), self.t.scalar("to_bool", v.type.kind, [v.code]))
        if isinstance(v.type, TensorType) and int(np.prod(v.type.shape)) == 1:
            return self._one(self.tensors("to_bool", {}, [v], where))
        raise UnsupportedError(f"{where}: {text(v.type)} is no condition; compare or reduce it to a bool")

    def _one(self, v: V) -> V:
        return V(BOOL, self.t.tensor("first", {}, [v], BOOL, ""))

    def layer(self, index: V, values: Sequence[V], where: str) -> V:
        """The value at an index."""
        if not isinstance(index.type, Scalar) or index.type.kind == "float":
            raise UnsupportedError(f"{where}: {text(index.type)} is no index; use an int")
        if index.type.const is not None:
            at = int(index.type.const)
            if not -len(values) <= at < len(values):
                raise UnsupportedError(f"{where}: index {at} of a tuple of {len(values)}")
            return values[at]
        self.inside(index, len(values), where)
        count = self.t.constant("int", len(values))
        wrapped = self.t.scalar("mod", "int", [self.kind(index, "int"), count])
        made = values[0]
        for position, value in enumerate(values[1:], 1):
            here = self.t.scalar("eq", "int", [wrapped, self.t.constant("int", position)])
            made = self.switch(V(BOOL, here), value, made, where)
        return made

    def get(self, v: V, index: int, where: str) -> V:
        """An item of a tuple."""
        if isinstance(v.type, ZeroType):
            return V(ZERO)
        if not isinstance(v.type, TupleType):
            raise UnsupportedError(f"{where}: {text(v.type)} is unpacked; use a tuple")
        items = parts(v)
        if not -len(items) <= index < len(items):
            raise UnsupportedError(f"{where}: item {index} of a tuple of {len(items)}")
        return items[index]

    # --- primitives -------------------------------------------------------------------------------
    def prim(self, op: PrimOp, x: list[V], where: str) -> V:
        """The value of a primitive."""
        name = op.prim.data
        rule = STRUCTURE.get(name) or TUPLES.get(name) or RECORDS.get(name)
        if rule is not None:
            return rule(self, op, x, where)
        if name.endswith(":getitem") and isinstance(x[0].type, TupleType):
            return slice_cotangent(self, op, x, where)
        if any(isinstance(v.type, ZeroType) for v in x):
            return self._with_zero(name, x)
        if name in ("eq", "ne") and any(isinstance(v.type, TupleType | Text | NoneType) for v in x):
            same = self._same(x[0], x[1], where)
            return same if name == "eq" else self.scalar("not", [same], where)
        if all(isinstance(v.type, Scalar) for v in x) and name in SCALAR:
            return self.scalar(name, x, where)
        if name == "add" and all(isinstance(v.type, TupleType) for v in x):
            return self.tuple([*parts(x[0]), *parts(x[1])])
        if any(isinstance(v.type, TensorType) for v in x) and all(
            isinstance(v.type, Scalar | TensorType) for v in x
        ):
            return self.tensors(name, op.attributes, x, where)
        if (name.startswith(("op:", "np:", "vjp:")) or name == "stack_values") and all(
            isinstance(v.type, Scalar) for v in x
        ):
            return self.tensors(name, op.attributes, x, where)
        bad = next((v for v in x if not isinstance(v.type, Scalar | TensorType)), x[0])
        shown = _SHOWN.get(name, name.split(":")[-1])
        raise UnsupportedError(f"{where}: {shown} of {text(bad.type)}; use numbers or arrays")

    def _same(self, a: V, b: V, where: str) -> V:
        """Whether two values are equal: tuples item by item."""
        if isinstance(a.type, TupleType) and isinstance(b.type, TupleType):
            found = self.number(len(a.type.items) == len(b.type.items))
            for left, right in zip(parts(a), parts(b), strict=False):
                found = self.scalar("bitand", [found, self._same(left, right, where)], where)
            return found
        if isinstance(a.type, Scalar) and isinstance(b.type, Scalar):
            return self.scalar("eq", [a, b], where)
        if isinstance(a.type, TensorType) or isinstance(b.type, TensorType):
            raise UnsupportedError(f"{where}: {text(a.type)} == {text(b.type)}; compare arrays alone")
        return self.number(a.type == b.type)

    def _with_zero(self, name: str, x: list[V]) -> V:
        if name in _ANNIHILATE or ":" in name:
            return V(ZERO)
        if name == "add":
            return x[1] if isinstance(x[0].type, ZeroType) else x[0]
        if name == "sub":
            if isinstance(x[1].type, ZeroType):
                return x[0]
            if isinstance(x[1].type, Scalar):
                return self.scalar("neg", [x[1]], "")
            return self.tensors("neg", {}, [x[1]], "")
        raise NotNative(f"{name} of a zero")

    def scalar(self, name: str, x: list[V], where: str) -> V:
        """A primitive on scalars."""
        kinds = [v.type.kind for v in x if isinstance(v.type, Scalar)]
        constants = [v.type.const for v in x if isinstance(v.type, Scalar)]
        work = max(kinds, key=lambda k: RANK[k])
        if name in _FLOATING or name == "pow" and work == "float":
            work, result = "float", "float"
        elif name in _TESTS:
            work, result = ("int" if work == "bool" and name not in ("not", "to_bool") else work), "bool"
        elif name in _INTEGRAL:
            result = "int"
        elif name in _BITS:
            if work == "float":
                raise UnsupportedError(f"{where}: {name} of a float; use ints")
            work = "int" if name in ("shl", "shr", "invert") else work
            result = work
        elif name == "pow":
            return self._integer_power(x, where)
        else:
            work = "int" if work == "bool" else work
            result = work
        const = None
        if result != "float" and None not in constants:
            const = SCALAR[name][1](*constants)
            if abs(int(const)) >= 2**62:
                const = None
            elif const is not None:
                return V(Scalar(result, const), self.t.constant(result, const))
        codes = [self.kind(v, work) for v in x]
        return V(Scalar(result, const), self.t.scalar(name, work, codes))

    def _integer_power(self, x: list[V], where: str) -> V:
        assert isinstance(x[1].type, Scalar)
        exponent = x[1].type.const
        if exponent is not None and exponent >= 0:
            return V(INT, self.t.scalar("ipow", "int", [self.kind(v, "int") for v in x]))
        if exponent is not None:
            return V(FLOAT, self.t.scalar("pow", "float", [self.kind(v, "float") for v in x]))
        return V(INT, self.t.scalar("ipow", "int", [self.kind(v, "int") for v in x]))

    def graph(self, op: TensorsOp, x: list[V]) -> V:
        """The tuple of tensors of a part of a graph."""
        kinds = [TensorType(shape_of(v), dtype_of(v.type).name) for v in op.yielded]
        return V(TupleType(tuple(kinds)), self.t.graph(op, x))

    def inside(self, index: V, size: int, where: str) -> None:
        """Code that raises IndexError where a subscript lies outside an axis; masks are no subscripts."""
        kind = index.type
        if isinstance(kind, Scalar):
            known = kind.kind == "bool" or kind.const is not None and -size <= kind.const < size
        else:
            known = not isinstance(kind, TensorType) or kind.dtype == "bool"
        if not known:
            self.t.inside(index, size, where)

    def known_bounds(self, attributes: Any, x: list[V], where: str) -> Any:
        """The attributes of a primitive, with the numbers of slices that are arguments."""
        numbers = [v.type.const if isinstance(v.type, Scalar) else None for v in x]
        try:
            return with_bounds(attributes, numbers)
        except UnknownNumber as error:
            raise UnknownNumberError(f"{where}: {error}") from None

    def tensors(self, name: str, attributes: Any, x: list[V], where: str) -> V:
        """A primitive on tensors: the type that its operators give."""
        kinds: list[Kind] = []
        for v in x:
            if isinstance(v.type, Scalar):
                dtype = {"bool": "bool", "int": "int64", "float": "float64"}[v.type.kind]
                kinds.append(Kind(tensor((), dtype), True))
            elif isinstance(v.type, TensorType):
                kinds.append(Kind(tensor(v.type.shape, v.type.dtype)))
            else:
                raise UnsupportedError(
                    f"{where}: {name.split(':')[-1]} of {text(v.type)}; use numbers or arrays"
                )
        if name.startswith("vjp:") and _is_nothing(x[vjp_operand(attributes)]):
            return V(ZERO)
        attributes = self.known_bounds(attributes, x, where)
        made = region(name, attributes, kinds, where).type
        for place, size in subscripts(name, attributes, [shape_of(k.type) for k in kinds]):
            self.inside(x[place], size, where)
        result = scalar_or_tensor(shape_of(made), dtype_of(made))
        if _is_fixed(*x):
            result = marked(result, True)
        return V(result, self.t.tensor(name, attributes, x, result, where))


def _is_nothing(v: V) -> bool:
    """Whether there are no cotangents of a value: ints, and arrays that are fixed."""
    return isinstance(v.type, Scalar) and v.type.kind != "float" or _is_fixed(v)


def _is_fixed(*values: V) -> bool:
    """Whether arrays are fixed, and with them what is computed from them and ints."""
    arrays = [v.type for v in values if isinstance(v.type, TensorType)]
    others = [v.type for v in values if isinstance(v.type, Scalar) and v.type.kind == "float"]
    return bool(arrays) and not others and all(t.fixed for t in arrays)


__all__ = ["EnvType", "Meaning", "scalar_or_tensor"]
