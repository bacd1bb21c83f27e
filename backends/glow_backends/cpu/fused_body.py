"""Bodies of fused operators: element-wise operators of the graph that run inside a kernel.

The body of `glow_cpu.stack`, or behind the sums of a convolution or product, is a region of one block. Its
values are elements, tensors of rank 0; `glow_cpu.yield` names its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_region_def, traits_def, var_operand_def
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.pointwise import Pointwise, Step, supports
from glow_backends.cpu.quantized_steps import Steps, expand, is_quantized
from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.element_types import by
from glow_dialects.core.graph_op import GraphOp, PureOp
from glow_dialects.core.types import Array, Tensor, element_of, present, shape_of, tensor, tensor_of
from glow_dialects.ops import operator_class
from glow_dialects.ops.splat import SplatOp

NOTHING = Pointwise(1, (), (0,))
"""What an operator without a body does with its elements."""


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The results of a body: its last operation."""

    name = "glow_cpu.yield"
    assembly_format = "$results_of_body attr-dict `:` type($results_of_body)"
    results_of_body = var_operand_def(Tensor)
    traits = traits_def(IsTerminator())


class EpilogueOp(PureOp):
    """An operator with `extras` whose body computes what is stored of an element.

    The body takes an element of the first result as it is without a body, and one of each of `extras`,
    which have the result's type. On floats of 16 bits it runs in f32 and is rounded once.
    """

    body = opt_region_def("single_block")
    if TYPE_CHECKING:  # each declares them where they stand among its operands
        extras: Sequence[SSAValue]

    def check(self) -> None:
        check_epilogue(self)


class SumsOp(EpilogueOp):
    """Sums of products, with a `bias` if any. What follows joins its body while the sums are in registers."""

    if TYPE_CHECKING:
        bias: SSAValue | None


class BodyBuilder:
    """A body under construction: `results` are what it yields so far."""

    def __init__(self, inputs: Sequence[SSAValue | Attribute]) -> None:
        self.block = Block(arg_types=[element_type(v) for v in inputs])
        self.results: Sequence[SSAValue] = self.block.args
        self.region = Region(self.block)

    @staticmethod
    def behind(op: EpilogueOp) -> BodyBuilder:
        """What follows the body of an operator, which is taken from it."""
        builder, body = BodyBuilder([op.results[0]]), detached_body(op)
        if body is not None:
            end = body.block.last_op
            assert isinstance(end, YieldOp)
            builder.region, builder.block, builder.results = body, body.block, tuple(end.operands)
            end.detach()
            end.erase()
        return builder

    def argument(self, value: SSAValue) -> SSAValue:
        """One more input: an element of `value`."""
        return self.block.insert_arg(element_type(value), len(self.block.args))

    def number(self, number: float, like: SSAValue | Attribute) -> SSAValue:
        """A number as an element of `like`."""
        return self.add(SplatOp(results=element_type(like), value=float(number)))

    def add(self, op: GraphOp) -> SSAValue:
        """Append an operator on elements."""
        self.block.add_op(op)
        return op.results[0]

    def apply(self, op: GraphOp, operands: Sequence[SSAValue]) -> SSAValue:
        """Append what an operator on tensors does with elements."""
        kind, properties = element_type(op.results[0]), dict(op.properties)
        twin = type(op).create(
            operands=operands, result_types=[kind], properties=properties, location=op.location
        )
        return self.add(twin)

    def finish(self, *results: SSAValue) -> Region:
        """The body that yields `results`."""
        self.block.add_op(YieldOp(operands=[list(results)]))
        return self.region


def element_type(value: SSAValue | Attribute) -> Tensor:
    """The type of one element of a value or type."""
    return _element(element_of(value))


@cache
def _element(kind: Attribute) -> Tensor:
    return tensor((), kind)


_PROGRAMS: WeakKeyDictionary[Region, Pointwise] = WeakKeyDictionary()


def detached_body(op: Operation) -> Region | None:
    """The body of an operator that another one replaces, which may put it into its own."""
    if not op.regions:
        return None
    _PROGRAMS.pop(op.regions[0], None)
    return op.detach_region(0)


def program_of(body: Region | None) -> Pointwise:
    """The steps of a body, made once: while an operator has it, it does not change."""
    if body is None:
        return NOTHING
    if body not in _PROGRAMS:
        _PROGRAMS[body] = _program(body.block)
    return _PROGRAMS[body]


def _program(block: Block) -> Pointwise:
    end = block.last_op
    if not isinstance(end, YieldOp):
        raise VerifyException("a body ends with glow_cpu.yield; add it")
    place: dict[SSAValue, int] = {a: i for i, a in enumerate(block.args)}
    parts = Steps(len(place))
    for op in block.ops:
        if any(v not in place for v in op.operands):
            raise VerifyException(
                f"{op.name}: a body may only use its own values; pass the others as operands"
            )
        if op is not end:
            place[op.results[0]] = steps_of(op, [place[v] for v in op.operands], parts)
    if not end.operands:
        raise VerifyException("a body must yield at least one value; yield its result")
    outputs = tuple(place[v] for v in end.operands)
    return Pointwise(len(block.args), tuple(parts.steps), outputs, tuple(dtype_name(a) for a in block.args))


