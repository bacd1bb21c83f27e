"""dft: the discrete Fourier transform along an axis, of real or complex tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.instr_op import InstrOp, instr_op
from glow_dialects.core.properties import bool_prop, check_axis, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, dtype_of, element_of, shape_of, tensor, typed
from glow_dialects.ops.arithmetic import AddOp, SubOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.transpose import TransposeOp
from glow_dialects.ops.windows import check_float


def result_shape(op: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """Shape of the transform of a tensor of `shape` [..., 1 or 2]."""
    length, half, inverse = op.prop("length"), op.prop("onesided"), op.prop("inverse")
    made = length // 2 + 1 if half and not inverse else length
    axis = op.prop("axis")
    return (*shape[:axis], made, *shape[axis + 1 : -1], 1 if half and inverse else 2)


@graph_op
class DftOp(PureOp):
    """The transform of [..., 1] (real) or [..., 2] (complex) along `axis`, cut or padded to `length`.

    The inverse divides by `length`. `onesided`: of a real signal the first half of the spectrum;
    inverse, from such a half to the real signal [..., 1].
    """

    name = "glow.dft"
    axis = int_prop()
    length = int_prop()
    inverse = bool_prop(False)
    onesided = bool_prop(False)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        shape = shape_of(self.input)
        check_float(self.name, self.input)
        check_axis(self.name, self.prop("axis"), len(shape) - 1)
        if shape[-1] not in (1, 2):
            raise VerifyException(
                f"{self.name}: the last axis is {shape[-1]}, expected 1 (real) or 2 (complex)"
            )
        if self.prop("length") < 1:
            raise VerifyException(f"{self.name}: length is {self.prop('length')}, expected at least 1")
        if self.prop("onesided") and (shape[-1] == 2) != self.prop("inverse"):
            raise VerifyException(f"{self.name}: one half stands for real signals only")
        return [tensor(result_shape(self, shape), element_of(self.input))]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        # real = x cos - y sin, imaginary = x sin + y cos, as products with matrices.
        shape = shape_of(self.input)
        axis: int = self.prop("axis")
        length: int = self.prop("length")
        rank = len(shape) - 1
        order = [i for i in range(rank) if i != axis] + [axis]
        x = b(TransposeOp(self.input, permutation=(*order, rank)))
        half = self.prop("inverse") and self.prop("onesided")
        used = min(shape[axis], length // 2 + 1 if half else length)
        parts = [_part(x, used, i, b) for i in range(shape[-1])]
        cosine, sine = (b.constant(m) for m in _matrices(self, used))
        real, imaginary = _product(parts[0], cosine, b), _product(parts[0], sine, b)
        if len(parts) == 2:
            real = b(SubOp(real, _product(parts[1], sine, b)))
            imaginary = b(AddOp(imaginary, _product(parts[1], cosine, b)))
        wide = [b(ReshapeOp.to(v, (*shape_of(v), 1))) for v in ([real] if half else [real, imaginary])]
        joined = wide[0] if half else b(ConcatOp(wide, axis=rank))
        return [b(TransposeOp(joined, permutation=(*(order.index(i) for i in range(rank)), rank)))]


def _part(x: SSAValue, used: int, index: int, b: Builder) -> SSAValue:
    """x[..., :used, index]."""
    shape = shape_of(x)
    starts = (0,) * (len(shape) - 1) + (index,)
    ends = (*shape[:-2], used, index + 1)
    return b(ReshapeOp.to(b(SliceOp(x, starts=starts, ends=ends, steps=(1,) * len(shape))), ends[:-1]))


def _product(x: SSAValue, matrix: SSAValue, b: Builder) -> SSAValue:
    rows, made = shape_of(x)[:-1], shape_of(matrix)[1]
    flat = b(ReshapeOp.to(x, (prod(rows), shape_of(matrix)[0])))
    return b(ReshapeOp.to(b(MatmulOp(flat, matrix)), (*rows, made)))


def _matrices(op: DftOp, used: int) -> tuple[Array, Array]:
    """cos and sin of the transform [used, results]; the mirrored half of a real signal counts twice."""
    length: int = op.prop("length")
    inverse: bool = op.prop("inverse")
    axis: int = op.prop("axis")
    made = result_shape(op, shape_of(op.input))[axis]
    turns = np.outer(np.arange(used), np.arange(made)) % length
    angle: Array = (2 if inverse else -2) * np.pi * turns / length
    weight = np.full((used, 1), 1.0 / length if inverse else 1.0)
    if inverse and op.prop("onesided"):
        places = np.arange(used)
        weight[(places != 0) & (2 * places != length)] *= 2
    dtype = dtype_of(typed(op.input))
    return (np.cos(angle) * weight).astype(dtype), (np.sin(angle) * weight).astype(dtype)


@instr_op(of=DftOp)
class DftInstr(InstrOp):
    """numpy.fft."""

    def reference(self, result: Array, input: Array) -> None:
        x = widen(input)
        axis: int = self.prop("axis")
        length: int = self.prop("length")
        signal = x[..., 0] if x.shape[-1] == 1 else x[..., 0] + x.dtype.type(1) * 1j * x[..., 1]
        signal = signal.astype(np.complex64 if x.dtype == np.float32 else np.complex128)
        if self.prop("onesided") and self.prop("inverse"):
            result[..., 0] = np.fft.irfft(signal, length, axis)
            return
        whole = (np.fft.ifft if self.prop("inverse") else np.fft.fft)(signal, length, axis)
        made: Any = np.take(whole, np.arange(result.shape[axis]), axis)
        result[..., 0], result[..., 1] = made.real, made.imag


SAMPLES = (
    Sample(DftOp, (random(2, 8, 1),), {"axis": 1, "length": 8}, smooth=False),
    Sample(DftOp, (random(2, 5, 3, 2),), {"axis": 1, "length": 5}, smooth=False),
    Sample(DftOp, (random(6, 2),), {"axis": 0, "length": 6, "inverse": True}, smooth=False),
    Sample(DftOp, (random(2, 9, 1),), {"axis": 1, "length": 9, "onesided": True}, smooth=False),
    Sample(DftOp, (random(2, 5, 1),), {"axis": 1, "length": 8}, smooth=False),
    Sample(
        DftOp, (random(2, 5, 2),), {"axis": 1, "length": 8, "onesided": True, "inverse": True}, smooth=False
    ),
)
