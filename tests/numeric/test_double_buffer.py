"""Loops that load ahead, and schedules: the numbers of NumPy, whether transfers come early or late."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from glow_backends.interpreter.backend import InterpreterProgram
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_dialects.instr.loops import ForOp
from glow_dialects.instr.memory import StartCopyOp, instr_function
from glow_dialects.instr.spaces import Memory
from glow_dialects.parse import parse_module
from glow_passes.instr.double_buffer import double_buffer, loads_of
from glow_passes.instr.hide_latency import hide_latency
from glow_passes.instr.machine import Work
from glow_passes.instr.simulate import simulate
from glow_passes.instr.unroll import unroll, unroll_by
from glow_passes.pipeline import INSTR

ROWS = 16
NEAR, ROW, ALL = 'memref<4xf32, "near">', "memref<4xf32>", f"memref<{ROWS}x4xf32>"


def load(name: str, of: str, first: int = 0) -> list[str]:
    """Bring row `i + first` of a tensor to a near buffer."""
    return [
        f"%v{name} = glow_instr.tensorview %{of} offset {4 * first} + 4 * %i : {ALL} to {ROW}",
        f"%t{name} = glow_instr.start_copy @out %{name}, @in %v{name} : {NEAR}, {ROW}",
        f"glow_instr.wait @after %t{name} : !glow_instr.token",
    ]


def near(*names: str) -> list[str]:
    return [f"%{name} = glow_instr.alloc : {NEAR}" for name in names]


def end(*names: str) -> list[str]:
    return [f"glow_instr.dealloc @out %{name} : {NEAR}" for name in names]


def row(name: str, of: str = "y") -> str:
    """A row of a tensor by its number."""
    return f"%{name} = glow_instr.tensorview %{of} offset 4 * %i : {ALL} to {ROW}"


def program(
    turns: range, body: Sequence[str], ahead: Sequence[str] = (), behind: Sequence[str] = ()
) -> ModuleOp:
    """A loop on the inputs `x` and `r`, the state `s` and the output `y`."""
    kinds = {"x": "input", "r": "input", "s": "state", "y": "output"}
    lines = [f"glow.placeholder @{n} {k} : tensor<{ROWS}x4xf32>" for n, k in kinds.items()]
    lines.append("glow_instr.func @main attributes {memories = {near = {size = 4096 : i64}}} declare {")
    lines += [f"%{n} = glow_instr.weight @{n} mutable : {ALL}" for n in kinds]
    loop = f"glow_instr.for %i = {turns.start} to {turns.stop} step {turns.step} {{"
    lines += ["} program {", *ahead, loop, *body, "}", *behind, "}"]
    return parse_module("\n".join(lines), "program", context())


def the_loop(module: ModuleOp) -> ForOp:
    return next(op for op in module.walk() if isinstance(op, ForOp))


X, R = np.random.default_rng(0).integers(-9, 9, (2, ROWS, 4)).astype(np.float32)


def check(module: ModuleOp, want: Array) -> None:
    """What a program gives, planned."""
    module.verify()
    for item in INSTR:
        item.apply(context(), module)
    module.verify()
    for late in (False, True):
        net = InterpreterProgram(module, instr_function(module, "main"), planned=True, late=late)
        np.testing.assert_array_equal(net.run({"x": X.copy(), "r": R.copy()})["y"], want)


TURNS = [range(0, 2), range(1, 4), range(0, 5), range(2, 12, 3), range(0, 15, 2), range(3, 9)]
SUM = [
    *(*near("a", "b"), *load("a", "x"), *load("b", "r", 1), row("w")),
    f"glow_instr.sub @out %w, @in %a, @in %b : {ROW}, {NEAR}, {NEAR}",
    *end("a", "b"),
]


def differences(turns: range) -> Array:
    """x[i] - r[i + 1] in the rows of the turns."""
    want = np.zeros_like(X)
    want[list(turns)] = X[list(turns)] - R[[i + 1 for i in turns]]
    return want


@pytest.mark.parametrize("turns", TURNS)
def test_two_loads(turns: range) -> None:
    """Both are ahead of the work; each is done once a turn, whether the turns are even or odd in number."""
    module = program(turns, SUM)
    assert len(loads_of(the_loop(module))) == 2
    assert double_buffer(the_loop(module))
    function = instr_function(module, "main")
    count = 0
    for op in function.walk():
        parent = op.parent_op()
        if isinstance(op, StartCopyOp):
            count += len(parent.turns) if isinstance(parent, ForOp) else 1
    assert count == 2 * len(turns)
    check(module, differences(turns))


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("by", [1, 2, 3])
def test_turns_one_after_another(turns: range, by: int) -> None:
    """Of the loop as it is, and of the one that loads ahead, which hands on tokens."""
    for ahead in (False, True):
        module = program(turns, SUM)
        if ahead:
            double_buffer(the_loop(module))
        loops = [op for op in module.walk() if isinstance(op, ForOp)]
        for loop in loops:
            length = len(loop.turns)
            unroll_by(loop, by)
            left = [len(op.turns) for op in module.walk() if isinstance(op, ForOp)]
            assert left == ([] if by == length else [length if length % by else length // by])
        check(module, differences(turns))
        module = program(turns, SUM)
        if ahead:
            double_buffer(the_loop(module))
        for loop in [op for op in module.walk() if isinstance(op, ForOp)]:
            unroll(loop)
        check(module, differences(turns))


def copied(line: str, of: str = "x") -> list[str]:
    """A turn that loads a row of a tensor, works on it by a line, and stores `a`."""
    store = f"glow_instr.copy @out %w, @in %a : {ROW}, {NEAR}"
    return [*near("a"), *load("a", of), line, row("w"), store, *end("a")]


def test_views_that_others_read_stay() -> None:
    """The part of x that is loaded is read by the work, too, through another view."""
    body = [
        *(*near("a"), *load("a", "x"), row("w")),
        f"%u = glow_instr.tensorview %va : {ROW} to {ROW}",
        f"glow_instr.add @out %w, @in %a, @in %u : {ROW}, {NEAR}, {ROW}",
        *end("a"),
    ]
    module = program(range(5), body)
    assert double_buffer(the_loop(module))
    want = np.zeros_like(X)
    want[:5] = 2 * X[:5]
    check(module, want)


def test_views_of_views_are_made_for_loads() -> None:
    """A load by two views, of which the index is in the first."""
    body = [
        *near("a"),
        f"%u = glow_instr.tensorview %x offset 4 + 4 * %i : {ALL} to memref<8xf32>",
        f"%v = glow_instr.tensorview %u offset 4 : memref<8xf32> to {ROW}",
        f"%t = glow_instr.start_copy @out %a, @in %v : {NEAR}, {ROW}",
        *("glow_instr.wait @after %t : !glow_instr.token", row("w")),
        f"glow_instr.neg @out %w, @in %a : {ROW}, {NEAR}",
        *end("a"),
    ]
    module = program(range(0, 14, 2), body)
    assert double_buffer(the_loop(module))
    want = np.zeros_like(X)
    want[0:14:2] = -X[2:16:2]
    check(module, want)


def loads(body: Sequence[str], turns: range = range(4), **around: Sequence[str]) -> int:
    """How many loads of a loop could be ahead; the loop that has them ahead verifies."""
    module = program(turns, body, **around)
    module.verify()
    count = len(loads_of(the_loop(module)))
    assert double_buffer(the_loop(module)) == (count > 0)
    module.verify()
    return count


def test_what_can_be_loaded_ahead() -> None:
    """Transfers in which nothing else of the loop has a part, into buffers of a turn."""
    relu = f"glow_instr.relu @out %a, @in %a : {NEAR}, {NEAR}"
    assert loads(copied(relu)) == 1
    assert loads(copied(relu), range(2)) == 1
    # One turn has none before it.
    assert loads(copied(relu), range(1)) == 0
    # What is loaded is written in the loop: by a turn before, for all that is known.
    assert loads(copied(f"glow_instr.neg @out %s, @in %r : {ALL}, {ALL}", "s")) == 0
    assert loads(copied(f"glow_instr.neg @out %va, @in %va : {ROW}, {ROW}", "s")) == 0
    assert loads(copied(f"glow_instr.neg @out %s, @in %x : {ALL}, {ALL}", "r")) == 1
    # The buffer is that of all turns, or has something else in it before.
    body = [line for line in copied(relu) if "alloc" not in line]
    assert loads(body, ahead=near("a"), behind=end("a")) == 0
    first = copied(relu)
    first.insert(1, f"glow_instr.splat @out %a {{value = 1.0 : f64}} : {NEAR}")
    assert loads(first) == 0
    # A store is none.
    store = [
        *near("a"),
        f"glow_instr.splat @out %a {{value = 1.0 : f64}} : {NEAR}",
        row("w"),
        f"%t = glow_instr.start_copy @out %w, @in %a : {ROW}, {NEAR}",
        *("glow_instr.wait @after %t : !glow_instr.token", *end("a")),
    ]
    assert loads(store) == 0


class Device:
    """Copies of 20 cycles, work of 15."""

    def memories(self) -> Mapping[str, Memory]:
        return {}

    def units(self) -> Mapping[str, int]:
        return {"dma": 2, "alu": 1}

    def work(self, op: InstrOp) -> Work:
        return Work("dma", 20) if op.name.endswith("copy") else Work("alu", 15)


def random_steps(seed: int, size: int) -> tuple[ModuleOp, Array]:
    """Rows loaded, worked on and stored, in straight lines and a loop, in a memory of so many lines."""
    draw = random.Random(seed)
    body: list[str] = []
    want = np.zeros_like(X)
    for number in range(draw.randint(3, 7)):
        a, b, at, to = f"a{number}", f"b{number}", draw.randrange(ROWS), draw.randrange(6)
        source, data = draw.choice([("x", X), ("r", R), ("y", want)])
        body += near(a, b)
        body.append(f"%s{a} = glow_instr.tensorview %{source} offset {4 * at} : {ALL} to {ROW}")
        body.append(f"%t{a} = glow_instr.start_copy @out %{a}, @in %s{a} : {NEAR}, {ROW}")
        body.append(f"glow_instr.wait @after %t{a} : !glow_instr.token")
        body.append(f"glow_instr.neg @out %{b}, @in %{a} : {NEAR}, {NEAR}")
        body.append(f"%w{a} = glow_instr.tensorview %y offset {4 * to} : {ALL} to {ROW}")
        body.append(f"%u{a} = glow_instr.start_copy @out %w{a}, @in %{b} : {ROW}, {NEAR}")
        body.append(f"glow_instr.wait @after %u{a} : !glow_instr.token")
        body += end(a, b)
        want[to] = -data[at]
    turns = range(draw.randrange(3), 9 + draw.randrange(4), draw.randint(1, 3))
    module = program(turns, SUM, ahead=body)
    want[list(turns)] = differences(turns)[list(turns)]
    instr_function(module, "main").declare({"near": Memory(64 * size, alignment=16)})
    return module, want


def lines_loaded(count: int, lines: int) -> ModuleOp:
    """Rows that are loaded and worked on, one after another, in a memory of so many lines of 64 bytes."""
    body: list[str] = []
    for n in range(count):
        body += near(f"a{n}")
        body += [
            f"%s{n} = glow_instr.tensorview %x offset {4 * n} : {ALL} to {ROW}",
            f"%w{n} = glow_instr.tensorview %y offset {4 * n} : {ALL} to {ROW}",
            f"%t{n} = glow_instr.start_copy @out %a{n}, @in %s{n} : {NEAR}, {ROW}",
            f"glow_instr.wait @after %t{n} : !glow_instr.token",
            f"glow_instr.neg @out %w{n}, @in %a{n} : {ROW}, {NEAR}",
        ]
        body += end(f"a{n}")
    module = program(range(1), [], ahead=body)
    loop = the_loop(module)
    loop.detach()
    loop.erase()
    instr_function(module, "main").declare({"near": Memory(64 * lines)})
    return module


@pytest.mark.parametrize(("lines", "cycles"), [(1, 6 * 35), (2, 6 * 20 + 15), (3, 6 * 20 + 15)])
def test_cycles_in_memories_of_some_lines(lines: int, cycles: int) -> None:
    """In one line nothing is beside a transfer; two keep transfers going, to the last byte of the memory."""
    module = lines_loaded(6, lines)
    function = instr_function(module, "main")
    assert simulate(function, Device()).cycles == 6 * 35
    hide_latency(function, Device())
    assert simulate(function, Device()).cycles == cycles
    want = np.zeros_like(X)
    want[:6] = -X[:6]
    check(module, want)


def around_a_loop(lines: int) -> tuple[int, int]:
    """The cycles of a loop of two buffers between a load and what works on it, as written and hidden."""
    turn = [*near("b", "c"), *load("b", "x"), row("w"), f"glow_instr.neg @out %c, @in %b : {NEAR}, {NEAR}"]
    turn += [f"glow_instr.neg @out %w, @in %c : {ROW}, {NEAR}", *end("b", "c")]
    first = [*near("a"), f"%o = glow_instr.tensorview %r offset 4 : {ALL} to {ROW}"]
    first += [f"%t = glow_instr.start_copy @out %a, @in %o : {NEAR}, {ROW}"]
    last = [f"%z = glow_instr.tensorview %y offset 60 : {ALL} to {ROW}"]
    last += ["glow_instr.wait @after %t : !glow_instr.token"]
    last += [f"glow_instr.neg @out %z, @in %a : {ROW}, {NEAR}", *end("a")]
    module = program(range(4), turn, ahead=first, behind=last)
    function = instr_function(module, "main")
    function.declare({"near": Memory(64 * lines)})
    before = simulate(function, Device()).cycles
    hide_latency(function, Device())
    after = simulate(function, Device()).cycles
    want = np.zeros_like(X)
    want[:4], want[15] = X[:4], -R[1]
    check(module, want)
    return before, after


def test_loops_beside_what_lives_around_them() -> None:
    """In three lines the loop has no room to load ahead beside `a`; in four it has."""
    as_written, three = around_a_loop(3)
    four = around_a_loop(4)[1]
    assert as_written == three == 20 + 4 * (20 + 15 + 15) + 15
    # Behind the first transfers there is work all the time, but for their starts.
    assert 20 + 20 + 4 * 30 + 15 <= four <= 20 + 20 + 4 * (30 + 2) + 15


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 64])
def test_schedules(size: int) -> None:
    """In memories of 4 buffers, of 8, and of all: no more cycles, the same work, the same numbers."""
    gained = 0
    for seed in range(12):
        module, want = random_steps(seed, size)
        function = instr_function(module, "main")
        before = simulate(function, Device())
        hide_latency(function, Device())
        after = simulate(function, Device())
        assert after.busy() == before.busy()
        assert after.cycles <= before.cycles
        gained += before.cycles - after.cycles
        check(module, want)
    assert gained > (0 if size == 1 else 12 * 50)
