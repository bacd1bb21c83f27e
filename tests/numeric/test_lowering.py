"""Order, decomposition and instructions of graphs: what must come first, and how little memory is live."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import glow_compiler as glow
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import shape_of
from glow_dialects.dialects import context
from glow_dialects.instr.memory import InstrFuncOp
from glow_dialects.ops.module import FuncOp, GetOp, SaveOp, functions
from glow_dialects.parse import parse_module
from glow_passes.lower.decompose import DecomposePass
from glow_passes.lower.drop_predicates import DropPredicatesPass
from glow_passes.lower.irgen import IrgenPass
from glow_passes.lower.schedule import SchedulePass


def tree(seed: int) -> glow.GraphBuilder:
    """Parts of inputs that are joined and cut again, each read once: values of very different sizes."""
    draw = np.random.default_rng(seed)
    g = glow.GraphBuilder()

    def value(depth: int) -> object:
        if depth == 0 or draw.random() < 0.2:
            x = g.placeholder(f"x{len(list(g.module.ops))}", (64,))
            return g.slice(x, (0,), (int(draw.integers(1, 60)),))
        if draw.random() < 0.2:
            twice = value(depth - 1)
            return g.slice(g.mul(twice, twice), (0,), (int(draw.integers(1, 1 + twice.shape[0])),))
        joined = g.concat([value(depth - 1) for _ in range(int(draw.integers(1, 4)))], axis=0)
        return g.neg(g.slice(joined, (0,), (int(draw.integers(1, 1 + joined.shape[0])),)))

    g.save(value(3), "y")
    return g


def size(op: Operation) -> int:
    """The bytes of an operation's results, those of what the caller holds being none of ours."""
    return 0 if isinstance(op, GetOp) else sum(4 * math.prod(shape_of(r)) for r in op.results)


def peak(order: Sequence[Operation]) -> int:
    """The most bytes that are live at once: results from their operation to the last that reads them."""
    last = {value: op for op in order for value in op.operands}
    live, most = 0, 0
    for op in order:
        live += size(op)
        most = max(most, live)
        live -= sum(
            size(v.owner) for v in set(op.operands) if last[v] is op and isinstance(v.owner, Operation)
        )
    return most


def least(op: Operation) -> int:
    """The least peak of such orders: of one operand the best order is the best in every order of all."""
    owners = [v.owner for v in dict.fromkeys(op.operands) if isinstance(v.owner, Operation)]
    peaks = {o: least(o) for o in owners}
    found: list[int] = []
    for permuted in itertools.permutations(owners):
        held = most = 0
        for owner in permuted:
            most, held = max(most, held + peaks[owner]), held + size(owner)
        found.append(max(most, held + size(op)))
    return min(found)


def block(module: ModuleOp) -> list[Operation]:
    """The operations of the function, in order."""
    (function,) = functions(module)
    assert isinstance(function, FuncOp)
    return list(function.body.block.ops)


@pytest.mark.parametrize("seed", range(60))
def test_trees_need_the_least_memory(seed: int) -> None:
    """No order that finishes one operand before the next is better."""
    g = tree(seed)
    (save,) = (op for op in block(g.module) if isinstance(op, SaveOp))
    best, before = least(save), block(g.module)
    SchedulePass().apply(context(), g.module)
    assert peak(block(g.module)) == best <= peak(before)


@pytest.mark.parametrize("seed", range(3))
def test_results_stay(seed: int) -> None:
    """The same operations, those that read placeholders first, and the same numbers."""
    g = tree(seed)
    feed = {p.name: np.random.default_rng(1).random(p.shape, np.float32) for p in glow.compile(g).inputs}
    want = glow.compile(g, backend="interpreter").run(feed)["y"]
    before = block(g.module)
    SchedulePass().apply(context(), g.module)
    g.module.verify()
    after = block(g.module)
    assert set(before) == set(after)
    assert [isinstance(op, GetOp) for op in after] == sorted(
        (isinstance(op, GetOp) for op in after), reverse=True
    )
    np.testing.assert_array_equal(glow.compile(g, backend="interpreter").run(feed)["y"], want)


