"""Operators cut into tiles by what they say of their loops compute what they compute whole."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import glow_compiler as glow
from glow_backends.conformance import Case, cases, difference, expected_results, module_of_sample
from glow_backends.interpreter.backend import InterpreterBackend
from glow_dialects.core.errors import CompileError
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.dialects import context
from glow_dialects.instr.loops import ForOp
from glow_dialects.instr.memory import DeallocOp, StartCopyOp, instr_functions
from glow_dialects.instr.spaces import Memory
from glow_passes.instr.tile import Plan, TilePass, fitting_tile, tile, tile_to_fit
from glow_passes.pipeline import INSTR, LOWER, PassRunner

SPACE = "scratch"


def instructions(case: Case) -> tuple[ModuleOp, dict[str, np.ndarray], list[InstrOp]]:
    """A sample's instructions that can be cut."""
    module, feed = module_of_sample(case.sample, "inputs")
    PassRunner(context()).run(module, LOWER)
    function = instr_functions(module)[0]
    function.declare({SPACE: Memory(1 << 20)})
    ops = [op for op in function.block.ops if isinstance(op, InstrOp) and not isinstance(op, DeallocOp)]
    return module, feed, [op for op in ops if Plan.of(op) is not None]


def plannable() -> list[Case]:
    """Samples that say what their loops are; their names are those of the cards."""
    chosen = [
        case
        for case in cases()
        if case.sample.op.iteration is not InstrOp.iteration and case.sample.op.INSTR is not None
    ]
    return [case for case in chosen if instructions(case)[2]]


def check(case: Case, module: ModuleOp, feed: dict[str, np.ndarray]) -> None:
    """Run the tiled program, planned, with transfers that are early and late."""
    PassRunner(context(), verify=True).run(module, INSTR)
    for late in (False, True):
        program = InterpreterBackend(planned=True, late=late).compile(module)
        results = program.run({name: array.copy() for name, array in feed.items()})
        for number, (kind, want) in enumerate(expected_results(case.sample)):
            assert not (told := difference(results[f"out{number}"], want, kind)), told


@pytest.mark.slow
def test_every_card_in_tiles_of_any_size() -> None:
    """Tiles of sizes that divide nothing, in every loop, of all cards that tell their loops."""
    rng = np.random.default_rng(0)
    tiled: set[str] = set()
    for case in plannable():
        module, feed, ops = instructions(case)
        for op in ops:
            iteration = op.iteration()
            assert iteration is not None
            if tile(op, SPACE, [int(rng.integers(1, n + 1)) for n in iteration.sizes]):
                tiled.add(case.sample.op.name)
        module.verify()
        check(case, module, feed)
    assert len(tiled) > 100
    wanted = {
        "conv",
        "quantized_conv",
        "max_pool",
        "avg_pool",
        "reduce_sum",
        "softmax",
        "batch_matmul",
        "add",
    }
    assert {f"glow.{name}" for name in wanted} <= tiled


CARDS = (
    "conv",
    "max_pool",
    "avg_pool",
    "fully_connected",
    "reduce",
    "softmax",
    "layer_norm",
    "relu",
    "matmul",
)


