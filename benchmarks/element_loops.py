"""Loops over elements: microseconds at n, 4 n and 16 n, beside CPython, and Numba where it is installed.

    python -m benchmarks.element_loops            # a table
    python -m benchmarks.element_loops --json     # a line of JSON for each measurement

Values and gradients take time with the number of steps. Each figure is the best of several; the ways take
turns.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

ROUNDS, LEAST = 7, 2e-3


def prefix(x):
    """Each element with half of the one before."""
    y = x.copy()
    for i in range(1, len(y)):
        y[i] = y[i] + 0.5 * y[i - 1]
    return y


def scaled(x):
    """A result element by element."""
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i] * 2.0 + 1.0
    return y


def squares(x):
    """A sum of squares."""
    s = 0.0
    for i in range(len(x)):
        s += x[i] * x[i]
    return s


def branches(x):
    """Two arrays that are written in branches."""
    up, down = x.copy(), np.zeros(len(x))
    for i in range(1, len(x)):
        if x[i] > 0.0:
            up[i] += 0.25 * down[i - 1]
        else:
            down[i] = up[i - 1] - x[i]
    return up + down


def sieve(x):
    """Primes."""
    n = len(x)
    prime = np.ones(n)
    for i in range(2, n):
        if prime[i] > 0.5:
            k = i * i
            while k < n:
                prime[k] = 0.0
                k += i
    return prime


def warped(x):
    """Dynamic time warping of a sequence and itself turned round: as many steps as the square of n."""
    n = len(x)
    d = np.zeros((n + 1, n + 1))
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            least = d[i - 1, j - 1]
            if d[i - 1, j] < least:
                least = d[i - 1, j]
            if d[i, j - 1] < least:
                least = d[i, j - 1]
            d[i, j] = least + (x[i - 1] - x[n - j]) * (x[i - 1] - x[n - j])
    return d[n, n]


def triangular(x):
    """A triangular system, whose inner loop reads what the outer one writes."""
    n = len(x)
    y = np.zeros(n)
    for i in range(n):
        s = x[i]
        for j in range(i):
            s -= 0.001 * x[i - j] * y[j]
        y[i] = s
    return y


#: Programs by the first of their sizes.
PROGRAMS = {
    prefix: 2000,
    scaled: 2000,
    squares: 2000,
    branches: 2000,
    sieve: 2000,
    warped: 25,
    triangular: 50,
}
Way = Callable[[Any], Any]


def ways(f: Way) -> dict[str, Way]:
    """The ways to run a program."""
    import glow_compiler as glow

    total = squares if f is squares else warped if f is warped else lambda x: np.sum(f(x))
    found = {"glow": glow.jit(f), "gradient": glow.value_and_grad(total), "CPython": f}
    if find_spec("numba") is not None:
        import numba  # pyright: ignore[reportMissingImports]

        found["Numba"] = numba.njit(f)
    return found


def seconds(run: Way, x: Any) -> float:
    """The time of a call, of some that take LEAST together."""
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < LEAST:
        run(x)
        count += 1
    return (time.perf_counter() - start) / count


def measure(f: Way, n: int) -> dict[str, float]:
    """Microseconds of each way for arrays of n numbers."""
    x = np.random.default_rng(n).normal(size=n)
    best: dict[str, float] = {}
    runs = ways(f)
    for name, run in runs.items():
        np.testing.assert_allclose(np.sum(run(x)[0] if name == "gradient" else run(x)), np.sum(f(x)))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            best[name] = min(best.get(name, 1e9), seconds(run, x) * 1e6)
    return best


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each measurement")
    as_json = parser.parse_args().json
    for f, first in PROGRAMS.items():
        grows = (1, 2, 4) if f in (warped, triangular) else (1, 4, 16)
        for n in (first * k for k in grows):
            figures = measure(f, n)
            if as_json:
                print(json.dumps({"program": f.__name__, "n": n, **figures}))
            else:
                text = ", ".join(f"{name} {value:,.1f}" for name, value in figures.items())
                print(f"{f.__name__:>12} {n:>6}: {text}", flush=True)


if __name__ == "__main__":
    main()
