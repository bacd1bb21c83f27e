"""Products of matrices that are described as nests (`glow_backends.nests`): doubles, integers, bytes."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from glow_backends.cpu.calls import CallContext, Operand, dtype_name, shape, table
from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.integer import room_of
from glow_backends.cpu.emit.memory import ceil_div
from glow_backends.cpu.emit.open_blocks import open_vectors
from glow_backends.cpu.emit.packing import factors_of
from glow_backends.cpu.emit.register_blocks import choose_block
from glow_backends.cpu.kernel import Kernel, O
from glow_backends.cpu.kernels.gemm.gemm_int8 import in_bytes, requantize_to
from glow_backends.cpu.lower.contraction import emit_contraction
from glow_backends.cpu.lower.rooms import Rooms
from glow_backends.cpu.lower.units import LINE
from glow_backends.cpu.target import CpuTarget
from glow_backends.nests.dialect import KernelOp
from glow_backends.nests.finish import Finish
from glow_backends.nests.products import Product, describe, shapes_of, zeros_of
from glow_backends.nests.schedule import Schedule
from glow_dialects.core.estimates import estimate, usually
from glow_dialects.core.extent import Extent
from glow_dialects.core.types import element_of
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp
from glow_dialects.ops.quantize import quantized_type
from glow_dialects.ops.quantized_matmul import QuantizedMatmulOp
from glow_dialects.ops.requantize import zero_of

if TYPE_CHECKING:
    from llvmlite import ir

FEW_ROWS = 8
"""Of so few rows a tile is mostly empty, and packing for it takes longer than the product."""
_PAGE = 4096


@lru_cache(1 << 10)
def schedule_of(p: Product, target: CpuTarget) -> Schedule:
    """How a product runs on a processor."""
    if p.sums == "i32" and p.a != "i32":
        return _bytes_schedule(p, target)
    if p.a == "f32" and target.precision != "float32":
        return _rounded_schedule(p, target)
    name = ("fma" if p.sums.startswith("f") else "muladd") + f".{p.sums}"
    size = values.size(p.sums)
    lanes = max(1, target.vector_bytes // size)
    vectors = open_vectors(p.n, target) if isinstance(p.n, Extent) else ceil_div(p.n, lanes)
    # Rows a multiple of 4 KiB apart share a cache set: use no more of them than its ways.
    crowded = not isinstance(p.k, Extent) and p.k * size % _PAGE == 0
    rows = p.m
    # A large left side passes through the cache once a panel: wide panels, of fewer rows a block.
    large = estimate(p.m * p.k) * size > target.l2 // 2
    block = choose_block(estimate(rows), vectors, target, 6 if large else 8 if crowded else 32)
    few = usually(rows, "<", 2 * block.rows + 1) if isinstance(rows, Extent) else rows <= 2 * block.rows
    return Schedule(
        name, lanes, block.rows, block.vectors, pack_b=not few, shares=_shares(p, target, block.rows)
    )


def _rounded_schedule(p: Product, target: CpuTarget) -> Schedule:
    """Tiles where there are some and rows for them; elsewhere pairs of bfloat16, or plain float32."""
    fast = target.precision == "fast"
    if target.has_amx and _many(p.m):
        name = "tile.bf16x3" if fast else "tile.bf16"
        return Schedule(name, 16, 2, 2, pack_a=True, shares=_shares(p, target, 32))
    lanes = target.lanes
    vectors = open_vectors(p.n, target) if isinstance(p.n, Extent) else ceil_div(p.n, lanes)
    block = choose_block(estimate(p.m), vectors, room_of(target, True))
    name = "fma.f32" if fast else "dot2.bf16"
    shares = _shares(p, target, block.rows)
    return Schedule(name, lanes, block.rows, block.vectors, pack_a=not fast, shares=shares)


def _many(rows: int) -> bool:
    """Whether there are rows enough for tiles."""
    return usually(rows, ">=", FEW_ROWS + 1) if isinstance(rows, Extent) else rows > FEW_ROWS


def overlaps(p: Product, s: Schedule) -> bool:
    """Whether rows may be stored twice, since blocks of them overlap."""
    if s.unit.is_tile:
        return False
    if isinstance(p.m, Extent):
        return True
    return p.m % s.rows != 0


def _bytes_schedule(p: Product, target: CpuTarget) -> Schedule:
    """Tiles where there are some and rows for them, else four products an instruction."""
    rows = p.m
    if target.has_amx and _many(rows):
        sign = {"u8": "u", "i8": "s"}
        name, lanes, block = f"tile.{sign[p.a]}8{sign[p.b]}8", 16, (2, 2)
        whole = not isinstance(p.k, Extent) and p.k % 64 == 0
    else:
        name, lanes = "dot4.u8s8", target.lanes
        vectors = open_vectors(p.n, target) if isinstance(p.n, Extent) else ceil_div(p.n, lanes)
        chosen = choose_block(estimate(rows), vectors, room_of(target, False))
        block = chosen.rows, chosen.vectors
        whole = not isinstance(p.k, Extent) and p.k % 4 == 0 and p.a == "u8"
    return Schedule(name, lanes, *block, pack_a=not whole, shares=_shares(p, target, block[0]))


def _shares(p: Product, target: CpuTarget, rows: int) -> tuple[int, int]:
    """Into how many parts of rows and of panels the workers cut a product."""
    batch = estimate(prod(p.batch))
    if target.threads == 1 or batch >= 4 * target.threads:
        return 1, 1
    return (target.threads, 1) if estimate(p.m) >= 4 * rows * target.threads else (1, 2 * target.threads)


def folded(p: Product) -> Product:
    """The same product with a's batch taken as more rows where b has none."""
    if prod(p.b_batch) != 1 or prod(p.a_batch) == 1:
        return p
    return replace(p, m=p.m * prod(p.a_batch), a_batch=(), b_batch=())


