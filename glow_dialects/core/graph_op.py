"""GraphOp: what every operator of the `glow` dialect shares (syntax, construction, questions passes ask)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar

from xdsl.dialects.builtin import FloatAttr, TensorType, UnitAttr, i32
from xdsl.ir import Attribute, Operation, OpResult, SSAValue, SSAValues
from xdsl.irdl import (
    AttrSizedOperandSegments,
    BaseAttr,
    IRDLOperation,
    OptPropertyDef,
    VariadicDef,
    irdl_op_definition,
    opt_operand_def,
    traits_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.attributes import integers, segment_sizes, to_attribute, to_python
from glow_dialects.core.order import check_in_function
from glow_dialects.core.types import Array, dtype_of, shape_of, typed

OperandLike = SSAValue | Operation | Sequence[SSAValue | Operation] | None
SEGMENTS = "operandSegmentSizes"


class _Syntax(IRDLOperation):
    """Operand groups and the `name operands pred %p {properties} : types` syntax both levels share."""

    @classmethod
    def groups(cls) -> list[tuple[str, bool]]:
        """(name, may be absent or many) of each operand group, the predicate excluded."""
        return _operand_groups(cls).groups

    @classmethod
    def property_defaults(cls) -> dict[str, Attribute]:
        """Properties that may be left out, with the value that they then have."""
        props = cls.get_irdl_definition().properties
        return {n: d.default_value for n, d in props.items() if d.default_value is not None}

    def group(self, name: str) -> list[SSAValue]:
        """The operands of one group."""
        groups = _operand_groups(type(self))
        operands = self._operands
        if name in groups.places:
            place = groups.places[name]
            return list(operands[place:]) if name == "predicate" else [operands[place]]
        sizes: Any = self.properties[SEGMENTS]
        counts, index = segment_sizes(sizes.data.data), groups.numbers[name]
        start = sum(counts[:index])
        return list(operands[start : start + counts[index]])

    def prop(self, name: str) -> Any:
        """A property as a Python value (int, float, str, tuple), None where absent."""
        return to_python(self.properties.get(name))

    @classmethod
    def attributes_of(cls, values: Mapping[str, object]) -> dict[str, Attribute]:
        """Properties from Python values: None and false flags are left out, an int will do for a float."""
        found: dict[str, Attribute] = {}
        for name, value in values.items():
            if type(value) is int and name in _properties_of(cls, FloatAttr):
                value = float(value)
            elif type(value) is bool and name in _properties_of(cls, UnitAttr):
                value = UnitAttr() if value else None
            if value is not None:
                found[name] = to_attribute(value)
        return found

    @classmethod
    def segment_sizes(cls, count: int, predicated: bool, parser: Parser) -> list[int]:
        """How `count` operands fall into groups when at most one group is variadic."""
        groups = cls.groups()
        flexible = [n for n, many in groups if many]
        if len(flexible) > 1:
            parser.raise_error(f"{cls.name} needs {SEGMENTS}: {' and '.join(flexible)} may be absent")
        rest = count - (len(groups) - len(flexible))
        if rest < 0 or (rest and not flexible):
            parser.raise_error(f"{cls.name} takes {len(groups)} operands, got {count}")
        return [rest if many else 1 for _, many in groups] + [int(predicated)]

    @classmethod
    def normalized(cls, sizes: Sequence[int], properties: dict[str, Attribute]) -> dict[str, Attribute]:
        """Properties with defaults filled in and the segment sizes where the definition wants them."""
        known = cls.get_irdl_definition().properties
        out = {**cls.property_defaults(), **properties}
        if SEGMENTS in known:
            out[SEGMENTS] = integers(i32, tuple(sizes))
        return out

    def shown_properties(self) -> dict[str, Attribute]:
        """Properties worth printing: not defaults, and segment sizes only where they are needed."""
        defaults = self.property_defaults()
        shown = {n: a for n, a in self.properties.items() if defaults.get(n) != a}
        if sum(many for _, many in self.groups()) <= 1:
            shown.pop(SEGMENTS, None)
        return shown

    @classmethod
    def split_dict(
        cls, parser: Parser, entries: dict[str, Attribute]
    ) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
        """Entries of one printed dictionary as (properties, attributes)."""
        known = cls.get_irdl_definition().properties
        return (
            {n: a for n, a in entries.items() if n in known},
            {n: a for n, a in entries.items() if n not in known},
        )


class GraphOp(_Syntax):
    """A node of the graph: tensors in, tensors out, no side effects unless it says so.

    A card overrides `infer`, `gradient`, `decompose`; `INSTR` is set by `instr_op(of=...)`.
    """

    INSTR: ClassVar[type[Any] | None] = None
    #: Element i of the result depends on element i of the (broadcast) operands only.
    DATA_PARALLEL: ClassVar[bool] = False
    #: The result is the first operand's bytes under another shape: no instruction, a view.
    VIEW: ClassVar[bool] = False
    #: Costs about what reading its operands costs: computing it again may beat keeping the result.
    CHEAP: ClassVar[bool] = False

    def __init__(
        self,
        *operands: OperandLike,
        results: Sequence[Attribute] | Attribute | None = None,
        predicate: SSAValue | None = None,
        **properties: object,
    ) -> None:
        groups = self.groups()
        assert len(operands) <= len(groups), f"{self.name}: {len(operands)} operands for {groups}"
        flat: list[SSAValue] = []
        sizes: list[int] = []
        for index in range(len(groups)):
            values = _values(operands[index] if index < len(operands) else None)
            flat += values
            sizes.append(len(values))
        sizes.append(int(predicate is not None))
        if predicate is not None:
            flat.append(predicate)
        given = self.attributes_of(properties)
        normalized = self.normalized(sizes, given)
        if missing := _required_properties(type(self)) - normalized.keys():
            raise VerifyException(f"{self.name} needs {', '.join(sorted(missing))}")
        if unknown := given.keys() - self.get_irdl_definition().properties.keys():
            raise VerifyException(f"{self.name} has no property {', '.join(sorted(unknown))}")
        Operation.__init__(self, operands=flat, result_types=(), properties=normalized)
        types = (results,) if isinstance(results, Attribute) else results
        if types is None:
            types = self.infer()
            assert types is not None, f"{self.name} needs results="
        self.results = SSAValues(OpResult(t, self, i) for i, t in enumerate(types))

    # --- what a card says -------------------------------------------------------------------
    def infer(self) -> Sequence[Attribute] | None:
        """Result types from operands and properties; None where the types are part of the op.

        Raises VerifyException with the constraint and both values where operands do not fit.
        """
        return None

    def check(self) -> None:
        """Further verification; raises VerifyException."""

    def gradient(self, grads: Sequence[SSAValue | None], b: Any) -> Sequence[SSAValue | None]:
        """Cotangents of the operands from those of the results, built with GraphBuilder `b`."""
        raise NotImplementedError(f"{self.name} has no gradient")

    def decompose(self, b: Any) -> Sequence[SSAValue] | None:
        """The results computed by smaller operators, or None where the op is primitive."""
        return None

    @classmethod
    def has_gradient(cls) -> bool:
        """Whether the card defines a gradient."""
        return cls.gradient is not GraphOp.gradient

    def takes_gradient(self) -> bool:
        """Whether this operation is differentiated as it is, not taken apart first."""
        return self.has_gradient()

    @classmethod
    def can_decompose(cls) -> bool:
        """Whether the card defines a decomposition."""
        return cls.decompose is not GraphOp.decompose

    def evaluate(self, arrays: Sequence[Array | None]) -> list[Array]:
        """The results for concrete operands, by the instruction's reference or the decomposition."""
        from glow_dialects.core.evaluate import evaluate

        return evaluate(self, arrays)

    # --- verification ------------------------------------------------------------------------
    def verify_(self) -> None:
        check_in_function(self)
        expected = self.infer()
        if expected is not None:
            actual = [r.type for r in self.results]
            if list(expected) != actual:
                want, got = ", ".join(map(str, expected)), ", ".join(map(str, actual))
                raise VerifyException(f"{self.name}: result type is {got}, operands give {want}")
        for value in self.group("predicate"):
            if dtype_of(typed(value)) != bool or len(shape_of(value)) > 1:
                raise VerifyException(f"{self.name}: predicate {value.type}, expected i1 or a vector of i1")
        self.check()

    # --- syntax --------------------------------------------------------------------------------
    def print(self, printer: Printer) -> None:
        predicated = bool(self.group("predicate"))
        values = list(self.operands)
        plain = values[:-1] if predicated else values
        if plain:
            printer.print_string(" ")
            printer.print_list(plain, printer.print_ssa_value)
        if predicated:
            printer.print_string(" pred ")
            printer.print_ssa_value(values[-1])
        printer.print_op_attributes({**self.attributes, **self.shown_properties()})
        printer.print_string(" : ")
        printer.print_function_type([v.type for v in values], [r.type for r in self.results])

    @classmethod
    def parse(cls, parser: Parser) -> GraphOp:
        names: list[UnresolvedOperand] = []
        first = parser.parse_optional_unresolved_operand()
        if first is not None:
            names.append(first)
            while parser.parse_optional_punctuation(",") is not None:
                names.append(parser.parse_unresolved_operand())
        predicated = parser.parse_optional_keyword("pred") is not None
        count = len(names)
        if predicated:
            names.append(parser.parse_unresolved_operand())
        properties, attributes = cls.split_dict(parser, parser.parse_optional_attr_dict())
        parser.parse_punctuation(":")
        kind = parser.parse_function_type()
        operands = parser.resolve_operands(names, list(kind.inputs), parser.pos)
        if SEGMENTS in properties:
            normalized = {**cls.property_defaults(), **properties}
        else:
            normalized = cls.normalized(cls.segment_sizes(count, predicated, parser), properties)
        return cls.create(
            operands=operands,
            result_types=list(kind.outputs),
            properties=normalized,
            attributes=attributes,
        )


