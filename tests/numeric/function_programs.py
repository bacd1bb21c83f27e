"""Small programs of floats: closures, higher-order functions, loops, recursion."""

from __future__ import annotations

import math
from functools import partial, reduce

import glow_compiler as glow


def ratio(x, y):
    return x / y


def seed_test_f(x, y):
    a = x - 1
    b = a + y
    c = b * ratio(a, b)
    return c


def seed_hof(x, y):
    def f(x):
        return x + 3

    def g(function, x):
        return function(x) * function(x)

    return g(f, x) + y


def fibonacci(n):
    if n < 1:
        return 0
    elif n == 1:
        return 1
    else:
        return fibonacci(n - 1) + fibonacci(n - 2)


def outer(a, b):
    def inner(c):
        return a + b + c

    return inner


def seed_closure(x, y):
    closure = outer(x, y)
    return closure(1.0) * closure(2.0)


def one_captured(x, y):
    def f(z):
        return z * x

    return f(y)


def several_captured(x, y):
    z = x * y
    f = lambda a: a * x + y * z  # noqa: E731
    return f(x) * f(y)


def three_deep(x, y):
    q0 = x + y

    def a(p):
        def b(q):
            def c(r):
                return p * q * r + x

            return c(y) * p

        return b(x) + q0

    return a(y)


def two_over_one(x, y):
    z = math.sin(x)
    f = lambda a: a * z  # noqa: E731
    g = lambda a: a + z  # noqa: E731
    return f(g(y)) * g(f(y))


def choice_of_closures(x, y):
    def make(k):
        f = lambda v: v * k  # noqa: E731
        g = lambda v: v + k * y  # noqa: E731
        return f if k > 1 else g

    return make(x)(y) + make(x + 5)(y)


def kestrel(x, y):
    return (lambda b: lambda c: b)(x)(y) * y


def returned_and_called_later(x, y):
    adders = (outer(x, 1.0), outer(y, 2.0))
    return adders[0](y) * adders[1](x)


def loop_made_closures(x, y):
    total = 0.0
    for i in range(4):
        f = lambda a: a * x + i  # noqa: E731, B023
        total = total + f(y)
    return total


def composed(x, y):
    def compose(f, g):
        return lambda v: f(g(v))

    return compose(lambda v: v * y, math.sin)(x)


def church(x, y):
    two = lambda f: lambda v: f(f(v))  # noqa: E731
    return two(two)(lambda v: v * y + 0.1)(x)


def folded(x, y):
    return reduce(lambda a, b: a * b + x, (x, y, 2.0, x * y))


def fold_by_index(x, y):
    def fold(f, items, i, a):
        return a if i == len(items) else fold(f, items, i + 1, f(a, items[i]))

    return fold(lambda a, b: a * y + b, (x, y, x * y), 0, 1.0)


def functions_in_tuple(x, y):
    fs = (math.sin, math.cos, lambda v: v * y)
    s = x
    for f in fs:
        s = f(s) + y
    return s


def mapped(x, y):
    a, b, c = map(lambda v: v * v * x, (x, y, 3.0))
    return a * b + c


def applied_twice(x, y):
    def twice(f, v):
        return f(f(v))

    return twice(lambda v: v * y + x, x)


def partial_once(x, y):
    return partial(ratio, x)(y)


def partial_of_partial(x, y):
    def f(a, b, c):
        return a * b + c * c * a

    return partial(partial(f, x), y)(x + y)


def partial_keyword(x, y):
    def f(a, b, c=2.0):
        return a * b + c * x

    return partial(f, b=y)(x) + partial(f, x, c=y)(y)


def switch_of_partials(x, y):
    f = partial(ratio, x) if x > y else partial(lambda a, b: a * b * y, y)
    return f(y + 1)


def defaults(x, y):
    def f(a, b=2.0, *, c=3.0):
        return a * b + c * y

    return f(x) + f(x, y) + f(x, c=x)


def maximum(x, y):
    return x * 2 if x > y else y * 3


def nested_if(x, y):
    if x > 1:
        if y > 1:
            r = x * y
        else:
            r = x - y * y
    elif y > 2:
        r = y
    else:
        r = x * x
    return r * r


def rebound(x, y):
    z = x
    if y > 0:
        z = z * y
    return z * z


def early_return(x, y):
    if x > 100:
        return x
    z = x * y
    if z < 0:
        return -z
    return z * z


def short_circuit(x, y):
    return x * y if (x > 0 and y > 0) or x < -5 else x + y


def chained(x, y):
    return x * x if 0 < x < 1 < y else y * x


def while_squares(x, y):
    r = x + 1
    while r < 100:
        r = r * r
    return r * y


def while_condition_only(x, y):
    n = x
    s = y
    while n < 5:
        n = n + 1
        s = s * 1.5
    return s


def while_nested(x, y):
    i = 0
    s = 1.0
    while i < 3:
        j = 0
        while j < 2:
            s = s * x + y
            j += 1
        i += 1
    return s


def recurrence(x, y):
    a, b = x, y
    for _i in range(5):
        a, b = b, a * 0.5 + b * x
    return a * b


def over_tuple(x, y):
    s = 1.0
    for v in (x, y, x * y):
        s = s * v + x
    return s


