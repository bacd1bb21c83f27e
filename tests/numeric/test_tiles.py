"""Products and convolutions in tiles of every size: NumPy's numbers, in programs that verify."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from glow_backends.base import get_backend
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.types import Array, element_of, shape_of
from glow_dialects.dialects import context
from glow_dialects.instr.loops import ForOp
from glow_dialects.instr.memory import AllocOp, StartCopyOp, instr_function
from glow_dialects.instr.spaces import space_of
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.splat import SplatOp
from glow_dialects.parse import parse_module
from glow_passes.instr.tiles import (
    Place,
    Sizes,
    Tiler,
    conv_product,
    dense_product,
    followers,
    pieces,
    some_sizes,
)
from glow_passes.pipeline import INSTR

MATMUL, ADD, SPLAT = (cast(type[InstrOp], op.INSTR) for op in (MatmulOp, AddOp, SplatOp))


class Multiplier(Tiler):
    """Sums of products in the memory "near", from a first value on."""

    def begin(self, sums: SSAValue, column: Place) -> None:
        self.add(SPLAT(sums, value=0.0))

    def accumulate(self, sums: SSAValue, a: SSAValue, b: SSAValue) -> None:
        part = self.buffer(shape_of(sums), element_of(sums))
        self.add(MATMUL(part, a, b))
        self.add(ADD(sums, sums, part))


def program(
    instructions: str, **shapes: Sequence[int]
) -> tuple[ModuleOp, dict[str, SSAValue], list[InstrOp]]:
    """A program on placeholders of some shapes, the last of which is the output `y`; its buffers."""
    kinds = {name: "x".join(map(str, (*shape, "f32"))) for name, shape in shapes.items()}
    text = "\n".join(
        f"glow.placeholder @{name} {'output' if name == 'y' else 'input'} : tensor<{kind}>"
        for name, kind in kinds.items()
    )
    text += "\nglow_instr.func @main attributes {memories = {near = {size = 65536 : i64}}} declare {\n"
    text += "\n".join(f"%{n} = glow_instr.weight @{n} mutable : memref<{kind}>" for n, kind in kinds.items())
    for name, kind in kinds.items():
        instructions = instructions.replace(f"${name}", f"memref<{kind}>")
    module = parse_module(f"{text}\n}} program {{\n{instructions}\n}}", "program", context())
    function = instr_function(module, "main")
    ops = [op for op in function.block.ops if isinstance(op, InstrOp)]
    return module, {w.target: w.result for w in function.weights()}, ops


def run(module: ModuleOp, feed: dict[str, Array]) -> Array:
    """The output, where transfers come early and where they come late: they are the same."""
    module.verify()
    for item in INSTR:
        item.apply(context(), module)
    module.verify()
    early, late = (
        get_backend("interpreter", late=late, planned=True).compile(module).run(feed)["y"]
        for late in (False, True)
    )
    np.testing.assert_array_equal(early, late)
    return early


def whole(seed: int, *shape: int) -> Array:
    """Small whole numbers, whose sums are exact in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


DENSE = "glow_instr.matmul @out %y, @in %a, @in %b : $y, $a, $b"


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize(("columns", "depth"), [(1, 3), (4, 2), (6, 7), (3, 1)])
def test_matrix_products(rows: int, columns: int, depth: int) -> None:
    """Tiles that divide the sizes, or leave a rest, or are the whole."""
    module, at, (op,) = program(DENSE, a=(5, 7), b=(7, 6), y=(5, 6))
    tiler = Multiplier(op, "near")
    tiler.product(dense_product(at["y"], at["a"], at["b"]), Sizes(rows, columns, depth), f32)
    tiler.replace()
    a, b = whole(0, 5, 7), whole(1, 7, 6)
    np.testing.assert_array_equal(run(module, {"a": a, "b": b}), a @ b)


def test_tiles_are_of_the_sizes_asked_for() -> None:
    """Loops where there are several turns, buffers of the size of a tile, and of the rest."""
    module, at, (op,) = program(DENSE, a=(6, 4), b=(4, 5), y=(6, 5))
    tiler = Multiplier(op, "near")
    tiler.product(dense_product(at["y"], at["a"], at["b"]), Sizes(2, 2, 4), f32)
    tiler.replace()
    loops = [op.turns for op in module.walk() if isinstance(op, ForOp)]
    assert loops == [range(0, 6, 2), range(0, 4, 2)]
    loaded = [shape_of(op.dest) for op in module.walk() if isinstance(op, StartCopyOp)]
    # A tile of `a` is loaded once for all columns, as its depth is whole; `b` and the result for each.
    assert loaded == [(2, 4), (4, 2), (2, 2), (4, 1), (2, 1)]
    allocs = [op for op in module.walk() if isinstance(op, AllocOp)]
    assert {space_of(op.result) for op in allocs} == {"near"}


