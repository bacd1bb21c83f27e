"""Floating-point numbers of 8 and 4 bits: from the byte that each one occupies to f32, and back.

Formats of the OCP 8-bit and microscaling specifications. Suffixes: `fn` has no infinities, `fnuz` has one
NaN, where the others have -0; `e8m0` is a power of two without a sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from llvmlite import ir

from glow_backends.cpu.emit.builder import F32, I8, I32, CodeBuilder, repeated
from glow_dialects.core.element_types import ElementType, by


@dataclass(frozen=True)
class Format:
    """Bits of exponent and mantissa, the exponent's bias, and what stands behind the largest number.

    `largest` is the code of the largest finite magnitude, `infinity` that of infinity, `nan` that of NaN
    (None: there is none).
    """

    exponent: int
    mantissa: int
    bias: int
    largest: int
    infinity: int | None = None
    nan: int | None = None

    @property
    def maximum(self) -> float:
        """The largest finite number."""
        fraction = self.largest & ((1 << self.mantissa) - 1)
        return (1 + fraction / (1 << self.mantissa)) * 2.0 ** ((self.largest >> self.mantissa) - self.bias)


def _format(kind: ElementType) -> Format:
    """As ml_dtypes has it."""
    facts = ml_dtypes.finfo(kind.dtype)

    def code(number: float) -> int | None:
        """None where the type has no such number, and has another in its place."""
        made = np.array(number, np.float32).astype(kind.dtype)
        same = np.array_equal(made.astype(np.float32), np.float32(number), equal_nan=True)
        return int(made.view(np.uint8)) if same else None

    largest = code(float(facts.max))
    assert largest is not None
    bias = (largest >> facts.nmant) - int(np.floor(np.log2(float(facts.max))))
    return Format(facts.nexp, facts.nmant, bias, largest, code(np.inf), code(np.nan))


FORMATS = {name: _format(t) for name, t in by("short").items() if t.kind == "f" and t.bits <= 8}
_POWER = FORMATS["f8_e8m0fnu"]
_MAGNITUDE = 0x7FFFFFFF
_INFINITY = 0x7F800000
_NAN = 0x7FC00000


class _Codes:
    """Arithmetic on codes of one format, scalars or vectors."""

    def __init__(self, k: CodeBuilder, like: ir.Type, form: Format) -> None:
        self.b, self.form = k.b, form
        self.lanes = like.count if isinstance(like, ir.VectorType) else 1

    def kind(self, element: ir.Type) -> ir.Type:
        return ir.VectorType(element, self.lanes) if self.lanes > 1 else element

    def number(self, element: ir.Type, value: float) -> ir.Constant:
        one = ir.Constant(element, value)
        return repeated(one, self.lanes) if self.lanes > 1 else one

    def i(self, value: int) -> ir.Constant:
        return self.number(I32, value - (1 << 32) if value >> 31 else value)

    def decode(self, raw: ir.Value) -> ir.Value:
        """f32 of codes in bytes."""
        b, form = self.b, self.form
        wide, floats = self.kind(I32), self.kind(F32)
        code = b.zext(raw, wide)
        if form is _POWER:
            least = b.icmp_unsigned("==", code, self.i(0))
            pattern = b.select(least, self.i(1 << 22), b.shl(code, self.i(23)))
            missing = b.icmp_unsigned("==", code, self.i(0xFF))
            return b.bitcast(b.select(missing, self.i(_NAN), pattern), floats)
        width = form.exponent + form.mantissa
        magnitude = b.and_(code, self.i((1 << width) - 1))
        normal = b.add(b.shl(magnitude, self.i(23 - form.mantissa)), self.i((127 - form.bias) << 23))
        step = self.number(F32, 2.0 ** (1 - form.bias - form.mantissa))
        small = b.bitcast(b.fmul(b.uitofp(magnitude, floats), step), wide)
        is_small = b.icmp_unsigned("<", magnitude, self.i(1 << form.mantissa))
        pattern = b.select(is_small, small, normal)
        if form.infinity is not None:
            infinite = b.icmp_unsigned("==", magnitude, self.i(form.infinity))
            pattern = b.select(infinite, self.i(_INFINITY), pattern)
        if form.nan is not None and form.nan != 0x80:
            missing = b.icmp_unsigned(">", magnitude, self.i(form.infinity or form.largest))
            pattern = b.select(missing, self.i(_NAN), pattern)
        sign = b.shl(b.lshr(b.and_(code, self.i(1 << width)), self.i(width)), self.i(31))
        pattern = b.or_(pattern, sign)
        if form.nan == 0x80:
            pattern = b.select(b.icmp_unsigned("==", code, self.i(0x80)), self.i(_NAN), pattern)
        return b.bitcast(pattern, floats)

    def encode(self, x: ir.Value) -> ir.Value:
        """Bytes of f32 numbers, rounded to the nearest code, ties to the even one (powers of two: up)."""
        b, form = self.b, self.form
        wide, byte = self.kind(I32), self.kind(I8)
        bits = b.bitcast(x, wide)
        magnitude = b.and_(bits, self.i(_MAGNITUDE))
        if form is _POWER:
            near = b.lshr(b.add(magnitude, self.i(1 << 22)), self.i(23))
            least = b.icmp_unsigned("<=", magnitude, self.i(1 << 22))  # 2^-127, of which f32 has half a step
            return b.trunc(self._special(bits, magnitude, b.select(least, self.i(0), near)), byte)
        shift = 23 - form.mantissa
        odd = b.and_(b.lshr(magnitude, self.i(shift)), self.i(1))
        rounded = b.lshr(b.add(b.add(magnitude, self.i((1 << (shift - 1)) - 1)), odd), self.i(shift))
        code = b.sub(rounded, self.i((127 - form.bias) << form.mantissa))
        magic = self.number(F32, 2.0 ** (24 - form.bias - form.mantissa))
        moved = b.bitcast(b.fadd(b.bitcast(magnitude, self.kind(F32)), magic), wide)
        least = self.i((128 - form.bias) << 23)
        is_small = b.icmp_unsigned("<", magnitude, least)
        code = b.select(is_small, b.sub(moved, b.bitcast(magic, wide)), code)
        return b.trunc(self._special(bits, magnitude, code), byte)

    def _special(self, bits: ir.Value, magnitude: ir.Value, code: ir.Value) -> ir.Value:
        """The code with its sign; numbers out of range and NaN replaced."""
        b, form = self.b, self.form
        missing = b.icmp_unsigned(">", magnitude, self.i(_INFINITY))
        above = b.icmp_signed(">", code, self.i(form.largest))
        if form is _POWER:
            invalid = b.or_(above, b.icmp_signed("<=", bits, self.i(0)))
            return b.select(b.or_(invalid, missing), self.i(0xFF), code)
        width = form.exponent + form.mantissa
        sign = b.shl(b.lshr(bits, self.i(31)), self.i(width))
        beyond = form.infinity if form.infinity is not None else form.nan
        code = b.select(above, self.i(form.largest if beyond is None else beyond), code)
        if form.nan == 0x80:
            missing = b.or_(missing, above)
            signed = b.select(b.icmp_unsigned("==", code, self.i(0)), code, b.or_(code, sign))
            return b.select(missing, self.i(0x80), signed)
        if form.nan is None:
            return b.or_(b.select(missing, self.i(0), code), sign)
        return b.or_(b.select(missing, self.i(form.nan), code), sign)


def decode(k: CodeBuilder, raw: ir.Value, dtype: str) -> ir.Value:
    """Bytes of a format as f32."""
    return _Codes(k, raw.type, FORMATS[dtype]).decode(raw)


def encode(k: CodeBuilder, x: ir.Value, dtype: str) -> ir.Value:
    """f32 as bytes of a format."""
    return _Codes(k, x.type, FORMATS[dtype]).encode(x)