STATE = """
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @s state : tensor<4xf32>
glow.placeholder @y output : tensor<2x2xf32>
glow.placeholder @z output : tensor<4xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %s = glow.get @s : tensor<4xf32>
  %n = glow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  glow.save %n to @s : tensor<4xf32>
  %v = glow.reshape %s : (tensor<4xf32>) -> tensor<2x2xf32>
  %e = glow.exp %v : (tensor<2x2xf32>) -> tensor<2x2xf32>
  glow.save %e to @y : tensor<2x2xf32>
  %a = glow.abs %s : (tensor<4xf32>) -> tensor<4xf32>
  glow.save %a to @z : tensor<4xf32>
}
"""


@pytest.mark.parametrize("by", ["memory", "order"])
def test_a_state_is_written_after_it_is_read(by: str) -> None:
    """By operations of it and of views of it, wherever they stand; what is computed is as it was."""
    module = parse_module(STATE, "", context())
    SchedulePass(by).apply(context(), module)  # pyright: ignore[reportArgumentType]
    module.verify()
    order = [
        op.symbol.root_reference.data if isinstance(op, SaveOp) else op.name.removeprefix("glow.")
        for op in block(module)
    ]
    assert order.index("s") > max(order.index("exp"), order.index("abs"))
    net = glow.compile(module, backend="interpreter")
    first, second = (np.array(v, np.float32) for v in ([1, 2, 3, 4], [5, 6, 7, 8]))
    net.run({"x": first})
    out = net.run({"x": second})
    np.testing.assert_allclose(out["y"], np.exp(-first).reshape(2, 2), rtol=1e-6)
    np.testing.assert_array_equal(out["z"], first)


def chained(*moves: tuple[str, str]) -> ModuleOp:
    """States that get the values of inputs and of each other, as they were before; each is shown, too."""
    states = dict.fromkeys(name for move in moves for name in move if name != "x")
    text = "glow.placeholder @x input : tensor<2xf32>\n"
    for name in states:
        text += f"glow.placeholder @{name} state : tensor<2xf32>\n"
        text += f"glow.placeholder @y{name} output : tensor<2xf32>\n"
    text += "glow.func @main {\n"
    text += "".join(f"%{n} = glow.get @{n} : tensor<2xf32>\n" for n in ("x", *states))
    text += "".join(f"glow.save %{n} to @y{n} : tensor<2xf32>\n" for n in states)
    text += "".join(f"glow.save %{a} to @{b} : tensor<2xf32>\n" for a, b in moves)
    return parse_module(text + "}\n", "", context())