@pytest.mark.slow
@pytest.mark.parametrize("card", CARDS)
def test_tiles_fit_the_room(card: str) -> None:
    """Tiles that a budget chooses are no larger than it, and some are smaller than the whole."""
    cut = 0
    for case in cases([card]):
        module, feed, ops = instructions(case)
        for op in ops:
            plan = Plan.of(op)
            assert plan is not None
            whole = plan.bytes(plan.iteration.sizes)
            sizes = plan.fitting(whole * 2 // 3)
            if sizes is None:
                continue
            assert plan.bytes(sizes) <= whole * 2 // 3
            assert tile_to_fit(op, SPACE, whole * 2 // 3)
        function = instr_functions(module)[0]
        cut += sum(isinstance(op, ForOp | StartCopyOp) for op in function.walk())
        check(case, module, feed)
    assert cut


def test_a_memory_too_small_for_any_tile_is_an_error() -> None:
    module, _, (op, *_) = instructions(next(iter(cases(["softmax"]))))
    with pytest.raises(
        CompileError, match=r"glow_instr.softmax of memref<.*the smallest tile takes \d+ bytes"
    ):
        tile_to_fit(op, SPACE, 4)
    module.verify()


Build = Callable[[glow.GraphBuilder, Any], Any]


def lowered(build: Build, *shape: int) -> tuple[glow.GraphBuilder, ModuleOp, InstrOp]:
    """A graph of one operator on an input `x`, and its instruction."""
    g = glow.GraphBuilder()
    g.save(build(g, g.placeholder("x", shape)), "y")
    module = g.module.clone()
    PassRunner(context()).run(module, LOWER)
    function = instr_functions(module)[0]
    function.declare({SPACE: Memory(1 << 20)})
    ops = [op for op in function.block.ops if isinstance(op, InstrOp) and not isinstance(op, DeallocOp)]
    (op,) = [op for op in ops if op.name != "glow_instr.copy"]
    return g, module, op


def pooled(g: glow.GraphBuilder, x: Any) -> Any:
    return g.max_pool(x, kernel=(3, 2), strides=(2, 1), pads=(1, 0, 2, 1))


def averaged(g: glow.GraphBuilder, x: Any) -> Any:
    return g.avg_pool(x, kernel=(3, 3), strides=(1, 2), pads=(1, 1, 1, 1))


def convolved(g: glow.GraphBuilder, x: Any) -> Any:
    w = g.constant(np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32), "w")
    return g.conv(x, w, pads=(1, 2, 1, 0), strides=(2, 1), dilations=(1, 2))


def depthwise(g: glow.GraphBuilder, x: Any) -> Any:
    w = g.constant(np.random.default_rng(1).standard_normal((3, 1, 3, 3)).astype(np.float32), "w")
    return g.conv(x, w, pads=(1, 1, 1, 1), group=3)


def scaled(g: glow.GraphBuilder, x: Any) -> Any:
    return g.mul(x, g.constant(np.arange(1, 8, dtype=np.float32).reshape(7, 1), "s"))


def summed(g: glow.GraphBuilder, x: Any) -> Any:
    return g.reduce_sum(x, axes=(1,))


def turned(g: glow.GraphBuilder, x: Any) -> Any:
    return g.transpose(x, permutation=(0, 3, 1, 2))


WINDOWS: tuple[Build, ...] = (pooled, averaged, convolved, depthwise, scaled, summed, turned)


@pytest.mark.parametrize("build", WINDOWS)
def test_tiles_of_each_size_in_each_loop(build: Build) -> None:
    """One loop is cut into tiles of 1, 2 and 3; then all are. Borders are those of the whole."""
    x = np.random.default_rng(0).standard_normal((2, 3, 7, 6)).astype(np.float32)
    g, _, op = lowered(build, *x.shape)
    iteration = op.iteration()
    assert iteration is not None
    want = glow.compile(g, backend="interpreter").run({"x": x})["y"]
    done = 0
    for loop, size in itertools.product((*range(len(iteration.sizes)), None), (1, 2, 3)):
        sizes = [size if loop in (i, None) else n for i, n in enumerate(iteration.sizes)]
        _, module, op = lowered(build, *x.shape)
        plan = Plan.of(op)
        assert plan is not None
        if not tile(op, SPACE, sizes):
            assert build in (pooled, averaged)  # some tile is of padding alone
            continue
        done += 1
        module.verify()
        PassRunner(context(), verify=True).run(module, INSTR)
        got = InterpreterBackend(planned=True, late=True).compile(module).run({"x": x})["y"]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert done >= 9


def relu(*shape: int) -> tuple[ModuleOp, InstrOp]:
    return lowered(lambda g, x: g.relu(x), *shape)[1:]


@pytest.mark.parametrize(
    ("room", "sizes"),
    [
        (2 * 4 * 35, (5, 7)),
        (2 * 4 * 35 - 1, (4, 7)),
        (2 * 4 * 14, (2, 7)),
        (2 * 4 * 7, (1, 7)),
        (2 * 4 * 7 - 1, (1, 6)),
        (2 * 4, (1, 1)),
        (2 * 4 - 1, None),
    ],
)
def test_the_largest_tile_that_fits(room: int, sizes: tuple[int, ...] | None) -> None:
    """Rows first, then columns, to the byte: an operand and a result of 5 by 7 floats."""
    assert fitting_tile(relu(5, 7)[1], room) == sizes


def test_tiles_that_fit_hold_windows() -> None:
    """Of two rows of a result, a window of 3 by steps of 2 touches 5 of the input, and all its columns."""
    op = lowered(lambda g, x: g.max_pool(x, kernel=(3, 3), strides=(2, 2)), 1, 1, 9, 9)[2]
    plan = Plan.of(op)
    assert plan is not None
    assert plan.bytes((1, 1, 2, 4)) == 4 * (2 * 4 + 5 * 9)
    assert fitting_tile(op, plan.bytes((1, 1, 2, 4))) == (1, 1, 2, 4)
    assert fitting_tile(op, plan.bytes((1, 1, 2, 4)) - 1) == (1, 1, 1, 4)


def test_what_is_not_cut() -> None:
    """Nothing where nothing is known of loops, sizes are missing, or buffers are empty or in the memory."""
    module, op = relu(5, 7)
    before = str(module)
    assert not tile(op, SPACE, (2,))
    assert str(module) == before
    assert Plan.of(lowered(lambda g, x: g.cumsum(x, axis=0), 5)[2]) is None
    assert Plan.of(relu(0, 7)[1]) is None
    assert fitting_tile(relu(0, 7)[1], 100) is None
    assert not tile_to_fit(relu(0, 7)[1], SPACE, 100)
    assert tile(op, SPACE, (2, 7))
    inner = [o for o in module.walk() if o.name == "glow_instr.relu" and isinstance(o, InstrOp)]
    assert len(inner) == 2 and all(Plan.of(o) is None for o in inner)


def test_tiles_of_padding_alone() -> None:
    """A border wider than the window: tiles have something else in them, or the loop stays whole."""

    def build(g: glow.GraphBuilder, x: Any) -> Any:
        w = g.constant(np.full((1, 1, 1, 2), 2, np.float32), "w")
        return g.conv(x, w, pads=(2, 1, 2, 1))

    x = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)
    wide = np.pad(x[0, 0], ((2, 2), (1, 1)))
    want = 2 * (wide[:, :-1] + wide[:, 1:])
    for rows, can in ((7, True), (6, False), (5, False), (4, True), (3, False), (1, False)):
        _, module, op = lowered(build, 1, 1, 3, 4)
        assert tile(op, SPACE, (1, 1, rows, 5)) == can
        PassRunner(context(), verify=True).run(module, INSTR)
        got = InterpreterBackend(planned=True).compile(module).run({"x": x})["y"]
        np.testing.assert_array_equal(got[0, 0], want)
    op = lowered(build, 1, 1, 3, 4)[2]
    # Of 6 rows and 1 the last would be of the border: columns are cut instead; 4 rows and 3 are well.
    assert fitting_tile(op, 4 * (7 * 5 + 3 * 4 + 2) - 1) == (1, 1, 7, 4)
    assert fitting_tile(op, 4 * (4 * 5 + 3 * 4 + 2)) == (1, 1, 4, 5)


