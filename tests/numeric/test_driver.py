"""The rewriting driver: what it counts, undoes and ends; where operations stand, without a walk."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from graph_runner import Graph
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.errors import CompileError
from glow_dialects.core.location import names, node_location
from glow_dialects.core.types import UniformQuantizedType, tensor
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.module import GetOp, SaveOp
from glow_dialects.ops.splat import SplatOp
from glow_dialects.ops.unary_math import ExpOp, NegOp
from glow_passes.graph import driver
from glow_passes.graph.driver import (
    Budget,
    Pattern,
    Rewriter,
    counted,
    is_dead,
    is_used_once,
    producer,
    rewrite,
)
from glow_passes.graph.symbols import Symbols


def test_last_follows_what_is_inserted() -> None:
    """Numbers follow the block, however often something is inserted at one place."""
    g = Graph()
    x = g.input(np.ones(3, np.float32))
    for _ in range(5):
        x = g.b(NegOp(x))
    block = g.function.body.block
    rewriter = Rewriter(Symbols(g.module))
    draw = np.random.default_rng(0)
    for start in (0, 2, 4):
        root: Operation = list(block.ops)[start]
        for step in range(100):
            rewriter.start(root)
            new = rewriter.insert(NegOp(x))
            root = new if step % 3 else root
            ops = list(block.ops)
            place = ops.index(new)
            for some in (
                draw.choice(len(ops), 3, replace=False).tolist(),
                [place, place + 1],
                [place, place - 1],
            ):
                assert rewriter.last([ops[i] for i in some]) is ops[max(i % len(ops) for i in some)]


def test_last_where_no_number_is_left_between_two() -> None:
    """Numbers between two neighbours come to an end; the order does not."""
    g = chain(2)
    rewriter = Rewriter(Symbols(g.module))
    root = next(op for op in g.function.body.block.ops if isinstance(op, NegOp))
    (x,) = root.operands
    rewriter.start(root)
    made = [rewriter.insert(NegOp(x))]
    assert rewriter.last([made[0], root]) is root
    for _ in range(1100):
        made.append(rewriter.insert(NegOp(x)))
        assert len({rewriter.places[op] for op in rewriter.places}) == len(rewriter.places)
    assert rewriter.last(made[::-1]) is made[-1] and rewriter.last([root, *made]) is root


def chain(count: int) -> Graph:
    """A chain of negations, saved."""
    g = Graph()
    x = g.input(np.arange(3, dtype=np.float32))
    for _ in range(count):
        x = g.b(NegOp(x))
    g.save(x)
    return g


def twice(op: NegOp, r: Rewriter) -> SSAValue | None:
    """neg(neg(x)) -> x."""
    inner = producer(op.input, NegOp)
    return None if inner is None else inner.input


def again(op: NegOp, r: Rewriter, kind: type[NegOp] = NegOp) -> SSAValue | None:
    """neg(x) -> neg(x), without end."""
    return r(kind(op.input))


def late(op: NegOp, r: Rewriter) -> SSAValue | None:
    """What inserts before it finds that it does not apply."""
    r(NegOp(r(NegOp(op.input))))
    return None


def test_changes_are_counted() -> None:
    """Rewrites and removals: of two negations, one rewrite takes both."""
    g = chain(5)
    assert rewrite(g.module, (Pattern((NegOp,), twice),)) == 4 and g.ops() == ["neg"]
    assert rewrite(g.module, (Pattern((NegOp,), twice),)) == 0


@pytest.mark.parametrize("most,left", [(None, 0), (0, 6), (1, 4), (2, 2), (3, 0), (9, 0)])
def test_budgets(most: int | None, left: int) -> None:
    """No more rewrites than a budget allows, each with its rule and operation."""
    g = chain(6)
    with counted(Budget(most)) as budget:
        rewrite(g.module, (Pattern((NegOp,), partial(twice)),))
    assert len(g.ops()) == left and len(budget.applied) == (6 - left) // 2
    assert all(a.rule.endswith(".twice") and "glow.neg" in a.op for a in budget.applied)
    assert budget.spent == (most is not None and most <= 3)


def test_rewriting_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fuel for each operation, and for ten more."""
    seen: list[int] = []

    def rule(op: NegOp, r: Rewriter) -> SSAValue | None:
        seen.append(1)
        return again(op, r)

    monkeypatch.setattr(driver, "FUEL", 3)
    g = chain(2)  # with the read and the save four operations
    with pytest.raises(CompileError, match="rewriting does not end at glow.neg"):
        rewrite(g.module, (Pattern((NegOp,), rule),))
    assert len(seen) == 3 * (4 + 10) + 1


