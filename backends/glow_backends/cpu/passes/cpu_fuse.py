"""glow-cpu-fuse: operators after a convolution or matrix product run while its sums are in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Region, SSAValue

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.emit.epilogue import BINARY
from glow_backends.cpu.emit.pointwise import supports
from glow_backends.cpu.fused_body import BodyBuilder, EpilogueOp, SumsOp, detached_body
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp
from glow_backends.cpu.kernels.data.blocking_ops import UnblockOp
from glow_backends.cpu.kernels.gemm.block_gemm_op import BlockGemmOp
from glow_backends.cpu.kernels.gemm.gemm_op import GemmOp
from glow_backends.cpu.passes.few_bits import expanded, packed_experts, packed_weights
from glow_backends.cpu.passes.uniform_values import known_number
from glow_backends.cpu.target import named
from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, element_of, present, shape_of, tensor, tensor_of
from glow_dialects.ops.arithmetic import AddOp, DivOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpGtOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.dequantize_blocks import DequantizeBlocksOp
from glow_dialects.ops.expert_matmul import ExpertMatmulOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp
from glow_dialects.ops.module import GetOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, producer, rewrite
from glow_passes.graph.symbols import Symbols

MOVEMENT: tuple[type[GraphOp], ...] = (ReshapeOp, TransposeOp, SliceOp, UnblockOp)
COMPUTED = ("f32", "f16", "bf16")
"""Element types with epilogues; types without arithmetic on the target were widened before."""
COMMUTATIVE = ("add", "mul", "max", "min")


def rebuilt(op: SumsOp, **changes: Any) -> GraphOp:
    """The same convolution or product with other operand groups or properties."""
    names = [n for n, _ in op.operand_groups()]
    operands = [changes.pop(n, op.operand_group(n)) for n in names]
    known: dict[str, Any] = {n: a for n, a in op.properties.items() if n != SEGMENTS}
    body = changes.pop("body") if "body" in changes else detached_body(op)
    return type(op)(*operands, body=body, **{**known, **changes})


def fused(kernel: SumsOp, op: GraphOp, own: int, number: float | None = None) -> GraphOp:
    """`kernel` with `op`, whose operand `own` it makes, behind its body; the other one may be a number."""
    body, extras = followed(kernel, op, own, number)
    return rebuilt(kernel, body=body, extras=[*kernel.extras, *extras])


def followed(
    kernel: EpilogueOp, op: GraphOp, own: int, number: float | None = None
) -> tuple[Region, list[SSAValue]]:
    """The body of `kernel` with `op` behind it, and the values that it reads."""
    body = BodyBuilder.behind(kernel)
    extras = [v for i, v in enumerate(op.operands) if i != own]
    if number is None:
        others = [body.argument(v) for v in extras]
    else:
        others, extras = [body.number(number, v) for v in extras], []
    return body.finish(body.apply(op, [*body.results, *others])), extras


def _is_step(op: GraphOp) -> bool:
    """Whether an operator is one that bodies hold: element by element, with one result."""
    return op.predicate is None and supports(op.name.removeprefix("glow."), "f32")


def _kernel(value: SSAValue) -> SumsOp | None:
    """The convolution or product that makes `value`, if this is its one use."""
    return producer(value, SumsOp, single=True)


def step_after(op: GraphOp, r: Rewriter) -> SSAValue | None:
    """relu(conv(x)) -> conv(x) {relu}; add(conv(x) {relu}, y) -> conv(x, y) {relu, add}: the body grows.

    A number as the right-hand side stands in the body.
    """
    if not _is_step(op) or dtype_name(op.results[0]) not in COMPUTED:
        return None
    name, result, operands = op.name.removeprefix("glow."), op.results[0], list(op.operands)
    sides = [(0, 1), (1, 0)] if name in COMMUTATIVE else [(0, 1)] if name in BINARY else []
    for own, other in sides:
        number = known_number(operands[other], r.symbols)
        kernel = None if number is None else _kernel(operands[own])
        if kernel is not None and operands[own].type == result.type:
            return r(fused(kernel, op, own, number))
    if any(v.type != result.type for v in operands):
        return None
    if len(operands) == 1:
        kernel = _kernel(operands[0])
        return None if kernel is None else r(fused(kernel, op, 0))
    kernels = [(k, own) for own, _ in sides if (k := _kernel(operands[own]))]
    if not kernels:
        return None
    kernel = r.last([k for k, _ in kernels])  # its sums wait for nothing that is not there
    own = next(own for k, own in kernels if k is kernel)
    return r(fused(kernel, op, own))


def before_movement(op: GraphOp, r: Rewriter) -> SSAValue | None:
    """relu(transpose(conv(x))) -> transpose(relu(conv(x))): the operator runs before the movement."""
    if not _is_step(op):
        return None
    numbers = [known_number(v, r.symbols) for v in op.operands]
    moved = [v for v, n in zip(op.operands, numbers, strict=True) if n is None]
    if len(moved) != 1 or moved[0].type != op.results[0].type:
        return None
    move = _movement(moved[0])
    if move is None or not _moved_kernel(move):
        return None
    inner = r(_applied(op, numbers, move.operands[0], r))
    turned = type(move).create(
        operands=[inner], properties=dict(move.properties), result_types=[move.results[0].type]
    )
    return r(turned)


def before_join(op: GraphOp, r: Rewriter) -> SSAValue | None:
    """relu(concat(conv(x), conv(y))) -> concat(relu(conv(x)), relu(conv(y)))."""
    if not _is_step(op):
        return None
    numbers = [known_number(v, r.symbols) for v in op.operands]
    joined = [v for v, n in zip(op.operands, numbers, strict=True) if n is None]
    if len(joined) != 1 or joined[0].type != op.results[0].type:
        return None
    join = _join(joined[0])
    if join is None:
        return None
    return r(ConcatOp([r(_applied(op, numbers, part, r)) for part in join.inputs], axis=join.axis))


def _applied(
    op: GraphOp, numbers: Sequence[float | int | bool | None], value: SSAValue, r: Rewriter
) -> GraphOp:
    """A copy of `op` with `value` instead of its non-scalar operand."""
    ones = (1,) * len(shape_of(value))
    operands = [
        value if n is None else r.splat(float(n), tensor(ones, element_of(v)))
        for n, v in zip(numbers, op.operands, strict=True)
    ]
    known: dict[str, Any] = {n: a for n, a in op.properties.items() if n != SEGMENTS}
    return type(op)(*operands, results=value.type, **known)


def _join(value: SSAValue) -> ConcatOp | None:
    """The concatenation that makes `value`, of convolutions and products alone that nobody else reads."""
    join = producer(value, ConcatOp, single=True)
    return join if join is not None and all(_kernel(part) for part in join.inputs) else None


def _movement(value: SSAValue) -> GraphOp | None:
    """The movement that makes `value`, if this is its one use."""
    return next((m for kind in MOVEMENT if (m := producer(value, kind, single=True))), None)


def _moved_kernel(move: GraphOp) -> bool:
    """Whether a chain of movements starts at convolutions or products that nobody else reads."""
    source = move.operands[0]
    inner = _movement(source)
    if inner is not None:
        return _moved_kernel(inner)
    return _kernel(source) is not None or _join(source) is not None


def gate_of(op: SelectOp, symbols: Symbols) -> SSAValue | None:
    """y of select(y > 0, x, 0), of the result's type: the gradient of a relu whose result is y."""
    test = producer(op.condition, CmpGtOp)
    if test is None or op.predicate is not None:
        return None
    tested, bound = test.operands[:2]
    if known_number(bound, symbols) != 0 or known_number(op.rhs, symbols) != 0:
        return None
    return tested if tested.type == op.result.type else None


