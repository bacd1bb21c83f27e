"""Quantised values on channel blocks: bytes become unsigned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from glow_dialects.core.blocks import Blocked
from glow_dialects.core.types import UniformQuantizedType, element_of, shape_of, tensor
from glow_dialects.ops.quantize import QuantizeOp, RescaleOp, bits_of_one_scale, is_byte
from glow_dialects.ops.requantize import NO_HIGH, NO_LOW, scale_of, zero_of
from glow_passes.graph.regions import Region


def unsigned(kind: UniformQuantizedType) -> UniformQuantizedType:
    """The same numbers stored in unsigned bytes; those of 16 bits stay as they are."""
    if not kind.signed or kind.storage.width.data != 8:
        return kind
    return UniformQuantizedType.of(8, scale_of(kind), zero_of(kind) + 128, signed=False)


def byte_kind(value: SSAValue) -> UniformQuantizedType:
    """The element type of a quantised value."""
    kind = element_of(value)
    assert isinstance(kind, UniformQuantizedType)
    return kind


def has_one_scale(value: SSAValue) -> bool:
    """Whether the elements are stored under one scale, in 16 bits at most."""
    return 0 < bits_of_one_scale(value) <= 16


def shifted(op: Any) -> dict[str, Any]:
    """The limits of a result that becomes unsigned."""
    limits: dict[str, Any] = {"low": op.low, "high": op.high}
    if not is_byte(op.results[0]) or not byte_kind(op.results[0]).signed:
        return limits
    return {n: v if v in (NO_LOW, NO_HIGH) else v + 128 for n, v in limits.items()}


def blocked(value: SSAValue, region: Region, last: bool) -> Blocked | None:
    """The blocked, unsigned form of a quantised value.

    What quantises a float on blocks is repeated there; a plain one is blocked as bytes, of which
    there are fewer.
    """
    form_known = region.known.get(value)
    if form_known is not None:
        return form_known if form_known.last == last else None
    if region.is_known(value):
        return None
    kind = unsigned(byte_kind(value))
    owner = value.owner
    if isinstance(owner, QuantizeOp) and element_of(owner.input) == f32:
        form = region.known.get(owner.input)
        if form is not None and form.last == last:
            new = QuantizeOp(form.value, results=tensor(shape_of(form.value), kind))
        else:
            plain = region.add(QuantizeOp(region.plain(owner.input), results=tensor(shape_of(value), kind)))
            form = region.blocked(plain, last)
            if form is not None:
                region.remember(value, form)
            return form
    else:
        form = region.blocked(value, last)
        if form is None or element_of(form.value) == kind:
            return form
        new = RescaleOp(form.value, results=tensor(shape_of(form.value), kind))
    result = replace(form, value=region.add(new))
    region.remember(value, result)
    return result