def test_what_was_inserted_in_vain_goes() -> None:
    """A pattern that does not apply leaves nothing."""
    g = chain(1)
    before = str(g.module)
    assert rewrite(g.module, (Pattern((NegOp,), late), Pattern((NegOp,), twice))) == 0
    assert str(g.module) == before


def test_constants_inserted_in_vain_go() -> None:
    """Those of a pattern that does not apply, and those that nobody reads any more."""

    def rule(op: NegOp, r: Rewriter) -> SSAValue | None:
        r.weight(np.arange(100))
        return None

    g = chain(1)
    before = str(g.module)
    assert rewrite(g.module, (Pattern((NegOp,), rule),)) == 0
    assert str(g.module) == before
    g.b(NegOp(g.constant(np.arange(100, dtype=np.float32))))
    assert rewrite(g.module, ()) == 2  # the negation, the read
    assert str(g.module) == before


def test_places_are_handed_on() -> None:
    """What replaces an operation comes from where that came from."""
    g = chain(1)
    (node,) = (op for op in g.function.body.block.ops if isinstance(op, NegOp))
    node.location = node_location("here")

    def rule(op: NegOp, r: Rewriter) -> SSAValue | None:
        return r(ExpOp(op.input))

    rewrite(g.module, (Pattern((NegOp,), rule),))
    (new,) = (op for op in g.function.body.block.ops if isinstance(op, ExpOp))
    assert names(new.location) == ("here",)


def test_names_stay() -> None:
    """A result is called what the one was called that it replaces, but by its own name where it has one."""
    for own, want in ((None, "old"), ("new", "new")):
        g = chain(1)
        (node,) = (op for op in g.function.body.block.ops if isinstance(op, NegOp))
        node.result.name_hint = "old"

        def rule(op: NegOp, r: Rewriter, own: str | None = own) -> SSAValue | None:
            new = r(ExpOp(op.input))
            new.name_hint = own
            return new

        rewrite(g.module, (Pattern((NegOp,), rule),))
        (new,) = (op for op in g.function.body.block.ops if isinstance(op, ExpOp))
        assert new.result.name_hint == want


def test_uses() -> None:
    """Exactly one operand; dead is what nobody reads, and does nothing else."""
    g = Graph()
    x, y, z = (g.input(np.ones(3, np.float32)) for _ in range(3))
    a = g.b(AddOp(x, x))
    b = g.b(AddOp(y, a))
    assert [is_used_once(v) for v in (x, y, z, a, b)] == [False, True, False, True, False]
    owners = [v.owner for v in (x, y, z, a, b)]
    dead = [is_dead(op) for op in owners if isinstance(op, Operation)]
    assert dead == [False, False, True, False, True]
    g.save(b)
    assert not any(is_dead(op) for op in g.function.body.block.ops if isinstance(op, SaveOp))


def test_weights() -> None:
    """One value is a splat; integers that stand for real numbers are a constant in any case."""
    g = chain(1)
    rewriter = Rewriter(Symbols(g.module))
    rewriter.start(next(op for op in g.function.body.block.ops if isinstance(op, NegOp)))
    ones = np.ones(4, np.int8)
    stored = tensor((4,), UniformQuantizedType.of(8, 0.5))
    made = rewriter.weight(ones), rewriter.weight(np.arange(4)), rewriter.weight(ones, "w", stored)
    kinds = [type(value.owner) for value in made]
    assert kinds == [SplatOp, GetOp, GetOp]
