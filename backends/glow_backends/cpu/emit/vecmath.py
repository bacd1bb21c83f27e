"""Elementary functions on vectors, as polynomials, with NaN, infinities and signed zeros right.

f32: within about 2 ulp. f64: exp, log and what is built of them within about 2 ulp; the others call
libm lane by lane. The coefficients are minimax fits (Remez exchange in 50 digits) of the function
that each comment names, weighted for relative error.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from glow_backends.cpu.emit.builder import F32, F64, I1, I32, KernelBuilder
from glow_backends.cpu.emit.values import Vec, call, constant, lanes_of, stack, with_element, zero

# (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2
_EXP32 = (0.5000000096, 0.1666651771, 0.04166620282, 0.008369024824, 0.001395069659)
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
# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4 in r^2, |r| <= pi / 4
_SIN32 = (-0.1666666664, 0.008333329364, -0.0001983932764, 2.718241284e-06)
_COS32 = (0.04166666662, -0.001388888373, 2.479951387e-05, -2.720969799e-07)
# -log(erfc(x)) / x - 1, 0 <= x <= 4, weighted for the error of erf(x); beyond it grows faster than that
_ERF32 = (
    0.128379167, 0.6366198446, 0.1027711079, -0.01911665496, -0.0002561017296, 0.001804118248,
    -0.0007448859259, 0.0001695553231, -2.188753023e-05, 1.248500609e-06,
)  # fmt: skip
# (atan(x) - x) / x^3 in x^2, x <= 1, and (asin(x) - x) / x^3 in x^2, x <= 1/2
_ATAN32 = (
    -0.3333330196, 0.1999864103, -0.1426526841, 0.1095768759, -0.08419765574,
    0.0582395527, -0.03146049764, 0.01106693518, -0.001827755899,
)  # fmt: skip
_ASIN32 = (
    0.1666665989, 0.07500510442, 0.04451574082, 0.03181786099, 0.01440042404, 0.03756969483,
)  # fmt: skip

_LOG2E = 1.4426950408889634
_LN2 = {True: (0.6931471824645996, -1.904654290582768e-09), False: (math.log(2), 2.3190468138e-17)}
_PI_2 = (1.5707963705062866, -4.371138828673793e-08, -1.7151244994428765e-15)
_TRIG_LIMIT = 1e5  # beyond it three f32 parts of pi / 2 are not enough, libm is called
_MAGIC = {True: 12582912.0, False: 6755399441055744.0}  # 1.5 * 2^mantissa: adding it rounds
_MANTISSA = {True: 23, False: 52}
_BIAS = {True: 127, False: 1023}


def _exp2_of(like: Vec, n: ir.Value) -> Vec:
    """2^n for integer lanes n inside the exponent range."""
    b = like.k.b
    biased = b.add(n, constant(n.type, _BIAS[like.single]))
    return like.from_bits(b.shl(biased, constant(n.type, _MANTISSA[like.single])))


def _exp_parts(x: Vec, exact: bool = True) -> tuple[Vec, Vec]:
    """x = n ln 2 + r: (a value whose lowest bits are the integer n, e^r - 1).

    Without `exact` the error of r is up to n 2e-9, for results whose absolute error counts.
    """
    single = x.single
    shifted = x.fma(_LOG2E, _MAGIC[single])
    n = shifted - _MAGIC[single]
    high, low = _LN2[single]
    r = n.fma(-high, x)
    if exact:
        r = n.fma(-low, r)
    return shifted, (r * r).fma(r.polynomial(_EXP32 if single else _EXP64), r)


def _add_exponent(x: Vec, shifted: Vec) -> Vec:
    """x 2^n for normal results, n as `_exp_parts` gives it: the higher bits of `shifted` leave the word."""
    b, bits = x.k.b, shifted.bits()
    return x.from_bits(b.add(x.bits(), b.shl(bits, constant(bits.type, _MANTISSA[x.single]))))


def _exp_finite(x: Vec) -> Vec:
    """e^x where neither x nor the result leaves the normal numbers: -87 <= x <= 88 (f64: 708)."""
    shifted, p = _exp_parts(x)
    return _add_exponent(p + 1.0, shifted)


def _scaled(p: Vec, shifted: Vec) -> Vec:
    """p 2^n in one rounding, n as `_exp_parts` gives it; the result may be denormal or infinite."""
    k, b, magic = p.k, p.k.b, _MAGIC[p.single]
    lanes = lanes_of(p.v.type)
    if k.target.vector_bytes == 64 and lanes * (4 if p.single else 8) == 64:
        name = f"llvm.x86.avx512.mask.scalef.{'ps' if p.single else 'pd'}.512"
        return Vec(k, k.named_intrinsic(name, [p.v, (shifted - magic).v, p.v], [(-1, lanes), (4, 32)]))
    n = b.sub(shifted.bits(), p.of(magic).bits())
    half = b.ashr(n, constant(n.type, 1))
    return p * _exp2_of(p, half) * _exp2_of(p, b.sub(n, half))


def exp(x: Vec) -> Vec:
    """e^x, denormal results included."""
    low, high = (-104.0, 89.0) if x.single else (-746.0, 710.0)
    shifted, p = _exp_parts(x.at_least(low).at_most(high))
    return _scaled(p + 1.0, shifted)


def exp_nonpositive(x: Vec) -> Vec:
    """e^x for x <= 0 or NaN, flushed to zero where the result would be denormal (softmax)."""
    return x.of(0.0).where(x.compare("<", -87.0 if x.single else -708.0), _exp_finite(x))


def expm1(x: Vec) -> Vec:
    """e^x - 1, exact for small x."""
    low, high = (-30.0, 89.0) if x.single else (-60.0, 710.0)
    shifted, p = _exp_parts(x.at_least(low).at_most(high))
    half = _add_exponent(x.of(0.5), shifted)
    result = half.fma(p, half - 0.5) * 2.0
    return x.where(x.compare("==", 0.0), result)


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


def log(x: Vec) -> Vec:
    """Natural logarithm; -inf at 0, NaN below."""
    instructions = x.single and x.k.target.vector_bytes == 64 and lanes_of(x.v.type) == 16
    e, f = _split_by_instructions(x) if instructions else _split(x, 0.75 if x.single else math.sqrt(0.5))
    high, low = _LN2[x.single]
    z = f * f
    if x.single:
        y = z.fma(-0.5, e.fma(low, f * z * f.polynomial(_LOG32)))
        result = e.fma(high, f + y)
    else:
        s = f / (f + 2.0)
        s2 = s * s
        half = z * 0.5
        y = e.fma(low, s * s2.fma(s2.polynomial(_LOG64), half)) - half
        result = e.fma(high, f + y)
    if instructions:
        name, zeros_and_inf = "llvm.x86.avx512.fpclass.ps.512", [(0b1110, 32)]
        return e.where(x.k.named_intrinsic(name, [x.v], zeros_and_inf, with_element(x.v.type, I1)), result)
    outside = x.of(-math.inf).where(x.compare("==", 0.0), math.nan)
    result = result.where(x.compare(">", 0.0), outside)
    return x.where(x.compare("==", math.inf), result)


def log1p(x: Vec) -> Vec:
    """log(1 + x), exact for small x."""
    u = x + 1.0
    b = x.k.b
    lost = (x - (u - 1.0)) / u
    edge = b.or_(u.compare("==", 0.0), u.compare("==", math.inf))
    result = log(u) + x.of(0.0).where(edge, lost)
    return x.where(x.compare("==", 0.0), result)


def tanh(x: Vec) -> Vec:
    """Hyperbolic tangent."""
    shifted, p = _exp_parts((x.abs() * -2.0).at_least(-40.0))
    power = _add_exponent(x.of(1.0), shifted)
    t = power.fma(p, power - 1.0)  # e^(-2 |x|) - 1
    return (-t).over(t + 2.0).copysign(x)


def sigmoid(x: Vec) -> Vec:
    """1 / (1 + e^-x), flushed to zero where the result would be denormal."""
    limit = 87.0 if x.single else 708.0
    result = x.of(1.0).over(_exp_finite((-x).at_least(-limit).at_most(limit)) + 1.0)
    return x.of(0.0).where(x.compare("<", -limit), result)


def softplus(x: Vec) -> Vec:
    """log(1 + e^x) without overflow."""
    return x.at_least(0.0) + log1p(exp(-x.abs()))


def mish(x: Vec) -> Vec:
    """x tanh(softplus(x)), by tanh(log(1 + e)) = (e^2 + 2 e) / (e^2 + 2 e + 2)."""
    e = _exp_finite(x.at_most(30.0).at_least(-87.0 if x.single else -708.0))
    top = e * (e + 2.0)
    return x * top.over(top + 2.0)


def erf(x: Vec) -> Vec:
    """The error function, as 1 - e^-p by one polynomial p(|x|)."""
    if not x.single:
        return libm(x, "erf")
    a = x.abs().at_most(4.0)
    shifted, p = _exp_parts(-a.fma(a.polynomial(_ERF32), a), exact=False)
    power = _add_exponent(x.of(1.0), shifted)
    return (-power.fma(p, power - 1.0)).copysign(x)


def gelu(x: Vec) -> Vec:
    """x Phi(x), the exact form: max(x, 0) - |x| erfc(|x| / sqrt 2) / 2; within 5e-6 of it for x >= -4."""
    if not x.single:
        return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1.0)
    a = x.abs().at_most(9.0)  # where the second term is below 1e-17
    whole = (1.0 + _ERF32[0], *_ERF32[1:])
    p = a * a.polynomial([-c * 0.5 ** ((i + 1) / 2) for i, c in enumerate(whole)])
    shifted, q = _exp_parts(p, exact=False)
    return (a * -0.5).fma(_add_exponent(q + 1.0, shifted), x.at_least(0.0))


def gelu_tanh(x: Vec) -> Vec:
    """x Phi(x) by the tanh approximation, 0.5 (1 + tanh u) = sigmoid(2 u)."""
    c = 2.0 * math.sqrt(2.0 / math.pi)
    return x * sigmoid(x * (x * x).fma(c * 0.044715, c))


def _octant(x: Vec) -> tuple[ir.Value, Vec, Vec]:
    """x = q pi / 2 + r: (q modulo 4 in its low bits, sin r, cos r)."""
    shifted = x.fma(2.0 / math.pi, _MAGIC[True])
    n = shifted - _MAGIC[True]
    r = x
    for part in _PI_2:
        r = n.fma(-part, r)
    z = r * r
    sine = (r * z).fma(z.polynomial(_SIN32), r)
    cosine = (z * z).fma(z.polynomial(_COS32), z.fma(-0.5, 1.0))
    return shifted.bits(), sine, cosine


def _trig(x: Vec, name: str, core: Callable[[Vec], Vec]) -> Vec:
    """`core` where every lane is inside the reduction's range, else libm."""
    if not x.single:
        return libm(x, name)
    huge = x.abs().compare(">", _TRIG_LIMIT)
    return _unless(x, huge, core, lambda y: libm(y, name))


