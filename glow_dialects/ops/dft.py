"""dft: the discrete Fourier transform along an axis, of real or complex tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.errors import OpenSizes
from glow_dialects.core.extent import are_equal, is_open
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, check_axis, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, dtype_of, element_of, shape_of, tensor, typed
from glow_dialects.ops.arithmetic import AddOp, DivOp, ModOp, MulOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpEqOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.flip import FlipOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.iota import IotaOp, SizesOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.transpose import TransposeOp
from glow_dialects.ops.unary_math import CosOp, NegOp, SinOp
from glow_dialects.ops.windows import check_float

Complex: TypeAlias = "np.ndarray[Any, np.dtype[np.complex128]]"


def result_shape(op: DftOp, shape: Sequence[int]) -> tuple[int, ...]:
    """Shape of the transform of a tensor of `shape` [..., 1 or 2]."""
    length, half, inverse = op.length, op.onesided, op.inverse
    bins = length // 2 + 1 if half and not inverse else length
    axis = op.axis
    return (*shape[:axis], bins, *shape[axis + 1 : -1], 1 if half and inverse else 2)


@graph_op
class DftOp(PureOp):
    """The transform of [..., 1] (real) or [..., 2] (complex) along `axis`, cut or padded to `length`.

    The inverse divides by `length`. `onesided`: of a real signal the first half of the spectrum;
    inverse, from such a half to the real signal [..., 1].
    """

    name = "glow.dft"
    HOMOGENEOUS = True
    axis = int_prop()
    length = int_prop()
    inverse = bool_prop(False)
    onesided = bool_prop(False)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        shape = shape_of(self.input)
        check_float(self.name, self.input)
        check_axis(self.name, self.axis, len(shape) - 1)
        if shape[-1] not in (1, 2):
            raise VerifyException(
                f"{self.name}: the last axis is {shape[-1]}, expected 1 (real) or 2 (complex)"
            )
        if self.length < 1:
            raise VerifyException(f"{self.name}: length is {self.length}, expected at least 1")
        if self.onesided and (shape[-1] == 2) != self.inverse:
            raise VerifyException(f"{self.name}: onesided is for real signals only; remove onesided")
        return [tensor(result_shape(self, shape), element_of(self.input))]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        kind = element_of(self.input)
        if dtype_of(typed(self.input)).itemsize < 4:
            wide = b(CastOp(self.input, results=tensor(shape_of(self.input), f32)))
            transformed = b(
                DftOp(wide, **{n: getattr(self, n) for n in ("axis", "length", "inverse", "onesided")})
            )
            return [b(CastOp(transformed, results=tensor(shape_of(transformed), kind)))]
        if self.length <= SMALL:
            return [_as_product(self, b)]
        if is_open((self.length,)):
            raise OpenSizes(f"a transform of {self.length} elements, more than {SMALL}")
        first = _factor(self.length)
        return [_in_two_steps(self, first, b) if first > 1 else _by_chirp(self, b)]

    def reference(self, result: Array, input: Array) -> None:
        x = widen(input)
        axis: int = self.axis
        length: int = self.length
        signal = x[..., 0] if x.shape[-1] == 1 else x[..., 0] + x.dtype.type(1) * 1j * x[..., 1]
        signal = signal.astype(np.complex64 if x.dtype == np.float32 else np.complex128)
        if self.onesided and self.inverse:
            result[..., 0] = np.fft.irfft(signal, length, axis)
            return
        whole = (np.fft.ifft if self.inverse else np.fft.fft)(signal, length, axis)
        spectrum: Any = np.take(whole, np.arange(result.shape[axis]), axis)
        result[..., 0], result[..., 1] = spectrum.real, spectrum.imag


#: Transforms of this length and less are one product with a matrix.
SMALL = 256


def _factor(length: int) -> int:
    """The factor of a length that is nearest to its root from below; 1 for a prime."""
    return max(f for f in range(1, isqrt(length) + 1) if length % f == 0)


def _as_product(op: DftOp, b: Builder) -> SSAValue:
    """Rows of real and imaginary numbers in turn, times a matrix of such rows and columns."""
    shape = shape_of(op.input)
    axis: int = op.axis
    x = _read_part(op, b)
    used = shape_of(x)[axis]
    order = (*(i for i in range(len(shape) - 1) if i != axis), axis, len(shape) - 1)
    x = b(TransposeOp(x, permutation=order))
    rows = [shape[i] for i in order[:-2]]
    flat = b(ReshapeOp.to(x, (prod(rows), used * shape[-1])))
    if is_open((op.length,)):
        matrix = _matrix_of_run(op, used, shape[-1], b)
    else:
        matrix = b.constant(_matrix(op, used, shape[-1]))
    bins, parts = (shape_of(op.result)[i] for i in (axis, -1))
    product = b(ReshapeOp.to(b(MatmulOp(flat, matrix)), (*rows, bins, parts)))
    return b(TransposeOp(product, permutation=tuple(order.index(i) for i in range(len(shape)))))


def _in_two_steps(op: DftOp, first: int, b: Builder) -> SSAValue:
    """Cooley and Tukey: transforms of length `first`, a turn of each number, transforms of the rest."""
    axis, length, inverse = op.axis, op.length, op.inverse
    rest = length // first
    x = _padded(_whole(op, b), axis, length, b)
    before, after = shape_of(x)[:axis], shape_of(x)[axis + 1 :]
    x = b(ReshapeOp.to(x, (*before, first, rest, *after)))
    x = b(DftOp(x, axis=axis, length=first, inverse=inverse))
    x = _times(x, _roots(np.outer(np.arange(first), np.arange(rest)), length, inverse), axis, b)
    x = b(DftOp(x, axis=axis + 1, length=rest, inverse=inverse))
    order = list(range(len(before) + len(after) + 2))
    order[axis : axis + 2] = [axis + 1, axis]
    x = b(TransposeOp(x, permutation=tuple(order)))
    x = b(ReshapeOp.to(x, (*before, length, *after[:-1], 2)))
    return _corner(x, shape_of(op.result), b)


def _by_chirp(op: DftOp, b: Builder) -> SSAValue:
    """Bluestein: a transform of prime length as a convolution, by transforms whose length is a power of 2."""
    axis, length, inverse = op.axis, op.length, op.inverse
    size = 1 << (2 * length - 1).bit_length()
    x = _whole(op, b)
    chirp = _roots(np.arange(length) ** 2, 2 * length, inverse)
    around = np.zeros(size, np.complex128)
    around[:length] = chirp.conj()
    around[size - length + 1 :] = chirp[:0:-1].conj()
    x = _padded(_times(x, chirp[: shape_of(x)[axis]], axis, b), axis, size, b)
    x = b(DftOp(x, axis=axis, length=size))
    x = b(DftOp(_times(x, np.fft.fft(around), axis, b), axis=axis, length=size, inverse=True))
    x = _times(_first(x, axis, length, b), chirp / (length if inverse else 1), axis, b)
    return _corner(x, shape_of(op.result), b)


def _whole(op: DftOp, b: Builder) -> SSAValue:
    """The input of a transform as complex numbers; half a spectrum is completed."""
    x = _read_part(op, b)
    return _mirrored(x, op.axis, op.length, b) if op.inverse and op.onesided else x


def _read_part(op: DftOp, b: Builder) -> SSAValue:
    """The places of the input that a transform reads, zeros behind them where the run counts them."""
    axis: int = op.axis
    size, read = shape_of(op.input)[axis], _read(op)
    if not is_open((size, read)):
        return _first(op.input, axis, min(size, read), b)
    if are_equal(size, read):
        return op.input
    return _first(_padded(op.input, axis, size + read, b), axis, read, b)


def _read(op: DftOp) -> int:
    """How many places of the input a transform reads at most."""
    length: int = op.length
    return length // 2 + 1 if op.inverse and op.onesided else length


def _corner(x: SSAValue, dims: Sequence[int], b: Builder) -> SSAValue:
    """The first places of all axes."""
    if shape_of(x) == tuple(dims):
        return x
    return b(SliceOp(x, starts=(0,) * len(dims), ends=tuple(dims), steps=(1,) * len(dims)))


def _first(x: SSAValue, axis: int, used: int, b: Builder) -> SSAValue:
    """x[..., :used, ...] along an axis."""
    shape = shape_of(x)
    return _corner(x, (*shape[:axis], used, *shape[axis + 1 :]), b)


def _padded(x: SSAValue, axis: int, size: int, b: Builder) -> SSAValue:
    """`x` with zeros behind it along an axis."""
    shape = shape_of(x)
    if shape[axis] == size:
        return x
    ends = tuple(size - have if i == axis else 0 for i, have in enumerate(shape))
    return b(PadOp(x, pads=(*(0 for _ in ends), *ends)))


def _mirrored(x: SSAValue, axis: int, length: int, b: Builder) -> SSAValue:
    """The whole spectrum of a real signal from its first half."""
    x = _padded(x, axis, length // 2 + 1, b)
    shape = shape_of(x)
    starts, ends = [0] * len(shape), list(shape)
    starts[axis], ends[axis] = 1, (length + 1) // 2
    inner = b(SliceOp(x, starts=tuple(starts), ends=tuple(ends), steps=(1,) * len(shape)))
    conjugate = b.constant(np.array([1, -1], dtype_of(typed(x))))
    return b(ConcatOp([x, b(MulOp(b(FlipOp(inner, axes=(axis,))), conjugate))], axis=axis))


def _times(x: SSAValue, numbers: Complex, axis: int, b: Builder) -> SSAValue:
    """Numbers [..., 1 or 2] times complex ones, which stand for axes from `axis` on."""
    shape, dtype = shape_of(x), dtype_of(typed(x))
    dims = (*numbers.shape, *(1,) * (len(shape) - axis - numbers.ndim - 1), 2)
    pairs = ((numbers.real, numbers.real), (-numbers.imag, numbers.imag))
    if shape[-1] == 1:
        return b(MulOp(x, b.constant(np.stack((numbers.real, numbers.imag), -1).reshape(dims).astype(dtype))))
    same, across = (b.constant(np.stack(p, -1).reshape(dims).astype(dtype)) for p in pairs)
    swapped = b(FlipOp(x, axes=(len(shape) - 1,)))
    return b(AddOp(b(MulOp(x, same)), b(MulOp(swapped, across))))


def _roots(steps: Array, length: int, inverse: bool) -> Complex:
    """Roots of unity, exact for large numbers of steps."""
    return np.exp((2j if inverse else -2j) * np.pi * (steps % length) / length)


def _matrix(op: DftOp, used: int, parts: int) -> Array:
    """The transform [used * parts, results * parts]; the mirrored half of a real signal counts twice."""
    length: int = op.length
    inverse: bool = op.inverse
    bins, parts_made = (shape_of(op.result)[i] for i in (op.axis, -1))
    roots = _roots(np.outer(np.arange(used), np.arange(bins)), length, inverse)
    weight = np.full((used, 1), 1.0 / length if inverse else 1.0)
    if inverse and op.onesided:
        places = np.arange(used)
        weight[(places != 0) & (2 * places != length)] *= 2
    cosine, sine = roots.real * weight, roots.imag * weight
    both = np.array([[cosine, sine], [-sine, cosine]])[:parts, :parts_made]
    matrix = both.transpose(2, 0, 3, 1).reshape(used * parts, bins * parts_made)
    return np.ascontiguousarray(matrix, dtype_of(typed(op.input)))


def _matrix_of_run(op: DftOp, used: int, parts: int, b: Builder) -> SSAValue:
    """`_matrix` for a length that only the run tells."""
    kind = element_of(op.input)
    bins, parts_made = (shape_of(op.result)[i] for i in (op.axis, -1))

    def length(kind: str) -> SSAValue:
        return b(SizesOp(results=tensor((), kind), values=(op.length,)))

    def counted(count: int, kind: str = "int64") -> SSAValue:
        return b(IotaOp(results=tensor((count,), kind)))

    angles = b(MulOp(counted(op.length, "float64"), b.splat(2 * np.pi, tensor((), "float64"))))
    angles = b(DivOp(angles, length("float64")))
    rows = b(ReshapeOp.to(counted(used), (used, 1)))
    steps = b(ModOp(b(MulOp(rows, counted(bins))), length("int64")))

    def roots(part: type[CosOp | SinOp]) -> SSAValue:
        known = b(CastOp(b(part(angles)), results=tensor((op.length,), kind)))
        x = b(GatherOp(known, steps, axis=0))
        if op.inverse:
            x = b(DivOp(x, b(CastOp(length("float64"), results=tensor((), kind)))))
        if op.inverse and op.onesided:  # the mirrored half
            twice = b(ModOp(b(AddOp(rows, rows)), length("int64")))
            alone = b(CmpEqOp(twice, b.scalar(0, twice)))
            x = b(MulOp(x, b(SelectOp(alone, b.scalar(1, x), b.scalar(2, x)))))
        return b(ReshapeOp.to(x, (used, 1, bins, 1)))

    cosine, sine = roots(CosOp), roots(SinOp)
    both = [sine, b(NegOp(sine))] if op.inverse else [b(NegOp(sine)), sine]
    made = [[cosine, both[0]], [both[1], cosine]][:parts]
    columns = [b(ConcatOp(row, axis=3)) if parts_made == 2 else row[0] for row in made]
    matrix = b(ConcatOp(columns, axis=1)) if parts == 2 else columns[0]
    return b(ReshapeOp.to(matrix, (used * parts, bins * parts_made)))


SAMPLES = (
    Sample(DftOp, (random(2, 300, 2),), {"axis": 1, "length": 300, "inverse": True}, smooth=False),
    Sample(DftOp, (random(2, 257, 2),), {"axis": 1, "length": 257, "inverse": True}, smooth=False),
    Sample(DftOp, (random(255, 1),), {"axis": 0, "length": 257, "onesided": True}, smooth=False),
    Sample(DftOp, (random(330, 3, 1),), {"axis": 0, "length": 360, "onesided": True}, smooth=False),
    Sample(
        DftOp, (random(161, 2),), {"axis": 0, "length": 320, "onesided": True, "inverse": True}, smooth=False
    ),
    Sample(DftOp, (random(2, 8, 1),), {"axis": 1, "length": 8}, smooth=False),
    Sample(DftOp, (random(2, 5, 3, 2),), {"axis": 1, "length": 5}, smooth=False),
    Sample(DftOp, (random(6, 2),), {"axis": 0, "length": 6, "inverse": True}, smooth=False),
    Sample(DftOp, (random(2, 9, 1),), {"axis": 1, "length": 9, "onesided": True}, smooth=False),
    Sample(DftOp, (random(2, 5, 1),), {"axis": 1, "length": 8}, smooth=False),
    Sample(
        DftOp, (random(2, 5, 2),), {"axis": 1, "length": 8, "onesided": True, "inverse": True}, smooth=False
    ),
)
