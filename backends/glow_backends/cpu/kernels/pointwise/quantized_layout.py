"""Layout of quantised element-wise operators: unsigned bytes on channel blocks."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from glow_backends.cpu.kernels.data.blocked_bytes import blocked, byte_kind, has_one_scale, shifted, unsigned
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import Blocked
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import UniformQuantizedType, element_of, shape_of, tensor
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.lookup import LookupOp
from glow_dialects.ops.quantize import RescaleOp, is_byte
from glow_passes.graph.regions import Region


def elementwise(op: GraphOp, region: Region, target: CpuTarget) -> bool:
    """Operands of the result's shape, one of them blocked; bytes become unsigned."""
    shape = shape_of(op.results[0])
    inputs = list(op.operands)
    if any(shape_of(v) != shape for v in inputs) or op.predicate is not None:
        return False
    first = next((region.known[v] for v in inputs if v in region.known), None)
    if first is None or prod(shape) == 0:
        return False
    forms: list[Blocked | None] = []
    for value in inputs:
        quantized = isinstance(element_of(value), UniformQuantizedType)
        if quantized and not has_one_scale(value):
            return False
        form = blocked(value, region, first.last) if quantized else region.blocked(value, first.last)
        forms.append(form)
    if any(f is None or (f.last, f.rank) != (first.last, first.rank) for f in forms):
        return False
    kind = element_of(op.results[0])
    properties: dict[str, Any] = {}
    if isinstance(kind, UniformQuantizedType):
        if not has_one_scale(op.results[0]):
            return False
        if "low" in op.properties:
            properties = shifted(op)
        kind = unsigned(kind)
    wide = tensor(shape_of(first.value), kind)
    new = type(op)(*(f.value for f in forms if f), results=wide, **properties)
    region.remember(op.results[0], replace(first, value=region.add(new)))
    return True


def lookup(op: LookupOp, region: Region, target: CpuTarget) -> bool:
    """The same table, its entries unsigned; the place of an entry does not depend on signs."""
    table = region.array(op.table) if region.is_known(op.table) else None
    form = region.known.get(op.input)
    if form is None or table is None or not is_byte(op.input) or not is_byte(op.result):
        return False
    form = blocked(op.input, region, form.last)
    if form is None:
        return False
    to = byte_kind(op.result)
    entries = (table.astype(np.int16) + (128 if to.signed else 0)).astype(np.uint8)
    kept = region.weight(entries, f"{region.name_of(op.table)}.u8", unsigned(to))
    new = region.add(LookupOp(form.value, kept))
    region.remember(op.result, replace(form, value=new))
    return True


def bit_cast(op: BitCastOp, region: Region, target: CpuTarget) -> bool:
    """The same bits on blocks; bytes that become stored ones are stored unsigned."""
    form, kind = region.known.get(op.input), element_of(op.result)
    many = isinstance(kind, UniformQuantizedType) and kind.axis.data >= 0
    if form is None or is_byte(op.input) or many:
        return False
    shape = shape_of(form.value)
    new = region.add(BitCastOp(form.value, results=tensor(shape, kind)))
    if isinstance(kind, UniformQuantizedType) and is_byte(op.result) and kind.signed:
        new = region.add(RescaleOp(new, results=tensor(shape, unsigned(kind))))
    region.remember(op.result, replace(form, value=new))
    return True
