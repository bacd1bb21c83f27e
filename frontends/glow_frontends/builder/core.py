"""The base of the builder: values, and the insertion of one operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.errors import ShapeError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.packages import added, no_function
from glow_dialects.core.types import Array, Tensor, dtype_of, shape_of, typed
from glow_dialects.dialects import operations
from glow_dialects.ops import card_of, operators
from glow_dialects.ops.unary_math import NegOp
from glow_frontends.graph.errors import RuleError
from glow_frontends.graph.module import Making


class Value:
    """A tensor of the graph under construction, with Python's operators."""

    def __init__(self, graph: Operators, ssa: SSAValue) -> None:
        self.graph = graph
        self.ssa = ssa

    @property
    def shape(self) -> tuple[int, ...]:
        """Its static shape."""
        return shape_of(self.ssa)

    @property
    def dtype(self) -> np.dtype:
        """Its element type as NumPy names it."""
        return dtype_of(typed(self.ssa))

    @property
    def type(self) -> Tensor:
        """Its type in the IR."""
        return typed(self.ssa)

    def __repr__(self) -> str:
        return f"Value({self.ssa.type})"

    def _with(self, name: str, other: Like, swapped: bool = False) -> Value:
        right = self.graph.value(other, like=self)
        pair = (right, self) if swapped else (self, right)
        return getattr(self.graph, name)(*pair)

    def __add__(self, other: Like) -> Value:
        return self._with("add", other)

    def __radd__(self, other: Like) -> Value:
        return self._with("add", other, swapped=True)

    def __sub__(self, other: Like) -> Value:
        return self._with("sub", other)

    def __rsub__(self, other: Like) -> Value:
        return self._with("sub", other, swapped=True)

    def __mul__(self, other: Like) -> Value:
        return self._with("mul", other)

    def __rmul__(self, other: Like) -> Value:
        return self._with("mul", other, swapped=True)

    def __truediv__(self, other: Like) -> Value:
        return self._with("div", other)

    def __rtruediv__(self, other: Like) -> Value:
        return self._with("div", other, swapped=True)

    def __floordiv__(self, other: Like) -> Value:
        return self._with("floor_div", other)

    def __mod__(self, other: Like) -> Value:
        return self._with("mod", other)

    def __pow__(self, other: Like) -> Value:
        return self._with("pow", other)

    def __matmul__(self, other: Like) -> Value:
        return self._with("batch_matmul", other)

    def __neg__(self) -> Value:
        return self.graph.insert(NegOp, self)[0]

    def __lt__(self, other: Like) -> Value:
        return self._with("cmp_lt", other)

    def __le__(self, other: Like) -> Value:
        return self._with("cmp_le", other)

    def __gt__(self, other: Like) -> Value:
        return self._with("cmp_gt", other)

    def __ge__(self, other: Like) -> Value:
        return self._with("cmp_ge", other)


def axis_of(x: Value, axis: int, more: int = 0) -> int:
    """An axis of x, or of a tensor of `more` axes more, counted from the front; ShapeError for another."""
    rank = max(1, len(x.shape) + more)
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} of {x.type}")
    return axis % rank


Like = Value | SSAValue | Array | float | int | bool
"""An operand: a value, or an array or number that becomes a constant."""
Operand = Like | Sequence[Like] | None
"""An operand group: None where it may be absent, a sequence where there are many."""


def _check_operands(kind: type[GraphOp], operands: Sequence[Operand]) -> None:
    """ShapeError where operands are missing, or more than an operator has."""
    groups = kind.operand_groups()
    given = [*operands, *[None] * (len(groups) - len(operands))]
    absent = [o is None or isinstance(o, list | tuple) and not o for o in given]
    needed = [free or not absent[i] for i, (_, free) in enumerate(groups)]
    if len(given) > len(groups) or not all(needed):
        names = ", ".join(f"{name} (or None)" if free else name for name, free in groups) or "none"
        count = len(given) - sum(absent)
        raise ShapeError(f"{kind.name}: the operands are {names}; {count} of {len(groups)} were given")