def _pick(q: ir.Value, x: Vec, even: Vec, odd: Vec) -> Vec:
    """`even` or `odd` by bit 0 of q, negated by bit 1."""
    b = x.k.b
    swap = b.icmp_signed("!=", b.and_(q, constant(q.type, 1)), zero(q.type))
    sign = b.shl(b.and_(q, constant(q.type, 2)), constant(q.type, 30))
    return x.from_bits(b.xor(odd.where(swap, even).bits(), sign))


def sin(x: Vec) -> Vec:
    """Sine."""

    def core(y: Vec) -> Vec:
        q, sine, cosine = _octant(y)
        value = _pick(q, y, sine, cosine)
        return y.where(y.compare("==", 0.0), value)

    return _trig(x, "sin", core)


def cos(x: Vec) -> Vec:
    """Cosine."""

    def core(y: Vec) -> Vec:
        q, sine, cosine = _octant(y)
        b = y.k.b
        return _pick(b.add(q, constant(q.type, 1)), y, sine, cosine)

    return _trig(x, "cos", core)


def tan(x: Vec) -> Vec:
    """Tangent."""

    def core(y: Vec) -> Vec:
        q, sine, cosine = _octant(y)
        b = y.k.b
        odd = b.icmp_signed("!=", b.and_(q, constant(q.type, 1)), zero(q.type))
        value = (-cosine).where(odd, sine) / sine.where(odd, cosine)
        return y.where(y.compare("==", 0.0), value)

    return _trig(x, "tan", core)


