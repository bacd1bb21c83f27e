"""More small programs of floats: numbers, tuples, mathematics, algorithms, gradients inside."""
# ruff: noqa: B007, B905

from __future__ import annotations

import functools
import math
from collections import namedtuple
from math import sin, sqrt
from typing import NamedTuple

import glow_compiler as glow

Point = namedtuple("Point", "a b")


class Pair(NamedTuple):
    """A pair."""

    first: float
    second: float


def nested_conditional(x, y):
    return (x if x > 2 else y if y > 2 else x * y) * (1.0 if y < 0 else 2.0 if y < 0.5 else 3.0)


def conditional_arguments(x, y):
    return max(x if y > 0 else -x, y * 2 if x > 3 else x * x)


def division_semantics(x, y):
    return (7 // 2) * x + (-7 // 2) * y + (-7 % 3) * x + (7 % -3) + 7 / 2 + (-2) ** 3 + 2**-1


def float_division_semantics(x, y):
    return (x * 5) // 2 + (-x * 5) // 2 + (-x) % 1.0 + x % -1.0 + y


def negative_power(x, y):
    return (-x) ** 2 + (-x) ** 3 + x**-2 + 2.0 ** (-y) + x**0.5


def integer_variables(x, y):
    n = 3
    k = n * 2 - 1
    m = k // n + k % n
    return x**k + y * m / n


def math_functions(x, y):
    return (
        math.floor(x) * x
        + math.ceil(y) * y
        + math.fabs(-x)
        + math.hypot(x, y)
        + math.degrees(y)
        + math.radians(x)
    )


def math_more(x, y):
    return math.exp2(x) + math.log2(x) + math.log10(x) + math.cbrt(x) + math.expm1(y) + math.fsum((x, y, x))


def math_inverse(x, y):
    return math.asin(y) + math.acos(y) + math.atan(x) + math.asinh(x) + math.acosh(x) + math.atanh(y)


def math_log_base(x, y):
    return math.log(x, 3.0) + math.pow(x, y) + math.copysign(x, -y) + math.fmod(x * 5, y) + math.erf(x)


def math_gamma_free(x, y):
    return math.prod((x, y, x)) + math.dist((x, y), (1.0, 2.0)) + math.trunc(x) * y + math.isqrt(10) * x


def casts(x, y):
    n = int(x * 3)
    return float(n) * y + bool(n) * x + int(-x * 3) * y + round(x) * x + abs(-y)


def rounds(x, y):
    return round(2.5) * x + round(3.5) * y + round(-0.5) + round(x * 2) * y


def min_max_many(x, y):
    return max(x, y, x * y) * min(x, y, 0.5, x - y) + max((x, y)) - min([x, 2.0])


def walrus(x, y):
    s = 0.0
    if (z := x * y) > 0.5:
        s = z * z
    return s + (w := y + 1) * w


def walrus_loop(x, y):
    s = x
    while (t := s * s) < 50:
        s = t + y
    return s


def early_nested(x, y):
    for i in range(3):
        for j in range(3):
            v = x * i + y * j
            if v > 2.5:
                return v * v
            if v > 2.1:
                break
    return 0.0


def early_in_while(x, y):
    i = 0
    while True:
        i += 1
        for k in (1, 2, 3):
            if i * k * x > 6:
                return i * k * y * x


def text_choice(x, y):
    mode = "sum"
    return x + y if mode == "sum" else x * y


def text_argument(x, y):
    def f(v, kind="square"):
        if kind == "square":
            return v * v
        elif kind == "cube":
            return v**3
        return v

    return f(x) + f(y, "cube") + f(x, kind="same")


def named_tuple(x, y):
    p = Point(x, y * 2)
    return p.a * p.b + p[0]


def named_tuple_class(x, y):
    p = Pair(first=x, second=y)
    q = Pair(p.second, p.first * 2)
    a, b = q
    return q.first * a + b * p.first


def map_sum(x, y):
    return sum(map(lambda v: v * v, (x, y, x * y)))


def filter_static(x, y):
    return sum(v for i, v in enumerate((x, y, x * y)) if i % 2 == 0)


def filter_dynamic(x, y):
    s = 0.0
    for v in (x, -y, y, -x):
        if v > 0:
            s += v * x
    return s


def any_all(x, y):
    values = (x, y, x - y)
    a = 2.0 if any(v > 1 for v in values) else 3.0
    b = x if all(v > 0 for v in values) else y
    return a * b * x


def sum_start(x, y):
    return sum((x, y), 2.0) * sum([x * i for i in range(3)])


def comprehension_over_tuple(x, y):
    squares = [v * v for v in (x, y)]
    return squares[0] * squares[1] + sum([a * b for a, b in zip(squares, (y, x))])


def nested_comprehension(x, y):
    grid = [[x * i + y * j for j in range(3)] for i in range(2)]
    return grid[1][2] * grid[0][1] + sum(sum(row) for row in grid)


def double_comprehension(x, y):
    return sum(a * b for a in (x, y) for b in (1.0, x, y))


def comprehension_closure(x, y):
    fs = [lambda v, k=k: v * k + x for k in (1.0, 2.0, y)]
    return fs[0](y) * fs[2](x) + fs[1](1.0)


def reduce_with_start(x, y):
    return functools.reduce(lambda a, b: a * 0.5 + b * b, (x, y, x), 1.0)


def starred_assignment(x, y):
    first, *rest = (x, y, x * y, 2.0)
    *most, last = rest
    return first * last + most[0] * most[1]


def swap_in_loop(x, y):
    a, b = x, y
    for _ in range(3):
        a, b = b * 0.5 + a, a
    return a * b


def chained_assignment(x, y):
    a = b = x * y
    a = a + 1
    return a * b


def nested_tuple_state(x, y):
    state = ((x, 0.0), y)
    for i in range(3):
        (a, b), c = state
        state = ((a * c, b + a), c + 0.1)
    return state[0][1] * state[1]


def tuple_slices(x, y):
    t = (x, y, x * y, x + y)
    a, b = t[1:3]
    return a * b + sum(t[::2]) + t[-1] * sum(t[:-2])


def tuple_compare(x, y):
    return x * y if (1, 2) == (1, 2) and 3 in (1, 2, 3) and 4 not in (1, 2) else 0.0


def closure_counter(x, y):
    def make(step):
        def advance(state):
            return state + step * x

        return advance

    inc, dec = make(1.0), make(-y)
    return dec(inc(inc(y)))


def y_combinator(x, y):
    fix = lambda f: (lambda g: g(g))(lambda g: f(lambda n, v: g(g)(n, v)))  # noqa: E731
    power = fix(lambda self: lambda n, v: y if n == 0 else v * self(n - 1, v))
    return power(3, x)


def pipeline(x, y):
    def pipe(*fs):
        return lambda v: functools.reduce(lambda a, f: f(a), fs, v)

    return pipe(math.sin, lambda v: v * y, lambda v: v + x)(x)


def memo_free_fib(x, y):
    def fib(n):
        return x if n == 0 else y if n == 1 else fib(n - 1) + 0.5 * fib(n - 2)

    return fib(8)


def bisection(x, y):
    lo, hi = 0.0, 4.0
    for _ in range(12):
        mid = (lo + hi) / 2
        if mid * mid < x:
            lo = mid
        else:
            hi = mid
    return lo * x + hi * y


def newton_with_tolerance(x, y):
    g = x
    while abs(g * g - x) > 1e-12:
        g = (g + x / g) / 2
    return g * y


def simpson(x, y):
    def integrate(f, a, b, n):
        h = (b - a) / n
        s = f(a) + f(b)
        for i in range(1, n):
            s += (4 if i % 2 else 2) * f(a + i * h)
        return s * h / 3

    return integrate(lambda t: sin(t * x) + y, 0.0, y, 6)


def runge_kutta(x, y):
    def step(f, t, v, h):
        k1 = f(t, v)
        k2 = f(t + h / 2, v + h * k1 / 2)
        return v + h * k2

    v = x
    for i in range(4):
        v = step(lambda t, s: -y * s + sin(t), i * 0.1, v, 0.1)
    return v


def dual_by_hand(x, y):
    def mul(a, b):
        return (a[0] * b[0], a[0] * b[1] + a[1] * b[0])

    v = (x, 1.0)
    for _ in range(3):
        v = mul(v, (y, x))
    return v[0] + v[1]


def matrix_by_hand(x, y):
    m = ((x, 1.0), (y, 0.5))
    r = ((1.0, 0.0), (0.0, 1.0))
    for _ in range(3):
        r = tuple(tuple(sum(a * b for a, b in zip(row, col)) for col in zip(*m)) for row in r)
    return r[0][0] + r[1][1] * r[0][1]


def collatz(x, y):
    n, s = 7, x
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        s = s * 0.9 + y / n
    return s


def gcd_recursion(x, y):
    def gcd(a, b):
        return a if b == 0 else gcd(b, a % b)

    return x ** gcd(12, 18) * 0.1 + y * gcd(7, 3)


def power_by_squaring(x, y):
    def power(v, n):
        if n == 0:
            return 1.0
        half = power(v, n // 2)
        return half * half * (v if n % 2 else 1.0)

    return power(x, 5) + power(y, 2)


def bits(x, y):
    n = (5 & 3) | (1 << 3) ^ 2
    return x * n + y * (~n >> 1)


def assert_free(x, y):
    """A docstring, a pass and annotations."""
    z: float = x * y
    pass
    w: float
    w = z + 1
    return w * z


def unused_and_shadowing(x, y):
    sum = x + y
    max = sum * x
    return max * y


def gradient_descent(x, y):
    def loss(w):
        return (w * x - y) ** 2

    w = 0.5
    for _ in range(5):
        w = w - 0.1 * glow.grad(loss)(w)
    return w


def newton_by_grad(x, y):
    f = lambda v: v**3 - x * v - y  # noqa: E731
    df = glow.grad(f)
    v = 2.0
    for _ in range(4):
        v = v - f(v) / df(v)
    return v


def hessian_inside(x, y):
    def f(a, b):
        return a * a * b + sqrt(b) * a

    dxy = glow.grad(glow.grad(f, argnums=0), argnums=1)(x, y)
    return dxy * x


def grad_of_closure_choice(x, y):
    f = (lambda v: v * v * x) if x > y else (lambda v: v * y)
    return glow.grad(f)(y) + x


def annotated_parameter(x, y):
    def area(p: Pair):
        return p.first * p.second

    return area(Pair(x, y)) + area(Pair(second=x, first=2.0))


def tuple_parameter(x, y):
    def norm(t):
        return sqrt(sum([v * v for v in t])) + max(t) - min(t)

    return norm((x, y)) + norm((x, y, x * y))


def star_of_parameter(x, y):
    def f(a, b, c):
        return a * b - c

    def g(t):
        u = (*t, 2.0)
        return f(*t) * sum(u) + (y if any(v > 2 for v in u) else x)

    return g((x, y, x * y))


def fold_of_parameter(x, y):
    def fold(t, start):
        return functools.reduce(lambda a, b: a * x + b, t, start)

    return fold((x, y), 0.5) + functools.reduce(max, tuple(map(math.sin, (x, y))))


def integer_mathematics(x, y):
    n = math.gcd(12, 18) + math.factorial(4) + math.comb(5, 2) + math.lcm(4, 6)
    q, r = divmod(17, 5)
    return x * n + y * q + r + (x if math.isclose(x, x + 1e-12) and not math.isnan(y) else 0.0)


PROGRAMS = [f for n, f in list(globals().items()) if not n.startswith("_") and hasattr(f, "__code__")
            and f.__code__.co_varnames[:2] == ("x", "y") and f.__module__ == __name__]  # fmt: skip
