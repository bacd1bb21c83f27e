"""More small programs of floats: arguments, closures, recursion, loops with every way out."""
# ruff: noqa: B007, B905

from __future__ import annotations

import math
from functools import partial
from math import cos, exp, pi, sin

RATE = 0.25
WEIGHTS = (0.5, -1.5, 2.0)
TABLE = [[1.0, 2.0], [3.0, 4.0]]


def global_constants(x, y):
    return x * RATE + y * pi + WEIGHTS[1] * x * y


def global_tuple_loop(x, y):
    s = 0.0
    for w in WEIGHTS:
        s = s * x + w * y
    return s


def global_nested_list(x, y):
    s = 0.0
    for i in range(2):
        for j in range(2):
            s += TABLE[i][j] * x**i * y**j
    return s


def star_args(x, y):
    def total(first, *rest):
        s = first
        for r in rest:
            s = s * r + first
        return s

    return total(x, y, 2.0, x * y)


def star_call(x, y):
    def f(a, b, c):
        return a * b - c

    values = (y, x + y)
    return f(x, *values) * f(*values, 1.0)


def keyword_only(x, y):
    def f(a, *, scale=2.0, shift):
        return a * scale + shift

    return f(x, shift=y) * f(y, scale=x, shift=1.0)


def keywords_out_of_order(x, y):
    def f(a, b, c=1.0, d=2.0):
        return a - b * c + d * a

    return f(b=x, a=y) + f(d=x, b=1.0, a=x, c=y)


def default_from_outer(x, y):
    z = x * y

    def f(a, b=z):
        return a * b

    z = 0.0
    return f(x) + f(y, x) + z


def lambdas_in_loop(x, y):
    s = 0.0
    for i in range(1, 4):
        s += (lambda a: (lambda b: a * b + i)(y))(x * i)
    return s


def lambda_default_in_loop(x, y):
    fs = ()
    for i in range(3):
        fs = (*fs, lambda v, i=i: v**i * x)
    return fs[0](y) + fs[1](y) + fs[2](y)


def partial_chain(x, y):
    def f(a, b, c, d):
        return a * b + c * d - a * d

    g = partial(f, x)
    h = partial(g, y)
    k = partial(h, x * y)
    return k(2.0) + h(1.0, y)


def partial_mixed(x, y):
    def f(a, b, c=1.0, *, d=0.5):
        return a * b + c * d

    g = partial(partial(f, d=y), c=x)
    return g(x, y) + partial(g, x, d=2.0)(3.0)


def partial_in_loop(x, y):
    f = lambda a, b: a * b + y  # noqa: E731
    s = x
    for i in range(3):
        g = partial(f, s)
        s = g(0.5 * i + x)
    return s


def partial_of_builtin(x, y):
    power = partial(math.pow, x)
    return power(3.0) + partial(max, y)(x)


def mutual_closures(x, y):
    def ping(n, v):
        if n <= 0:
            return v * x
        return pong(n - 1, v + y)

    def pong(n, v):
        if n <= 0:
            return v * y
        return ping(n - 2, v * x) + 1.0

    return ping(7, 0.3)


def three_way_recursion(x, y):
    def a(n, v):
        return v if n == 0 else b(n - 1, sin(v) * x)

    def b(n, v):
        return v * 2 if n == 0 else c(n - 1, v + y)

    def c(n, v):
        return v * 3 if n == 0 else a(n - 1, v * v)

    return a(5, x)


def ackermann_like(x, y):
    def go(m, n, v):
        if m == 0:
            return v + n * x
        if n == 0:
            return go(m - 1, 1, v * y)
        return go(m - 1, 2, go(m, n - 1, v * 0.5))

    return go(2, 2, x)


def functions_in_tuple_by_index(x, y):
    fs = (sin, cos, exp)
    s = x
    for i in range(5):
        s = fs[i % 3](s * 0.5) + y
    return s


def pairs_of_functions(x, y):
    s = 0.0
    for f, w in ((math.sin, 0.3), (lambda v: v * v * y, 0.6), (math.tanh, y)):
        s += w * f(x)
    return s


def enumerate_start(x, y):
    s = 0.0
    for i, v in enumerate((x, y, x * y), start=2):
        s += v**i
    return s


def enumerate_zip(x, y):
    s = 0.0
    for i, (a, b) in enumerate(zip((x, y), (y, 3.0))):
        s += (i + 1) * a * b
    return s


def zip_three(x, y):
    return sum(a * b * c for a, b, c in zip((x, y), (1.0, x), (y, y)))


def range_of_variable(x, y):
    def f(n):
        s = 0.0
        for i in range(n, 0, -2):
            s += x * i
        return s

    return f(7) * y + f(2) + f(0)


def range_empty(x, y):
    s = x
    for i in range(3, 3):
        s = s * i
    for i in range(5, 2):
        s = s + i
    return s * y


def range_len(x, y):
    values = (x, y, x + y)
    s = 1.0
    for i in range(len(values)):
        s *= values[i] + i
    return s


def reversed_tuple(x, y):
    s = 0.0
    for v in reversed((x, y, 2.0)):
        s = s * y + v
    return s


def reversed_range(x, y):
    s = 0.0
    for i in reversed(range(4)):
        s = s * x + y * i
    return s


def chained_many(x, y):
    return x * y if 0 < y <= x < 2 != y else x - y


def comparison_count(x, y):
    return (x > y) + (x > 1) * 2.0 + x * (y < 1)


def short_circuit_guard(x, y):
    s = 0.0
    for i in range(-2, 3):
        if i != 0 and x / i > 0.5 or y < 0:
            s += x / (i + 5)
    return s * y


def or_value(x, y):
    a = 0.0
    return (a or x) * (y and x * y)


def not_logic(x, y):
    return x * 2 if not (x > 1 and not y > 1) else y * y * x


def augmented(x, y):
    s = x
    s += y
    s *= x
    s -= 0.5
    s /= y
    s **= 2
    s %= 7.0
    return s


def augmented_floor(x, y):
    s = x * 10
    s //= 3
    return s * x + y


def nested_break(x, y):
    s = 0.0
    for i in range(5):
        for j in range(5):
            if j > i:
                break
            s += x * i - y * j
        if s > 8:
            break
    return s * s


def nested_continue(x, y):
    s = 1.0
    for i in range(4):
        if i == 1:
            continue
        j = 0
        while j < 4:
            j += 1
            if j % 2:
                continue
            s += x * j * i + y
    return s


def for_else(x, y):
    s = x
    for i in range(4):
        s = s + y
        if s > 100:
            break
    else:
        s = s * x
    return s


def for_else_broken(x, y):
    s = x
    for i in range(10):
        s = s + y * i
        if s > 3:
            break
    else:
        s = -1.0
    return s * y


def while_else(x, y):
    s = x
    n = 0
    while n < 3:
        s *= y
        n += 1
        if s > 100:
            return s
    else:
        s += x
    return s


def search_else(x, y):
    found = 0.0
    for a in (0.1, 0.9, 1.2, 1.5):
        for b in (1.0, 1.1):
            if a * b > x:
                found = a * b * y
                break
        else:
            continue
        break
    return found + x * y


PROGRAMS = [f for n, f in list(globals().items()) if not n.startswith("_") and hasattr(f, "__code__")
            and f.__code__.co_varnames[:2] == ("x", "y") and f.__module__ == __name__]  # fmt: skip
