"""The spec of a pool, of an instruction on plain values or on channel blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from glow_backends.cpu.calls import dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.row_runs import full_windows
from glow_backends.cpu.kernel import float_typed, known
from glow_backends.cpu.kernels.pool.pool_ops import PoolOp
from glow_dialects.core.extent import computed
from glow_dialects.core.instr_op import is_instr_of
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.max_pool import MaxPoolOp, MaxPoolWithArgmaxOp
from glow_dialects.ops.windows import output_sizes


@dataclass(frozen=True)
class PoolSpec:
    """result = max or mean of every window. Operands: result, input.

    `size`, `kernel`, `strides`, `dilations`: one entry a spatial axis; `pads`: begins, then ends.
    Means divide by the elements inside the input, or by all of the window (`count_include_pad`).
    """

    mode: str
    outer: int
    size: tuple[int, ...]
    inner: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    count_include_pad: bool = False
    dtype: str = "f32"

    @property
    def out_size(self) -> tuple[int, ...]:
        """Spatial sizes of the result."""
        return output_sizes(self.size, self.kernel, self.strides, self.pads, self.dilations)

    def span(self, axis: int, place: int) -> tuple[int, int]:
        """The half-open range of kernel positions that meet the input in window `place` of an axis."""
        first = place * self.strides[axis] - self.pads[axis]
        step = self.dilations[axis]
        inside = [i for i in range(self.kernel[axis]) if 0 <= first + i * step < self.size[axis]]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)

    def full_windows(self, axis: int) -> tuple[int, int]:
        """The half-open range of places of an axis whose windows are all inside the input."""
        reach = (self.kernel[axis] - 1) * self.dilations[axis]
        shape = self.strides[axis], self.pads[axis], reach
        low, high = computed(full_windows, self.size[axis], self.out_size[axis], *shape)
        return low, high

    @property
    def bytes_touched(self) -> int:
        """Bytes read and written, to decide about workers."""
        count = common.product(self.size) + common.product(self.out_size)
        return self.outer * self.inner * count * values.size(self.dtype)


PlainPool = MaxPoolOp | AvgPoolOp | MaxPoolWithArgmaxOp
AnyPool = MaxPoolOp | AvgPoolOp | PoolOp


def plain_pool_spec(op: PlainPool) -> PoolSpec | None:
    """A pool over the tensor seen as [outer, *size, inner]; None for element types that kernels lack."""
    average = is_instr_of(op, AvgPoolOp)
    if not known(op) or (average and float_typed(op) is None):
        return None
    batch, *rest = shape(op.input)
    outer, size, inner = batch * rest[0], tuple(rest[1:]), 1
    if op.layout == "NHWC":
        outer, size, inner = batch, tuple(rest[:-1]), rest[-1]
    counted = is_instr_of(op, AvgPoolOp) and op.count_include_pad
    windows, kind = (op.kernel, op.strides, op.pads, op.dilations), dtype_name(op.input)
    return PoolSpec("avg" if average else "max", outer, size, inner, *windows, counted, kind)


def _blocked_pool_spec(op: PoolOp) -> PoolSpec | None:
    """The same on channel blocks."""
    average = op.mode == "avg"
    if not known(op) or (average and float_typed(op) is None):
        return None
    batch, blocks, *size, lanes = shape(op.input)
    windows, kind = (op.kernel, op.strides, op.pads, (1,) * len(size)), dtype_name(op.input)
    counted = average and op.count_include_pad
    return PoolSpec(op.mode, batch * blocks, tuple(size), lanes, *windows, counted, kind)


def pool_spec(op: AnyPool) -> PoolSpec | None:
    """The pool of an instruction; None for element types that kernels lack."""
    if is_instr_of(op, PoolOp):
        return _blocked_pool_spec(op)
    return plain_pool_spec(cast(MaxPoolOp | AvgPoolOp, op))
