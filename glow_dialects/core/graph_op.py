"""GraphOp: the base of every operator of the `glow` dialect (syntax, construction, questions passes ask)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from threading import RLock
from types import ModuleType
from typing import Any, ClassVar, TypeVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, SSAValues
from xdsl.irdl import traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import OpTrait, Pure
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.blocks import Blocked, Parts
from glow_dialects.core.definition import SEGMENTS, declared, define
from glow_dialects.core.instr_op import InstrOp, instruction_of
from glow_dialects.core.iteration import Iteration, pointwise
from glow_dialects.core.layer_axes import LayerAxes
from glow_dialects.core.operator import Operator, required_properties
from glow_dialects.core.order import check_in_function
from glow_dialects.core.types import Array, dtype_of, shape_of, typed

OperandLike = SSAValue | Operation | Sequence[SSAValue | Operation] | None


class GraphOp(Operator):
    """A node of the graph: tensors in, tensors out, no side effects unless it says so.

    A card overrides `infer`, `reference`, `gradient`, `decompose`. Where there is a `reference`, `INSTR`
    is the instruction: the same name in the dialect of instructions, one @out buffer a result, then one
    @in buffer an operand, the same properties.
    """

    INSTR: ClassVar[type[InstrOp] | None] = None
    #: The methods that say what the operator means, which the instruction shares.
    MEANING: ClassVar[tuple[str, ...]] = ("reference",)
    #: Operands whose buffer the first result may overwrite when shapes agree.
    INPLACE: ClassVar[tuple[str, ...]] = ()
    #: Whether each result may overwrite another one of them: no element is read after its place is written.
    EACH_INPLACE: ClassVar[bool] = False
    #: Element i of the result depends on element i of the (broadcast) operands only.
    DATA_PARALLEL: ClassVar[bool] = False
    #: So, but for what the operands' quantised types say: scales may differ along an axis.
    PARALLEL_BY_TYPE: ClassVar[bool] = False
    #: The result is the first operand's bytes under another shape: no instruction, a view.
    VIEW: ClassVar[bool] = False
    #: As cheap as reading its operands: computing it again may beat keeping the result.
    CHEAP: ClassVar[bool] = False
    #: With constant operands, the operator needs less memory than its result, so it is not folded.
    UNPACKS: ClassVar[bool] = False
    #: lhs and rhs may change places.
    COMMUTATIVE: ClassVar[bool] = False
    #: The result's elements are elements of the operands, which all hold such: moved, repeated, or the
    #: largest or smallest of several. The same on stored integers of one type as on real numbers.
    MOVES_ELEMENTS: ClassVar[bool] = False
    #: Sums, products and powers: operands t times as small give a result t^k times as small, k > 0, so that
    #: small numbers matter as much as large ones. (Operators that move elements are so in any case.)
    HOMOGENEOUS: ClassVar[bool] = False
    #: Cuts its operand off at a limit: relu, clip, the larger of two numbers.
    CLAMPS: ClassVar[bool] = False
    #: Properties of which only the gradient depends: code does not ask for them.
    ONLY_GRADIENT: ClassVar[tuple[str, ...]] = ()
    #: The operand whose small relative errors near zero become large errors of the result; None: no such.
    MAGNIFIES: ClassVar[int | None] = None
    #: Sums of products of operands 0 and 1, linear in each: most of a network's arithmetic.
    LAYER: ClassVar[bool] = False
    #: No element of a float result is outside these limits.
    RANGE: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    #: The operator on stored integers: the same operands and properties (weights with a scale for each
    #: output, a bias in i32 in units of both scales), a result of any scale. Operators that move
    #: elements need none: they work on stored integers as they are.
    QUANTIZED: ClassVar[type[GraphOp] | None] = None
    #: The result may also be of real numbers, where operands are stored integers.
    REAL_RESULT: ClassVar[bool] = False
    #: Properties that number axes, of the results and of all operands alike: with an axis more in front of
    #: these, they are one more, and nothing else changes.
    AXES: ClassVar[tuple[str, ...]] = ()
    #: Its names in other systems, several between blanks: operators of ONNX, those of ATen without `aten.`,
    #: operations of StableHLO (`chlo.acos` where they are of CHLO). `glow_dialects.ops.named` finds them.
    #: What names say of attributes, types and forms is up to the doors.
    ONNX: ClassVar[str] = ""
    TORCH: ClassVar[str] = ""
    STABLEHLO: ClassVar[str] = ""
    #: Other names in Python's `math` and in NumPy than the operator's own and the function `NUMPY`.
    PYTHON: ClassVar[str] = ""
    #: The operator that it is on booleans.
    LOGIC: ClassVar[type[GraphOp] | None] = None

    def __init__(
        self,
        *operands: OperandLike,
        results: Sequence[Attribute] | Attribute | None = None,
        predicate: SSAValue | None = None,
        body: Region | None = None,
        **properties: object,
    ) -> None:
        groups = self.operand_groups()
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
        attributes = self.attributes_of(properties)
        normalized = self.normalized(sizes, attributes)
        if missing := required_properties(type(self)) - normalized.keys():
            raise VerifyException(f"{self.name} needs {', '.join(sorted(missing))}; give them in braces")
        if unknown := attributes.keys() - self.get_irdl_definition().properties.keys():
            raise VerifyException(
                f"{self.name} has no property {', '.join(sorted(unknown))}; remove it, or correct the name"
            )
        regions = () if body is None else (body,)
        Operation.__init__(self, operands=flat, result_types=(), properties=normalized, regions=regions)
        types = (results,) if isinstance(results, Attribute) else results
        if types is None:
            types = self.infer()
            if types is None:
                raise VerifyException(f"{self.name} needs results=, the type of what it makes")
        self.results = SSAValues(OpResult(t, self, i) for i, t in enumerate(types))

    # --- what a card says -------------------------------------------------------------------
    def reference(self, *buffers: Any, **named: Any) -> None:
        """The meaning in NumPy: write the results' arrays (first) from the operands' (after them).

        One argument a group of results or operands: an array, None where an optional operand is absent,
        a list where there may be several. It reads properties of `self`, and no values: it runs on the
        instruction, which has the same fields.
        """
        raise NotImplementedError(f"{self.name} has no instruction")

    def gradient(self, grads: Sequence[SSAValue | None], b: Any) -> Sequence[SSAValue | None]:
        """Cotangents of the operands from those of the results, of which one at least is known."""
        dy = grads[0]
        assert dy is not None
        return self.backward(dy, b)

    def backward(self, dy: SSAValue, b: Any) -> Sequence[SSAValue | None]:
        """Cotangents of the operands from that of the first result: `gradient` where no other has one."""
        raise NotImplementedError(f"{self.name} has no gradient")

    def decompose(self, b: Any) -> Sequence[SSAValue] | None:
        """The results computed by smaller operators, or None where the op is primitive."""
        return None

    def mapped(
        self, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Any
    ) -> Sequence[SSAValue] | None:
        """The results for operands of which some (`flags`) have an axis of `size` more in front.

        So have all results: the operator is done for each part. None where it is not told; what the operator
        is decomposed into is mapped then.
        """
        from glow_dialects.core.mapped import by_axes

        return by_axes(self, x, flags, size, b)

    @classmethod
    def has_gradient(cls) -> bool:
        """Whether the card defines a gradient."""
        return is_overridden(cls, GraphOp, "gradient", "backward")

    def takes_gradient(self) -> bool:
        """Whether this operation is differentiated as it is, not taken apart first."""
        return self.has_gradient()

    @classmethod
    def functions(cls, *modules: ModuleType) -> list[Any]:
        """The functions of NumPy or `math` that the card names: `NUMPY`, and those of `PYTHON` in modules."""
        named = [getattr(m, name, None) for name in cls.PYTHON.split() for m in modules]
        return [f for f in dict.fromkeys([vars(cls).get("NUMPY"), *named]) if f is not None]

    @classmethod
    def can_decompose(cls) -> bool:
        """Whether the card defines a decomposition."""
        return is_overridden(cls, GraphOp, "decompose")

    def evaluate(self, arrays: Sequence[Array | None]) -> list[Array]:
        """The results for concrete operands, by the instruction's reference or the decomposition."""
        from glow_dialects.core.evaluate import evaluate

        return evaluate(self, arrays)

    def layer_axes(self) -> LayerAxes | None:
        """The axes of channels of a layer whose operand 1 may be weights; None where it is no such."""
        return None

    def work(self) -> int:
        """Arithmetic operations, about: what the time on a device is estimated from."""
        elements = sum(math.prod(shape_of(r)) for r in self.results)
        axes = self.layer_axes()
        if axes is None:
            return elements
        weights = shape_of(self.operands[1])
        return 2 * elements * math.prod(weights) // max(weights[axes.outputs], 1)

    def iteration(self) -> Iteration | None:
        """The loops that it stands for, and the part of each tensor in a turn; None where it is not told."""
        if not self.DATA_PARALLEL or self.regions or len(self.results) != 1:
            return None
        return pointwise(shape_of(self.results[0]), map(shape_of, self.operands))

    def in_blocks(self, form: Blocked, parts: Parts) -> Blocked | None:
        """The result in blocks, where `form` stands for an operand and `parts` gives others in that layout.

        It is the same node on blocked values, not inserted anywhere, or `form` under another plain form.
        None where blocks would be something else, or it is not told; DATA_PARALLEL nodes need not tell.
        """
        return None

    def clamp_limits(self) -> tuple[float, float] | None:
        """(least, largest) where the result is operand 0 between them and nothing else."""
        return None

    def set_predicate(self, value: SSAValue | None) -> None:
        """Put the node under a predicate in place of the one that it has, or under none."""
        sizes = [len(self.operand_group(name)) for name, _ in self.operand_groups()]
        properties = {n: a for n, a in self.properties.items() if n != SEGMENTS}
        self.operands = [*list(self.operands)[: sum(sizes)], *([] if value is None else [value])]
        self.properties = self.normalized([*sizes, int(value is not None)], properties)

    # --- verification ------------------------------------------------------------------------
    def verify_(self) -> None:
        check_in_function(self)
        expected = self.infer()
        if expected is not None:
            actual = [r.type for r in self.results]
            if list(expected) != actual:
                want, got = ", ".join(map(str, expected)), ", ".join(map(str, actual))
                raise VerifyException(f"{self.name}: result type is {got}, operands give {want}; write that")
        value = self.predicate
        if value is not None and (dtype_of(typed(value)) != bool or len(shape_of(value)) > 1):
            raise VerifyException(f"{self.name}: predicate {value.type}, expected i1 or a vector of i1")
        if value is not None and shape_of(value):
            batches = {s[0] for v in (*self.operands[:-1], *self.results) if (s := shape_of(v))}
            if shape_of(value)[0] not in (1, *batches):
                raise VerifyException(
                    f"{self.name}: predicate {value.type} does not fit the batch sizes {sorted(batches)}"
                    "; give one flag per sample of the batch"
                )
        self.check()

    # --- syntax --------------------------------------------------------------------------------
    def print(self, printer: Printer) -> None:
        predicated = self.predicate is not None
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
        self.print_body(printer)

    @classmethod
    def parse(cls, parser: Parser) -> GraphOp:
        names: list[UnresolvedOperand] = []
        at = parser.pos
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
        operands = parser.resolve_operands(names, list(kind.inputs), at)
        if SEGMENTS in properties:
            normalized = {**cls.property_defaults(), **properties}
        else:
            normalized = cls.normalized(cls.segment_sizes(count, predicated, parser, at), properties)
        return cls.create(
            operands=operands,
            result_types=list(kind.outputs),
            properties=normalized,
            attributes=attributes,
            regions=cls.parse_body(parser),
        )