def gated(op: SelectOp, r: Rewriter) -> SSAValue | None:
    """select(y > 0, conv(x), 0) -> conv(x, y) {select(y > 0, x, 0)}."""
    kernel, gate = _kernel(op.lhs), gate_of(op, r.symbols)
    if kernel is None or gate is None or op.lhs.type != op.result.type:
        return None
    body = BodyBuilder.behind(kernel)
    tested, zero = body.argument(gate), body.number(0.0, gate)
    passed = body.add(CmpGtOp(tested, zero))
    region = body.finish(body.add(SelectOp(passed, *body.results, zero)))
    return r(rebuilt(kernel, body=region, extras=[*kernel.extras, gate]))


def to_gemm(op: MatmulOp | BatchMatmulOp | FullyConnectedOp, r: Rewriter) -> SSAValue | None:
    """matmul(a, b) -> glow_cpu.gemm(a, b), constants as the module's own."""
    kind = dtype_name(op.operands[0])
    if op.predicate is not None or kind not in COMPUTED:
        return None
    if kind != "f32" and any(r.array(v) is None for v in op.operands[1:]):
        return None
    a, b = op.operands[0], _constant(op.operands[1], r)
    bias = present(op.bias) if isinstance(op, FullyConnectedOp) else []
    return r(GemmOp(a, b, bias, []))