def correlate(x: Array, w: Array, strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """The convolution without a border, by sums over the taps."""
    outs = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True)
    ]
    y = np.zeros((x.shape[0], w.shape[0], *outs), np.float32)
    for tap in product(*map(range, w.shape[2:])):
        cut = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilations, outs, strides, strict=True)
        )
        y += np.einsum("nc...,oc->no...", x[:, :, *cut], w[:, :, *tap])
    return y


@pytest.mark.parametrize("sizes", [Sizes(1, 1, 1), Sizes(2, 4, 3), Sizes(3, 3, 2), Sizes(9, 9, 9)])
@pytest.mark.parametrize(
    ("shape", "kernel", "strides", "dilations"),
    [
        ((2, 3, 6, 5), (3, 2), (1, 1), (1, 1)),
        ((1, 3, 9, 8), (2, 3), (2, 1), (3, 2)),
        ((3, 3, 5), (2,), (1,), (2,)),
    ],
)
def test_convolutions(
    sizes: Sizes, shape: tuple[int, ...], kernel: tuple[int, ...], strides: tuple[int, ...], dilations: Any
) -> None:
    """Of several images, strides and taps; rows of the input overlap."""
    x, w = whole(0, *shape), whole(1, 4, shape[1], *kernel)
    want = correlate(x, w, strides, dilations)
    module, at, (op,) = program("glow_instr.copy @out %y, @in %y : $y, $y", x=shape, w=w.shape, y=want.shape)
    tiler = Multiplier(op, "near")
    tiler.product(conv_product(at["y"], at["x"], at["w"], strides, dilations), sizes, f32)
    tiler.replace()
    np.testing.assert_array_equal(run(module, {"x": x, "w": w}), want)


def test_images_share_the_filter() -> None:
    """A loop over images where there are several, none of no image."""
    for count, loops in ((1, 0), (3, 1)):
        module, at, (op,) = program(
            "glow_instr.copy @out %y, @in %y : $y, $y", x=(count, 2, 4, 4), w=(3, 2, 1, 1), y=(count, 3, 4, 4)
        )
        tiler = Multiplier(op, "near")
        tiler.product(conv_product(at["y"], at["x"], at["w"], (1, 1), (1, 1)), Sizes(4, 3, 2), f32)
        tiler.replace()
        turns = [op.turns for op in module.walk() if isinstance(op, ForOp)]
        assert turns == [range(count)] * loops


def test_no_images() -> None:
    """Nothing is written for a batch of none."""
    module, at, (op,) = program(DENSE, a=(5, 7), b=(7, 6), y=(5, 6))
    before = list(module.walk())
    one = dense_product(at["y"], at["a"], at["b"])
    Multiplier(op, "near").product(replace(one, images=(0, 35, 30)), Sizes(1, 1, 1), f32)
    assert list(module.walk()) == before


CHAIN = """%c = glow_instr.alloc : $y
glow_instr.matmul @out %c, @in %a, @in %b : $y, $a, $b
%d = glow_instr.alloc : $y
glow_instr.relu @out %d, @in %c : $y, $y
glow_instr.dealloc @out %c : $y
glow_instr.add @out %y, @in %r, @in %d : $y, $y, $y
glow_instr.dealloc @out %d : $y"""


@pytest.mark.parametrize("sizes", [Sizes(2, 2, 3), Sizes(3, 4, 7), Sizes(5, 6, 2)])
def test_what_follows_is_done_in_tiles(sizes: Sizes) -> None:
    """relu and a sum with another tensor, whose tiles are loaded, too."""
    module, at, ops = program(CHAIN, a=(5, 7), b=(7, 6), r=(5, 6), y=(5, 6))
    op = ops[0]
    chain = followers(op)
    assert [o.name for o in chain] == ["glow_instr.relu", "glow_instr.add"]
    tiler = Multiplier(op, "near", chain)
    tiler.product(dense_product(op.operands[0], at["a"], at["b"]), sizes, f32)
    tiler.replace()
    a, b, r = whole(0, 5, 7), whole(1, 7, 6), whole(2, 5, 6)
    np.testing.assert_array_equal(run(module, {"a": a, "b": b, "r": r}), np.maximum(a @ b, 0) + r)
    assert {space_of(o.result) for o in module.walk() if isinstance(o, AllocOp)} == {"near"}