_G = TypeVar("_G", bound=GraphOp)


def graph_op(cls: type[_G]) -> type[_G]:
    """Register a graph operator: its definition, the advisory predicate, and its instruction.

    Fields of base classes come before the operator's own, the predicate last.
    """
    define(cls, declared(cls, TensorType))
    if cls.reference is not GraphOp.reference:
        cls.INSTR = _MadeOnUse(cls)  # pyright: ignore[reportAttributeAccessIssue]
    return cls


_MAKING = RLock()


class _MadeOnUse:
    """The instruction of an operator until it is first asked for: most programs are made of few operators."""

    def __init__(self, node: type[GraphOp]) -> None:
        self._node = node

    def __get__(self, instance: GraphOp | None, kind: type[GraphOp]) -> type[InstrOp]:
        with _MAKING:
            if vars(self._node)["INSTR"] is self:
                instruction_of(self._node)  # which takes this place
            return vars(self._node)["INSTR"]


def infer_of(kind: type[GraphOp], *operands: OperandLike, **properties: object) -> list[Attribute]:
    """The result types that another operator would have: for the `infer` of one that is made of it.

    It leaves no user of the operands behind, as an operator that was made and forgotten would.
    Raises VerifyException where the operands do not fit.
    """

    def stand_in(operand: OperandLike) -> OperandLike:
        values = Block(arg_types=[v.type for v in _values(operand)]).args
        return None if operand is None else values[0] if isinstance(operand, SSAValue) else values

    probe = kind(*map(stand_in, operands), **properties)  # pyright: ignore[reportArgumentType]
    try:
        probe.check()
        return [r.type for r in probe.results]
    finally:
        probe.drop_all_references()


class Leaf(OpTrait):
    """Known without computing: a number, or a read of a constant or placeholder."""


class PureOp(GraphOp):
    """A graph operator without side effects: the common case."""

    traits = traits_def(Pure())


def is_overridden(cls: type, base: type, *methods: str) -> bool:
    """Whether a class defines one of these methods of its base anew."""
    return any(getattr(cls, method) is not getattr(base, method) for method in methods)


def _values(operand: OperandLike) -> list[SSAValue]:
    if operand is None:
        return []
    if isinstance(operand, SSAValue | Operation):
        return [SSAValue.get(operand)]
    return [SSAValue.get(v) for v in operand]


__all__ = ["GraphOp", "PureOp", "graph_op", "infer_of", "is_overridden"]
