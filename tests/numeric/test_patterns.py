"""Each pattern alone does what it says: the nodes that its family leaves, which compute the same."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from graph_runner import Graph
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from glow_dialects.core.types import Array, dtype_of, element_type, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, MulOp
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.batch_norm import BatchNormOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.flip import FlipOp
from glow_dialects.ops.insert import InsertOp
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.max_pool import MaxPoolOp
from glow_dialects.ops.module import ConstantOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reduce import ReduceMeanOp, ReduceSumOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.softmax import SoftmaxOp
from glow_dialects.ops.splat import SplatOp
from glow_dialects.ops.tile import TileOp
from glow_dialects.ops.transpose import TransposeOp
from glow_dialects.ops.unary_math import LogOp
from glow_passes.graph.cse import CsePass
from glow_passes.graph.dce import DcePass
from glow_passes.graph.simplify import SimplifyPass

RNG = np.random.default_rng(0)
Make = Callable[[Graph], SSAValue]


def data(*shape: int) -> Array:
    """Random numbers from 0.5 to 2."""
    return RNG.uniform(0.5, 2, shape).astype(np.float32)


def conv(g: Graph, x: SSAValue) -> SSAValue:
    """Three channels as four; it is followed by what enters its weights."""
    w = g.constant(data(4, 3, 3, 3))
    return g.b(ConvOp(x, w, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)))


def batch_norm(g: Graph, x: SSAValue, channels: int) -> SSAValue:
    """With statistics that are known."""
    return g.b(BatchNormOp(x, *(g.constant(data(channels)) for _ in range(4)), epsilon=1e-5))


def image(g: Graph) -> SSAValue:
    """An image of three channels."""
    return g.input(data(1, 3, 6, 6))


def pool(kind: type[MaxPoolOp] | type[AvgPoolOp], value: float) -> Make:
    """A pool of a padded image."""

    def make(g: Graph) -> SSAValue:
        padded = g.b(PadOp(image(g), pads=(0, 0, 1, 1, 0, 0, 1, 1), value=value))
        window = {"kernel": (3, 3), "strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
        return g.b(kind(padded, **window))

    return make


def windows(x: SSAValue) -> SliceOp:
    """Two rows of a matrix of four."""
    return SliceOp(x, starts=(1, 0), ends=(3, 3), steps=(1, 1))


def turned(g: Graph, rows: int, columns: int) -> SSAValue:
    """A matrix transposed."""
    return g.b(TransposeOp(g.input(data(rows, columns)), permutation=(1, 0)))


def rows_times_matrix(g: Graph) -> SSAValue:
    """Each row of a tensor by one matrix."""
    x, w = g.input(data(3, 2, 4)), g.constant(data(4, 5))
    steps = ((SliceOp(x, starts=(i, 0, 0), ends=(i + 1, 2, 4), steps=(1, 1, 1))) for i in range(3))
    rows = [g.b(ReshapeOp.to(g.b(step), (2, 4))) for step in steps]
    return g.b(ConcatOp([g.b(MatmulOp(row, w)) for row in rows], axis=0))


#: Family and pattern; a graph; the nodes that are left of it.
PATTERNS: dict[str, tuple[Make, str]] = {
    "algebra divide_by_constant": (lambda g: g.b(DivOp(g.input(data(2)), g.constant(data(2)))), "mul"),
    "algebra one_over": (
        lambda g: g.b(DivOp(g.b(SplatOp(results=tensor((2,), f32), value=1.0)), g.input(data(2)))),
        "reciprocal",
    ),
    "casts identity_cast": (lambda g: g.b(CastOp(g.input(data(2)), results=tensor((2,), f32))), ""),
    "clips clip_at_zero": (lambda g: g.b(ClipOp(g.input(data(2)), min=0.0, max=math.inf)), "relu"),
    "expansions expand_of_expand": (
        lambda g: g.b(ExpandOp(g.b(ExpandOp(g.input(data(2)), results=tensor((3, 2), f32))),
                               results=tensor((4, 3, 2), f32))),
        "expand",
    ),
    "expansions tile_once": (lambda g: g.b(TileOp(g.input(data(2, 3)), repeats=(1, 1))), ""),
    "fold_batch_norm batch_norm_after_linear": (lambda g: batch_norm(g, conv(g, image(g)), 4), "conv"),
    "fold_batch_norm batch_norm_alone": (lambda g: batch_norm(g, image(g), 3), "mul add"),
    "fold_batch_norm add_after_linear": (
        lambda g: g.b(AddOp(conv(g, image(g)), g.constant(data(4, 1, 1)))), "conv",
    ),
    "fold_batch_norm multiply_before_linear": (
        lambda g: conv(g, g.b(MulOp(image(g), g.constant(data(3, 1, 1))))), "conv",
    ),
    "fold_pads pad_before_max_pool": (pool(MaxPoolOp, -math.inf), "max_pool"),
    "fold_pads pad_before_avg_pool": (pool(AvgPoolOp, 0.0), "avg_pool"),
    "fold_pads pad_below_transpose": (
        lambda g: g.b(TransposeOp(g.b(PadOp(g.input(data(2, 3)), pads=(1, 0, 0, 2), value=1.5)),
                                  permutation=(1, 0))),
        "transpose pad",
    ),
    "reductions reduce_one_element": (
        lambda g: g.b(ReduceSumOp(g.input(data(2, 1, 3)), axes=(1,))), "reshape",
    ),
    "reshapes expand_to_reshape": (
        lambda g: g.b(ExpandOp(g.input(data(2, 3)), results=tensor((1, 2, 3), f32))), "reshape",
    ),
    "slices whole_slice": (
        lambda g: g.b(SliceOp(g.input(data(2, 3)), starts=(0, 0), ends=(2, 3), steps=(1, 1))), "",
    ),
    "slices whole_insert": (
        lambda g: g.b(InsertOp(g.input(data(2, 3)), g.input(data(2, 3)), starts=(0, 0))), "",
    ),
    "slices insert_of_slice": (
        lambda g: (lambda x: g.b(InsertOp(x, g.b(windows(x)), starts=(1, 0))))(g.input(data(4, 3))), "",
    ),
    "slices flip_of_flip": (
        lambda g: g.b(FlipOp(g.b(FlipOp(g.input(data(2, 3)), axes=(0, 1))), axes=(1,))), "flip",
    ),
    "softmaxes log_of_softmax": (
        lambda g: g.b(LogOp(g.b(SoftmaxOp(g.input(data(2, 3)), axis=1)))), "log_softmax",
    ),
    "splats scalar_literal": (lambda g: g.b(LiteralOp.of(np.full((2, 2), 3, np.float32))), "splat"),
    "splats moved_splat": (
        lambda g: g.b(ReduceMeanOp(g.b(SplatOp(results=tensor((2, 3), f32), value=2.0)), axes=(1,))), "splat",
    ),
    "sums rows_times_matrix": (rows_times_matrix, "reshape matmul slice slice slice concat"),
    "transposes below_concat": (
        lambda g: g.b(ConcatOp([turned(g, 2, 3), turned(g, 4, 3)], axis=1)), "concat transpose",
    ),
    "transposes below_slice": (
        lambda g: g.b(SliceOp(turned(g, 4, 3), starts=(1, 0), ends=(3, 2), steps=(1, 1))), "slice transpose",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern(name: str) -> None:
    """What the family of the pattern leaves, and its value."""
    make, left = PATTERNS[name]
    g = Graph()
    g.save(make(g))
    want = g.run()
    for item in (SimplifyPass(only=(name.split()[0],)), CsePass(), DcePass()):
        item.apply(context(), g.module)
    assert g.ops() == left.split()
    for have, value in zip(g.run(), want, strict=True):
        np.testing.assert_allclose(have, value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("number", "left"), [(3.0, "div"), (4.0, "mul"), (0.125, "mul")])
def test_doubles_are_divided(number: float, left: str) -> None:
    """A product stands for a quotient of doubles where it is exact."""
    g = Graph()
    g.save(g.b(DivOp(g.input(data(2).astype(np.float64)), g.constant(np.full(2, number)))))
    want = g.run()
    SimplifyPass(only=("algebra",)).apply(context(), g.module)
    DcePass().apply(context(), g.module)
    assert g.ops()[-1] == left
    np.testing.assert_array_equal(g.run()[0], want[0])


def test_batch_norm_rounds_once() -> None:
    """Weights of half precision are multiplied by factors that were not rounded themselves."""
    g = Graph()
    w, statistics = data(4, 3, 3, 3).astype(np.float16), [data(4).astype(np.float16) for _ in range(4)]
    x = g.input(data(1, 3, 6, 6).astype(np.float16))
    linear = g.b(ConvOp(x, g.constant(w), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)))
    g.save(g.b(BatchNormOp(linear, *map(g.constant, statistics), epsilon=1e-5)))
    SimplifyPass(only=("fold_batch_norm",)).apply(context(), g.module)
    scale, _, _, variance = (a.astype(np.float32) for a in statistics)
    factor = scale / np.sqrt(variance + np.float32(1e-5))
    want = (w.astype(np.float32) * factor.reshape(4, 1, 1, 1)).astype(np.float16)
    constants = [op.array() for op in g.module.ops if isinstance(op, ConstantOp)]
    assert any(a is not None and a.shape == w.shape and np.array_equal(a, want) for a in constants)


#: The types that hold every value of a type.
LOSSLESS = {
    "bool": "bool int8 uint8 int32 int64 float16 float32 float64",
    "int8": "int8 int32 int64 float16 float32 float64",
    "uint8": "uint8 int32 int64 float16 float32 float64",
    "int32": "int32 int64 float64",
    "int64": "int64 float64",  # as NumPy has it
    "float16": "float16 float32 float64",
    "bfloat16": "bfloat16 float32 float64",
    "float32": "float32 float64",
    "float64": "float64",
}
WHOLE = ("int8", "uint8", "int32", "int64")


@pytest.mark.parametrize("source", LOSSLESS)
def test_conversions_of_conversions(source: str) -> None:
    """The first of two goes where it loses nothing; booleans ask for zero, and only ints wrap."""
    dtype = dtype_of(element_type(source))
    numbers = np.array([0, 1, -1, 3, 100, 0.5, -2.75, 6e4]).astype(
        np.float64 if "float" in source else np.int64
    )
    for middle in LOSSLESS:
        for target in LOSSLESS:
            g = Graph()
            x = g.input(numbers.astype(dtype))
            for kind in (middle, target):
                x = g.b(CastOp(x, results=tensor((8,), element_type(kind))))
            g.save(x)
            with np.errstate(all="ignore"):
                want = g.run()[0]
                SimplifyPass(only=("casts",)).apply(context(), g.module)
                DcePass().apply(context(), g.module)
                have = g.run()[0]
            wraps = source in WHOLE and target in WHOLE and middle not in WHOLE
            folds = middle in LOSSLESS[source].split() and "bool" not in (source, target) and not wraps
            count = (
                0 if folds and source == target else 1 if folds else (middle != source) + (target != middle)
            )
            assert len(g.ops()) == count, (source, middle, target, g.ops())
            np.testing.assert_array_equal(have, want, err_msg=f"{source}, {middle}, {target}")