def _constant(value: SSAValue, r: Rewriter) -> SSAValue:
    """Splats and literals as constants of the module, which kernels may pack."""
    array = None if isinstance(value.owner, GetOp) else r.array(value)
    if array is None:
        return value
    return r.insert(GetOp.of(r.symbols.add(array, value.type, "weights"))).result  # pyright: ignore[reportArgumentType]


def transposed_operand(op: GemmOp, r: Rewriter) -> SSAValue | None:
    """gemm(a, transpose(b)) -> gemm(a, b) {transpose_b}, where the last two axes are exchanged."""
    for name, flag in (("a", "transpose_a"), ("b", "transpose_b")):
        (value,) = op.operand_group(name)
        source = producer(value, TransposeOp)
        if source is None or (name == "a" and dtype_name(value) != "f32"):
            continue
        rank = len(shape_of(value))
        if source.permutation == (*range(rank - 2), rank - 1, rank - 2):
            changes: dict[str, Any] = {name: source.input, flag: not getattr(op, flag)}
            return r(rebuilt(op, **changes))
    return None


def transposed_result(op: TransposeOp, r: Rewriter) -> SSAValue | None:
    """transpose(gemm(a, b)) -> gemm(b, a), both the other way round; constants stay where they are packed."""
    kernel, rank = producer(op.input, GemmOp, single=True), len(shape_of(op.input))
    if kernel is None or op.permutation != (*range(rank - 2), rank - 1, rank - 2):
        return None
    if kernel.bias is not None or kernel.body is not None:
        return None
    if any(len(shape_of(v)) != rank or r.array(v) is not None for v in (kernel.a, kernel.b)):
        return None
    turned: dict[str, Any] = {"a": kernel.b, "b": kernel.a}
    turned |= {f"transpose_{n}": not getattr(kernel, f"transpose_{o}") for n, o in ("ab", "ba")}
    return r(rebuilt(kernel, **turned))


def scaled(op: GraphOp, r: Rewriter) -> SSAValue | None:
    """mul(gemm(a, b), 0.5) -> gemm(a, b) {scale = 0.5}, before bias and steps."""
    pairs = [(op.operands[0], op.operands[1])]
    if isinstance(op, MulOp):
        pairs.append((op.operands[1], op.operands[0]))
    for value, factor in pairs:
        kernel = producer(value, GemmOp, single=True)
        if kernel is None or value.type != op.results[0].type:
            continue
        number = r.uniform(factor)
        if number is None or kernel.bias is not None or kernel.body is not None:
            continue
        number = 1 / number if isinstance(op, DivOp) else number
        return r(rebuilt(kernel, scale=(kernel.scale or 1.0) * number))
    return None


def biased(op: GraphOp, r: Rewriter) -> SSAValue | None:
    """add(gemm(a, b), v) -> gemm(a, b, v) for a vector of one value a column."""
    for value, other in ((op.operands[0], op.operands[1]), (op.operands[1], op.operands[0])):
        kernel = producer(value, GemmOp, single=True) or producer(value, BlockGemmOp, single=True)
        if kernel is None or value.type != op.results[0].type:
            continue
        if kernel.bias is not None or kernel.body is not None:
            continue
        columns = shape_of(value)[-1]
        vector = _vector(other, columns, r)
        if vector is not None:
            return r(rebuilt(kernel, bias=[vector]))
    return None


