"""Element types of buffers; loads, stores and arithmetic on vectors of elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from llvmlite import ir

from glow_backends.cpu.emit import tiny_floats
from glow_backends.cpu.emit.builder import (
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    PTR,
    CodeBuilder,
    mangle,
    repeated,
    shuffle_mask,
)
from glow_backends.cpu.emit.line_builder import vector
from glow_dialects.core.element_types import by
from glow_dialects.core.extent import Extent

F16 = ir.HalfType()
I16 = ir.IntType(16)

_STORAGE: dict[str, ir.Type] = {
    name: {"f32": F32, "f64": F64, "f16": F16}.get(name, ir.IntType(8 * t.dtype.itemsize))
    for name, t in by("short").items()
    if t.kind != "c"
}
_BYTES = {name: by("short")[name].dtype.itemsize for name in _STORAGE}
NIBBLES = {name: t.bits for name, t in by("short").items() if t.kind in "iu" and t.bits < 8}
"""Integers of fewer bits than the byte that each one occupies: the low bits count."""
FLOATS = tuple(name for name, t in by("short").items() if t.kind == "f")
NARROW = tuple(name for name in FLOATS if name not in ("f32", "f64"))
"""Floats that are computed with in f32."""


def storage(dtype: str) -> ir.Type:
    """The LLVM type of one element in memory (i1 is a byte, bf16 and smaller floats their bits)."""
    return _STORAGE[dtype]


def compute(dtype: str) -> ir.Type:
    """The LLVM type of one element in registers (narrow floats are computed in f32, i1 is a bit)."""
    if dtype in NARROW:
        return F32
    return I1 if dtype == "i1" else _STORAGE[dtype]


def has(dtype: str) -> bool:
    """Whether kernels know this element type."""
    return dtype in _STORAGE


def size(dtype: str) -> int:
    """Bytes of one element in memory."""
    return _BYTES[dtype]


def width(dtype: str) -> int:
    """Bytes of one element in a register lane, which sets the number of lanes of a loop."""
    return 4 if dtype in NARROW else _BYTES[dtype]


def is_float(dtype: str) -> bool:
    """Whether the dtype is a floating-point one."""
    return dtype in FLOATS


def is_signed(dtype: str) -> bool:
    """Whether integers of the dtype are signed."""
    return dtype.startswith("i") and dtype != "i1"


def lanes_of(kind: ir.Type) -> int:
    """Lanes of a vector type; 1 for a scalar type."""
    return kind.count if isinstance(kind, ir.VectorType) else 1


def element_of(kind: ir.Type) -> ir.Type:
    """Element type of a vector type; the type itself for a scalar type."""
    return kind.element if isinstance(kind, ir.VectorType) else kind


def with_element(kind: ir.Type, element: ir.Type) -> ir.Type:
    """A type with the lanes of `kind` and the element type `element`."""
    return vector(element, kind.count) if isinstance(kind, ir.VectorType) else element


def constant(kind: ir.Type, value: float) -> ir.Constant:
    """`value` in every lane of `kind`; integers wrap, so bit patterns can be unsigned."""
    key = str(kind), repr(value)
    known = _CONSTANTS.get(key)
    if known is None:
        if len(_CONSTANTS) >= _MOST_CONSTANTS:
            _CONSTANTS.clear()
        known = _CONSTANTS[key] = _constant(kind, value)
    return known


_CONSTANTS: dict[tuple[str, str], ir.Constant] = {}
"""Constants are equal where their texts are; making them again was a tenth of emitting kernels."""
_MOST_CONSTANTS = 1 << 14


def _constant(kind: ir.Type, value: float) -> ir.Constant:
    element = element_of(kind)
    number: float = value
    if isinstance(element, ir.IntType):
        number = int(value) & ((1 << element.width) - 1)
        if element.width > 1 and number >> (element.width - 1):
            number -= 1 << element.width
    one = ir.Constant(element, number)
    if isinstance(kind, ir.VectorType):
        return repeated(one, kind.count)
    return one


def zero(kind: ir.Type) -> ir.Constant:
    """Zero in every lane."""
    return constant(kind, 0)


def call(k: CodeBuilder, name: str, result: ir.Type, arguments: Sequence[ir.Value]) -> ir.Value:
    """Call the external function or intrinsic `name`, declaring it at its first use."""
    callee = k.module.globals.get(name)
    if callee is None:
        kind = ir.FunctionType(result, [a.type for a in arguments])
        callee = ir.Function(k.module, kind, name)
    return k.b.call(callee, arguments)


def stack(k: CodeBuilder, kind: ir.Type, count: int = 1) -> ir.Value:
    """The address of `count` values of `kind` on the stack, 64-byte aligned."""
    with k.b.goto_entry_block():
        slot = k.b.alloca(kind, count)
    slot.align = 64
    slot.type = PTR
    return slot


def round_to_odd(k: CodeBuilder, x: ir.Value) -> ir.Value:
    """f64 -> f32 so that a second rounding to 16 bits gives what one rounding from f64 gives.

    The last bit is set whenever the conversion was inexact (Boldo and Melquiond).
    """
    narrow = with_element(x.type, F32)
    bits = with_element(x.type, I32)
    near = k.b.fptrunc(x, narrow)
    back = k.b.fpext(near, x.type)
    magnitude = k.intrinsic("fabs", [back])
    above = k.b.fcmp_ordered(">", magnitude, k.intrinsic("fabs", [x]))
    inexact = k.b.fcmp_ordered("!=", back, x)
    pattern = k.b.bitcast(near, bits)
    pattern = k.b.sub(pattern, k.b.zext(above, bits))
    pattern = k.b.or_(pattern, k.b.zext(inexact, bits))
    return k.b.bitcast(pattern, narrow)


def round_to(k: CodeBuilder, x: ir.Value, dtype: str) -> ir.Value:
    """An f32 value rounded to a narrow float and widened again; other dtypes pass unchanged."""
    if dtype == "f16":
        return k.b.fpext(k.b.fptrunc(x, with_element(x.type, F16)), x.type)
    if dtype == "bf16":
        bits = with_element(x.type, I32)
        kept = k.b.and_(_bf16_bits(k, x), constant(bits, 0xFFFF0000))
        return k.b.bitcast(kept, x.type)
    if dtype in tiny_floats.FORMATS:
        return tiny_floats.decode(k, tiny_floats.encode(k, x, dtype), dtype)
    return x


def _bf16_bits(k: CodeBuilder, x: ir.Value) -> ir.Value:
    """The f32 bits of x rounded to nearest even at bit 16 (the low half is not cleared)."""
    bits = with_element(x.type, I32)
    pattern = k.b.bitcast(x, bits)
    odd = k.b.and_(k.b.lshr(pattern, constant(bits, 16)), constant(bits, 1))
    rounded = k.b.add(k.b.add(pattern, constant(bits, 0x7FFF)), odd)
    quiet = k.b.or_(pattern, constant(bits, 0x400000))
    return k.b.select(k.b.fcmp_unordered("uno", x, x), quiet, rounded)


def to_compute(k: CodeBuilder, raw: ir.Value, dtype: str) -> ir.Value:
    """An element (or vector) as stored -> as computed with."""
    if dtype == "f16":
        return k.b.fpext(raw, with_element(raw.type, F32))
    if dtype == "bf16":
        bits = with_element(raw.type, I32)
        wide = k.b.shl(k.b.zext(raw, bits), constant(bits, 16))
        return k.b.bitcast(wide, with_element(raw.type, F32))
    if dtype in tiny_floats.FORMATS:
        return tiny_floats.decode(k, raw, dtype)
    if dtype == "i1":
        return k.b.icmp_unsigned("!=", raw, zero(raw.type))
    return wrapped(k, raw, dtype)


def wrapped(k: CodeBuilder, value: ir.Value, dtype: str) -> ir.Value:
    """An i8 as an integer of fewer bits, extended by its sign or zeros; other dtypes unchanged."""
    if dtype not in NIBBLES:
        return value
    spare = constant(value.type, 8 - NIBBLES[dtype])
    up = k.b.shl(value, spare)
    return k.b.ashr(up, spare) if is_signed(dtype) else k.b.lshr(up, spare)


def to_storage(k: CodeBuilder, value: ir.Value, dtype: str) -> ir.Value:
    """An element (or vector) as computed with -> as stored."""
    if dtype == "f16":
        return k.b.fptrunc(value, with_element(value.type, F16))
    if dtype == "bf16":
        bits = _bf16_bits(k, value)
        return k.b.trunc(k.b.lshr(bits, constant(bits.type, 16)), with_element(value.type, I16))
    if dtype in tiny_floats.FORMATS:
        return tiny_floats.encode(k, value, dtype)
    if dtype == "i1":
        return k.b.zext(value, with_element(value.type, I8))
    if dtype in NIBBLES:
        return k.b.and_(value, constant(value.type, (1 << NIBBLES[dtype]) - 1))
    return value


Active = int | ir.Value
"""Which lanes of a vector exist: a number of them from the first on, or a mask."""


def first_lanes(k: CodeBuilder, lanes: int, count: ir.Value) -> ir.Value:
    """A mask whose first `count` (i64, at most `lanes`) lanes are on."""
    numbers = [ir.Constant(I32, i) for i in range(lanes)]
    limit = splat(k, k.b.trunc(count, I32), lanes)
    return k.b.icmp_signed("<", ir.Constant(vector(I32, lanes), numbers), limit)


def _mask(k: CodeBuilder, lanes: int, active: Active) -> ir.Value:
    """The mask of active lanes."""
    if isinstance(active, Extent):
        return first_lanes(k, lanes, k.i(active))
    return mask(lanes, active) if isinstance(active, int) else active


@cache
def mask(lanes: int, active: int) -> ir.Constant:
    """A constant mask whose first `active` of `lanes` lanes are on."""
    bits = [ir.Constant(I1, int(i < active)) for i in range(lanes)]
    return ir.Constant(ir.VectorType(I1, lanes), bits)


def load(
    k: CodeBuilder,
    pointer: ir.Value,
    offset: int | ir.Value,
    dtype: str,
    lanes: int = 1,
    active: Active | None = None,
    fill: ir.Constant | None = None,
) -> ir.Value:
    """Load `lanes` adjacent elements (1: a scalar) in their compute type.

    Only `active` ones are read; the others hold `fill` (as stored).
    """
    kind = storage(dtype)
    if active is None or (isinstance(active, int) and active >= lanes):
        return to_compute(k, k.load(pointer, offset, kind, lanes), dtype)
    whole = vector(kind, lanes)
    raw = call(
        k,
        f"llvm.masked.load.{mangle(whole)}.p0",
        whole,
        [
            k.gep(pointer, offset, kind),
            ir.Constant(I32, size(dtype)),
            _mask(k, lanes, active),
            fill or zero(whole),
        ],
    )
    return to_compute(k, raw, dtype)


def store(
    k: CodeBuilder,
    value: ir.Value,
    pointer: ir.Value,
    offset: int | ir.Value,
    dtype: str,
    active: Active | None = None,
) -> None:
    """Store an element or vector of compute type; with `active` only those lanes."""
    raw = to_storage(k, value, dtype)
    kind = storage(dtype)
    lanes = lanes_of(raw.type)
    if active is None or (isinstance(active, int) and active >= lanes):
        k.store(raw, pointer, offset, kind)
        return
    if isinstance(active, int) and active == 1:  # LLVM makes of it a store of the lane before truncation
        k.store(k.b.extract_element(raw, ir.Constant(I32, 0)), pointer, offset, kind)
        return
    call(
        k,
        f"llvm.masked.store.{mangle(raw.type)}.p0",
        ir.VoidType(),
        [
            raw,
            k.gep(pointer, offset, kind),
            ir.Constant(I32, size(dtype)),
            _mask(k, lanes, active),
        ],
    )


def shuffle(k: CodeBuilder, x: ir.Value, order: Sequence[int]) -> ir.Value:
    """The lanes of x in the given order, which may repeat and be longer."""
    lanes = shuffle_mask(tuple(order))
    return k.b.shuffle_vector(x, ir.Constant(x.type, ir.Undefined), lanes)


def splat(k: CodeBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """A scalar of compute type in every lane."""
    return k.splat(value, lanes, value.type)


@dataclass(frozen=True)
class Vec:
    """A floating-point scalar or vector with operators, for writing formulas."""

    k: CodeBuilder
    v: ir.Value

    def of(self, value: float) -> Vec:
        """A constant of the same type."""
        return Vec(self.k, constant(self.v.type, value))

    def _v(self, other: Vec | float) -> ir.Value:
        return other.v if isinstance(other, Vec) else constant(self.v.type, other)

    def __add__(self, other: Vec | float) -> Vec:
        return Vec(self.k, self.k.b.fadd(self.v, self._v(other)))

    def __radd__(self, other: float) -> Vec:
        return self + other

    def __sub__(self, other: Vec | float) -> Vec:
        return Vec(self.k, self.k.b.fsub(self.v, self._v(other)))

    def __rsub__(self, other: float) -> Vec:
        return self.of(other) - self

    def __mul__(self, other: Vec | float) -> Vec:
        return Vec(self.k, self.k.b.fmul(self.v, self._v(other)))

    def __rmul__(self, other: float) -> Vec:
        return self * other

    def __truediv__(self, other: Vec | float) -> Vec:
        return Vec(self.k, self.k.b.fdiv(self.v, self._v(other)))

    def over(self, denominator: Vec) -> Vec:
        """self / denominator within 2 ulp, for normal denominators: by an estimate of the reciprocal."""
        return Vec(self.k, self.k.b.fdiv(self.v, denominator.v, flags=["arcp"]))

    def __rtruediv__(self, other: float) -> Vec:
        return self.of(other) / self

    def __neg__(self) -> Vec:
        return Vec(self.k, self.k.b.fneg(self.v))

    def fma(self, y: Vec | float, z: Vec | float) -> Vec:
        """self * y + z in one rounding."""
        return Vec(self.k, self.k.fma(self.v, self._v(y), self._v(z)))

    def unary(self, intrinsic: str) -> Vec:
        """`llvm.<intrinsic>` of the value."""
        return Vec(self.k, self.k.intrinsic(intrinsic, [self.v]))

    def abs(self) -> Vec:
        """Absolute value."""
        return self.unary("fabs")

    def sqrt(self) -> Vec:
        """Square root."""
        return self.unary("sqrt")

    def copysign(self, sign: Vec | float) -> Vec:
        """The magnitude with the sign of `sign`."""
        return Vec(self.k, self.k.intrinsic("copysign", [self.v, self._v(sign)]))

    def compare(self, operator: str, other: Vec | float) -> ir.Value:
        """Lane-wise ordered comparison (false on NaN); `uno` is the unordered test."""
        if operator == "uno":
            return self.k.b.fcmp_unordered("uno", self.v, self._v(other))
        return self.k.b.fcmp_ordered(operator, self.v, self._v(other))

    def where(self, condition: ir.Value, other: Vec | float) -> Vec:
        """self where the condition holds, `other` elsewhere."""
        return Vec(self.k, self.k.b.select(condition, self.v, self._v(other)))

    def at_most(self, bound: float) -> Vec:
        """min(self, bound); NaN passes."""
        return self.of(bound).where(self.compare(">", bound), self)

    def at_least(self, bound: float) -> Vec:
        """max(self, bound); NaN passes."""
        return self.of(bound).where(self.compare("<", bound), self)

    def polynomial(self, coefficients: Sequence[float]) -> Vec:
        """c0 + c1 x + c2 x^2 + ... by Horner's rule with fused multiply-adds."""
        total = self.of(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = total.fma(self, c)
        return total

    def bits(self) -> ir.Value:
        """The bit patterns as integers of the same size."""
        element = I32 if element_of(self.v.type) == F32 else I64
        return self.k.b.bitcast(self.v, with_element(self.v.type, element))

    def from_bits(self, pattern: ir.Value) -> Vec:
        """The value with the given bit patterns, in the type of self."""
        return Vec(self.k, self.k.b.bitcast(pattern, self.v.type))

    @property
    def single(self) -> bool:
        """Whether the elements are f32 (else f64)."""
        return element_of(self.v.type) == F32