MOVES = {
    "a delay": (("x", "a"), ("a", "b"), ("b", "c")),
    "a delay, told backwards": (("b", "c"), ("a", "b"), ("x", "a")),
    "an exchange": (("a", "b"), ("b", "a")),
    "a circle, and what it leads to": (("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("x", "e")),
    "one that stays": (("a", "a"), ("x", "b")),
}


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("name", MOVES)
def test_states_take_the_values_of_others(name: str, backend: str) -> None:
    """All at once, as in a, b = b, a."""
    net = glow.compile(chained(*MOVES[name]), backend=backend)
    held = {s: np.zeros(2, np.float32) for s in dict.fromkeys(n for m in MOVES[name] for n in m)}
    for turn in range(6):
        x = np.array([turn + 1, -turn], np.float32)
        if turn == 0 and "x" not in held:  # nothing comes in: the first values are given
            state = net.state({n: np.full(2, i + 1, np.float32) for i, n in enumerate(held)})
            held = {n: np.full(2, i + 1, np.float32) for i, n in enumerate(held)}
        elif turn == 0:
            state = net.state()
        out = net.run({"x": x}, state=state)
        for key, value in out.items():
            np.testing.assert_array_equal(value, held[key.removeprefix("y")])
        before = {**held, "x": x}
        held = {**held, **{b: before[a] for a, b in MOVES[name]}}


FORMS = """
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @p input : tensor<i1>
glow.placeholder @y output : tensor<2x2xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %p = glow.get @p : tensor<i1>
  %n = glow.neg %x pred %p : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32>
  %c = glow.concat %n, %x {axis = 0 : i64, operandSegmentSizes = array<i32: 2, 0>}
    : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %v = glow.reshape %n {device = "npu"} : (tensor<4xf32>) -> tensor<2x2xf32>
  %e = glow.exp %v : (tensor<2x2xf32>) -> tensor<2x2xf32>
  glow.save %e to @y : tensor<2x2xf32>
}
"""


def test_instructions_of_every_form() -> None:
    """With and without a predicate, of several operands, of a view: each is valid."""
    module = parse_module(FORMS, "", context())
    IrgenPass().apply(context(), module)
    module.verify()
    (function,) = (op for op in module.ops if isinstance(op, InstrFuncOp))
    text = str(module)
    assert not list(functions(module)) and text.count("glow_instr.alloc") == 3
    assert "glow_instr.tensorview %n" in text and "pred" in text.split("glow_instr.neg")[1].splitlines()[0]
    names = [op.name for op in function.block.ops]
    assert names.index("glow_instr.exp") < names.index("glow_instr.copy")


def test_predicates_are_dropped() -> None:
    """Of every node, and nothing else."""
    module = parse_module(FORMS, "", context())
    DropPredicatesPass().apply(context(), module)
    module.verify()
    assert "pred %p" not in str(module) and str(module) == str(module).replace(" pred", "")
    assert "glow.neg %x : (tensor<4xf32>) -> tensor<4xf32>" in str(module)


def test_decomposed_operators() -> None:
    """Those that are named alone, with what they become; all that can be; a name that is none is refused."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (3, 8))
    g.save(g.gelu(g.softmax(g.relu(x))), "y")
    feed = {"x": np.linspace(-2, 2, 24, dtype=np.float32).reshape(3, 8)}
    want = glow.compile(g, backend="interpreter").run(feed)["y"]
    kept: list[set[str]] = []
    for ops in (("softmax",), ("gelu",), ()):
        module = g.module.clone()
        DecomposePass(ops).apply(context(), module)
        module.verify()
        kept.append({op.name for op in block(module)} & {"glow.softmax", "glow.gelu", "glow.relu"})
        np.testing.assert_allclose(
            glow.compile(module, backend="interpreter").run(feed)["y"], want, rtol=1e-5, atol=1e-6
        )
    assert [("glow.softmax" in k, "glow.gelu" in k) for k in kept] == [
        (False, True),
        (True, False),
        (False, False),
    ]
    with pytest.raises(UnsupportedError, match="there is no operator 'softmaxx'"):
        DecomposePass(("softmaxx",))
    DecomposePass(("npu.fused",))  # an operator of a package


def test_what_an_operator_becomes_is_decomposed_too() -> None:
    """Nothing is left that can be smaller, in order; once done, nothing changes."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (2, 4, 3, 3))
    scale, bias = (g.constant(np.arange(n, n + 4, dtype=np.float32)) for n in (1, 2))
    g.save(g.relu(g.group_norm(x, scale, bias, groups=2)), "y")
    feed = {"x": np.random.default_rng(0).random((2, 4, 3, 3), np.float32)}
    want = glow.compile(g, backend="interpreter").run(feed)["y"]
    DecomposePass().apply(context(), g.module)
    g.module.verify()
    assert not any(op.can_decompose() for op in block(g.module) if isinstance(op, GraphOp))
    once = str(g.module)
    DecomposePass().apply(context(), g.module)
    assert str(g.module) == once
    got = glow.compile(g, backend="interpreter").run(feed)["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "copies"),
    list(zip(MOVES, (0, 0, 2, 3, 0), strict=True)),
)
def test_states_in_a_circle_are_copied(name: str, copies: int) -> None:
    """Those alone: of others an order is found, and a state that stays is its own."""
    module = chained(*MOVES[name])
    SchedulePass().apply(context(), module)
    assert [op.name for op in block(module)].count("glow.concat") == copies


def test_what_is_computed_of_states_is_not_copied() -> None:
    """a, b = -b, a: the new a is in memory of its own; through views it is not."""
    for word, copies in (("neg %b : (tensor<2xf32>)", 0), ("reshape %b : (tensor<2xf32>)", 2)):
        module = chained(("b", "a"), ("a", "b"))
        text = str(module).replace(
            "glow.save %b to @a ", "%m = glow.{word} -> tensor<2xf32>\n glow.save %m to @a "
        )
        module = parse_module(text.replace("{word}", word), "", context())
        SchedulePass().apply(context(), module)
        module.verify()
        assert [op.name for op in block(module)].count("glow.concat") == copies