class Operators:
    """Insertion of operators: each is a method, declared below where it takes more than operands."""

    def __init__(self, making: Making) -> None:
        self.making = making
        self.module, self.function, self.builder = making.module, making.function, making.builder
        #: The sizes that differ from call to call.
        self.symbols = making.symbols

    def value(self, x: Like, like: Value | None = None) -> Value:
        """`x` as a value; a number gets the element type of `like`."""
        if isinstance(x, Value):
            return x
        if isinstance(x, SSAValue):
            return Value(self, x)
        if isinstance(x, bool | int | float) and like is not None:
            return Value(self, self.builder.scalar(x, like.ssa))
        array = np.asarray(x)
        if array.dtype == np.float64 and not isinstance(x, np.ndarray | np.generic):
            array = array.astype(np.float32)
        return self.array(array)

    def array(self, array: Array) -> Value:
        """A constant without a name."""
        return Value(self, self.builder.constant(array))

    if not TYPE_CHECKING:  # type checkers know the methods that are declared, and find what is misspelt

        def __getattr__(self, name: str) -> Callable[..., Any]:
            """The method of an operator that has none of its own: operands in order, properties by name."""
            short = name.removeprefix("logical_")  # "and" is a word of Python's grammar
            card = card_of(short)
            offered = added("glow.dialects", no_function).get(name) if card is None else None
            if offered is not None:
                return PackageOperators(self, name, offered().operations)
            if card is None:
                near = get_close_matches(name, dir(self), 1)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                raise AttributeError(f"{type(self).__name__} has no operator '{name}'{hint}")
            return partial(self._operator, operations([card], GraphOp)[f"glow.{short}"])

    def __dir__(self) -> list[str]:
        """Attributes and every operator."""
        declared = (name for kind in type(self).__mro__ for name in inspect.get_annotations(kind))
        return sorted({*super().__dir__(), *declared, *operators()})

    def _operator(self, kind: type[GraphOp], *operands: Operand, **properties: Any) -> Any:
        """The result of an operator, or a list of results; numbers get the type of an operand beside them."""
        like = next((o for o in operands if isinstance(o, Value)), None)
        values: list[Value | Sequence[Like] | None] = []
        for operand in operands:
            if not (operand is None or isinstance(operand, list | tuple)):
                operand = self.value(operand, like)  # pyright: ignore[reportArgumentType]
                like = like or operand
            values.append(operand)
        results = self.insert(kind, *values, **properties)
        return results[0] if len(results) == 1 else results

    def insert(
        self,
        kind: type[GraphOp],
        *operands: Operand,
        results: Attribute | None = None,
        **properties: Any,
    ) -> list[Value]:
        """Insert one operator and return its results; ShapeError where its operands do not fit."""
        _check_operands(kind, operands)
        first = next((o for o in operands if isinstance(o, Value)), None)
        converted: list[Any] = []
        for operand in operands:
            if operand is None:
                converted.append(None)
            elif isinstance(operand, list | tuple):
                converted.append([self.value(o, first).ssa for o in operand])
            else:
                converted.append(self.value(operand, first).ssa)  # pyright: ignore[reportArgumentType]
        try:
            op = self.making.node(kind, converted, results, properties, verify=True)
        except (RuleError, VerifyException) as error:
            raise ShapeError(str(error).strip().splitlines()[-1]) from None
        return [Value(self, r) for r in self.builder.insert(op).results]

    def one(self, kind: type[GraphOp], *operands: Operand, **options: Any) -> Value:
        """`insert` for operators of one result."""
        return self.insert(kind, *operands, **options)[0]


class PackageOperators:
    """The operators of a package's dialect (entry point `glow.dialects`): `g.npu.fc(x, w)`."""

    def __init__(self, graph: Any, dialect: str, operations: Iterable[type[Any]]) -> None:
        self._graph, self._dialect = graph, dialect
        self._kinds = {k.name.removeprefix(f"{dialect}."): k for k in operations if issubclass(k, GraphOp)}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The method of an operator: operands in order, properties by name."""
        if name not in self._kinds:
            known = ", ".join(sorted(self._kinds)) or "none"
            raise AttributeError(f"dialect {self._dialect} has no operator '{name}'; there are: {known}")
        return partial(self._graph._operator, self._kinds[name])

    def __dir__(self) -> list[str]:
        """The operators."""
        return sorted(self._kinds)


Unary = Callable[[Like], Value]
Binary = Callable[[Like, Like], Value]
