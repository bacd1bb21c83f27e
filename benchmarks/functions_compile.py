"""What compiling Python functions costs: processor time and sizes of programs, for derivatives of orders 0-3.

    python -m benchmarks.functions_compile                # the programs of arrays, and the tests' programs
    python -m benchmarks.functions_compile arrays         # one of the two
    python -m benchmarks.functions_compile --json         # a line of JSON for each program
    python -m benchmarks.functions_compile --cold lstm    # a new process for each order of one program

Each program is new, in a process that has compiled something else before; nothing is taken from a cache of
machine code. Seconds are processor time of the first call, all threads together. Operations are those of all
functions of `glow_fn` that the program came to consist of.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import glow_compiler as glow

TESTS = Path(__file__).parents[1] / "tests" / "numeric"
MODULES = ("function_programs", "function_programs_control", "function_programs_numbers")
Program = Callable[..., Any]
Maker = Callable[[Program, int], Any]


def rnn(w, u, xs):
    """A recurrent network over the rows of xs."""
    h = np.zeros(w.shape[0], np.float32)
    for x in xs:
        h = np.tanh(w @ h + u @ x)
    return np.sum(h * h)


def lstm(w, u, xs):
    """An LSTM without bias."""
    h = np.zeros(8, np.float32)
    c = h
    for x in xs:
        gates = x @ w + h @ u
        i = glow.ops.sigmoid(gates[:8])
        f = glow.ops.sigmoid(gates[8:16])
        o = glow.ops.sigmoid(gates[24:])
        c = f * c + i * np.tanh(gates[16:24])
        h = o * np.tanh(c)
    return np.sum(h * h)


def gru(w, u, xs):
    """A GRU with one matrix a gate."""
    h = np.zeros(u.shape[1], np.float32)
    for x in xs:
        z = 1.0 / (1.0 + np.exp(-(x @ w[0] + h @ u[0])))
        r = 1.0 / (1.0 + np.exp(-(x @ w[1] + h @ u[1])))
        h = (1.0 - z) * h + z * np.tanh(x @ w[2] + (r * h) @ u[2])
    return np.sum(h * h)


def attention(w, u, xs):
    """Each row looks at all rows, some layers of it in a loop."""
    y = xs
    for _ in range(4):
        scores = (y @ w) @ y.T
        y = y + np.tanh(glow.ops.softmax(scores, axis=1) @ y @ u)
    return np.mean(y * y)


def nested(w, u, xs):
    """A loop in a loop."""
    s = xs[0]
    for a in xs:
        for b in xs:
            s = np.tanh(s * w[0] + a * b)
    return np.sum(s)


def until(w, u, xs):
    """As many turns as the values want, and a branch in each."""
    s, i = xs[0], 0
    while np.sum(s * s) > 0.01 and i < 30:
        s = np.tanh(w @ s) if np.max(s) > 0.2 else s * 0.5 + xs[i] * 0.01
        i += 1
    return np.sum(s * s)


def recursion(w, u, xs):
    """Not in tail position."""

    def step(n, s):
        return s if n == 0 else np.tanh(w @ step(n - 1, s * 0.9)) + xs[n]

    return np.sum(step(8, xs[0]) ** 2)


def cholesky(w, u, xs):
    """Element by element: the logarithm of the determinant of a positive matrix."""
    a = w @ w.T + np.eye(w.shape[0])
    rows = np.zeros(a.shape)
    for i in range(a.shape[0]):
        for j in range(i + 1):
            s = a[i, j]
            for k in range(j):
                s = s - rows[i, k] * rows[j, k]
            if i == j:
                rows[i, j] = np.sqrt(s)
            else:
                rows[i, j] = s / rows[j, j]
    total = 0.0
    for i in range(a.shape[0]):
        total = total + np.log(rows[i, i])
    return 2.0 * total


def elimination(w, u, xs):
    """Element by element: the determinant of a matrix."""
    a = w @ w.T + np.eye(w.shape[0])
    for k in range(a.shape[0]):
        for i in range(k + 1, a.shape[0]):
            factor = a[i, k] / a[k, k]
            for j in range(k, a.shape[0]):
                a[i, j] = a[i, j] - factor * a[k, j]
    determinant = 1.0
    for i in range(a.shape[0]):
        determinant = determinant * a[i, i]
    return determinant


def products(w, u, xs):
    """Element by element: a product of matrices, three loops deep."""
    out = np.zeros((w.shape[0], u.shape[1]))
    for i in range(w.shape[0]):
        for j in range(u.shape[1]):
            for k in range(u.shape[0]):
                out[i, j] += w[i, k] * u[k, j]
    return np.sum(out * out)


def tridiagonal(w, u, xs):
    """Element by element: a system of three diagonals, forwards and backwards."""
    n = xs.shape[0]
    above, right, x = np.zeros(n), np.zeros(n), np.zeros(n)
    above[0] = xs[0, 0] / 2.0
    right[0] = xs[0, 1] / 2.0
    for i in range(1, n):
        pivot = 2.0 - xs[i, 2] * above[i - 1]
        above[i] = xs[i, 0] / pivot
        right[i] = (xs[i, 1] - xs[i, 2] * right[i - 1]) / pivot
    x[n - 1] = right[n - 1]
    for i in range(n - 2, -1, -1):
        x[i] = right[i] - above[i] * x[i + 1]
    return np.sum(x * x) + np.sum(w)


SHAPES: dict[Program, tuple[tuple[int, ...], ...]] = {
    rnn: ((8, 8), (8, 4), (60, 4)),
    lstm: ((4, 32), (8, 32), (41, 4)),
    gru: ((3, 4, 8), (3, 8, 8), (25, 4)),
    attention: ((8, 8), (8, 8), (12, 8)),
    nested: ((4, 4), (4, 4), (40, 4)),
    until: ((4, 4), (4, 4), (40, 4)),
    recursion: ((4, 4), (4, 4), (40, 4)),
    cholesky: ((12, 12), (1,), (1,)),
    elimination: ((12, 12), (1,), (1,)),
    products: ((12, 12), (12, 12), (1,)),
    tridiagonal: ((4, 4), (1,), (12, 3)),
}


def _norm(slope: Program) -> Program:
    def norm(w, u, xs):
        return np.sum(slope(w, u, xs) ** 2)

    return norm


def of_arrays(program: Program, order: int) -> Any:
    """The program, its gradient by all arguments, the gradient of the norm of its gradient, and so on."""
    if order == 0:
        return glow.jit(program)
    for _ in range(order - 1):
        program = _norm(glow.grad(program))
    return glow.value_and_grad(program, argnums=(0, 1, 2) if order == 1 else 0)


def of_numbers(program: Program, order: int) -> Any:
    """The derivative of some order by the first argument."""
    made: Any = glow.jit(program)
    for _ in range(order):
        made = glow.grad(made)
    return made


def corpus(
    names: Sequence[str],
) -> Iterator[tuple[str, Program, Sequence[Any], Callable[[Program, int], Any]]]:
    """(name, program, arguments, what makes its derivatives)."""
    random = np.random.default_rng(0)
    if "arrays" in names:
        for program, shapes in SHAPES.items():
            arrays = [(random.normal(size=s) * 0.3).astype(np.float32) for s in shapes]
            yield program.__name__, program, arrays, of_arrays
    if "numbers" in names:
        sys.path.insert(0, str(TESTS))
        for module in MODULES:
            for program in importlib.import_module(module).PROGRAMS:
                yield program.__name__, program, (1.3, 0.7), of_numbers


def measure(made: Any, arguments: Sequence[Any]) -> dict[str, Any]:
    """Seconds of the first call, operations, and whether it is machine code."""
    from glow_backends.cpu import cache

    cache._recent.clear()
    gc.collect()  # what earlier programs left
    start = time.process_time()
    made(*arguments)
    seconds = time.process_time() - start
    report = made.report()
    native = all(i["runs on"] == "cpu" for i in report["instances"])
    return {"seconds": seconds, "operations": report["operations"], "native": native}


def cold(name: str, orders: Sequence[int]) -> None:
    """Processor time of a new process that imports the compiler and compiles one program."""
    for order in orders:
        code = (
            "import time; from benchmarks.functions_compile import *;"
            f"n, p, a, m = next(c for c in corpus(['arrays', 'numbers']) if c[0] == {name!r});"
            f"f = m(p, {order}); b = time.process_time(); f(*a);"
            "print(f'imports {b:.2f} s, first call {time.process_time() - b:.2f} s')"
        )
        environment = {**os.environ, "GLOW_CACHE_DIR": ""}
        found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        print(f"{name}, order {order}: {found.stdout.strip() or found.stderr[-400:]}")


def main() -> None:
    """Measure what was asked for and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kinds", nargs="*", help="arrays, numbers")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each program")
    parser.add_argument("--orders", default="0,1,2,3")
    parser.add_argument("--cold", metavar="PROGRAM", help="a new process for each order of one program")
    arguments = parser.parse_args()
    orders = [int(n) for n in arguments.orders.split(",")]
    if arguments.cold:
        cold(arguments.cold, orders)
        return
    os.environ["GLOW_CACHE_DIR"] = ""
    glow.value_and_grad(lambda x: np.sum(np.tanh(x @ x)))(np.ones((3, 3)))  # what only the first one pays
    rows: list[tuple[str, dict[int, dict[str, Any]]]] = []
    unknown = sorted(set(arguments.kinds) - {"arrays", "numbers"})
    if unknown:
        parser.error(f"no programs of {', '.join(unknown)}; there are: arrays, numbers")
    for name, program, given, make in corpus(arguments.kinds or ["arrays", "numbers"]):
        found = {order: measure(make(program, order), given) for order in orders}
        rows.append((name, found))
        if arguments.json:
            print(json.dumps({"program": name, "orders": found}), flush=True)
        elif program in SHAPES:
            print(
                f"| {name} | {_shown(found, 'operations', 'd')} | {_shown(found, 'seconds', '.2f')} |",
                flush=True,
            )
    if not arguments.json:
        _summary(rows, orders)


