"""Powers and logarithms of vectors, as polynomials, with NaN, infinities and signed zeros right.

f32: exp, expm1, log and log1p within 1 ulp. f64: within about 2 ulp; pow calls libm lane by lane. The
coefficients are minimax fits (Remez exchange in 50 digits) of the function that each comment names,
weighted for relative error. docs/accuracy.md has the errors of every function.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from glow_backends.cpu.emit.builder import F32, F64, I1, I32, CodeBuilder
from glow_backends.cpu.emit.values import Vec, call, constant, lanes_of, stack, with_element, zero

# (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2
_EXP32 = (0.4999999345, 0.1666652069, 0.04166838741, 0.008368710035, 0.001381461099)
_EXP32_LONG = (0.5000000068, 0.1666666587, 0.04166629508, 0.008333497003, 0.001394464927, 0.0001979035712)
_EXP64 = (
    0.5, 0.1666666666666668417, 0.04166666666666672551, 0.008333333333316484007,
    0.001388888888885803509, 0.0001984126989769966603, 2.480158737444745751e-05,
    2.755723358729545136e-06, 2.755723280933621606e-07, 2.511246923401251162e-08,
    2.092710184213648795e-09,
)  # fmt: skip
# (log(1 + f) - f + f^2 / 2) / f^3 on -1/4 <= f <= 1/2
_LOG32 = (
    0.3333344911, -0.2500009584, 0.1999086119, -0.1664731199, 0.1447839522,
    -0.13161196, 0.1046302626, -0.04507482051,
)  # fmt: skip
# (2 atanh(s) - 2 s) / s^3 in s^2, s = f / (2 + f)
_LOG64 = (
    0.666666666666666614, 0.4000000000000596504, 0.285714285691541235, 0.2222222263863567653,
    0.1818177620075804418, 0.1538707114788521341, 0.1325049458701094051, 0.132483798628714133,
)  # fmt: skip
_LOG64_SHORT = (
    0.6666666666157245007, 0.4000033263033870448, 0.2853743003413360933, 0.2358038080437984737,
)  # fmt: skip

LOG2E = 1.4426950408889634
_LN2 = {True: (0.6931471824645996, -1.904654290582768e-09), False: (math.log(2), 2.3190468138e-17)}
# The first part has so few bits that its products with exponents are exact.
_LN2_SHORT = {
    True: (0.693145751953125, 1.428606820309417e-06),
    False: (0.6931471803691238, 1.9082149292705877e-10),
}
MAGIC = {True: 12582912.0, False: 6755399441055744.0}  # 1.5 * 2^mantissa: adding it rounds
_MANTISSA = {True: 23, False: 52}
_BIAS = {True: 127, False: 1023}
LEAST = {True: -120.0, False: -760.0}
"""e to a lower power is zero, times any number of ordinary size, too."""


def _exp2_of(like: Vec, n: ir.Value) -> Vec:
    """2^n for integer lanes n inside the exponent range."""
    b = like.k.b
    biased = b.add(n, constant(n.type, _BIAS[like.single]))
    return like.from_bits(b.shl(biased, constant(n.type, _MANTISSA[like.single])))


def exp_parts(x: Vec, exact: bool = True) -> tuple[Vec, Vec]:
    """x = n ln 2 + r: (a value whose lowest bits are the integer n, e^r - 1).

    Without `exact` the error of r is up to n 2e-9, for results whose absolute error counts.
    """
    single = x.single
    shifted = x.fma(LOG2E, MAGIC[single])
    n = shifted - MAGIC[single]
    high, low = _LN2[single]
    r = n.fma(-high, x)
    if exact:
        r = n.fma(-low, r)
    return shifted, (r * r).fma(r.polynomial(_EXP32 if single else _EXP64), r)


def _reduced(x: Vec) -> tuple[Vec, Vec, Vec]:
    """x = n ln 2 + r: (n as `exp_parts` gives it, r + the second part of n ln 2, which is exact, r)."""
    shifted = x.fma(LOG2E, MAGIC[x.single])
    n = shifted - MAGIC[x.single]
    high, low = _LN2_SHORT[x.single]
    h = n.fma(-high, x)
    return shifted, h, n.fma(-low, h)


def exp_scaled(x: Vec) -> tuple[Vec, Vec]:
    """(n as `exp_parts` gives it, m): e^x = 2^n m, within 0.85 ulp of m."""
    shifted, _, r = _reduced(x)
    m = r + 1.0
    rest = (r * r).fma(r.polynomial(_EXP32 if x.single else _EXP64), (1.0 - m) + r)
    return shifted, m + rest


def add_exponent(x: Vec, shifted: Vec) -> Vec:
    """x 2^n for normal results, n as `exp_parts` gives it: the higher bits of `shifted` leave the word."""
    b, bits = x.k.b, shifted.bits()
    return x.from_bits(b.add(x.bits(), b.shl(bits, constant(bits.type, _MANTISSA[x.single]))))


def _scales(p: Vec) -> bool:
    """Whether the target has an instruction for p 2^n."""
    return p.k.target.vector_bytes == 64 and lanes_of(p.v.type) * (4 if p.single else 8) == 64


def add_exponent_down(x: Vec, shifted: Vec) -> Vec:
    """x 2^n where it counts beside 1 only: n may be any number below 0."""
    if _scales(x):
        return scaled(x, shifted)
    return add_exponent(x, shifted.at_least(MAGIC[x.single] - (_BIAS[x.single] - 2)))


def scaled(p: Vec, shifted: Vec) -> Vec:
    """p 2^n in one rounding, n as `exp_parts` gives it; the result may be denormal or infinite."""
    k, b, magic = p.k, p.k.b, MAGIC[p.single]
    lanes = lanes_of(p.v.type)
    if _scales(p):
        name = f"llvm.x86.avx512.mask.scalef.{'ps' if p.single else 'pd'}.512"
        return Vec(k, k.named_intrinsic(name, [p.v, (shifted - magic).v, p.v], [(-1, lanes), (4, 32)]))
    n = b.sub(shifted.bits(), p.of(magic).bits())
    half = b.ashr(n, constant(n.type, 1))
    return p * _exp2_of(p, half) * _exp2_of(p, b.sub(n, half))


def exp(x: Vec) -> Vec:
    """e^x, denormal results included."""
    low, high = (-104.0, 89.0) if x.single else (-746.0, 710.0)
    far = x.compare("<", low)  # not by denormal numbers, which take long
    shifted, m = exp_scaled(x.of(0.0).where(far, x).at_most(high))
    return x.of(0.0).where(far, scaled(m, shifted))


def exp_nonpositive(x: Vec) -> Vec:
    """e^x for x <= 0 or NaN, flushed to zero where the result would be denormal (softmax)."""
    shifted, p = exp_parts(x)
    return x.of(0.0).where(x.compare("<", -87.0 if x.single else -708.0), add_exponent(p + 1.0, shifted))


def expm1(x: Vec, negative: bool = False) -> Vec:
    """e^x - 1, exact for small x; `negative`: no x is above 0."""
    low, high = (-30.0, 89.0) if x.single else (-60.0, 710.0)
    x_inside = x.at_least(low) if negative else x.at_least(low).at_most(high)
    shifted, h, r = _reduced(x_inside)
    second = (MAGIC[x.single] - shifted) * _LN2_SHORT[x.single][1]
    tail = (r * r).fma(r.polynomial(_EXP32_LONG if x.single else _EXP64), second)
    half = add_exponent(x.of(0.5), shifted)
    less = half - 0.5
    result = half.fma(h, less)
    lost = less - result
    if not negative:  # large powers of 2 have no half
        lost = lost + ((half - less) - 0.5)
    rest = half.fma(tail, half.fma(h, lost))
    return x.where(x.compare("==", 0.0), (result + rest) * 2.0)


def _split(x: Vec, least_part: float) -> tuple[Vec, Vec]:
    """x = 2^e (1 + f), least_part <= 1 + f < 2 least_part, for positive finite x: (e, f)."""
    single, b = x.single, x.k.b
    mantissa = _MANTISSA[single]
    least = 2.0**-126 if single else 2.0**-1022
    tiny = x.compare("<", least)
    bits = (x * 2.0**mantissa).where(tiny, x).bits()
    root = x.of(least_part).bits()
    e = b.ashr(b.sub(bits, root), constant(bits.type, mantissa))
    f = x.from_bits(b.sub(bits, b.shl(e, constant(bits.type, mantissa)))) - 1.0
    exponent = Vec(x.k, b.sitofp(e, x.v.type))
    return (exponent - float(mantissa)).where(tiny, exponent), f


def _split_by_instructions(x: Vec) -> tuple[Vec, Vec]:
    """`_split` with 3/4: NaN as f below 0; e is infinite for 0 (-inf) and infinities."""
    k, v, rest = x.k, x.v, [(-1, lanes_of(x.v.type)), (4, 32)]
    halves_or_nan = ir.Constant(I32, 0b1011)  # 3/4 <= the mantissa < 3/2, NaN for a negative number
    exponent = Vec(k, k.named_intrinsic("llvm.x86.avx512.mask.getexp.ps.512", [v, v], rest))
    name = "llvm.x86.avx512.mask.getmant.ps.512"
    mantissa = Vec(k, k.named_intrinsic(name, [v, halves_or_nan, v], rest))
    return (exponent + 1.0).where(mantissa.compare("<", 1.0), exponent), mantissa - 1.0


def log(x: Vec, low: Vec | None = None, twice: ir.Value | None = None) -> Vec:
    """Natural logarithm; -inf at 0, NaN below. `low` is added to it; where `twice` it is that of 2 x."""
    instructions = x.single and x.k.target.vector_bytes == 64 and lanes_of(x.v.type) == 16
    e, f = _split_by_instructions(x) if instructions else _split(x, 0.75 if x.single else math.sqrt(0.5))
    if twice is not None:
        e = (e + 1.0).where(twice, e)
    high, rest = _LN2[x.single]
    z = f * f
    if x.single:
        y = e.fma(rest, f * z * f.polynomial(_LOG32))
        y = z.fma(-0.5, y if low is None else y + low)
    else:
        s = f / (f + 2.0)
        s2 = s * s
        half = z * 0.5
        y = e.fma(rest, s * s2.fma(s2.polynomial(_LOG64), half))
        y = (y if low is None else y + low) - half
    result = e.fma(high, f + y)
    if instructions:
        name, zeros_and_inf = "llvm.x86.avx512.fpclass.ps.512", [(0b1110, 32)]
        return e.where(x.k.named_intrinsic(name, [x.v], zeros_and_inf, with_element(x.v.type, I1)), result)
    outside = x.of(-math.inf).where(x.compare("==", 0.0), math.nan)
    result = result.where(x.compare(">", 0.0), outside)
    return x.where(x.compare("==", math.inf), result)


def log1p_parts(x: Vec, low: Vec | None = None) -> tuple[Vec, Vec]:
    """(u, l): log(1 + x + low) = log(u) + l."""
    u = x + 1.0
    lost = x - (u - 1.0)
    return u, (lost if low is None else lost + low) / u


def log1p(x: Vec) -> Vec:
    """log(1 + x), exact for small x."""
    return x.where(x.compare("==", 0.0), log(*log1p_parts(x)))


def power(x: Vec, y: Vec) -> Vec:
    """x^y as C's pow; in f32 by log and exp in f64, within 1 ulp."""
    if not x.single:
        return libm(x, "pow", y)
    k, b = x.k, x.k.b
    wide = with_element(x.v.type, F64)
    a = x.abs()
    e, f = (Vec(k, b.fpext(part.v, wide)) for part in _split(a, math.sqrt(0.5)))
    s = f / (f + 2.0)
    s2 = s * s
    logarithm = e.fma(math.log(2.0), (s * s2).fma(s2.polynomial(_LOG64_SHORT), s * 2.0))
    zero_base, infinite = a.compare("==", 0.0), a.compare("==", math.inf)
    logarithm = logarithm.of(-math.inf).where(zero_base, logarithm)
    logarithm = logarithm.of(math.inf).where(infinite, logarithm)
    product = (logarithm * Vec(k, b.fpext(y.v, wide))).at_least(-110.0).at_most(100.0)
    shifted = product.fma(LOG2E, MAGIC[False])
    r = (shifted - MAGIC[False]).fma(-math.log(2.0), product)
    p = Vec(k, b.fptrunc(((r * r).fma(r.polynomial(_EXP32), r) + 1.0).v, x.v.type))
    n = b.trunc(shifted.bits(), with_element(x.v.type, I32))
    half = b.ashr(n, constant(n.type, 1))
    result = p * _exp2_of(x, half) * _exp2_of(x, b.sub(n, half))
    return _power_cases(x, y, a, result)


