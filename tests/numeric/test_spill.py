"""Buffers that a full memory has no room for lie in the main one until they are needed: the same numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import get_backend
from glow_dialects.core.errors import CompileError
from glow_dialects.dialects import context
from glow_dialects.instr.memory import StartCopyOp, instr_function
from glow_dialects.instr.spaces import space_of
from glow_dialects.parse import parse_module
from glow_passes.instr.spill import spill
from glow_passes.pipeline import INSTR

LINE = 'memref<8xf32, "scratch">'


def chain(count: int, size: int, order: Sequence[int] | None = None) -> ModuleOp:
    """`count` lines are made one after another and added up, from the last on or in an order.

    Between there is a loop.
    """
    made = [
        f"%a{i} = glow_instr.alloc : {LINE}\n"
        f"%k{i} = glow_instr.alloc : {LINE}\n"
        f"glow_instr.splat @out %k{i} {{value = {i + 1}.0 : f64}} : {LINE}\n"
        f"glow_instr.mul @out %a{i}, @in %x, @in %k{i} : {LINE}, memref<8xf32>, {LINE}\n"
        f"glow_instr.dealloc @out %k{i} : {LINE}"
        for i in range(count)
    ]
    added = [
        f"glow_instr.add @out %y, @in %y, @in %a{i} : memref<8xf32>, memref<8xf32>, {LINE}\n"
        f"glow_instr.dealloc @out %a{i} : {LINE}"
        for i in order or range(count)[::-1]
    ]
    turn = f"""glow_instr.for %i = 0 to 4 step 2 {{
      %b = glow_instr.alloc : {LINE}
      glow_instr.relu @out %b, @in %a0 : {LINE}, {LINE}
      glow_instr.dealloc @out %b : {LINE}
    }}"""
    body = "\n".join([*made, turn, "glow_instr.splat @out %y {value = 0.0 : f64} : memref<8xf32>", *added])
    memory = f"scratch = {{size = {size} : i64, alignment = 32 : i64}}"
    return parse_module(
        f"""glow.placeholder @x input : tensor<8xf32>
glow.placeholder @y output : tensor<8xf32>
glow_instr.func @main attributes {{memories = {{{memory}}}}} declare {{
  %x = glow_instr.weight @x mutable : memref<8xf32>
  %y = glow_instr.weight @y mutable : memref<8xf32>
}} program {{
{body}
}}""",
        "chain",
        context(),
    )


def planned(module: ModuleOp) -> ModuleOp:
    """The module as a backend gets it."""
    for item in INSTR:
        item.apply(context(), module)
    module.verify()
    return module


@pytest.mark.parametrize(("lines", "stores"), [(8, 0), (5, 2), (3, 4), (2, 6)])
def test_numbers_stay(lines: int, stores: int) -> None:
    """Six lines live at once; in smaller memories those that are needed last are stored and loaded."""
    module = chain(6, 32 * lines)
    function = instr_function(module, "main")
    assert spill(function) == stores
    assert sum(isinstance(op, StartCopyOp) for op in function.walk()) == 2 * stores
    module = planned(module)
    x = np.arange(8, dtype=np.float32)
    for late in (False, True):
        program = get_backend("interpreter", late=late, planned=True).compile(module)
        np.testing.assert_array_equal(program.run({"x": x})["y"], 21 * x)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5), (3, 0, 5, 1, 2, 4), (5, 4, 3, 2, 1, 0)])
def test_what_is_needed_last_goes_first(order: tuple[int, ...]) -> None:
    """Six lines in a memory of five, of which two are in use by each product: two are stored."""
    module = chain(6, 32 * 5, order)
    function = instr_function(module, "main")
    assert spill(function) == 2
    copies = [op for op in function.walk() if isinstance(op, StartCopyOp)]
    stored = {copy.src.name_hint for copy in copies if space_of(copy.src)}
    # When the memory is full first, four lines are there; the loop needs that of 0 before all sums.
    assert f"a{max(range(1, 4), key=order.index)}" in stored
    x = np.arange(8, dtype=np.float32)
    program = get_backend("interpreter", planned=True).compile(planned(module))
    np.testing.assert_array_equal(program.run({"x": x})["y"], 21 * x)


def test_what_one_instruction_needs_is_not_spilled() -> None:
    """A memory of one line has no room for what an instruction reads and writes: its plan says so."""
    module = chain(6, 32)
    spill(instr_function(module, "main"))
    with pytest.raises(CompileError, match="memory 'scratch' of 32 bytes is full"):
        planned(module)
