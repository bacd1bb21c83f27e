"""Random programs of statements on arrays: stores, slices, masks, exchanged names, loops, branches, calls."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

#: Elements of a vector.
SIZE = 6
KINDS = ("float64", "float64", "float64", "float32", "int64", "int32", "bool")
HEAD = f"""import numpy as np


def put(u, i, v):
    u = u.copy()
    u[i] = v
    return u


def fill(u, w, v):
    u = u.copy()
    for q in range({SIZE}):
        if q % 2 == 0:
            u[q] = v
        else:
            u[q] = w[q]
    return u


"""


class Program:
    """A program for a seed: `f(a, b, m, s, k)` of two vectors, a matrix, a float and an int."""

    def __init__(self, seed: int, kind: str = "", scalar: bool = False) -> None:
        self.random = Random(seed)
        self.kind = kind or self.random.choice(KINDS)
        self.floats, self.ints = self.kind.startswith("f"), self.kind.startswith("i")
        #: Whether it changes copies; else its arguments.
        self.own = scalar or self.random.random() < 0.75
        self.arrays, self.matrix = (["x", "v"], "n") if self.own else (["a", "b"], "m")
        self.read = ["a", "b"] if self.own else []
        self.lines: list[str] = []
        self.depth = self.made = 0
        self.counters: list[str] = []
        if self.own:
            self.line("x, n = a.copy(), m.copy()")
            self.line(f"v = {self.vector(['b', 'x'])}")
        for _ in range(self.random.randrange(3, 8)):
            self.statement()
        names = [self.one([*self.arrays, self.matrix]) for _ in range(self.random.randrange(1, 4))]
        sums = " + ".join(f"np.sum({n} * {n})" for n in names)
        self.line(f"return {sums} + s" if scalar else f"return {', '.join(names)}, s")
        self.text = HEAD + "def f(a, b, m, s, k):\n" + "\n".join(self.lines) + "\n"

    def one(self, choices: list[str]) -> str:
        """One of some texts."""
        return self.random.choice(choices)

    def line(self, text: str) -> None:
        """Append a line."""
        self.lines.append("    " * (self.depth + 1) + text)

    # --- expressions ------------------------------------------------------------------------------
    def index(self) -> str:
        """A subscript, perhaps from the end."""
        choices = [str(self.random.randrange(-SIZE, SIZE)), f"(k + {self.random.randrange(3)}) % {SIZE}"]
        choices += self.counters * 3
        if self.counters:
            i = self.one(self.counters)
            choices += [f"{i} - {self.random.randrange(4)}", f"({i} * 2) % {SIZE}"]
        return self.one(choices)

    def element(self) -> str:
        """An element of an array."""
        if self.random.random() < 0.35:
            return f"{self.matrix}[{self.index()}, {self.index()}]"
        return f"{self.one(self.arrays + self.read)}[{self.index()}]"

    def number(self, depth: int = 0) -> str:
        """A number of the arrays' type."""
        inner: Callable[[], str] = lambda: self.number(depth + 1)  # noqa: E731
        if self.kind == "bool":
            return self.one([self.element(), "True", "False", f"not {self.element()}"])
        if depth > 2 or self.random.random() < 0.4:
            return self.element()
        if self.ints:
            return self.one([str(self.random.randrange(-3, 4)), f"({inner()} + {inner()}) % 7"])
        constant = self.one(["0.5", "-1.25", "2.0", "s"])
        return self.one([constant, f"(0.5 * {inner()} - 0.25 * {inner()})", f"({inner()} + {inner()}) * 0.5"])

    def condition(self) -> str:
        """A condition on elements."""
        if self.kind == "bool":
            return self.element()
        return f"{self.number(2)} {self.one(['<', '>', '<='])} {self.number(2)}"

    def vector(self, names: list[str]) -> str:
        """A new vector."""
        name, other = self.one(names), self.one(names)
        choices = [f"{name}.copy()", f"{self.matrix}[{self.index()}].copy()"]
        if self.kind == "bool":
            return self.one([*choices, f"~{name}", f"np.zeros({SIZE}, np.bool_)"])
        total = f"{name} + {other}" if self.floats else f"({name} + {other}) % 5"
        zeros = f"np.zeros({SIZE}, np.{self.kind})"
        return self.one([*choices, total, zeros, f"np.where({name} > 0, {name}, {other})"])

    # --- statements -------------------------------------------------------------------------------
    def store(self) -> None:
        """A change in place."""
        a, n, i, j = self.one(self.arrays), self.matrix, self.index(), self.index()
        step = self.one(["=", "=", "+=", "-="]) if self.floats else "="
        mask = f"{a} > {self.one(self.arrays)}" if self.kind != "bool" else a
        choices = [
            *[f"{a}[{i}] {step} {self.number()}"] * 6,
            *[f"{n}[{i}, {j}] {step} {self.number()}"] * 4,
            f"{n}[{i}] = {a}",
            f"{n}[:, {i}] = {a}",
            f"{n}[{i}] = {n}[{j}]",
            f"{n}[{i}, 1:] = {self.number()}",
            f"{a}[1:] = {a}[:-1].copy()",
            f"{a}[{self.one(['::2', '1::2', '::-2', '2:5', '-3:'])}] = {self.number()}",
            f"{a}[{mask}] = {self.number()}",
            f"{a}[np.array([0, 2, -1])] = {self.number()}",
        ]
        if self.own:
            choices.append(f"{a} = put({a}, {i}, {self.number()})")
            choices.append(f"{a} = fill({a}, {self.one(self.arrays)}, {self.number()})")
        self.line(self.one(choices))

    def assignment(self) -> None:
        """Another value of a name; names of arguments that change keep theirs."""
        if not self.own:
            self.line(f"s = s * 0.5 + float({self.number()})" if self.floats else "s = s + 1.0")
            return
        name, other = self.one([*self.arrays, "y"]), self.one(self.arrays)
        text = self.one(
            [
                f"{name} = {self.vector(self.arrays)}",
                f"{name} = {self.vector(self.arrays)}",
                f"{other}, {self.arrays[0]} = {self.arrays[0]}, {other}",
                f"{name} = {other}.copy()",
                f"pair = ({other}, s)\n{'    ' * (self.depth + 1)}{other} = pair[0]",
                f"{self.matrix} = {self.matrix}.copy()",
                f"s = float({self.number()})",
            ]
        )
        self.line(text)
        if text.startswith("y =") and not self.depth and "y" not in self.arrays:
            self.arrays.append("y")

    def statement(self) -> None:
        """One statement, with the blocks in it."""
        self.made += 1
        kind = self.random.random() if self.made < 22 else 0.0
        if kind < 0.45 or self.depth >= 3:
            self.store()
        elif kind < 0.65:
            self.assignment()
        elif kind < 0.75:
            self.line(f"if {self.condition()}:")
            self.block()
            if self.random.random() < 0.5:
                self.line("else:")
                self.block()
        elif kind < 0.93:
            self.loop()
        else:
            counter = f"c{self.made}"
            self.line(f"{counter} = 0")
            self.line(f"while {counter} < {self.random.randrange(2, 7)}:")
            self.lines.append("    " * (self.depth + 2) + f"{counter} += 1")
            self.block(leaves=True)

    def loop(self) -> None:
        """A loop that counts."""
        counter = "ijl"[len(self.counters)]
        n = SIZE
        ranges = [f"{n}", f"1, {n}", "k", f"{n} - 1, -1, -1", "len(a)", f"0, {n}, 2"]
        self.line(f"for {counter} in range({self.one(ranges)}):")
        self.counters.append(counter)
        self.block(leaves=True)
        self.counters.pop()

    def block(self, leaves: bool = False) -> None:
        """Some statements; `leaves`: in a loop, which they may leave."""
        self.depth += 1
        for _ in range(self.random.randrange(1, 4)):
            self.statement()
        if leaves and self.random.random() < 0.2:
            self.line(f"if {self.condition()}:")
            self.line(f"    {self.one(['break', 'continue'])}")
            self.store()
        self.depth -= 1

    def arguments(self, seed: int) -> list[Any]:
        """Arguments of the program."""
        rng = np.random.default_rng(seed)

        def array(*shape: int) -> Any:
            if self.floats:
                return rng.normal(size=shape).astype(self.kind)
            return rng.integers(-3, 4, shape).astype(self.kind)

        return [array(SIZE), array(SIZE), array(SIZE, SIZE), 0.75, int(rng.integers(0, SIZE))]