def _power_cases(x: Vec, y: Vec, a: Vec, result: Vec) -> Vec:
    """Sign and special values of x^y, given |x|^y for the ordinary case."""
    b = x.k.b
    whole = y.unary("trunc").compare("==", y)
    halved = y * 0.5
    odd = b.and_(whole, b.not_(halved.unary("trunc").compare("==", halved)))
    sign = b.icmp_signed("<", x.bits(), zero(x.bits().type))
    result = (-result).where(b.and_(odd, sign), result)
    negative = b.and_(x.compare("<", 0.0), b.not_(whole))
    negative = b.and_(negative, b.and_(a.compare("<", math.inf), y.abs().compare("<", math.inf)))
    result = x.of(math.nan).where(b.or_(negative, x.compare("uno", x)), result)
    unit = b.and_(a.compare("==", 1.0), y.abs().compare("==", math.inf))
    one = b.or_(b.or_(x.compare("==", 1.0), y.compare("==", 0.0)), unit)
    return x.of(1.0).where(one, result)


def integer_power(k: CodeBuilder, x: ir.Value, y: ir.Value, negative: ir.Value | None = None) -> ir.Value:
    """x^y of integers by squaring, modulo 2^bits; where y is `negative`, 0 unless x is 1 or -1."""
    one = constant(x.type, 1)

    def step(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        total, base, rest = carried
        odd = k.b.icmp_signed("!=", k.b.and_(rest, one), zero(rest.type))
        total = k.b.select(odd, k.b.mul(total, base), total)
        return [total, k.b.mul(base, base), k.b.lshr(rest, one)]

    element = x.type.element if isinstance(x.type, ir.VectorType) else x.type
    total = k.reduce_loop(0, element.width, 1, [one, x, y], step)[0]
    if negative is None:
        return total
    odd = k.b.icmp_signed("!=", k.b.and_(y, one), zero(x.type))
    signs = k.b.select(odd, x, one)
    unit = k.b.or_(k.b.icmp_signed("==", x, one), k.b.icmp_signed("==", x, constant(x.type, -1)))
    return k.b.select(negative, k.b.select(unit, signs, zero(x.type)), total)


def any_lane(k: CodeBuilder, condition: ir.Value) -> ir.Value:
    """Whether a condition holds in some lane, as one i1."""
    lanes = lanes_of(condition.type)
    if lanes == 1:
        return condition
    bits = k.b.bitcast(condition, ir.IntType(lanes))
    return k.b.icmp_unsigned("!=", bits, zero(bits.type))


def unless(x: Vec, rare: ir.Value, usual: Callable[[Vec], Vec], otherwise: Callable[[Vec], Vec]) -> Vec:
    """usual(x), or otherwise(x) for the whole vector when `rare` holds in some lane."""
    k = x.k
    slow_block = k.b.function.append_basic_block("rare")
    fast_block = k.b.function.append_basic_block("usual")
    done = k.b.function.append_basic_block("join")
    k.b.cbranch(any_lane(k, rare), slow_block, fast_block)
    incoming: list[tuple[ir.Value, ir.Block]] = []
    for block, compute in ((slow_block, otherwise), (fast_block, usual)):
        k.b.position_at_end(block)
        incoming.append((compute(x).v, k.b.block))
        k.b.branch(done)
    k.b.position_at_end(done)
    phi = k.b.phi(x.v.type)
    for value, block in incoming:
        phi.add_incoming(value, block)
    return Vec(k, phi)


def libm(x: Vec, name: str, *others: Vec) -> Vec:
    """C's `name` on every lane, in a loop over lanes."""
    k = x.k
    element = F32 if x.single else F64
    function = name + "f" if x.single else name
    arguments = [x.v, *(o.v for o in others)]
    lanes = lanes_of(x.v.type)
    if lanes == 1:
        return Vec(k, call(k, function, element, arguments))
    slots = [stack(k, x.v.type) for _ in arguments]
    for slot, argument in zip(slots, arguments, strict=True):
        k.b.store(argument, slot)
    with k.loop(0, lanes) as i:
        places = [k.gep(s, i, element) for s in slots]
        scalars = [k.b.load(p, typ=element) for p in places]
        k.b.store(call(k, function, element, scalars), places[0])
    return Vec(k, k.b.load(slots[0], typ=x.v.type))
