"""Values that are computed again: the same numbers in no more memory, counted by themselves."""

from __future__ import annotations

import random

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import traits_def

import glow_compiler as glow
from glow_dialects.core.types import Array, bytes_of
from glow_dialects.dialects import context
from glow_dialects.ops.module import FuncOp, GetOp, functions
from glow_dialects.ops.unary_math import NegOp
from glow_dialects.parse import parse_module
from glow_passes.autodiff.rematerialize import BUDGET, RematerializePass, cheap, rematerialize

FORMULAS = {
    "neg": np.negative,
    "abs": np.abs,
    "add": np.add,
    "mul": np.multiply,
    "sub": np.subtract,
    "matmul": np.matmul,
}
X = np.random.default_rng(0).integers(-2, 3, (4, 4)).astype(np.float32)
LINE = 4 * 16
"""Bytes of a value."""


def program(*lines: str, kind: str = "input") -> tuple[ModuleOp, FuncOp]:
    """Lines as `b = neg a` on the input `x` (or a weight), `y = ...` last; `save b` writes the weight."""
    square = "tensor<4x4xf32>"
    body: list[str] = []
    for line in lines:
        match line.split():
            case ["save", name]:
                body.append(f"glow.save %{name} to @x : {square}")
            case [name, "=", "view", of]:
                body.append(f"%{name}v = glow.reshape %{of} : ({square}) -> tensor<16xf32>")
                body.append(f"%{name} = glow.reshape %{name}v : (tensor<16xf32>) -> {square}")
            case [name, "=", word, *operands]:
                kinds = ", ".join(square for _ in operands)
                values = ", ".join(f"%{o}" for o in operands)
                body.append(f"%{name} = glow.{word} {values} : ({kinds}) -> {square}")
            case _:
                raise AssertionError(line)
    text = [f"glow.placeholder @x {kind} : {square}", f"glow.placeholder @y output : {square}"]
    text += [
        "glow.func @main {",
        f"%x = glow.get @x : {square}",
        *body,
        f"glow.save %y to @y : {square}",
        "}",
    ]
    module = parse_module("\n".join(text), "program", context())
    (function,) = functions(module)
    assert isinstance(function, FuncOp)
    return module, function


def expected(*lines: str) -> Array:
    """What `y` is, by NumPy."""
    held = {"x": X}
    for line in lines:
        match line.split():
            case [name, "=", "view", of]:
                held[name] = held[of]
            case [name, "=", word, *operands]:
                held[name] = FORMULAS[word](*(held[o] for o in operands))
            case _:
                pass
    return held["y"]


def peak(function: FuncOp) -> int:
    """The most bytes at once: what is computed lives to its last reader, a view holds what it is of."""
    ops = list(function.body.block.ops)

    def root(value: SSAValue) -> SSAValue:
        owner = value.owner
        return (
            root(owner.operands[0])
            if isinstance(owner, Operation) and owner.name == "glow.reshape"
            else value
        )

    live: dict[SSAValue, tuple[int, int]] = {}
    for number, op in enumerate(ops):
        if not isinstance(op, GetOp):
            live |= {r: (number, number) for r in op.results if root(r) is r}
        for value in map(root, op.operands):
            if value in live:
                live[value] = (live[value][0], number)
    totals = [sum(bytes_of(v.type) for v, (a, b) in live.items() if a <= n <= b) for n in range(len(ops))]
    return max(totals)


def check(lines: tuple[str, ...], budget: int) -> tuple[int, int, list[str]]:
    """The peaks that the pass tells, which are those that are counted, and the operators afterwards."""
    module, function = program(*lines)
    first = peak(function)
    before, after = rematerialize(function, budget)
    module.verify()
    assert (before, after) == (first, peak(function)) and after <= before
    got = glow.compile(module, backend="interpreter").run({"x": X})["y"]
    np.testing.assert_array_equal(got, expected(*lines))
    names = [op.name.removeprefix("glow.") for op in function.body.block.ops]
    return before, after, [n for n in names if n not in ("get", "save")]


LONG = ("a = neg x", "b = matmul x x", "c = matmul b b", "d = sub b c", "e = abs d", "y = mul a e")
WAITS = ("a = neg x", "b = matmul x x", "c = matmul b b", "y = add a c")


def test_what_waits_is_computed_again() -> None:
    """Behind the peak, from an input that is there all the time; nothing is where that does not help."""
    assert check(WAITS, 2 * LINE) == (3 * LINE, 3 * LINE, ["neg", "matmul", "matmul", "add"])
    before, after, names = check(LONG, 1)
    assert (before, after) == (4 * LINE, 3 * LINE)
    assert names == ["neg", "matmul", "matmul", "sub", "abs", "neg", "mul"]


def test_nothing_is_done_within_the_budget() -> None:
    """A byte less, and there is something to do."""
    assert check(LONG, 4 * LINE)[2].count("neg") == 1
    assert check(LONG, 4 * LINE - 1)[2].count("neg") == 2


