"""A function without run-time branches as one graph, possibly with dynamic sizes.

What a run must not go past in silence (a subscript outside its axis, an int that needs more than 64 bits) the
graph counts, in outputs whose names say what is wrong where the count is not 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.ir import SSAValue

from glow_dialects.core.attributes import INLINE_BYTES, to_attribute
from glow_dialects.core.builder import Builder
from glow_dialects.core.extent import Extent
from glow_dialects.core.types import Array, Tensor, tensor, typed
from glow_dialects.fn.dialect import CallOp, ReturnOp
from glow_dialects.fn.domain import (
    BOOL,
    INT,
    Bottom,
    FnType,
    NamedType,
    NoneType,
    NotNative,
    Scalar,
    TensorType,
    Text,
    TupleType,
    Type,
)
from glow_dialects.fn.meaning import failure
from glow_dialects.fn.primitive import Primitive
from glow_dialects.fn.primitives.arithmetic import Add, Mul, Neg, Sub, ToBool
from glow_dialects.fn.primitives.items import CountOutside
from glow_dialects.fn.primitives.scalars import ScalarPrimitive
from glow_dialects.fn.primitives.shapes import Astype, Reshape
from glow_dialects.fn.regions import Kind, region, subscript_error, with_numbers
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.unit import operator_named
from glow_dialects.fn.values import V, captured
from glow_dialects.ops.iota import SizesOp
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, PlaceholderOp, SaveOp
from glow_passes.fn.functions import Functions
from glow_passes.fn.inference import infer
from glow_passes.fn.specialize import Instance, Specializer
from glow_passes.fn.unrolling import deep

DTYPES = {"bool": "bool", "int": "int64", "float": "float64"}
#: What begins the name of an output that counts what is wrong; then class, message and place of the error.
WRONG, BETWEEN = "wrong", "\t"
#: The class of what is no error: the run is for the interpreter, which has ints of any size.
LEAVE = "leave"
#: Primitives on ints that wrap around where 64 bits are not enough, as floats show.
_WRAPPING = (Add, Sub, Mul, Neg)
_MOST = 2.0**62


@dataclass
class Straight:
    """The graph of a function for some argument types, and the type of its value.

    Its inputs are the numbers and arrays of the arguments in order, its first outputs those of the value.
    `checks`: it has further ones, which count what is wrong.
    """

    module: ModuleOp
    result: Type
    checks: bool


def straight(functions: Functions, name: str, types: Sequence[Type], names: Sequence[str]) -> Straight:
    """The graph of a function; inputs get `names`, outputs `out0`, `out1`...

    NotNative where the function branches, or needs what no graph does; errors of types are raised.
    """
    try:
        return _straight(functions, name, types, names)
    except NotNative:  # a loop of several turns at a time, perhaps: of a turn at a time it may be straight
        return _straight(functions, name, types, names, turns=False)


def _straight(
    functions: Functions, name: str, types: Sequence[Type], names: Sequence[str], turns: bool = True
) -> Straight:
    inferred, root = infer(functions, name, types, turns=turns, graph=True)
    graph = _Graph()
    inputs = iter(names)
    arguments = [V(t, graph.input(t, inputs)) for t in root.parameters]
    with deep():
        value = _Inline(inferred.aimed_at(graph)).value(root, arguments)
    for number, (_, code) in enumerate(leaves_of(inferred.sets.resolve(value.type), value.code)):
        graph.output(f"out{number}", code)
    for text, count in graph.wrong.items():
        graph.output(text, count)
    graph.module.body.block.add_op(graph.function)
    return Straight(graph.module, inferred.sets.resolve(value.type), bool(graph.wrong))


def leaves_of(kind: Type, code: Any = None) -> Iterator[tuple[Scalar | TensorType, Any]]:
    """The numbers and arrays of a value, in order, each with its code; NotNative for functions."""
    match kind:
        case TupleType():
            codes = code if code is not None else [None] * len(kind.items)
            for item, own in zip(kind.items, codes, strict=True):
                yield from leaves_of(item, own)
        case Scalar() | TensorType():
            yield kind, code
        case NoneType() | Text():
            return
        case _:
            raise NotNative("a function as the result")


def _tensor(kind: Scalar | TensorType) -> Tensor:
    """The tensor that a number or array is."""
    return tensor((), DTYPES[kind.kind]) if isinstance(kind, Scalar) else tensor(kind.shape, kind.dtype)


class _Inline:
    """The operations of a function, those of the functions that it calls in place of the calls."""

    def __init__(self, program: Specializer) -> None:
        self._program = program
        self._inside: set[Instance] = set()

    def value(self, instance: Instance, arguments: Sequence[V]) -> V:
        """The value of an instance."""
        if isinstance(instance.result, Bottom):
            raise NotNative("a function that never returns")
        program = self._program
        values: dict[SSAValue, V] = dict(zip(instance.function.block.args, arguments, strict=True))
        self._inside.add(instance)
        for op in instance.function.block.ops:
            if isinstance(op, ReturnOp):
                self._inside.discard(instance)
                return program.convert(values[op.value], instance.result)
            where = op.source if isinstance(op, FnOp) else ""
            if failure(op) is not None:
                raise NotNative(f"{where}: an error that is raised")
            operands = [values[v] for v in op.operands]
            if isinstance(op, CallOp):
                values[op.result] = self._called(op, operands, instance)
            else:
                try:
                    values[op.results[0]] = program.step(op, operands, instance)
                except NotNative as reason:
                    raise NotNative(f"{where}: {reason}") from None
        raise AssertionError(instance.name)

    def _called(self, op: CallOp, x: list[V], instance: Instance) -> V:
        function = self._program.sets.resolve(x[0].type)
        targets = self._program.targets(x, instance, op.source)
        if len(targets) > 1:
            raise NotNative(f"{_place(op)}: a branch that the run decides")
        (target, _), *_ = targets
        if target in self._inside or not isinstance(function, FnType):
            raise NotNative(f"{_place(op)}: a loop or a recursion that stays one")
        given = [*captured(x[0], 0), *x[1:]]
        arguments = [self._program.convert(v, t) for v, t in zip(given, target.parameters, strict=True)]
        return self.value(target, arguments)


def _place(op: FnOp) -> str:
    """Where an operation stands in the source, or else the first one around it that says so."""
    assert op.parent is not None
    around = [op, *(o for o in op.parent.ops if isinstance(o, FnOp))]
    return next((o.source for o in around if o.source), "")


class _Graph:
    """The target that makes a graph: the code of numbers and arrays are its tensors."""

    coding = True

    def __init__(self) -> None:
        self.module = ModuleOp([])
        self.function = FuncOp.of("main")
        self.b = Builder.at_end(self.function.body.block)
        #: Counts of what is wrong by the names of their outputs.
        self.wrong: dict[str, SSAValue] = {}
        self._constants = 0

    # --- ports ------------------------------------------------------------------------------------
    def input(self, kind: Type, names: Iterator[str]) -> Any:
        """The code of an argument."""
        match kind:
            case TupleType():
                return [self.input(item, names) for item in kind.items]
            case Scalar() | TensorType():
                place = PlaceholderOp.of(next(names), _tensor(kind))
                self.module.body.block.add_op(place)
                return self.b.insert(GetOp.of(place)).result
            case NoneType() | Text():
                return None
            case _:
                raise NotNative("a function as an argument")

    def output(self, name: str, value: SSAValue) -> None:
        """Make a value an output."""
        place = PlaceholderOp.of(name, typed(value), "output")
        self.module.body.block.add_op(place)
        self.function.body.block.add_op(SaveOp.of(value, place))

    # --- numbers ----------------------------------------------------------------------------------
    def constant(self, kind: str, value: float | int | bool) -> SSAValue:
        """A number; one that follows from sizes too."""
        if isinstance(value, Extent):
            return self.b(SizesOp(results=tensor((), i64), values=(value,)))
        return self.b.constant(np.array(value, DTYPES[kind]))

    def cast(self, code: SSAValue, have: str, want: str) -> SSAValue:
        """bool, int and float into each other."""
        if (have, want) == ("float", "int"):
            raise NotNative("an int that is made of a float")
        if want == "bool":
            return self._made(ToBool(), {}, [Kind(typed(code))], [code])
        return self._made(Astype(), {"dtype": to_attribute(DTYPES[want])}, [Kind(typed(code))], [code])

    def scalar(self, card: ScalarPrimitive, kind: str, x: Sequence[SSAValue]) -> SSAValue:
        """A primitive on numbers of one kind."""
        result = card.kinds(kind, "")[1]
        if result == "int" and not isinstance(card, _WRAPPING):
            raise NotNative(f"{card.short} of numbers that are only known at run time")
        value = self._made(card, {}, [Kind(typed(v)) for v in x], x)
        if value.type != tensor((), DTYPES[result]):
            raise NotNative(f"{card.short} of {kind}s")
        if result == "int":
            reals = [self.cast(v, "int", "float") for v in x]
            exact = self._made(card, {}, [Kind(typed(v)) for v in reals], reals)
            size = self._op("abs", exact)
            self._leave(self._op("cmp_ge", size, self.b.scalar(_MOST, size)), "an int of more than 64 bits")
        return value

    def exact(self, code: SSAValue) -> None:
        """Leave the program where an int is not exactly a float."""
        self.within(code, -(2**53), 2**53)

    def within(self, code: SSAValue, low: int, high: int) -> None:
        """Leave the program where an int lies outside a range."""
        least, most = (self.b.constant(np.array(n, np.int64)) for n in (low, high))
        outside = self._op("or", self._op("cmp_lt", code, least), self._op("cmp_gt", code, most))
        self._leave(outside, f"an int that is not from {low} to {high}")

    def defined(self, result: SSAValue, x: Sequence[SSAValue]) -> None:
        """Leave the program where a function of numbers gives what is not finite."""
        size = self._op("abs", result)
        finite = self._op("cmp_lt", size, self.b.scalar(float("inf"), size))
        self._leave(self._op("not", finite), "a function of numbers without a finite value")

    def select(self, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        """One of two values."""
        return yes if yes is no else self._op("select", condition, yes, no)

    # --- tensors ----------------------------------------------------------------------------------
    def tensor(
        self, card: Primitive, attributes: Any, values: Sequence[V], result: Type, where: str
    ) -> SSAValue:
        """A primitive on tensors."""
        numbers = [v.type.const if isinstance(v.type, Scalar) else None for v in values]
        kinds: list[Kind] = []
        for v in values:
            assert isinstance(v.type, Scalar | TensorType)
            kinds.append(Kind(_tensor(v.type), isinstance(v.type, Scalar)))
        return self._made(card, attributes, with_numbers(kinds, numbers), [v.code for v in values], where)

    def zeros(self, kind: TensorType) -> SSAValue:
        """An array of zeros."""
        return self.b.splat(0, tensor(kind.shape, kind.dtype))

    def as_tensor(self, value: V, kind: TensorType) -> SSAValue:
        """A number as an array."""
        return self.tensor(Astype(), {"dtype": to_attribute(kind.dtype)}, [value], kind, "")

    def first(self, value: V) -> SSAValue:
        """The boolean that is the one element of an array."""
        return self.tensor(Reshape(), {"shape": to_attribute(())}, [value], BOOL, "")

    def inside(self, index: V, size: int, where: str) -> None:
        """Count the subscripts outside an axis."""
        count = self.tensor(CountOutside(), {"size": to_attribute(size)}, [index], INT, where)
        self._count(("IndexError", subscript_error(size), where), count)

    def array(self, value: Array) -> SSAValue:
        """An array that is known when compiling."""
        if value.nbytes <= INLINE_BYTES:
            return self.b.constant(value)
        self._constants += 1
        constant = ConstantOp.of(f"constant{self._constants}", value)
        self.module.body.block.add_op(constant)
        return self.b.insert(GetOp.of(constant)).result

    def undefined(self, kind: Type) -> Any:
        """Any value of a type."""
        match kind:
            case TupleType():
                return [self.undefined(t) for t in kind.items]
            case Scalar():
                return self.constant(kind.kind, 0)
            case TensorType():
                return self.zeros(kind)
            case FnType() if len(kind.entries) == 1:
                return [self.undefined(t) for t in kind.entries[0][1]]
            case FnType() | NamedType():
                raise NotNative("functions of several kinds")
            case _:
                return None

    def nothing(self) -> None:
        """An array that is never read."""

    def box(self, named: NamedType, index: int, values: Sequence[Any]) -> Any:
        """A record of functions."""
        raise NotNative("functions that refer to functions of their own kind")

    def box_any(self, named: NamedType, value: V, convert: Any) -> Any:
        """A record of one of several functions."""
        raise NotNative("functions that refer to functions of their own kind")

    def graph(self, op: Any, values: Sequence[V]) -> Any:
        """A part of a graph of a model."""
        raise NotNative("a part of a model")

    def calls(self, op: Any, caller: Any, callees: Sequence[Any]) -> None:
        """Calls are taken apart."""

    # --- operators --------------------------------------------------------------------------------
    def _made(
        self, card: Primitive, attributes: Any, kinds: Sequence[Kind], values: Sequence[Any], where: str = ""
    ) -> SSAValue:
        """The operators of a primitive."""
        template = region(card, attributes, kinds, where)
        mapping: dict[SSAValue, SSAValue] = dict(zip(template.block.args, values, strict=True))
        for op in template.block.ops:
            self.function.body.block.add_op(op.clone(mapping))
        return mapping.get(template.result, template.result)

    def _op(self, name: str, *values: SSAValue) -> SSAValue:
        return self.b(operator_named(name)(*values))

    def _leave(self, bad: SSAValue, reason: str) -> None:
        """Let the run be the interpreter's where a boolean is true."""
        self._count((LEAVE, reason, ""), self.cast(bad, "bool", "int"))

    def _count(self, error: tuple[str, str, str], count: SSAValue) -> None:
        name = BETWEEN.join((WRONG, *error))
        known = self.wrong.get(name)
        self.wrong[name] = count if known is None else self._op("add", known, count)
