"""glow-bind-sizes: a graph of any size, for some sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.attributes import to_attribute
from glow_dialects.core.conditions import Conditions, Symbol
from glow_dialects.core.errors import ShapeError
from glow_dialects.core.extent import Extent
from glow_dialects.core.size_text import SYMBOLS, SizesAttr, SymbolsAttr
from glow_dialects.core.symbols import solved
from glow_dialects.core.types import shape_of
from glow_dialects.ops.module import placeholders
from glow_passes.contract import GraphPass


def symbols_of(module: ModuleOp) -> Conditions | None:
    """The symbols of a module and what was decided about them; None where every size is known."""
    known = module.attributes.get(SYMBOLS)
    return known.data if isinstance(known, SymbolsAttr) else None


def check_open(module: ModuleOp) -> None:
    """OpenSizes where a size of a module was fixed meanwhile."""
    conditions = symbols_of(module)
    if conditions is not None:
        conditions.check_open()


def bind_sizes(module: ModuleOp, sizes: Mapping[Symbol, int]) -> None:
    """Put numbers, or extents of other symbols, in place of symbols (in units of their divisors).

    Everything is verified for them anew. ShapeError where the graph is not for such sizes.
    """
    conditions = symbols_of(module)
    if conditions is None or not sizes:
        return
    text = ", ".join(f"{s} = {value * s.divisor}" for s, value in sizes.items())
    for symbol, value in sizes.items():
        if not symbol.least <= value <= symbol.most:
            raise ShapeError(f"{symbol} = {value * symbol.divisor}: {_limits(symbol)}")
    for condition in conditions.met:
        # Which sizes are not equal decided how operators look, not what they mean.
        decides = condition.relation != "!=" and condition.extent.symbols() <= sizes.keys()
        if decides and not condition.holds(sizes):
            raise ShapeError(f"the graph is not for {text}: it was made for {condition}")
    _Binding(sizes).module(module)
    left = [s for s in conditions.symbols if s not in sizes]
    others = {id(e.conditions): e.conditions for e in sizes.values() if isinstance(e, Extent)}
    if len(others) + bool(left) > 1:
        raise ShapeError(f"all sizes must be bound together; {', '.join(s.name for s in left)} are left")
    if not left:
        del module.attributes[SYMBOLS]
    for made in others.values():
        module.attributes[SYMBOLS] = SymbolsAttr(made)
    try:
        _check_ports(module)
        module.verify()
    except VerifyException as error:
        raise ShapeError(f"the graph is not for {text}: {str(error).strip().splitlines()[-1]}") from None


def sizes_of(module: ModuleOp, shapes: Mapping[str, Sequence[int]], every: bool = True) -> dict[Symbol, int]:
    """The symbols of a module by shapes of placeholders; ShapeError where these do not tell `every` one."""
    known = placeholders(module)
    pairs: list[tuple[int, int]] = []
    for name, shape in shapes.items():
        have = shape_of(known[name].type)
        if len(have) != len(shape):
            raise ShapeError(f"'{name}' has shape {tuple(shape)}, expected {_text(have)}")
        pairs += zip(have, shape, strict=True)
    try:
        sizes = solved(pairs)
    except ShapeError as error:
        raise ShapeError(f"{_shapes(shapes)}: {error}") from None
    conditions = symbols_of(module)
    unknown = [str(s) for s in (conditions.symbols if conditions else ()) if s not in sizes]
    if unknown and every:
        raise ShapeError(f"{_shapes(shapes)}: no input determines the size {', '.join(unknown)}")
    return sizes


def _shapes(shapes: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{name} {_text(shape)}" for name, shape in shapes.items())


def _text(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _limits(symbol: Symbol) -> str:
    """What sizes a symbol may have, as a message says it."""
    by = symbol.divisor
    most = f"to {int(symbol.most) * by}" if symbol.most != float("inf") else "on"
    return f"it is from {symbol.least * by} {most}"


def _check_ports(module: ModuleOp) -> None:
    for name, port in placeholders(module).items():
        if any(d < 0 for d in shape_of(port.type)):
            raise VerifyException(f"'{name}' has the negative size in {port.type}")


class _Binding:
    """Attributes with numbers in place of symbols; equal ones are made once."""

    def __init__(self, sizes: Mapping[Symbol, int]) -> None:
        self._sizes = sizes
        self._made: dict[int, tuple[Attribute, Attribute]] = {}

    def module(self, module: ModuleOp) -> None:
        """Every attribute and type of the module's operations."""
        for op in module.body.walk():
            self._operation(op)

    def _operation(self, op: Operation) -> None:
        for entries in (op.properties, op.attributes):
            for name, attribute in entries.items():
                entries[name] = self.attribute(attribute)
        arguments = [a for region in op.regions for block in region.blocks for a in block.args]
        for value in [*op.results, *arguments]:
            kind = self.attribute(value.type)
            if kind is not value.type:
                Rewriter.replace_value_with_new_type(value, kind)

    def attribute(self, attribute: Attribute) -> Attribute:
        """The attribute for the sizes; the same object where there is no symbol in it."""
        known = self._made.get(id(attribute))
        if known is None:  # which is kept beside what is made of it, so that no other has its id
            known = self._made[id(attribute)] = (attribute, self._bound(attribute))
        return known[1]

    def _size(self, value: int) -> int:
        if not isinstance(value, Extent) or not value.symbols() <= self._sizes.keys():
            return value
        return value.at(self._sizes)

    def _bound(self, attribute: Attribute) -> Attribute:
        match attribute:
            case SizesAttr():
                return to_attribute(tuple(map(self._size, attribute.data)))
            case IntegerAttr() if isinstance(attribute.value.data, Extent):
                return IntegerAttr(self._int(attribute.value), i64)
            case IntAttr():
                return self._int(attribute)
            case ArrayAttr():
                items = [self.attribute(a) for a in attribute.data]
                same = all(a is b for a, b in zip(items, attribute.data, strict=True))
                return attribute if same else ArrayAttr(items)
            case DictionaryAttr():
                return DictionaryAttr({n: self.attribute(a) for n, a in attribute.data.items()})
            case ParametrizedAttribute():
                parameters = [self.attribute(a) for a in attribute.parameters]
                same = all(a is b for a, b in zip(parameters, attribute.parameters, strict=True))
                return attribute if same else cast(Any, type(attribute)).new(parameters)
            case _:
                return attribute

    def _int(self, attribute: IntAttr) -> IntAttr:
        bound = self._size(attribute.data)
        return attribute if bound is attribute.data else IntAttr(bound)


@dataclass(frozen=True)
class BindSizesPass(GraphPass):
    """Give sizes that only the run tells numbers: `glow-bind-sizes{sizes="n=64","m=3"}`.

    x : tensor<[n]x[2*n+1]xf32>  ->  with n=4: x : tensor<4x9xf32>
    """

    name = "glow-bind-sizes"
    sizes: tuple[str, ...]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        conditions = symbols_of(op)
        known = {s.name: s for s in (conditions.symbols if conditions else ())}
        sizes: dict[Symbol, int] = {}
        for item in self.sizes:
            name, _, number = item.rpartition("=")
            if name not in known or not number.isdecimal():
                there = ", ".join(known) or "none"
                raise ShapeError(f"glow-bind-sizes: '{item}': unknown size or not a number; sizes: {there}")
            symbol = known[name]
            if int(number) % symbol.divisor:
                raise ShapeError(f"{symbol} = {number}: it is a multiple of {symbol.divisor}")
            sizes[symbol] = int(number) // symbol.divisor
        bind_sizes(op, sizes)


__all__ = ["BindSizesPass", "bind_sizes", "check_open", "sizes_of", "symbols_of"]