@dataclass(frozen=True)
class _Groups:
    """The operand groups of a class of operations.

    `groups`: (name, may be absent or many), the predicate excluded. `numbers` counts all of them;
    `places` says where each begins, while that does not depend on the operation.
    """

    groups: list[tuple[str, bool]]
    numbers: dict[str, int]
    places: dict[str, int]


@cache
def _operand_groups(cls: type[IRDLOperation]) -> _Groups:
    definition = cls.get_irdl_definition()
    every = [(n, isinstance(d, VariadicDef)) for n, d in definition.operands]
    places: dict[str, int] = {}
    for index, (name, variadic) in enumerate(every):
        if variadic and (name, index) != ("predicate", len(every) - 1):
            break
        places[name] = index
    numbers = {name: index for index, (name, _) in enumerate(every)}
    return _Groups([g for g in every if g[0] != "predicate"], numbers, places)


@cache
def _properties_of(cls: type[_Syntax], kind: type[Attribute]) -> frozenset[str]:
    """The properties whose attribute is of one kind."""
    known = cls.get_irdl_definition().properties
    return frozenset(n for n, d in known.items() if kind in (d.constr.get_bases() or ()))


@cache
def _required_properties(cls: type[_Syntax]) -> frozenset[str]:
    """Properties that are neither optional nor have a default."""
    known = cls.get_irdl_definition().properties
    return frozenset(n for n, d in known.items() if not isinstance(d, OptPropertyDef))