def atan(x: Vec) -> Vec:
    """Arc tangent."""
    if not x.single:
        return libm(x, "atan")
    a = x.abs()
    big = a.compare(">", 1.0)
    t = (1.0 / a).where(big, a)
    z = t * t
    y = (t * z).fma(z.polynomial(_ATAN32), t)
    return ((_PI_2[0] - y) + _PI_2[1]).where(big, y).copysign(x)


def _asin_parts(x: Vec) -> tuple[ir.Value, Vec]:
    """(|x| > 1/2, asin|x| or where above 1/2: asin(sqrt((1 - |x|) / 2)))."""
    a = x.abs()
    big = a.compare(">", 0.5)
    z = ((1.0 - a) * 0.5).where(big, a * a)
    t = z.sqrt().where(big, a)
    return big, (t * z).fma(z.polynomial(_ASIN32), t)


def asin(x: Vec) -> Vec:
    """Arc sine; NaN outside [-1, 1]."""
    if not x.single:
        return libm(x, "asin")
    big, y = _asin_parts(x)
    return ((_PI_2[0] - y * 2.0) + _PI_2[1]).where(big, y).copysign(x)


def acos(x: Vec) -> Vec:
    """Arc cosine; NaN outside [-1, 1]."""
    if not x.single:
        return libm(x, "acos")
    big, y = _asin_parts(x)
    negative = x.compare("<", 0.0)
    far = ((2.0 * _PI_2[0] - y * 2.0) + 2.0 * _PI_2[1]).where(negative, y * 2.0)
    near = (_PI_2[0] - y.copysign(x)) + _PI_2[1]
    return far.where(big, near)


