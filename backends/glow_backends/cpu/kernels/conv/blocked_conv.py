"""Common parts of convolutions on channel blocks: filters, biases, and estimated cycles."""

from __future__ import annotations

from abc import abstractmethod
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.ir import SSAValue

from glow_backends.cpu.calls import CallContext, Operand, shape
from glow_backends.cpu.emit.filters import plain_filter
from glow_backends.cpu.emit.memory import ceil_div
from glow_backends.cpu.kernel import Kernel, S
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec, conv_spec
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import pad_to
from glow_dialects.core.types import Array, present


class BlockedConv(Kernel[ConvOp, S]):
    """A convolution on channel blocks by the algorithm that the node names.

    Its filter is a constant, or was packed; biases fill whole vectors.
    """

    OPS = (ConvOp,)
    #: The prefix of the names of its algorithms.
    ALGORITHM: ClassVar[str] = "direct"

    def match(self, op: ConvOp, context: CallContext) -> S | None:
        if op.lanes != context.target.lanes or not op.algorithm.startswith(self.ALGORITHM):
            return None
        return self.spec(op, conv_spec(op), context)

    @abstractmethod
    def spec(self, op: ConvOp, conv: DirectConvSpec, context: CallContext) -> S | None:
        """The spec of a convolution by this algorithm; None where the kernel does not compute it."""

    @abstractmethod
    def pack(self, weights: Array, spec: S, target: CpuTarget) -> Array:
        """An OIHW filter as the kernel reads it."""

    @abstractmethod
    def packing(self, spec: S, target: CpuTarget) -> str:
        """All that `pack` depends on but the weights."""

    @abstractmethod
    def cycles(self, spec: S, target: CpuTarget) -> float:
        """Estimated cycles on one core, by which the algorithm is chosen."""

    def filter(self, op: ConvOp, spec: S, context: CallContext) -> Operand | None:
        """The filter as the kernel reads it."""
        if op.packed is not None:
            return op.packed
        form, target = op.form, context.target
        how = f"{op.algorithm}|{form}|{self.packing(spec, target)}"
        return context.pack(op.filter, how, lambda w: self.pack(plain_filter(w, form), spec, target))

    def operands(self, op: ConvOp, spec: S, context: CallContext) -> list[Operand | None]:
        biases = [bias_operand(v, context) for v in present(op.bias)]
        return [op.result, op.input, self.filter(op, spec, context), *biases, *op.extras]


def pack_bias(bias: np.ndarray, target: CpuTarget) -> np.ndarray:
    """(K) padded with zeros to a multiple of the vector lanes."""
    return pad_to(bias, 0, target.lanes)


def bias_operand(value: SSAValue, context: CallContext) -> Operand | None:
    """One f32 number an output channel, filled up with zeros where they make no whole vectors."""
    lanes = context.target.lanes
    if context.constant(value) is None:
        return None if shape(value)[0] % lanes else value
    return context.pack(value, "bias", lambda b: pack_bias(b.astype(np.float32), context.target))


def direct_cycles(spec: DirectConvSpec, target: CpuTarget, pairs: int = 1) -> float:
    """Estimated cycles of the direct sums on one core, `pairs` products at a time in a lane."""
    lanes = target.lanes
    outputs = ceil_div(spec.out_channels, lanes) * lanes
    taps = prod(spec.kernel) * spec.in_channels // spec.group
    sums = prod((spec.batch, *spec.out_size)) * outputs * taps * _share_inside(spec)
    return overlapped(sums / (2 * lanes * pairs) / 0.95, 4 * outputs * taps / pairs, target)


def _share_inside(spec: DirectConvSpec) -> float:
    """The part of the products that meet the image: the direct kernel passes over taps of dilated filters."""
    if spec.dilations == (1, 1):
        return 1.0
    share = 1.0
    for axis, taps in enumerate(spec.kernel):
        size, out, stride = spec.size[axis], spec.out_size[axis], spec.strides[axis]
        firsts = [tap * spec.dilations[axis] - spec.pads[axis] for tap in range(taps)]
        meets = [min(out, ceil_div(size - f, stride)) - max(0, ceil_div(-f, stride)) for f in firsts]
        share *= sum(max(0, count) for count in meets) / (taps * out)
    return share


def overlapped(cycles: float, weight_bytes: float, target: CpuTarget) -> float:
    """Cycles of sums whose weights are fetched meanwhile."""
    costs = target.costs
    stream = weight_bytes / costs.bytes_a_cycle
    if cycles > stream:
        return cycles + costs.shown_streaming * stream
    return stream + costs.shown_computing * cycles
