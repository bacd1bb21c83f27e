"""InstrOp: instructions on buffers, with operands marked `@in`, `@out`, `@inout` or `@after`, and
semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import cache
from typing import Any, ClassVar, TypeGuard, TypeVar

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import BaseAttr, OperandDef, OptionalDef, OptOperandDef, VariadicDef, VarOperandDef, traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.definition import PREDICATE, SEGMENTS, declared, define, segmented
from glow_dialects.core.iteration import Iteration
from glow_dialects.core.operator import Operator
from glow_dialects.core.order import check_in_function
from glow_dialects.core.token import TOKEN
from glow_dialects.core.types import Array, buffer_type, typed


class Access(Enum):
    """How an instruction uses a buffer (Glow paper, section 3.3); AFTER: it waits for a token."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    AFTER = "after"

    @property
    def reads(self) -> bool:
        """Whether the old contents matter."""
        return self is Access.IN or self is Access.INOUT

    @property
    def writes(self) -> bool:
        """Whether the contents change."""
        return self is Access.OUT or self is Access.INOUT


MODES = tuple(access.value for access in Access)


class AccessEffects(MemoryEffect):
    """Memory effects of an instruction, read off its ACCESS table."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        assert isinstance(op, InstrOp)
        effects: set[EffectInstance] = set()
        for access, value in op.accesses():
            if access.reads:
                effects.add(EffectInstance(MemoryEffectKind.READ, value))
            if access.writes:
                effects.add(EffectInstance(MemoryEffectKind.WRITE, value))
            if access is Access.AFTER:  # whatever is under way
                effects.add(EffectInstance(MemoryEffectKind.WRITE))
        return effects


class InstrOp(Operator):
    """An instruction. Operand groups are in the order of ACCESS.

    One with a result, a token, is asynchronous: it only starts, and its buffers are in use until an
    instruction takes the token as an `@after` operand, before which it waits.
    """

    ACCESS: ClassVar[dict[str, Access]] = {}
    #: Names of @in groups whose buffer the first @out operand may share when shapes agree.
    INPLACE: ClassVar[tuple[str, ...]] = ()
    #: Whether every @out operand may, each another one: no element is read after its place is written.
    EACH_INPLACE: ClassVar[bool] = False
    DATA_PARALLEL: ClassVar[bool] = False
    GRAPH_OP: ClassVar[type[Operator] | None] = None

    traits = traits_def(AccessEffects())

    def __init__(
        self,
        *operands: SSAValue | Sequence[SSAValue] | None,
        predicate: SSAValue | None = None,
        **properties: object,
    ) -> None:
        flat: list[SSAValue] = []
        sizes: list[int] = []
        for index in range(len(self.operand_groups())):
            value = operands[index] if index < len(operands) else None
            values = [] if value is None else [value] if isinstance(value, SSAValue) else list(value)
            flat += values
            sizes.append(len(values))
        sizes.append(int(predicate is not None))
        if predicate is not None:
            flat.append(predicate)
        attributes = self.normalized(sizes, self.attributes_of(properties))
        Operation.__init__(self, operands=flat, result_types=self.tokens_given(), properties=attributes)

    @classmethod
    def tokens_given(cls) -> list[Attribute]:
        """The types of the results."""
        return [TOKEN for _ in cls.get_irdl_definition().results]

    def accesses(self) -> list[tuple[Access, SSAValue]]:
        """(access, buffer) of every operand in order; the predicate is read."""
        if (one := _one_each(type(self))) is not None:
            operands = self.operands
            return [*zip(one, operands, strict=False), *((Access.IN, v) for v in operands[len(one) :])]
        pairs = [(a, v) for n, a in self.ACCESS.items() for v in self.operand_group(n)]
        return pairs + [(Access.IN, v) for v in self.operand_group(PREDICATE)]

    def written(self) -> list[SSAValue]:
        """Buffers that are written."""
        return [v for a, v in self.accesses() if a.writes]

    def read(self) -> list[SSAValue]:
        """Buffers that are read."""
        return [v for a, v in self.accesses() if a.reads]

    def buffers(self) -> list[SSAValue]:
        """Buffers that it works on."""
        return [v for a, v in self.accesses() if a is not Access.AFTER]

    def operand_tokens(self) -> list[SSAValue]:
        """Tokens that it waits for."""
        return [v for a, v in self.accesses() if a is Access.AFTER]

    def reference(self, *buffers: Any, **named: Any) -> None:
        """The meaning: write the @out arrays from the @in arrays (one argument an operand group)."""
        raise NotImplementedError(self.name)

    def run_reference(self, arrays: Sequence[Array]) -> None:
        """Call `reference` with flat operand arrays grouped as declared."""
        definition = self.get_irdl_definition()
        grouped: list[Any] = []
        position = 0
        for name, kind in definition.operands:
            count = len(self.operand_group(name))
            part = arrays[position : position + count]
            position += count
            if name == PREDICATE or self.ACCESS[name] is Access.AFTER:
                continue
            if isinstance(kind, OptionalDef):
                grouped.append(part[0] if part else None)
            elif isinstance(kind, VariadicDef):
                grouped.append(list(part))
            else:
                grouped.append(part[0])
        self.reference(*grouped)

    # --- verification ----------------------------------------------------------------------
    def verify_(self) -> None:
        check_in_function(self)
        if self.GRAPH_OP is not None:
            self._verify_as(self.GRAPH_OP)

    @contextmanager
    def as_node(self, node: type[Operator]) -> Generator[Operator]:
        """The graph operator on tensors like the buffers, to be asked about it."""
        fakes = [_Fake(typed(v)) for a, v in self.accesses() if a is Access.IN]
        sizes = [len(self.operand_group(n)) for n, _ in node.operand_groups()] + [
            len(self.operand_group(PREDICATE))
        ]
        properties = node.normalized(sizes, {n: a for n, a in self.properties.items() if n != SEGMENTS})
        outs = [typed(v) for v in self.written()]
        regions = [self.detach_region(0) for _ in self.regions]  # lent
        probe = node.create(operands=fakes, result_types=outs, properties=properties, regions=regions)
        try:
            yield probe
        finally:
            probe.operands = ()
            for region in regions:
                self.add_region(probe.detach_region(region))

    def iteration(self) -> Iteration | None:
        """That of the graph operator (see `GraphOp.iteration`); None where there is none, or a predicate."""
        node: Any = self.GRAPH_OP
        if node is None or self.predicate is not None:
            return None
        with self.as_node(node) as probe:
            return probe.iteration()  # pyright: ignore[reportAttributeAccessIssue]

    def arithmetic(self) -> int:
        """Arithmetic operations, about, as its graph operator says (`GraphOp.work`); 0 where it has none."""
        node: Any = self.GRAPH_OP
        if node is None:
            return 0
        with self.as_node(node) as probe:
            return probe.work()  # pyright: ignore[reportAttributeAccessIssue]

    def _verify_as(self, node: type[Operator]) -> None:
        """Check the buffers against the graph operator's shape inference."""
        with self.as_node(node) as probe:
            expected = probe.infer()
            probe.check()
        if expected is None:
            return
        actual = [v.type for v in self.written()]
        wanted = [buffer_type(typed(t)) for t in expected]
        if [typed(t) for t in wanted] != [typed(t) for t in actual]:
            raise VerifyException(
                f"{self.name}: @out buffers are {', '.join(map(str, actual))}, operands give "
                f"{', '.join(map(str, wanted))}; write that"
            )

    # --- syntax ------------------------------------------------------------------------------
    def print(self, printer: Printer) -> None:
        printer.print_string(" ")

        def one(pair: tuple[Access, SSAValue]) -> None:
            printer.print_string(f"@{pair[0].value} ")
            printer.print_ssa_value(pair[1])

        pairs = self.accesses()
        predicated = self.predicate is not None
        printer.print_list(pairs[:-1] if predicated else pairs, one)
        if predicated:
            printer.print_string(" pred ")
            printer.print_ssa_value(pairs[-1][1])
        printer.print_op_attributes({**self.attributes, **self.shown_properties()})
        printer.print_string(" : ")
        printer.print_list(self.operands, lambda v: printer.print_attribute(v.type))
        self.print_body(printer)

    @classmethod
    def parse(cls, parser: Parser) -> InstrOp:
        def one() -> tuple[str, UnresolvedOperand]:
            mode = parser.parse_symbol_name().data
            if mode not in MODES:
                parser.raise_error(f"expected {', '.join(f'@{m}' for m in MODES)}, got @{mode}")
            return mode, parser.parse_unresolved_operand()

        at = parser.pos
        pairs = parser.parse_comma_separated_list(parser.Delimiter.NONE, one)
        names = [n for _, n in pairs]
        predicated = parser.parse_optional_keyword("pred") is not None
        if predicated:
            names.append(parser.parse_unresolved_operand())
        properties, attributes = cls.split_dict(parser, parser.parse_optional_attr_dict())
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        operands = parser.resolve_operands(names, types, at)
        if SEGMENTS in properties:
            normalized = {**cls.property_defaults(), **properties}
        else:
            normalized = cls.normalized(cls.segment_sizes(len(pairs), predicated, parser, at), properties)
        op = cls.create(
            operands=operands,
            result_types=cls.tokens_given(),
            properties=normalized,
            attributes=attributes,
            regions=cls.parse_body(parser),
        )
        for (mode, name), (access, _) in zip(pairs, op.accesses(), strict=False):
            if mode != access.value:
                told = f"{cls.name}: operand marked @{mode} is @{access.value}; write that"
                parser.raise_error(told, name.span)
        return op


