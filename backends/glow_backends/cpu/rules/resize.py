"""Interpolation: tables of places and weights, made at compile time."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from glow_backends.cpu.calls import CallContext, KernelCall, Operand, Rule, dtype_name, shape
from glow_backends.cpu.emit import values
from glow_backends.cpu.kernels.data.copy import emit_copy
from glow_backends.cpu.kernels.data.layouts import transpose_spec
from glow_backends.cpu.kernels.data.resize import AxisPass, ResizeSpec, emit_resize
from glow_backends.cpu.rules.common import float_typed, known, table
from glow_dialects.ops.resize import Taps, taps


def resize(op: Any, context: CallContext) -> KernelCall | None:
    """Sampling of one axis after another; the order that moves the least."""
    size, kind = list(shape(op.input)), dtype_name(op.input)
    sampled = taps(op, size)
    weighted = any(not t.single for t in sampled)
    if not known(op) or any(t.outside is not None and t.outside.any() for t in sampled):
        return None
    if weighted and float_typed(op) is None:
        return None
    if not sampled:
        copy = transpose_spec((prod(size),), (0,), values.size(kind))
        return KernelCall(emit_copy, copy, [op.result, op.input])
    growing = prod(shape(op.result)) > prod(size)
    first = min(t.axis for t in sampled)
    passes: list[AxisPass] = []
    operands: list[Operand] = [op.result, op.input]
    real = np.float64 if kind == "f64" else np.float32
    for tap in sorted(sampled, key=lambda t: -t.axis if growing else t.axis):
        axis, made = tap.axis, len(tap.indices)
        passes.append(
            AxisPass(
                prod(size[first:axis]), size[axis], made, prod(size[axis + 1 :]), tap.indices.shape[1],
                0 if weighted else _repeat(tap, size[axis]),
            )
        )  # fmt: skip
        operands.append(table("places", np.ascontiguousarray(tap.indices.astype(np.int32))))
        if weighted:
            operands.append(table("weights", np.ascontiguousarray(tap.weights.astype(real))))
        size[axis] = made
    spec = ResizeSpec(prod(size[:first]), tuple(passes), kind, weighted)
    return KernelCall(emit_resize, spec, operands, spec.scratch * context.target.threads)


def _repeat(tap: Taps, size: int) -> int:
    """f where each element is taken f times in a row, else 0."""
    made = len(tap.indices)
    if not size:
        return 0
    factor = made // size
    same = factor * size == made and (tap.indices[:, 0] == np.arange(made) // factor).all()
    return factor if same else 0


RULES: dict[str, Rule] = {"resize": resize}