def follow(second: str, more: str = "") -> list[str]:
    """The names of what follows a product whose result `%c` an instruction reads."""
    text = f"""%c = glow_instr.alloc : $y
glow_instr.matmul @out %c, @in %a, @in %b : $y, $a, $b
{more}
{second}
glow_instr.dealloc @out %c : $y"""
    shapes: dict[str, Sequence[int]] = {
        "a": (4, 4),
        "b": (4, 4),
        "r": (4, 4),
        "w": (4, 8),
        "y": (4, 4),
    }
    ops = program(text, **shapes)[2]
    return [o.name.removeprefix("glow_instr.") for o in followers(ops[0])]


def test_what_may_follow() -> None:
    """Element-wise work alone, on tensors of the same shape or numbers, that nothing else reads."""
    assert follow("glow_instr.relu @out %y, @in %c : $y, $y") == ["relu"]
    assert follow("glow_instr.add @out %y, @in %c, @in %r : $y, $y, $r") == ["add"]
    # Twice the same operand, whose tile is one.
    assert follow("glow_instr.mul @out %y, @in %c, @in %c : $y, $y, $y") == []
    # Not what looks at other elements.
    assert follow("glow_instr.transpose @out %y, @in %c {permutation = array<i64: 1, 0>} : $y, $y") == []
    # Not into another memory, or between elements of others.
    near = 'memref<4x4xf32, "near">'
    ends = f"glow_instr.dealloc @out %m : {near}"
    text = f"%m = glow_instr.alloc : {near}\nglow_instr.relu @out %m, @in %c : {near}, $y\n{ends}"
    assert follow(text) == []
    apart = "memref<4x4xf32, strided<[8, 1]>>"
    view = f"%s = glow_instr.tensorview %w : $w to {apart}\n"
    assert follow(f"{view}glow_instr.relu @out %s, @in %c : {apart}, $y") == []
    # Two readers: one of them would find nothing.
    two = "glow_instr.relu @out %y, @in %c : $y, $y\nglow_instr.neg @out %r, @in %c : $r, $y"
    assert follow(two) == []
    # An operand of the product is written over between the product and what follows.
    assert follow("glow_instr.relu @out %y, @in %c : $y, $y", "glow_instr.neg @out %a, @in %r : $a, $r") == []
    assert follow("glow_instr.relu @out %y, @in %c : $y, $y", "glow_instr.neg @out %r, @in %a : $r, $a") == [
        "relu"
    ]


def test_results_that_a_program_shows_are_whole() -> None:
    """Nothing follows an instruction that writes a weight: others may read it."""
    text = "glow_instr.matmul @out %y, @in %a, @in %b : $y, $a, $b\nglow_instr.relu @out %r, @in %y : $r, $y"
    ops = program(text, a=(4, 4), b=(4, 4), r=(4, 4), y=(4, 4))[2]
    assert followers(ops[0]) == []


def test_pieces() -> None:
    """Ranges whose steps are the sizes of tiles: those that are whole, and the rest."""
    assert pieces(12, 4) == [range(0, 12, 4)]
    assert pieces(13, 4) == [range(0, 12, 4), range(12, 13, 1)]
    assert pieces(3, 4) == [range(0, 3, 3)]
    assert pieces(14, 4)[1].step == 2
    assert pieces(0, 4) == []


def test_sizes_to_try() -> None:
    """Powers of two and the whole, of which the two with the most rows that fit; no more than 16 parts."""

    def tile_bytes(sizes: Sizes) -> int:
        return 4 * sizes.rows * sizes.columns

    found = some_sizes(Sizes(6, 20, 3), 8, tile_bytes, 4 * 64)
    of = {
        (s.columns, s.depth): [t.rows for t in found if (t.columns, t.depth) == (s.columns, s.depth)]
        for s in found
    }
    assert set(of) == {(c, d) for c in (20, 16, 8) for d in (3, 2, 1)}
    assert all(of[20, d] == [2, 1] and of[16, d] == [4, 2] and of[8, d] == [6, 4] for d in (3, 2, 1))
    # At 4 bytes an element exactly 64 elements fit.
    assert max(tile_bytes(s) for s in found) == 4 * 64
    deep = {s.depth for s in some_sizes(Sizes(1, 8, 64), 8, tile_bytes, 1 << 20)}
    assert deep == {64, 32, 16, 8, 4}
    assert some_sizes(Sizes(6, 20, 3), 8, tile_bytes, 4 * 7) == []