def stepped(x, y):
    s = 0.0
    for i in range(10, 0, -3):
        s = s + i * x * y
    return s


def with_break(x, y):
    s = x
    for i in range(20):
        if s > 10:
            break
        s = s * 1.5 + y * i
    return s


def with_continue(x, y):
    s = 0.0
    for i in range(6):
        if i % 2 == 0:
            continue
        s = s * y + x * i
    return s


def forever(x, y):
    s = x
    while True:
        s = s + y
        if s > 7:
            break
    return s * s


def return_in_loop(x, y):
    s = x
    for i in range(50):
        if s > 5:
            return s * y
        s = s * s + i
    return s


def return_in_nested_loop(x, y):
    s = 0.0
    for i in range(4):
        for j in range(4):
            s = s + x * i + y * j
            if s > 6:
                return s * s
    return s


def break_and_continue(x, y):
    s = 0.0
    for i in range(9):
        if i == 3:
            continue
        if s > 10:
            return s * 2 * y
        s += x * i * s + y
        s = s * math.sin(x)
    return s


def enumerated(x, y):
    s = 0.0
    for i, v in enumerate((x, y, x + y)):
        s = s + i * v * v
    return s


def zipped(x, y):
    s = 0.0
    for a, b in zip((x, y), (y, 2.0), strict=False):
        s += a * b
    return s


def for_in_while(x, y):
    i = 0
    s = x
    while i < 3:
        for j in range(2):
            if s > 4:
                s = s - y * j
            else:
                s = s * y
        i += 1
    return s


def factorial(x, y):
    def fact(n):
        return 1.0 if n < 1 else n * fact(n - 1)

    return fact(x + 2) * y


def recursion_with_capture(x, y):
    def power(n):
        if n == 0:
            return y
        return x * power(n - 1)

    return power(4)


def tree(x, y):
    def go(n, v):
        if n == 0:
            return math.sin(v)
        return go(n - 1, v * x) + go(n - 1, v + y)

    return go(4, x)


def mutual(x, y):
    def even(n, s):
        return s if n == 0 else odd(n - 1, s * x)

    def odd(n, s):
        return s * y if n == 0 else even(n - 1, s + y)

    return even(7, 1.0)


def composed_by_recursion(x, y):
    def repeat(n):
        if n == 0:
            return lambda v: v
        inner = repeat(n - 1)
        return lambda v: inner(v) * x + y

    return repeat(3)(y)


def wrapped_in_loop(x, y):
    f = lambda v: v  # noqa: E731
    for _i in range(3):
        f = (lambda g: lambda v: g(v) * x + y)(f)
    return f(x)


def newton(x, y):
    guess = 1.0
    for _i in range(8):
        guess = (guess + x / guess) / 2
    return guess * y


def grad_inside(x, y):
    def f(v):
        return v * v * y

    return glow.grad(f)(x) * x


def confusion(x, y):
    return x * glow.grad(lambda v: x * v * v + y)(2.0)


def grad_of_grad_inside(x, y):
    return glow.grad(glow.grad(lambda v: v * v * v * y))(x)


def grad_of_loop_inside(x, y):
    def f(v):
        s = v
        for _i in range(3):
            s = s * v + y
        return s

    return glow.grad(f)(x)


def value_and_grad_inside(x, y):
    v, (a, b) = glow.value_and_grad(ratio, argnums=(0, 1))(x, y)
    return v * a + b


def running_product(x, y):
    p = 1.0
    s = 0.0
    for v in (x, y, x, 2.0):
        p = p * v
        s = s + p
    return s


def swapped(x, y):
    x, y = y, x
    t = (x, y)
    (a, b) = t
    return a * a + b


def shadowed(x, y):
    def f(x):
        x = x * 2
        return x * y

    return f(x) + x


def duplicates(x, y):
    def g(a, b, c, unused):
        return a * b * c

    return g(x, x, x, y)


def all_functions(x, y):
    z = math.exp(x * 0.1) + math.log(y + 3) + math.sqrt(x * x + 1) + math.tan(x * 0.1)
    z = z + math.sinh(x * 0.1) * math.cosh(y) + math.tanh(x) + math.atan(y) + math.log1p(x * x)
    return z + abs(x - y) + max(x, y) * min(x, 2.0) + x**3 + 2.0**y + x % 0.7 + math.atan2(x, y)


PROGRAMS = [
    seed_test_f, seed_hof, seed_closure, one_captured, several_captured, three_deep, two_over_one,
    choice_of_closures, kestrel, returned_and_called_later, loop_made_closures, composed, church, folded,
    fold_by_index, functions_in_tuple, mapped, applied_twice, partial_once, partial_of_partial,
    partial_keyword, switch_of_partials, defaults, maximum, nested_if, rebound, early_return, short_circuit,
    chained, while_squares, while_condition_only, while_nested, recurrence, over_tuple, stepped, with_break,
    with_continue, forever, return_in_loop, return_in_nested_loop, break_and_continue, enumerated, zipped,
    for_in_while, factorial, recursion_with_capture, tree, mutual, composed_by_recursion, wrapped_in_loop,
    newton, grad_inside, confusion, grad_of_grad_inside, grad_of_loop_inside, value_and_grad_inside,
    running_product, swapped, shadowed, duplicates, all_functions,
]  # fmt: skip
