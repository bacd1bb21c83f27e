"""Data movement: transposes, slices, concatenations, gathers, scatters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glow_backends.cpu import values
from glow_backends.cpu.calls import CallContext, KernelCall, Rule, dtype_name, shape
from glow_backends.cpu.kernels import layouts
from glow_backends.cpu.kernels.copy import CopySpec, emit_copy
from glow_backends.cpu.rules.common import known

Movement = Callable[[Any, int], CopySpec]


def _movement(make: Movement) -> Rule:
    """An instruction that copies its inputs into its result by `make(op, bytes of an element)`."""

    def rule(op: Any, context: CallContext) -> KernelCall | None:
        del context
        if not known(op):
            return None
        spec = make(op, values.size(dtype_name(op.result)))
        return KernelCall(emit_copy, spec, [op.result, *op.read()[: spec.sources]])

    return rule


def _transpose(op: Any, width: int) -> CopySpec:
    return layouts.transpose_spec(shape(op.input), op.prop("permutation"), width)


def _concat(op: Any, width: int) -> CopySpec:
    return layouts.concat_spec([shape(v) for v in op.group("inputs")], op.prop("axis"), width)


def _slice(op: Any, width: int) -> CopySpec:
    return layouts.slice_spec(shape(op.input), op.prop("starts"), op.prop("steps"), shape(op.result), width)


def _tile(op: Any, width: int) -> CopySpec:
    return layouts.tile_spec(shape(op.input), op.prop("repeats"), width)


def _expand(op: Any, width: int) -> CopySpec:
    return layouts.expand_spec(shape(op.input), shape(op.result), width)


def _flip(op: Any, width: int) -> CopySpec:
    return layouts.flip_spec(shape(op.input), op.prop("axes"), width)


def _depth_to_space(op: Any, width: int) -> CopySpec:
    return layouts.depth_to_space_spec(shape(op.input), op.prop("block"), op.prop("mode"), width)


def _space_to_depth(op: Any, width: int) -> CopySpec:
    return layouts.space_to_depth_spec(shape(op.input), op.prop("block"), op.prop("mode"), width)


def insert(op: Any, context: CallContext) -> KernelCall | None:
    """One part copied over another; only the part where the result lies in the memory of `big`."""
    del context
    if not known(op):
        return None
    width = values.size(dtype_name(op.result))
    whole = op.result is not op.big
    steps = op.prop("steps") or (1,) * len(shape(op.big))
    spec = layouts.insert_spec(shape(op.big), shape(op.small), op.prop("starts"), steps, width, whole)
    return KernelCall(emit_copy, spec, [op.result, op.big, op.small] if whole else [op.result, op.small])


RULES: dict[str, Rule] = {
    "transpose": _movement(_transpose),
    "concat": _movement(_concat),
    "slice": _movement(_slice),
    "tile": _movement(_tile),
    "expand": _movement(_expand),
    "flip": _movement(_flip),
    "depth_to_space": _movement(_depth_to_space),
    "space_to_depth": _movement(_space_to_depth),
    "insert": insert,
}
