"""Operators cut into tiles by what they say of their loops compute what they compute whole."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from glow_backends.conformance import Case, cases, difference, expected_results, module_of_sample
from glow_backends.interpreter.backend import InterpreterBackend
from glow_dialects.core.errors import CompileError
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.dialects import context
from glow_dialects.instr.loops import ForOp
from glow_dialects.instr.memory import DeallocOp, StartCopyOp, instr_functions
from glow_dialects.instr.spaces import Memory
from glow_passes.instr.tile import Plan, tile, tile_to_fit
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