def kernel_of(p: Product, target: CpuTarget, name: str = "product") -> KernelOp:
    """The description of a product's kernel."""
    return describe(p, schedule_of(p, target), name)


def emit_product(module: ir.Module, name: str, spec: Product, target: CpuTarget) -> ir.Function:
    """The kernel `name(y, a, b, [bias], [factor], [limits], rooms, worker)` of a product."""
    shapes = shapes_of(spec, schedule_of(spec, target))
    return emit_contraction(module, name, kernel_of(spec, target), shapes, target)


def product_scratch(spec: Product, target: CpuTarget) -> int:
    """Bytes of the workers' rooms; never 0, since the kernel always takes them."""
    s = schedule_of(spec, target)
    zeros = zeros_of(spec, s)
    rooms = Rooms(s.pack_a, s.pack_b and not spec.packed, bool(zeros[1]), bool(zeros[0]))
    return target.threads * (sum(rooms.bytes(s, spec.m, spec.k)) or LINE)


class Contraction(Kernel[O, Product]):
    """A kernel of a product that is described as a nest."""

    emit = staticmethod(emit_product)
    describe = staticmethod(kernel_of)

    def scratch(self, spec: Product, target: CpuTarget) -> int:
        return product_scratch(spec, target)

    def flops(self, spec: Product) -> int:
        return 2 * prod(spec.batch) * spec.m * spec.n * spec.k


_KINDS = {"f64": "f64", "i32": "i32", "u32": "i32", "i64": "i64", "u64": "i64"}
"""How numbers are multiplied: integers wrap, be they signed or not."""


class PlainMatmul(Contraction[MatmulOp | BatchMatmulOp]):
    """A product of doubles or of integers."""

    OPS = (MatmulOp, BatchMatmulOp)

    def match(self, op: MatmulOp | BatchMatmulOp, context: CallContext) -> Product | None:
        kind = _KINDS.get(dtype_name(op.result))
        if op.predicate is not None or kind is None:
            return None
        (*a_batch, m, k), (*b_batch, _, n) = shape(op.lhs), shape(op.rhs)
        if 0 in (*shape(op.result), *shape(op.lhs)):
            return None
        return folded(Product(m, n, k, kind, kind, kind, tuple(a_batch), tuple(b_batch)))


_DEEPEST = 1 << 15
"""Sums of more products might not fit 32 bits."""


class ByteMatmul(Contraction[QuantizedMatmulOp]):
    """A product of stacks of matrices of bytes, neither of them known at compile time."""

    OPS = (QuantizedMatmulOp,)

    def match(self, op: QuantizedMatmulOp, context: CallContext) -> Product | None:
        left, right = quantized_type(op.lhs), quantized_type(op.rhs)
        requantize = requantize_to(op.result, op.low, op.high)
        (*a_batch, m, k), (*b_batch, _, n) = shape(op.lhs), shape(op.rhs)
        if requantize is None or not (in_bytes(left) and in_bytes(right)):
            return None
        if 0 in (*shape(op.lhs), *shape(op.rhs)) or k >= _DEEPEST:
            return None
        finish = Finish(
            factor="" if requantize.sums else "all", limits=not (requantize.sums or requantize.real)
        )
        x, w = ("i8" if t.signed else "u8" for t in (left, right))
        out = "i32" if requantize.sums else "f32" if requantize.real else "i8"
        zeros = zero_of(left), zero_of(right)
        p = Product(m, n, k, x, w, out, tuple(a_batch), tuple(b_batch), False, *zeros, finish)
        return folded(p)

    def operands(self, op: QuantizedMatmulOp, spec: Product, context: CallContext) -> list[Operand]:
        left, right, to = quantized_type(op.lhs), quantized_type(op.rhs), element_of(op.result)
        requantize = requantize_to(op.result, op.low, op.high)
        assert requantize is not None
        known: list[Operand] = [op.result, op.lhs, op.rhs]
        if spec.finish.factor:
            known.append(table("factor", np.ascontiguousarray(factors_of(right, left, to, 1))))
        if spec.finish.limits:
            known.append(table("limits", requantize.limits))
        return known