@cache
def _one_each(cls: type[InstrOp]) -> tuple[Access, ...] | None:
    """The accesses of a class with one operand a group, in the order of the operands; None for others."""
    if any(many for _, many in cls.operand_groups()):
        return None
    return tuple(cls.ACCESS[name] for name, _ in cls.operand_groups())


class _Fake(SSAValue):
    """A value of a type only, for shape inference on buffers."""

    def __init__(self, kind: Attribute) -> None:
        super().__init__(kind)

    @property
    def owner(self) -> Any:
        raise AssertionError("a fake value has no owner")

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


_I = TypeVar("_I", bound=InstrOp)


def instruction_of(node: type[Operator]) -> type[InstrOp]:
    """The instruction of a graph operator: it has the node's meaning and facts (members in capitals)."""
    dialect, _, short = node.name.partition(".")
    facts = {name: getattr(node, name) for name in dir(node) if name.isupper() and name != "INSTR"}
    meaning: Any = node
    members: dict[str, Any] = {
        **facts,
        "__doc__": node.__doc__,
        "__module__": node.__module__,
        "__annotations__": {},
        "name": f"{dialect}_instr.{short}",
        **{method: getattr(node, method) for method in meaning.MEANING},
    }
    return instr_op(of=node)(type(f"{node.__name__.removesuffix('Op')}Instr", (InstrOp,), members))


