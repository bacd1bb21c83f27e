"""Emitter: inserts operators on import-time values, and folds them if every operand is known."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Attribute, Block, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.element_types import is_standard
from glow_dialects.core.extent import is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.symbols import Symbols
from glow_dialects.core.types import Array, Tensor, shape_of, tensor
from glow_dialects.ops.control import YieldOp
from glow_dialects.ops.iota import IotaOp, SizesOp
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.module import FuncOp
from glow_dialects.ops.quantize import DequantizeOp, dequantize_array, quantized_type
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.transpose import TransposeOp
from glow_frontends.graph.errors import NeedsValue, RuleError
from glow_frontends.graph.module import Making, check_size
from glow_frontends.graph.sizes import objects, on_sizes, sizes_of
from glow_frontends.graph.values import (
    BoundedValue,
    Value,
    dtype_of_value,
    is_uniform,
    shape,
    type_of,
    uniform,
)

Operand: TypeAlias = Value | Sequence[Value] | None

#: Constants of at most this many elements are literals of the function.
LITERAL_ELEMENTS = 8
#: Constants computed while importing have at most this many elements.
MAX_FOLDED = 1 << 29
#: Operators that fold to a view of their operand, however large it is.
VIEWS: dict[type[GraphOp], Callable[[Any, Array], Array]] = {
    ReshapeOp: lambda op, x: x.reshape(shape_of(op.results[0])),
    TransposeOp: lambda op, x: x.transpose(op.permutation),
}


@dataclass(frozen=True)
class Scope:
    """Where operators go, what is there for all of them, and what is around them."""

    builder: Builder
    constants: dict[object, SSAValue]
    unique: dict[object, list[Value]]
    #: Whether it is in the body of a branch or a loop; of a loop.
    inner: bool = False
    turning: bool = False
    #: Whether it is in a loop whose number of turns is a size that only the run tells.
    counting: bool = False
    #: Whether it is in a branch that is computed whether or not it is taken.
    guessing: bool = False


class Emitter(Making):
    """Builds the function: `y = g(AddOp, x, w)` is an array where x and w are, else a graph value.

    With `training` nodes that only training needs stay in the graph.
    """

    def __init__(
        self,
        function: FuncOp | str = "main",
        source: str = "",
        reserved: Iterable[str] = (),
        symbols: Symbols | None = None,
        training: bool = False,
    ) -> None:
        super().__init__(function, source, reserved, symbols)
        self.training = training
        self.scope = Scope(self.builder, {}, {})
        self._names: dict[int, str] = {}
        #: What stored constants hold.
        self._stored: dict[SSAValue, Array] = {}
        self._kept: list[Array] = []
        #: Upper bounds of lengths that only the run tells (see counts.py).
        self.limits: dict[SSAValue, int] = {}
        #: Places in a row, as a slice of run-time bounds took them: what of, and the first.
        self.spans: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}
        #: Numbers of turns, and how many turns there are at most.
        self.turns: dict[SSAValue, int] = {}

    @contextmanager
    def within(self, **changes: Any) -> Generator[None]:
        """Around what is emitted in another scope, which differs in some fields."""
        outer = self.scope
        self.scope = replace(outer, **changes)
        self.builder = self.scope.builder
        try:
            yield
        finally:
            self.scope, self.builder = outer, outer.builder

    # --- operators ---------------------------------------------------------------------------
    def __call__(
        self, kind: type[GraphOp], *operands: Operand, results: Attribute | None = None, **properties: Any
    ) -> Value:
        """The first result of an operator."""
        return self.many(kind, *operands, results=results, **properties)[0]

    def many(
        self,
        kind: type[GraphOp],
        *operands: Operand,
        results: Attribute | Sequence[Attribute] | None = None,
        **properties: Any,
    ) -> list[Value]:
        """All results of an operator: evaluated where every operand is a known array."""
        flat = [v for group in operands for v in _flatten(group)]
        known = [v for v in flat if isinstance(v, np.ndarray)]
        sizes = on_sizes(kind, flat, results, properties) if len(known) < len(flat) else None
        if sizes is not None:
            return [self.sizes(*sizes)]
        if len(known) == len(flat) and not (results is not None and _open(results)):
            folded = self._fold(kind, operands, known, results, properties)
            if folded is not None:
                return folded
        values = [_map(group, self.value) for group in operands]
        op = self.node(kind, values, results, properties)
        return list(self.builder.insert(op).results)

    def sizes(self, numbers: Array, dtype: np.dtype) -> Value:
        """Sizes, an array of objects: known, or what the run will know."""
        if not is_open(list(numbers.reshape(-1))):
            return numbers.astype(dtype)
        if numbers.ndim > 1:
            return self.reshape(self.sizes(numbers.reshape(-1), dtype), numbers.shape)
        return self.builder(SizesOp.of(numbers, dtype))

    def size(self, number: int, dtype: np.dtype) -> Value:
        """A size, which only the run may know, as a scalar."""
        return self.sizes(objects([number]).reshape(()), dtype)

    def numbers(self, count: int, dtype: np.dtype = np.dtype(np.int64)) -> Value:
        """The ints from 0 on, `count` of them, which only the run may know."""
        if is_open((count,)):
            return self(IotaOp, results=tensor((count,), dtype.name))
        return np.arange(count, dtype=dtype)

    def once(self, key: object, make: Callable[[], list[Value]]) -> list[Value]:
        """The result of `make`, called once for equal keys: lengths are told apart by identity."""
        if key not in self.scope.unique:
            self.scope.unique[key] = make()
        return self.scope.unique[key]

    def bounded(self, value: Value, axis: int, count: Value) -> Value | BoundedValue:
        """The first `count` places along an axis: cut at once where they are known."""
        if isinstance(value, np.ndarray) and isinstance(count, np.ndarray):
            return np.take(value, range(int(count)), axis)
        tensor, length = self.value(value), self.value(count)
        self.limits[length] = shape_of(tensor)[axis]
        return BoundedValue(tensor, axis, length)

    def _fold(
        self,
        kind: type[GraphOp],
        operands: Sequence[Operand],
        arrays: list[Array],
        results: Attribute | Sequence[Attribute] | None,
        properties: dict[str, Any],
    ) -> list[Value] | None:
        """What an operator gives for known arrays; None where only the run tells how much that is."""
        block = Block(arg_types=[type_of(a) for a in arrays])
        args = iter(block.args)
        op = self.node(kind, [_map(group, lambda _: next(args)) for group in operands], results, properties)
        if any(is_open(shape_of(result)) for result in op.results):
            return None
        if kind in VIEWS:
            return [VIEWS[kind](op, arrays[0])]
        if kind.DATA_PARALLEL and len(op.results) == 1 and all(is_uniform(a) for a in arrays):
            whole = shape_of(op.results[0])
            if prod(whole) > 1:
                return [uniform(self._once(kind, operands, arrays, op, properties), whole)]
        for result in op.results:
            check_size(shape_of(result), MAX_FOLDED)
        return list(op.evaluate(arrays))

    def _once(
        self,
        kind: type[GraphOp],
        operands: Sequence[Operand],
        arrays: list[Array],
        op: GraphOp,
        properties: dict[str, Any],
    ) -> Array:
        """The one value of a data-parallel operator on uniform operands."""
        scalars = iter([np.asarray(a[(0,) * a.ndim]) for a in arrays])
        small = [_map(group, lambda _: next(scalars)) for group in operands]
        kind_of_result = tensor((), op.results[0].type.element_type)  # pyright: ignore
        flat = [v for group in small for v in _flatten(group)]
        block = Block(arg_types=[type_of(a) for a in flat])
        args = iter(block.args)
        twin = kind(
            *[_map(group, lambda _: next(args)) for group in small],
            results=kind_of_result if op.infer() is None else None,
            **properties,
        )
        return twin.evaluate([np.asarray(a) for a in flat])[0]

    def body(
        self, kinds: Sequence[Attribute], make: Callable[[Sequence[SSAValue]], Sequence[Value]]
    ) -> Block:
        """A block of the operations that `make` emits for parameters of some types; yields its results."""
        block, outer = Block(arg_types=kinds), self.scope
        builder = Builder.at_end(block)
        builder.location = outer.builder.location
        constants, unique = dict(outer.constants), dict(outer.unique)
        with self.within(builder=builder, constants=constants, unique=unique, inner=True):
            values = [self.value(v) for v in make(block.args)]
        block.add_op(YieldOp.of(values))
        return block

    # --- constants ---------------------------------------------------------------------------
    def name(self, array: Array, name: str) -> None:
        """Call the constant that `array` may become `name` (the first name given stays)."""
        if id(array) not in self._names:
            self._names[id(array)] = name
            self._kept.append(array)

    def renamed(self, value: Value, of: Value) -> Value:
        """A known array that is made of another, under the name of that."""
        if isinstance(value, np.ndarray) and id(of) in self._names:
            self.name(value, self._names[id(of)])
        return value

    def value(self, value: Value) -> SSAValue:
        """`value` in the graph; an array becomes a constant, one for equal arrays."""
        if isinstance(value, SSAValue):
            return value
        small = value.size <= LITERAL_ELEMENTS and is_standard(value.dtype) and value.dtype != bool
        kind = type_of(value)
        key = _content(value, kind)
        constants = self.scope.constants
        if key not in constants:
            if small and value.size:
                constants[key] = self.builder(LiteralOp.of(np.asarray(value)))
            else:
                constants[key] = self._constant(value, kind)
            self._kept.append(value)
        return constants[key]

    def stored(self, array: Array, kind: Tensor) -> SSAValue:
        """A constant of stored integers under a quantised type, never folded away."""
        value = self._constant(np.ascontiguousarray(array), kind)
        self._stored[value] = array
        return value

    def _constant(self, array: Array, kind: Tensor) -> SSAValue:
        return self.constant(self.unique(self._names.get(id(array), "constant")), array, kind)

    # --- questions of rules ------------------------------------------------------------------
    def known(self, value: Value, what: str) -> Array:
        """The array; raises NeedsValue where the value is computed at run time."""
        if not isinstance(value, SSAValue):
            return value
        owner = value.owner
        if isinstance(owner, DequantizeOp) and owner.input in self._stored:
            reals = dequantize_array(self._stored[owner.input], quantized_type(owner.input))
            return reals.astype(dtype_of_value(value))
        raise NeedsValue(value, what)

    def ints(self, value: Value, what: str) -> tuple[int, ...]:
        """Known integers, flat; sizes that only the run tells among them."""
        sizes = sizes_of(value) if isinstance(value, SSAValue) else None
        if sizes is not None:
            return tuple(sizes.reshape(-1))
        known = self.known(value, what)
        if known.dtype.kind not in "iub" and not (known.dtype.kind == "f" and np.isfinite(known).all()):
            raise RuleError(f"{what} is not integers")
        return tuple(int(v) for v in known.reshape(-1))

    def scalar(self, value: Value, what: str) -> Array:
        """One known number, as an array of rank 0."""
        known = self.known(value, what)
        if known.size != 1:
            raise RuleError(f"{what} is {known.size} numbers where one is expected")
        return known.reshape(())

    def integer(self, value: Value, what: str) -> int:
        """One known integer, which may be a size that only the run tells."""
        numbers = self.ints(value, what)
        if len(numbers) != 1:
            raise RuleError(f"{what} is {len(numbers)} numbers where one is expected")
        return numbers[0]

    def like(self, number: float | int | bool, value: Value) -> Array:
        """A rank-0 array with the dtype of `value`, for broadcasting."""
        return np.array(number).astype(dtype_of_value(value))

    def reshape(self, value: Value, to: Sequence[int]) -> Value:
        """`value` with another shape of as many elements."""
        if shape(value) == tuple(to):
            return value
        return self(ReshapeOp, value, results=tensor(to, type_of(value).element_type))

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        """`value` with its axes permuted."""
        if list(permutation) == list(range(len(permutation))):
            return value
        return self(TransposeOp, value, permutation=tuple(permutation))


def _open(results: Attribute | Sequence[Attribute]) -> bool:
    """Whether results have sizes that only the run tells."""
    kinds = (results,) if isinstance(results, Attribute) else results
    return any(is_open(shape_of(kind)) for kind in kinds)


def _content(array: Array, kind: Tensor) -> object:
    """Equal for arrays of equal contents; by identity where comparing would cost too much."""
    if is_uniform(array):
        return kind, "uniform", array[(0,) * array.ndim].tobytes()
    if array.nbytes <= 1 << 12:
        return kind, array.tobytes()
    return kind, id(array)


def _flatten(group: Operand) -> list[Value]:
    if group is None:
        return []
    if isinstance(group, np.ndarray | SSAValue):
        return [group]
    return list(group)


def _map(group: Operand, function: Callable[[Value], Any]) -> Any:
    if group is None:
        return None
    if isinstance(group, np.ndarray | SSAValue):
        return function(group)
    return [function(v) for v in group]