def _shown(found: dict[int, dict[str, Any]], what: str, form: str) -> str:
    return ", ".join(f"{f[what]:{form}}{'' if f['native'] else '*'}" for f in found.values())


def _summary(rows: list[tuple[str, dict[int, dict[str, Any]]]], orders: Sequence[int]) -> None:
    """Over all programs of numbers: medians, largest, and the growth from order to order."""
    rows = [(n, f) for n, f in rows if n not in {p.__name__ for p in SHAPES}]
    if not rows:
        return
    print(f"{len(rows)} programs of numbers")
    for order in orders:
        sizes = [f[order]["operations"] for _, f in rows]
        seconds = [f[order]["seconds"] for _, f in rows]
        worst = max(rows, key=lambda r: r[1][order]["seconds"])[0]
        line = f"order {order}: operations {statistics.median(sizes):.0f} (largest {max(sizes)}), "
        line += f"seconds {statistics.median(seconds):.2f} (largest {max(seconds):.2f}, {worst})"
        if order - 1 in orders:
            growth = [(f[order]["operations"] / f[order - 1]["operations"], n) for n, f in rows]
            line += f", growth {statistics.median(g for g, _ in growth):.1f} (largest {max(growth)[0]:.1f}, "
            line += f"{max(growth)[1]})"
        interpreted = [n for n, f in rows if not f[order]["native"]]
        print(line + (f", not native: {', '.join(interpreted)}" if interpreted else ""))


if __name__ == "__main__":
    main()