def _vector(value: SSAValue, columns: int, r: Rewriter) -> SSAValue | None:
    """`value` as a vector of `columns`, where it has that many elements along its last axis only."""
    shape = shape_of(value)
    if not shape or shape[-1] != columns or any(n != 1 for n in shape[:-1]):
        return None
    value = _constant(value, r)
    if len(shape) == 1:
        return value
    array = r.array(value)
    if array is not None:
        return r.weight(np.ascontiguousarray(array).reshape(-1), "bias")
    return r(ReshapeOp.to(value, (columns,)))


def folded(op: GraphOp, r: Rewriter) -> SSAValue | None:
    """mul(conv(x, w, b), v) -> conv(x, w v, b v); add(conv(x, w, b), v) -> conv(x, w, b + v).

    For a constant `v` of one number, or of one a channel, and a convolution without steps.
    """
    pairs = [(op.operands[0], op.operands[1])]
    if isinstance(op, AddOp | MulOp):
        pairs.append((op.operands[1], op.operands[0]))
    for value, other in pairs:
        kernel = producer(value, ConvOp, single=True)
        if kernel is None or value.type != op.results[0].type or kernel.body is not None:
            continue
        count = shape_of(kernel.filter)[0]
        vector = _channels(r.array(other), shape_of(value), count)
        filters, old = r.array(kernel.filter), [r.array(v) for v in present(kernel.bias)]
        if vector is None or filters is None or any(b is None for b in old):
            continue
        bias = old[0] if old else None
        if isinstance(op, DivOp) and not vector.all():
            continue  # by zero: infinite weights would make NaN of zeros
        if isinstance(op, MulOp | DivOp):
            factor = vector if isinstance(op, MulOp) else 1 / vector
            filters = (filters * factor.reshape(-1, 1, 1, 1)).astype(filters.dtype)
            bias = None if bias is None else bias * factor
        else:
            shift = vector if isinstance(op, AddOp) else -vector
            bias = shift if bias is None else bias + shift
        changes: dict[str, Any] = {}
        if isinstance(op, MulOp | DivOp):
            changes["filter"] = _weight(filters, "filter", r)
        if bias is not None:
            changes["bias"] = [_weight(bias.astype(filters.dtype), "bias", r)]
        return r(rebuilt(kernel, **changes))
    return None


def _channels(array: Array | None, blocked: Sequence[int], count: int) -> Array | None:
    """A constant beside a blocked value as float64 [count], where it is one number a channel."""
    if array is None:
        return None
    if array.size == 1:
        return np.full(count, array.reshape(-1)[0], np.float64)
    if array.shape != (1, blocked[1], 1, 1, blocked[4]):
        return None
    return array.reshape(-1)[:count].astype(np.float64)


def _weight(array: Array, hint: str, r: Rewriter) -> SSAValue:
    """A constant of the module, splats included: kernels pack it."""
    return r.insert(GetOp.of(r.symbols.add(array, tensor_of(array), hint))).result


PATTERNS = (
    Pattern((MatmulOp, BatchMatmulOp, FullyConnectedOp), to_gemm),
    Pattern((GemmOp,), transposed_operand),
    Pattern((TransposeOp,), transposed_result),
    Pattern((MulOp, DivOp), scaled),
    Pattern((AddOp,), biased),
    Pattern((AddOp, SubOp, MulOp, DivOp), folded),
    Pattern((GraphOp,), step_after),
    Pattern((SelectOp,), gated),
    Pattern((GraphOp,), before_movement),
    Pattern((GraphOp,), before_join),
)


@dataclass(frozen=True)
class CpuFusePass(GraphPass):
    """Matrix products become glow_cpu.gemm; element-wise operators join the kernel before them.

    relu(add(conv(x, w, b), y)) -> conv(x, w, b, y) {(sum, y): relu(add(sum, y))}

    `cpu`: "host" or a name such as "haswell", which says what weights of few bits can stay packed for.
    """

    name = "glow-cpu-fuse"
    OPTIONAL = True
    cpu: str = "host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = named(self.cpu)
        packed = Pattern((GemmOp,), partial(packed_weights, target=target))
        experts = Pattern((ExpertMatmulOp,), partial(packed_experts, target=target))
        rewrite(op, (packed, experts, *PATTERNS))
        rewrite(op, (Pattern((DequantizeBlocksOp,), expanded),))