def test_sizes_below_one_are_one() -> None:
    module, op = relu(2, 3)
    assert tile(op, SPACE, (0, 3))
    assert [loop.turns for loop in module.walk() if isinstance(loop, ForOp)] == [range(2)]


def test_a_scale_for_each_channel_stays_whole() -> None:
    """A part of such a tensor would be of another type: the loop over channels is not cut, others are."""
    g = glow.GraphBuilder()
    w = np.random.default_rng(0).standard_normal((6, 3, 1, 1)).astype(np.float32)
    g.save(g.conv(g.placeholder("x", (1, 3, 4, 4)), g.constant(w, "w")), "y")
    x = np.random.default_rng(1).standard_normal((1, 3, 4, 4)).astype(np.float32)
    quantized = glow.quantize(g, [{"x": x}], everything=True)
    want = glow.compile(quantized, backend="interpreter").run({"x": x})["y"]
    PassRunner(context()).run(quantized, LOWER)
    function = instr_functions(quantized)[0]
    function.declare({SPACE: Memory(1 << 20)})
    op = next(o for o in function.block.ops if o.name == "glow_instr.quantized_conv")
    assert isinstance(op, InstrOp)
    plan = Plan.of(op)
    assert plan is not None and plan.loops == [0, 2, 3]
    assert tile(op, SPACE, (1, 2, 2, 2, 3))
    loops = [loop.turns for loop in quantized.walk() if isinstance(loop, ForOp)]
    assert loops == [range(0, 4, 2)] * 2
    PassRunner(context(), verify=True).run(quantized, INSTR)
    got = InterpreterBackend(planned=True).compile(quantized).run({"x": x})["y"]
    np.testing.assert_array_equal(got, want)


def test_the_smallest_tile_is_told() -> None:
    """Loops that are summed count whole: 3 channels of the input and of the filter, one result."""
    op = lowered(convolved, 1, 3, 9, 9)[2]
    least = 4 * (1 + 3 * 3 * 5 + 3 * 3 * 3)
    with pytest.raises(CompileError, match=f"takes {least} bytes, and memory 'scratch' has {least - 1};"):
        tile_to_fit(op, SPACE, least - 1)
    assert tile_to_fit(lowered(convolved, 1, 3, 9, 9)[2], SPACE, least)


def test_the_pass_cuts_what_it_is_told() -> None:
    """Instructions of some names, or all."""
    names: Sequence[tuple[tuple[str, ...], set[str]]] = (
        ((), {"relu", "neg"}),
        (("glow_instr.neg",), {"neg"}),
    )
    for only, cut in names:
        g = glow.GraphBuilder()
        x = g.placeholder("x", (4, 8))
        g.save(g.relu(x), "y")
        g.save(g.neg(x), "z")
        PassRunner(context()).run(g.module, LOWER)
        instr_functions(g.module)[0].declare({SPACE: Memory(1 << 20)})
        TilePass(SPACE, 64, only).apply(context(), g.module)
        g.module.verify()
        inside = [op.name for loop in g.module.walk() if isinstance(loop, ForOp) for op in loop.block.ops]
        assert {n.removeprefix("glow_instr.") for n in inside} & {"relu", "neg"} == cut