def steps_of(op: Operation, args: Sequence[int], parts: Steps) -> int:
    """Append the steps of an operator in a body; the number of its result."""
    kind = dtype_name(op.results[0]) if len(op.results) == 1 else ""
    if isinstance(op, SplatOp):
        number = op.value if values.is_float(kind) else bool(op.value) if kind == "i1" else int(op.value)
        return parts.add("constant", dtype=kind, params=(number,))
    if isinstance(op, GraphOp) and is_quantized(op):
        return expand(op, op.results[0], op.operands, args, parts)
    name = op.name.removeprefix("glow.")
    known = values.has(kind) and supports(name, kind)
    if not known or not isinstance(op, GraphOp) or not op.DATA_PARALLEL:
        raise VerifyException(
            f"a body has element-wise operators with kernels, not {op.name} of {kind}; move it out"
        )
    return parts.add(name, *args, dtype=kind, params=parameters(op))


def parameters(op: GraphOp) -> tuple[float | int | bool | str, ...]:
    """The properties of an element-wise op in the order of its definition, as rules take them."""
    left_out = (SEGMENTS, *op.ONLY_GRADIENT)
    names = op.get_irdl_definition().properties
    return tuple(getattr(op, n) for n in names if n not in left_out and n in op.properties)


def body_of(program: Pointwise) -> Region:
    """The body whose steps are those of a program."""
    builder = BodyBuilder([tensor((), numpy_dtype(program.dtype(i))) for i in range(program.inputs)])
    known: list[SSAValue] = [*builder.block.args]
    for step in program.steps:
        kind = tensor((), numpy_dtype(step.dtype))
        if step.op == "constant":
            known.append(builder.number(cast(float, step.params[0]), kind))
        else:
            known.append(builder.add(operator_of_step(step, [known[a] for a in step.args], kind)))
    return builder.finish(*(known[o] for o in program.outputs))


def check_columns(op: SumsOp) -> None:
    """Raise unless the bias of a product has one value a column."""
    for value in present(op.bias):
        if shape_of(value) != shape_of(op.results[0])[-1:]:
            raise VerifyException(
                f"{op.name}: bias is {value.type}, result {op.results[0].type}"
                "; give one number per column or channel"
            )


def check_epilogue(op: EpilogueOp) -> None:
    """Raise unless the body fits: one input for the result and each extra operand, all of one float type."""
    kind, extras = op.results[0].type, op.extras
    for value in extras:
        if value.type != kind:
            raise VerifyException(
                f"{op.name}: extra is {value.type}, result {kind}; sizes must be equal, or 1"
            )
    if op.body is None and not extras:
        return
    program, count = program_of(op.body), 1 + len(extras)
    if program.inputs != count:
        raise VerifyException(
            f"{op.name}: its body takes {program.inputs} values, there are {count}; give as many"
        )
    results = [program.dtype(o) for o in program.outputs]
    inside = {*program.dtypes, *(s.dtype for s in program.steps if s.dtype != "i1")}
    if results != [dtype_name(kind)] or inside - {*results}:
        kinds = ", ".join(sorted({*results, *inside}))
        raise VerifyException(
            f"{op.name}: its body computes {kinds}, the result is {kind}; both must be equal"
        )


# --- in NumPy -------------------------------------------------------------------------------------------
def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype of a kernel's element type name."""
    return by("short")[name].dtype


def run_program(program: Pointwise, arrays: Sequence[Array]) -> list[Array]:
    """The outputs of a program, by the operators' own references."""
    known = list(arrays)
    for step in program.steps:
        known.append(_run_step(step, [known[a] for a in step.args]))
    return [known[o] for o in program.outputs]


def run_epilogue(body: Region | None, value: Array, extras: Sequence[Array]) -> Array:
    """The body on a result without it, computed in that array's type."""
    if body is None:
        return value
    program = program_of(body).computed_in(dtype_name(tensor_of(value)))
    return np.asarray(run_program(program, [value, *extras])[0])


def _run_step(step: Step, arrays: Sequence[Array]) -> Array:
    if step.op == "constant":
        return np.array(step.params[0]).astype(numpy_dtype(step.dtype))
    block = Block(arg_types=[tensor_of(a) for a in arrays])
    result = tensor(np.broadcast_shapes(*(a.shape for a in arrays)), numpy_dtype(step.dtype))
    return operator_of_step(step, block.args, result).evaluate(arrays)[0]


def operator_of_step(step: Step, operands: Sequence[SSAValue], result: Tensor) -> GraphOp:
    operator: type[GraphOp] = operator_class(step.op)
    names = [n for n in operator.get_irdl_definition().properties if n != SEGMENTS]
    properties: dict[str, Any] = dict(zip(names, step.params, strict=False))
    return operator(*operands, results=result, **properties)