_G = TypeVar("_G", bound=_Syntax)
_D = TypeVar("_D", bound=IRDLOperation)
#: The options of operators with optional or many operands.
SEGMENTED: Any = (AttrSizedOperandSegments(as_property=True),)


def graph_op(cls: type[_G]) -> type[_G]:
    """Register a graph operator: IRDL definition plus the advisory predicate every node may carry.

    Fields of base classes come before the operator's own, the predicate last.
    """
    annotate_constants(cls)
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        fields |= {n: v for n, v in vars(base).items() if type(v).__name__.endswith("FieldDef")}
    for name, field in fields.items():
        if name in vars(cls):
            delattr(cls, name)
        setattr(cls, name, field)
    operands = [f for f in fields.values() if type(f).__name__ == "_OperandFieldDef"]
    if any(issubclass(f.cls, VariadicDef) for f in operands):
        cls.irdl_options = SEGMENTED  # pyright: ignore[reportAttributeAccessIssue]
    cls.predicate = opt_operand_def(BaseAttr(TensorType))  # pyright: ignore[reportAttributeAccessIssue]
    return defined(cls)


def defined(cls: type[_D]) -> type[_D]:
    """The IRDL definition of a class, its operands and results read directly where their places are fixed.

    xDSL makes a view of all operands for each of them: a tenth of the time that compiling takes.
    """
    made = irdl_op_definition(cls)
    definition = made.get_irdl_definition()
    for name, place in _operand_groups(made).places.items():
        if name != "predicate":
            setattr(made, name, property(_operand_at(place)))
    for place, (name, kind) in enumerate(definition.results):
        if isinstance(kind, VariadicDef):
            break
        setattr(made, name, property(_result_at(place)))
    return made


def _operand_at(place: int) -> Callable[[Operation], SSAValue]:
    return lambda op: op._operands[place]


def _result_at(place: int) -> Callable[[Operation], OpResult]:
    return lambda op: op.results[place]


def annotate_constants(cls: type) -> None:
    """Mark UPPERCASE members as ClassVar, as IRDL demands, so that cards need not repeat it."""
    for base in cls.__mro__:
        if issubclass(base, _Syntax):
            for name in tuple(vars(base)):
                if name.isupper():
                    base.__annotations__.setdefault(name, ClassVar[Any])


class PureOp(GraphOp):
    """A graph operator without side effects: the common case."""

    traits = traits_def(Pure())


def _values(operand: OperandLike) -> list[SSAValue]:
    if operand is None:
        return []
    if isinstance(operand, SSAValue | Operation):
        return [SSAValue.get(operand)]
    return [SSAValue.get(v) for v in operand]


__all__ = ["GraphOp", "PureOp", "graph_op"]