def instr_op(of: type[Operator], inplace: tuple[str, ...] = ()) -> Callable[[type[_I]], type[_I]]:
    """Define the instruction of a graph operator by a class of its own, where it differs.

    Operands: one @out buffer a graph result, then one @in buffer a graph operand; same properties.
    `inplace` names operands whose buffer the first result may overwrite.
    """

    def register(cls: type[_I]) -> type[_I]:
        node: Any = of
        graph = of.get_irdl_definition()
        if "name" not in vars(cls):
            cls.name = of.name.replace("glow.", "glow_instr.", 1)
        operands = [(n, _buffers(isinstance(k, VariadicDef), False)) for n, k in graph.results]
        operands += [
            (n, _buffers(isinstance(k, VariadicDef), isinstance(k, OptionalDef))) for n, k in graph.operands
        ]
        cls.ACCESS = {n: Access.OUT for n, _ in graph.results}
        cls.ACCESS |= {n: Access.IN for n, _ in graph.operands if n != PREDICATE}
        cls.INPLACE = cls.INPLACE or inplace
        cls.DATA_PARALLEL = node.DATA_PARALLEL
        cls.GRAPH_OP = of
        definition = declared(cls, MemRefType)
        definition.operands[:] = operands
        definition.regions[:] = graph.regions
        definition.properties |= {n: p for n, p in graph.properties.items() if n != SEGMENTS}
        if any(isinstance(kind, VariadicDef) for name, kind in operands if name != PREDICATE):
            segmented(definition)
        node.INSTR = define(cls, definition)
        return cls

    return register


_N = TypeVar("_N", bound=Operator)


def is_instr_of(op: Operation, node: type[_N]) -> TypeGuard[_N]:
    """Whether `op` is the instruction of a graph operator, and so has its fields: buffers for values."""
    return isinstance(op, InstrOp) and op.GRAPH_OP is node


def _buffers(many: bool, optional: bool) -> OperandDef:
    constraint = BaseAttr(MemRefType)
    return (
        OptOperandDef(constraint)
        if optional
        else VarOperandDef(constraint)
        if many
        else OperandDef(constraint)
    )


def own_instr(cls: type[_I]) -> type[_I]:
    """Define an instruction that has no graph operator of its own; ACCESS is written by hand."""
    return define(cls, declared(cls, MemRefType))
