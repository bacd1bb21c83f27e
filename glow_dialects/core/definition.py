"""How operators are defined: IRDL fields become typed members, properties Python values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, Operation, Region, SSAValue, SSAValues
from xdsl.irdl import (
    AttrSizedOperandSegments,
    BaseAttr,
    IRDLOperation,
    OpDef,
    OperandDef,
    OptionalDef,
    OptOperandDef,
    PropertyDef,
    ResultDef,
    VariadicDef,
    irdl_op_definition,
)
from xdsl.irdl.constraints import VerificationContext
from xdsl.irdl.operations import irdl_op_verify_regions
from xdsl.traits import OpTrait

from glow_dialects.core.attributes import segment_sizes, to_python

SEGMENTS = AttrSizedOperandSegments.attribute_name
PREDICATE = "predicate"
_D = TypeVar("_D", bound=IRDLOperation)


@dataclass(frozen=True)
class Groups:
    """The operand groups of a class of operations, the predicate among them.

    `many`: whether a group may be absent or hold several; `numbers` counts the groups; `places` says
    where each begins, while that does not depend on the operation.
    """

    many: dict[str, bool]
    numbers: dict[str, int]
    places: dict[str, int]


@cache
def operand_groups(cls: type[IRDLOperation]) -> Groups:
    """The operand groups that a class declares."""
    many = {n: isinstance(d, VariadicDef) for n, d in cls.get_irdl_definition().operands}
    places: dict[str, int] = {}
    for index, (name, variadic) in enumerate(many.items()):
        if variadic and (name, index) != (PREDICATE, len(many) - 1):
            break
        places[name] = index
    return Groups(many, {name: index for index, name in enumerate(many)}, places)


def operands_of(op: IRDLOperation, name: str) -> list[SSAValue]:
    """The operands of one group."""
    groups = operand_groups(type(op))
    operands = op.operands
    if name in groups.places:
        place = groups.places[name]
        return list(operands[place:]) if name == PREDICATE else [operands[place]]
    sizes: Any = op.properties[SEGMENTS]
    counts, index = segment_sizes(sizes.data.data), groups.numbers[name]
    start = sum(counts[:index])
    return list(operands[start : start + counts[index]])


def declared(cls: type[IRDLOperation], buffers: type[Attribute]) -> OpDef:
    """The definition of a class by its fields: those of its bases first, the predicate last.

    `buffers` is the type of operands: tensors of nodes, memrefs of instructions.
    """
    annotate_constants(cls)
    definition = OpDef.from_pyrdl(cls)
    order = {name: i for i, name in enumerate(n for base in reversed(cls.__mro__) for n in vars(base))}
    operands = sorted(definition.operands, key=lambda pair: order[pair[0]])
    definition.operands[:] = [*operands, (PREDICATE, OptOperandDef(BaseAttr(buffers)))]
    definition.results.sort(key=lambda pair: order[pair[0]])
    if any(isinstance(kind, VariadicDef) for _, kind in operands):
        segmented(definition)
    return definition


def segmented(definition: OpDef) -> None:
    """Let an operation say how many operands each of its groups has."""
    definition.options.append(AttrSizedOperandSegments(as_property=True))
    definition.properties[SEGMENTS] = PropertyDef(BaseAttr(DenseArrayBase))


def define(cls: type[_D], definition: OpDef) -> type[_D]:
    """Give a class its definition and typed members.

    An operand is a value, None where an optional one is absent, a sequence where there may be several; a
    property is a Python value (int, float, str, bool, tuple), None where an optional one is absent.
    """
    check = cls.verify_
    fits = checked_forms(definition)

    def verify_(self: IRDLOperation) -> None:
        fits(self)
        check(self)  # pyright: ignore[reportArgumentType]

    members: dict[str, Any] = {
        "get_irdl_definition": classmethod(lambda _: definition),
        "traits": definition.traits,
        "verify_": verify_,
    }
    members |= {name: property(_property(name)) for name in definition.properties}
    for name, value in members.items():
        setattr(cls, name, value)
    for name, kind in definition.operands:
        setattr(cls, name, property(_operand(cls, name, kind)))
    for place, (name, kind) in enumerate(definition.results):
        setattr(cls, name, property(_result(place, kind)))
    for place, (name, _) in enumerate(definition.regions):
        setattr(cls, name, property(_region(place)))
    return cls


#: Forms of the operations of one class that are remembered.
MOST_FORMS = 4096


def checked_forms(definition: OpDef) -> Callable[[IRDLOperation], None]:
    """`definition.verify`, which takes most of verification, once for each form: types and properties."""
    valid: set[Any] = set()
    checking = [t for t in definition.traits if type(t).verify is not OpTrait.verify]
    lasting = not definition.attributes  # these are not part of a form

    def fits(op: IRDLOperation) -> None:
        form = tuple(op.operand_types), tuple(op.result_types), tuple(op.properties.items())
        if form not in valid or op.successors:
            definition.verify(op)
            if lasting:
                if len(valid) >= MOST_FORMS:
                    valid.clear()
                valid.add(form)
            return
        if op.regions or definition.regions:
            irdl_op_verify_regions(op, definition, VerificationContext())
        for trait in checking:
            trait.verify(op)

    return fits


def read_directly(cls: type[_D]) -> type[_D]:
    """The IRDL definition of a class, its operands and results read directly where their places are fixed."""
    defined = irdl_op_definition(cls)
    definition = defined.get_irdl_definition()
    for name, kind in definition.operands:
        if not isinstance(kind, VariadicDef):
            setattr(defined, name, property(_operand(defined, name, kind)))
    for place, (name, kind) in enumerate(definition.results):
        setattr(defined, name, property(_result(place, kind)))
    return defined


def annotate_constants(cls: type) -> None:
    """Mark UPPERCASE members as ClassVar, as IRDL demands, so that cards need not repeat it."""
    for base in cls.__mro__:
        if issubclass(base, IRDLOperation) and base is not IRDLOperation:
            for name in tuple(vars(base)):
                if name.isupper():
                    base.__annotations__.setdefault(name, ClassVar[Any])


def _property(name: str) -> Callable[[Operation], object]:
    return lambda op: to_python(op.properties.get(name))


def _operand(cls: type[IRDLOperation], name: str, kind: OperandDef) -> Callable[[Any], object]:
    place = operand_groups(cls).places.get(name)
    if place is not None and name != PREDICATE:
        return lambda op: op.operands[place]
    if isinstance(kind, OptionalDef):
        return lambda op: next(iter(operands_of(op, name)), None)
    if isinstance(kind, VariadicDef):
        return lambda op: SSAValues(operands_of(op, name))
    return lambda op: operands_of(op, name)[0]


def _region(place: int) -> Callable[[Operation], Region | None]:
    return lambda op: op.regions[place] if place < len(op.regions) else None


def _result(place: int, kind: ResultDef) -> Callable[[Operation], object]:
    if isinstance(kind, VariadicDef):
        return lambda op: SSAValues(op.results[place:])
    return lambda op: op.results[place]
