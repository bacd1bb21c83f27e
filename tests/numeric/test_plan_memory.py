"""Places of buffers in memories, to the byte, and what is told of a memory that is full."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.errors import CompileError, UnsupportedError
from glow_dialects.dialects import context
from glow_dialects.instr.memory import AllocOp, instr_function
from glow_dialects.parse import parse_module
from glow_passes.instr.plan_memory import PlanMemoryPass


def program(sizes: Sequence[int], memory: int, alignment: int = 16, space: str = ', "near"') -> ModuleOp:
    """Buffers of some elements, written one after another, which all live to the end."""
    kinds = [f"memref<{n}xf32{space}>" for n in sizes]
    body = [f"%a{i} = glow_instr.alloc : {kind}" for i, kind in enumerate(kinds)]
    body += [f"glow_instr.splat @out %a{i} {{value = 1.0 : f64}} : {kind}" for i, kind in enumerate(kinds)]
    body += [f"glow_instr.dealloc @out %a{i} : {kind}" for i, kind in enumerate(kinds)]
    near = f"near = {{size = {memory} : i64, alignment = {alignment} : i64}}"
    text = f"glow_instr.func @f attributes {{memories = {{{near}}}}} declare {{}} program {{\n"
    return parse_module(text + "\n".join(body) + "\n}", "program", context())


def planned(module: ModuleOp, alignment: int = 64) -> list[int]:
    """The places, by size."""
    PlanMemoryPass(alignment).apply(context(), module)
    module.verify()
    allocs = [op for op in module.walk() if isinstance(op, AllocOp)]
    return sorted(op.offset.value.data for op in allocs if op.offset is not None)


def test_a_memory_is_used_to_its_last_byte() -> None:
    """Sizes count up to where the next buffer may begin."""
    places = planned(program([4, 5, 1], 16 + 32 + 16))
    assert len(places) == 3 and places[0] == 0 and all(p % 16 == 0 for p in places) and places[-1] <= 48
    with pytest.raises(CompileError, match="memory 'near' of 63 bytes is full"):
        planned(program([4, 5, 1], 16 + 32 + 16 - 1))


def test_the_arena_is_as_large_as_needed() -> None:
    """Rounded up for each buffer, to what is asked for."""
    for alignment, size in ((64, 192), (16, 64), (4, 40)):
        module = program([4, 5, 1], 1, space="")
        planned(module, alignment)
        arena = instr_function(module, "f").arena
        assert arena is not None and arena.value.data == size
    with pytest.raises(UnsupportedError, match="alignment must be positive, got 0"):
        PlanMemoryPass(0)
    assert PlanMemoryPass(1).alignment == 1


def test_what_is_told_of_a_full_memory() -> None:
    """The function, the instruction, the bytes, and the largest buffers, four at most."""
    with pytest.raises(CompileError) as error:
        planned(program([4, 8, 12], 64))
    told = str(error.value)
    assert told.startswith(
        "@f: memory 'near' of 64 bytes is full at glow_instr.splat: buffers of 96 bytes live there ("
    )
    assert '(memref<12xf32, "near">, memref<8xf32, "near">, memref<4xf32, "near">);' in told
    with pytest.raises(CompileError) as error:
        planned(program([4, 8, 12, 16], 64))
    assert 'memref<8xf32, "near">, memref<4xf32, "near">);' in str(error.value)
    with pytest.raises(CompileError) as error:
        planned(program([1, 4, 8, 12, 16], 64))
    # The last one is not shown.
    assert '(memref<16xf32, "near">, ' in str(error.value) and ', memref<8xf32, "near">, ' in str(error.value)
    assert "memref<1xf32" not in str(error.value).partition("memref<4xf32")[2] and ", ...);" in str(
        error.value
    )


def test_the_instruction_at_which_most_lives() -> None:
    """Not the first that has too much beside it."""
    text = """glow.placeholder @y output : tensor<8xf32>
glow_instr.func @f attributes {memories = {near = {size = 32 : i64, alignment = 16 : i64}}} declare {
  %y = glow_instr.weight @y mutable : memref<8xf32>
} program {
  %a = glow_instr.alloc : memref<8xf32, "near">
  glow_instr.splat @out %a {value = 1.0 : f64} : memref<8xf32, "near">
  %b = glow_instr.alloc : memref<4xf32, "near">
  glow_instr.splat @out %b {value = 1.0 : f64} : memref<4xf32, "near">
  glow_instr.dealloc @out %b : memref<4xf32, "near">
  %c = glow_instr.alloc : memref<8xf32, "near">
  glow_instr.neg @out %c, @in %a : memref<8xf32, "near">, memref<8xf32, "near">
  glow_instr.dealloc @out %a : memref<8xf32, "near">
  glow_instr.relu @out %y, @in %c : memref<8xf32>, memref<8xf32, "near">
  glow_instr.dealloc @out %c : memref<8xf32, "near">
}"""
    with pytest.raises(
        CompileError, match="is full at glow_instr.neg: buffers of 64 bytes live there \\(memref<8"
    ):
        planned(parse_module(text, "program", context()))
