"""Operator: the base of graph operators and instructions (operand groups, properties, printed form)."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import FloatAttr, UnitAttr, i32
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import IRDLOperation, OperandDef, OptOperandDef, OptPropertyDef
from xdsl.parser import Parser
from xdsl.printer import Printer

from glow_dialects.core.attributes import integers, to_attribute
from glow_dialects.core.definition import PREDICATE, SEGMENTS, operand_groups, operands_of


class OperatorClass(ABCMeta):
    """The class of classes of operators: what is an instance of one is told by inheritance alone.

    Those of xDSL's operations ask every class below for whether it knows of others, where the answer is no.
    """

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


class Operator(IRDLOperation, metaclass=OperatorClass):
    """The base of nodes and instructions: groups of operands, properties and their printed form."""

    if TYPE_CHECKING:

        @property
        def predicate(self) -> SSAValue | None:
            """The advisory condition: where it is false, a backend may leave the operation out."""

    @classmethod
    def operand_groups(cls) -> list[tuple[str, bool]]:
        """(name, may be absent or many) of each operand group, the predicate excluded."""
        return [g for g in operand_groups(cls).many.items() if g[0] != PREDICATE]

    @classmethod
    def property_defaults(cls) -> dict[str, Attribute]:
        """Properties that may be left out, with the value that they then have."""
        props = cls.get_irdl_definition().properties
        return {n: d.default_value for n, d in props.items() if d.default_value is not None}

    def operand_group(self, name: str) -> list[SSAValue]:
        """The operands of one group, by its name."""
        return operands_of(self, name)

    @classmethod
    def attributes_of(cls, values: Mapping[str, object]) -> dict[str, Attribute]:
        """Properties from Python values: None and false flags are left out, an int will do for a float."""
        attributes: dict[str, Attribute] = {}
        for name, value in values.items():
            if type(value) is int and name in _properties_of(cls, FloatAttr):
                value = float(value)
            elif type(value) is bool and name in _properties_of(cls, UnitAttr):
                value = UnitAttr() if value else None
            if value is not None:
                attributes[name] = to_attribute(value)
        return attributes

    @classmethod
    def segment_sizes(cls, count: int, predicated: bool, parser: Parser, at: int) -> list[int]:
        """How `count` operands fall into groups: of those that may be absent, the first ones are there.

        An error at the place `at` in the text where operands are too few or many, or where a group of any
        number stands beside others that may be absent.
        """
        groups = cls.operand_groups()
        flexible = [n for n, many in groups if many]
        listed = [n for n in flexible if not isinstance(cls.operand_definition(n), OptOperandDef)]
        if listed and len(flexible) > 1:
            parser.raise_error(
                f"{cls.name} needs {SEGMENTS}: {' and '.join(flexible)} may be absent", at, at + 1
            )
        rest = count - (len(groups) - len(flexible))
        if rest < 0 or (rest > len(flexible) and not listed):
            wanted = f"{len(groups) - len(flexible)} to {len(groups)}" if flexible else f"{len(groups)}"
            parser.raise_error(f"{cls.name} takes {wanted} operands, got {count}; give as many", at, at + 1)
        if listed:
            return [rest if many else 1 for _, many in groups] + [int(predicated)]
        there = set(flexible[:rest])
        return [int(not many or n in there) for n, many in groups] + [int(predicated)]

    @classmethod
    def operand_definition(cls, name: str) -> OperandDef:
        """The definition of a group of operands."""
        return dict(cls.get_irdl_definition().operands)[name]

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
        if sum(many for _, many in self.operand_groups()) <= 1:
            shown.pop(SEGMENTS, None)
        return shown

    def print_body(self, printer: Printer) -> None:
        """Print the region, if there is one."""
        for region in self.regions:
            printer.print_string(" ")
            printer.print_region(region)

    @classmethod
    def parse_body(cls, parser: Parser) -> list[Region]:
        """The region behind an operation's types, if its definition knows one and it has one."""
        region = parser.parse_optional_region() if cls.get_irdl_definition().regions else None
        return [] if region is None else [region]

    def infer(self) -> Sequence[Attribute] | None:
        """Result types from operands and properties; None where the types are part of the op.

        Raises VerifyException with the constraint and both values where operands do not fit.
        """
        return None

    def check(self) -> None:
        """Further verification; raises VerifyException."""

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


@cache
def _properties_of(cls: type[Operator], kind: type[Attribute]) -> frozenset[str]:
    """The properties whose attribute is of one kind."""
    known = cls.get_irdl_definition().properties
    return frozenset(n for n, d in known.items() if kind in (d.constr.get_bases() or ()))


@cache
def required_properties(cls: type[Operator]) -> frozenset[str]:
    """Properties that are neither optional nor have a default."""
    known = cls.get_irdl_definition().properties
    return frozenset(n for n, d in known.items() if not isinstance(d, OptPropertyDef))
