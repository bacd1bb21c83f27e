"""Strided and masked vector access, constant tables and index arithmetic for kernel emitters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llvmlite import ir

from glow_backends.cpu.emit.builder import (
    F32,
    I1,
    I32,
    I64,
    PTR,
    KernelBuilder,
    element_bytes,
    mangle,
    shuffle_mask,
)
from glow_dialects.core.extent import Extent

Index = int | ir.Value


def ceil_div(x: int, y: int) -> int:
    """x / y rounded up."""
    return -(-x // y)


def split_index(k: KernelBuilder, index: Index, sizes: Sequence[Index]) -> list[Index]:
    """Row-major coordinates of `index` in a box of `sizes`, of which the first is not read."""
    coordinates: list[Index] = []
    for size in reversed(sizes[1:]):
        if isinstance(size, int) and size == 1:
            coordinates.append(0)
        elif isinstance(index, int) and isinstance(size, int | Extent):
            coordinates.append(index % size)
            index //= size
        else:
            coordinates.append(k.b.urem(k.i(index), k.i(size)))
            index = k.b.udiv(k.i(index), k.i(size))
    coordinates.append(index)
    return coordinates[::-1]


def minimum(k: KernelBuilder, x: Index, y: Index) -> Index:
    """min(x, y) on indices."""
    if isinstance(x, int | Extent) and isinstance(y, int | Extent):
        return min(x, y)
    return k.b.select(k.b.icmp_signed("<", k.i(x), k.i(y)), k.i(x), k.i(y))


def maximum(k: KernelBuilder, x: Index, y: Index) -> Index:
    """max(x, y) on indices."""
    if isinstance(x, int | Extent) and isinstance(y, int | Extent):
        return max(x, y)
    return k.b.select(k.b.icmp_signed(">", k.i(x), k.i(y)), k.i(x), k.i(y))


def load_strided(
    k: KernelBuilder, pointer: ir.Value, offset: Index, stride: int, lanes: int, kind: ir.Type
) -> ir.Value:
    """`lanes` elements, `stride` apart; stride 0 repeats one element."""
    if lanes == 1:
        return k.load(pointer, offset, kind)
    if stride == 0:
        return k.splat(k.load(pointer, offset, kind), lanes, kind)
    if stride == 1:
        return k.load(pointer, offset, kind, lanes)
    value: ir.Value = ir.Constant(ir.VectorType(kind, lanes), ir.Undefined)
    for lane in range(lanes):
        element = k.load(pointer, k.add(offset, lane * stride), kind)
        value = k.b.insert_element(value, element, ir.Constant(I32, lane))
    return value


def store_strided(
    k: KernelBuilder,
    value: ir.Value,
    pointer: ir.Value,
    offset: Index,
    stride: int,
    lanes: int,
    kind: ir.Type,
) -> None:
    """Store the lanes of `value`, `stride` elements apart."""
    if lanes == 1 or stride == 1:
        k.store(value, pointer, offset, kind)
        return
    for lane in range(lanes):
        element = k.b.extract_element(value, ir.Constant(I32, lane))
        k.store(element, pointer, k.add(offset, lane * stride), kind)


def _masked_intrinsic(k: KernelBuilder, name: str, kind: ir.FunctionType) -> ir.Function:
    function = k.module.globals.get(name)
    return function if isinstance(function, ir.Function) else ir.Function(k.module, kind, name)


def first_lanes(k: KernelBuilder, lanes: int, count: Index) -> ir.Value:
    """The mask of the first so many lanes."""
    if isinstance(count, int):
        return ir.Constant(ir.VectorType(I1, lanes), [ir.Constant(I1, int(i < count)) for i in range(lanes)])
    numbers = ir.Constant(ir.VectorType(I64, lanes), [ir.Constant(I64, i) for i in range(lanes)])
    return k.b.icmp_signed("<", numbers, k.splat(k.i(count), lanes, I64))


def load_first(
    k: KernelBuilder, pointer: ir.Value, offset: Index, lanes: int, live: Index, kind: ir.Type = F32
) -> ir.Value:
    """A vector of which only the first `live` lanes are read; the others are 0."""
    if isinstance(live, int) and live == lanes:
        return k.load(pointer, offset, kind, lanes)
    vector = ir.VectorType(kind, lanes)
    mask = first_lanes(k, lanes, live)
    callee = _masked_intrinsic(
        k,
        f"llvm.masked.load.v{lanes}{mangle(kind)}.p0",
        ir.FunctionType(vector, [PTR, I32, mask.type, vector]),
    )
    align = ir.Constant(I32, element_bytes(kind))
    rest = ir.Constant(vector, [ir.Constant(kind, 0)] * lanes)
    return k.b.call(callee, [k.gep(pointer, offset, kind), align, mask, rest])


def store_first(
    k: KernelBuilder,
    value: ir.Value,
    pointer: ir.Value,
    offset: Index,
    live: Index,
    kind: ir.Type = F32,
) -> None:
    """Store only the first `live` lanes of a vector."""
    lanes = value.type.count if isinstance(value.type, ir.VectorType) else 1
    if isinstance(live, int) and live == lanes:
        k.store(value, pointer, offset, kind)
        return
    mask = first_lanes(k, lanes, live)
    callee = _masked_intrinsic(
        k,
        f"llvm.masked.store.v{lanes}{mangle(kind)}.p0",
        ir.FunctionType(ir.VoidType(), [value.type, PTR, I32, mask.type]),
    )
    align = ir.Constant(I32, element_bytes(kind))
    k.b.call(callee, [value, k.gep(pointer, offset, kind), align, mask])


def table(k: KernelBuilder, values: np.ndarray) -> ir.Value:
    """A private constant array of i64 in the module; returns its address."""
    flat = [int(v) for v in values.reshape(-1)]
    kind = ir.ArrayType(I64, len(flat))
    number = sum(name.startswith(f"{k.function.name}.table") for name in k.module.globals)
    data = ir.GlobalVariable(k.module, kind, f"{k.function.name}.table{number}")
    data.initializer = ir.Constant(kind, flat)
    data.global_constant = True
    data.linkage = "private"
    return data


def transpose(k: KernelBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The transpose of a square of vectors (as many as lanes, a power of two)."""
    values, size = list(rows), len(rows)
    half = size // 2
    while half:
        low = [j if not j & half else size + j - half for j in range(size)]
        high = [j + half if not j & half else size + j for j in range(size)]
        for i in range(size):
            if not i & half:
                x, y = values[i], values[i + half]
                for at, lanes in ((i, low), (i + half, high)):
                    mask = shuffle_mask(tuple(lanes))
                    values[at] = k.b.shuffle_vector(x, y, mask)
        half //= 2
    return values


def float_table(k: KernelBuilder, numbers: np.ndarray, kind: ir.Type) -> ir.Value:
    """A private constant array of floats of `kind`, with a vector of ones behind it; its address."""
    padded = [float(v) for v in numbers.reshape(-1)] + [1.0] * 64
    data_kind = ir.ArrayType(kind, len(padded))
    number = sum(name.startswith(f"{k.function.name}.floats") for name in k.module.globals)
    data = ir.GlobalVariable(k.module, data_kind, f"{k.function.name}.floats{number}")
    data.initializer = ir.Constant(data_kind, padded)
    data.global_constant = True
    data.linkage = "private"
    return data