def test_costly_values_wait() -> None:
    """Products are not repeated, nor what would need them after they have ended."""
    lines = ("a = matmul x x", "b = neg x", "c = matmul b b", "d = sub b c", "y = mul a d")
    assert check(lines, 1)[2].count("matmul") == 2
    # `s` could be computed again from `m`, which has ended by then.
    lines = ("m = matmul x x", "s = neg m", "b = matmul x x", "c = matmul b b", "d = sub b c", "y = mul s d")
    assert check(lines, 1)[2].count("neg") == 1
    # Where `m` is read later, it is there.
    lines = (*lines[:-1], "e = mul s d", "y = mul m e")
    assert check(lines, 1)[2].count("neg") == 2


def test_what_is_there_is_not_repeated() -> None:
    """What the peak reads itself, and what the later reader has anyway; one read before the peak may wait."""
    lines = ("a = neg x", "b = neg a", "c = add a x", "d = matmul c a", "y = matmul b a")
    assert check(lines, 1) == (4 * LINE, 3 * LINE, ["neg", "neg", "add", "matmul", "neg", "matmul"])
    lines = ("a = neg x", "b = matmul a a", "c = matmul x b", "y = abs a")
    assert check(lines, 1) == (3 * LINE, 2 * LINE, ["neg", "matmul", "matmul", "neg", "abs"])


def test_what_a_reader_has_is_taken_from_there() -> None:
    """A product that the same operator reads need not be cheap."""
    lines = ("m = matmul x x", "s = neg m", "b = matmul x x", "c = matmul b b", "d = sub b c")
    before, after, names = check((*lines, "t = mul s m", "y = add t d"), 1)
    assert (before, after) == (5 * LINE, 4 * LINE) and names.count("neg") == 2


def test_what_does_more_than_compute_is_not_repeated() -> None:
    """A user's operator without the trait of those that only compute."""

    class Told(NegOp):
        traits = traits_def()

    _, function = program("y = neg x")
    (neg,) = (op for op in function.body.block.ops if isinstance(op, NegOp))
    assert cheap(neg) and not cheap(Told(neg.operands[0]))


def test_views_are_taken_again() -> None:
    """Those of before the peak behind it; a view that waits holds what it is of, and nothing of its own."""
    assert check(("a = neg x", "y = view a"), 1) == (LINE, LINE, ["neg", "reshape", "reshape"])
    lines = ("a = neg x", "v = view a", "b = matmul x x", "c = matmul b b", "d = sub b c", "y = mul v d")
    before, after, names = check(lines, 1)
    assert (before, after) == (4 * LINE, 3 * LINE)
    assert names.count("neg") == 2 and names.count("reshape") == 4
    late = ("a = neg x", "b = matmul x x", "c = matmul b b", "d = sub b c", "v = view a", "y = mul v d")
    before, after, names = check(late, 1)
    assert (before, after) == (4 * LINE, 3 * LINE)
    assert names.count("neg") == 2 and names.count("reshape") == 2


@pytest.mark.parametrize(("length", "again"), [(1, True), (3, True), (6, True), (7, False)])
def test_chains(length: int, again: bool) -> None:
    """At most six operators for one value."""
    chain = ["a1 = neg x", *(f"a{n} = abs a{n - 1}" for n in range(2, length + 1))]
    tail = ["b = matmul x x", "c = matmul b b", "d = sub b c", f"y = mul a{length} d"]
    names = check((*chain, *tail), 1)[2]
    assert names.count("neg") + names.count("abs") == length * (1 + again)


@pytest.mark.parametrize(
    ("save", "value", "again"), [(2, "b", False), (4, "d", False), (5, "e", False), (6, "y", True)]
)
def test_weights_that_are_written_meanwhile(save: int, value: str, again: bool) -> None:
    """A value of a weight is computed again as long as the weight is what it was."""
    lines: list[str] = [*LONG]
    lines.insert(save, f"save {value}")
    module, function = program(*lines, kind="state")
    rematerialize(function, 1)
    module.verify()
    names = [op.name for op in function.body.block.ops]
    assert names.count("glow.neg") == 1 + again


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed: int) -> None:
    """Any order of cheap and costly operators: the numbers stay, memory does not grow."""
    draw = random.Random(seed)
    names, lines = ["x"], list[str]()
    for number in range(14):
        word = draw.choice(["neg", "abs", "add", "sub", "view", "matmul"])
        count = 2 if word in ("add", "sub", "matmul") else 1
        lines.append(f"v{number} = {word} {' '.join(draw.choices(names[-6:], k=count))}")
        names.append(f"v{number}")
    lines.append(f"y = add {' '.join(draw.choices(names[1:5], k=2))}")
    lines[-1:] = [lines[-1].replace("y =", "w ="), f"y = sub w {draw.choice(names[-3:])}"]
    for budget in (1, 3 * LINE, 5 * LINE):
        check(tuple(lines), budget)


@pytest.mark.parametrize(
    ("own", "given", "count"), [(1, 0, 2), (None, 1, 2), (1, 1 << 20, 1), (None, 0, 1), (1 << 20, 0, 1)]
)
def test_budgets_of_functions_and_of_the_pass(own: int | None, given: int, count: int) -> None:
    """That of the pass, or where it has none that of the function."""
    module, function = program(*LONG)
    if own is not None:
        function.attributes[BUDGET] = IntegerAttr(own, i64)
    RematerializePass(given).apply(context(), module)
    assert [op.name for op in function.body.block.ops].count("glow.neg") == count