def sinh(x: Vec) -> Vec:
    """Hyperbolic sine; halves the argument's power where e^x alone would overflow."""
    if not x.single:
        return libm(x, "sinh")
    a = x.abs()
    t = expm1(a.at_most(80.0))
    near = (t + t / (t + 1.0)) * 0.5
    root = exp(a * 0.5)
    return near.where(a.compare("<", 80.0), root * 0.5 * root).copysign(x)


def cosh(x: Vec) -> Vec:
    """Hyperbolic cosine."""
    if not x.single:
        return libm(x, "cosh")
    a = x.abs()
    e = exp(a.at_most(80.0))
    near = (e + 1.0 / e) * 0.5
    root = exp(a * 0.5)
    return near.where(a.compare("<", 80.0), root * 0.5 * root)


def asinh(x: Vec) -> Vec:
    """Inverse hyperbolic sine."""
    if not x.single:
        return libm(x, "asinh")
    a = x.abs()
    z = a * a
    near = log1p(a + z / ((z + 1.0).sqrt() + 1.0))
    far = log(a) + math.log(2.0)
    return near.where(a.compare("<", 1e9), far).copysign(x)


def acosh(x: Vec) -> Vec:
    """Inverse hyperbolic cosine; NaN below 1."""
    if not x.single:
        return libm(x, "acosh")
    t = x - 1.0
    near = log1p(t + (t * (t + 2.0)).sqrt())
    far = log(x) + math.log(2.0)
    result = far.where(x.compare(">", 1e9), near)
    return x.of(math.nan).where(x.compare("<", 1.0), result)


def atanh(x: Vec) -> Vec:
    """Inverse hyperbolic tangent; NaN outside [-1, 1]."""
    if not x.single:
        return libm(x, "atanh")
    a = x.abs()
    return (log1p(a * 2.0 / (1.0 - a)) * 0.5).copysign(x)


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
    shifted = product.fma(_LOG2E, _MAGIC[False])
    r = (shifted - _MAGIC[False]).fma(-math.log(2.0), product)
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


def integer_power(k: KernelBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """x^y of integers by squaring, modulo 2^bits; y < 0 counts as the bits of an unsigned y."""
    one = constant(x.type, 1)

    def step(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        total, base, rest = carried
        odd = k.b.icmp_signed("!=", k.b.and_(rest, one), zero(x.type))
        total = k.b.select(odd, k.b.mul(total, base), total)
        return [total, k.b.mul(base, base), k.b.lshr(rest, one)]

    element = x.type.element if isinstance(x.type, ir.VectorType) else x.type
    return k.reduce_loop(0, element.width, 1, [one, x, y], step)[0]


def any_lane(k: KernelBuilder, condition: ir.Value) -> ir.Value:
    """Whether a condition holds in some lane, as one i1."""
    lanes = lanes_of(condition.type)
    if lanes == 1:
        return condition
    bits = k.b.bitcast(condition, ir.IntType(lanes))
    return k.b.icmp_unsigned("!=", bits, zero(bits.type))


def _unless(x: Vec, rare: ir.Value, usual: Callable[[Vec], Vec], otherwise: Callable[[Vec], Vec]) -> Vec:
    """usual(x), or otherwise(x) for the whole vector when `rare` holds in some lane."""
    k = x.k
    slow_block = k.function.append_basic_block("rare")
    fast_block = k.function.append_basic_block("usual")
    done = k.function.append_basic_block("join")
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
