"""What joins a convolution or product, and what does not: the results stay as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_runner import Graph
from xdsl.dialects.builtin import f16
from xdsl.ir import SSAValue

from glow_backends.cpu.kernels.conv.conv_ops import ConvOp
from glow_backends.cpu.kernels.gemm.gemm_op import GemmOp
from glow_backends.cpu.passes.cpu_fuse import CpuFusePass
from glow_dialects.core.types import shape_of, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MulOp, SubOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpGtOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.softmax import SoftmaxOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.dce import DcePass

R = np.random.default_rng(0)
SHAPE, ROWS = (2, 1, 4, 4, 8), (4, 6)
CONV: dict[str, Any] = {"lanes": 8, "strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
Build = Callable[[Graph, SSAValue], SSAValue]


def given(g: Graph, *shape: int, dtype: str = "float32") -> SSAValue:
    """An input."""
    return g.input(R.uniform(0.5, 1.5, shape).astype(dtype))


def known(g: Graph, *shape: int, dtype: str = "float32") -> SSAValue:
    """A constant."""
    return g.constant(R.uniform(0.5, 1.5, shape).astype(dtype))


def conv(g: Graph, filter: SSAValue | None = None, bias: SSAValue | None = None) -> SSAValue:
    """A convolution of channels in a block."""
    return g.b(ConvOp(given(g, *SHAPE), filter or known(g, 8, 8, 1, 1), bias, [], None, **CONV))


def product(g: Graph, a: Any = None, b: Any = None, bias: Any = None, **more: Any) -> SSAValue:
    """A product of four rows and six columns."""
    return g.b(GemmOp(a or given(g, 4, 5), b or given(g, 5, 6), bias, [], **more))


def number(g: Graph, value: float, *shape: int) -> SSAValue:
    """One number in a shape."""
    return g.b.splat(value, tensor(shape))


def fused(g: Graph, build: Build, start: Callable[[Graph], SSAValue] = conv) -> list[str]:
    """The operators after the pass, which leaves the results as they were."""
    g.save(build(g, start(g)))
    before = g.run()
    for item in (CpuFusePass(), DcePass()):
        item.apply(context(), g.module)
    g.module.verify()
    for have, want in zip(g.run(), before, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)
    return [op.removeprefix("glow_cpu.") for op in g.ops()]


def both(g: Graph, y: SSAValue, z: SSAValue) -> SSAValue:
    """The second value, the first one saved beside it."""
    g.save(y)
    return z


JOINED: dict[str, Build] = {
    "one operand": lambda g, y: g.b(ReluOp(y)),
    "with properties": lambda g, y: g.b(ClipOp(y, min=4.0, max=6.0)),
    "left": lambda g, y: g.b(SubOp(y, given(g, *SHAPE))),
    "right of a sum": lambda g, y: g.b(AddOp(given(g, *SHAPE), y)),
    "of two kernels": lambda g, y: g.b(SubOp(conv(g), y)),
    "a number": lambda g, y: g.b(MaxOp(y, number(g, 5.0))),
    "a number on the left": lambda g, y: g.b(MaxOp(number(g, 5.0), y)),
    "two": lambda g, y: g.b(MaxOp(g.b(ReluOp(y)), number(g, 5.0))),
    "a gate": lambda g, y: g.b(
        SelectOp(g.b(CmpGtOp(given(g, *SHAPE), number(g, 0.0))), y, number(g, 0.0, *SHAPE))
    ),
    "channels added": lambda g, y: g.b(AddOp(y, known(g, 1, 1, 1, 1, 8))),
    "channels added on the left": lambda g, y: g.b(AddOp(known(g, 1, 1, 1, 1, 8), y)),
    "channels taken": lambda g, y: g.b(SubOp(y, known(g, 1, 1, 1, 1, 8))),
    "channels scaled": lambda g, y: g.b(MulOp(known(g, 1, 1, 1, 1, 8), y)),
    "channels divided": lambda g, y: g.b(DivOp(y, known(g, 1, 1, 1, 1, 8))),
    "all divided": lambda g, y: g.b(DivOp(y, known(g))),
}
APART: dict[str, Build] = {
    "right of a difference": lambda g, y: g.b(SubOp(given(g, *SHAPE), y)),
    "a number before a difference": lambda g, y: g.b(SubOp(number(g, 0.5), y)),
    "wider": lambda g, y: g.b(MaxOp(y, given(g, 2, 2, 4, 4, 8))),
    "wider numbers": lambda g, y: g.b(MaxOp(y, number(g, 5.0, 2, 2, 4, 4, 8))),
    "pixels beside": lambda g, y: g.b(AddOp(y, given(g, 1, 1, 4, 4, 1))),
    "another type": lambda g, y: g.b(CastOp(y, results=tensor(shape_of(y), f16))),
    "conditions": lambda g, y: g.b(CmpGtOp(y, given(g, *SHAPE))),
    "no element-wise operator": lambda g, y: g.b(SoftmaxOp(y, axis=4)),
    "twice": lambda g, y: g.b(AddOp(y, y)),
    "read elsewhere": lambda g, y: both(g, y, g.b(ReluOp(y))),
    "under a predicate": lambda g, y: g.b(ReluOp(y, predicate=g.input(np.array(True)))),
    "another gate": lambda g, y: g.b(
        SelectOp(g.b(CmpGtOp(given(g, *SHAPE), number(g, 1.0))), y, number(g, 0.0, *SHAPE))
    ),
    "another value behind a gate": lambda g, y: g.b(
        SelectOp(g.b(CmpGtOp(given(g, *SHAPE), number(g, 0.0))), y, number(g, 2.0, *SHAPE))
    ),
    "a gate of channels": lambda g, y: g.b(
        SelectOp(g.b(CmpGtOp(given(g, 1, 1, 1, 1, 8), number(g, 0.0))), y, number(g, 0.0, *SHAPE))
    ),
    "a gate under a predicate": lambda g, y: g.b(
        SelectOp(
            g.b(CmpGtOp(given(g, *SHAPE), number(g, 0.0))),
            y,
            number(g, 0.0, *SHAPE),
            predicate=g.input(np.array(True)),
        )
    ),
}


@pytest.mark.parametrize("name", JOINED)
def test_joins_a_convolution(name: str) -> None:
    """What the body, the filter or the bias takes in."""
    g = Graph()
    assert set(fused(g, JOINED[name])) <= {"conv", "cmp_gt", "splat"} - {"cmp_gt"} | {"conv"}


@pytest.mark.parametrize("name", APART)
def test_beside_a_convolution(name: str) -> None:
    """What stays as it is."""
    g = Graph()
    names = set(fused(g, APART[name]))
    assert names - {"conv", "splat"}


@pytest.mark.parametrize("op", [AddOp, MulOp])
@pytest.mark.parametrize("changing", ["filter", "bias"])
def test_filters_that_change(op: type, changing: str) -> None:
    """Channels fold into what is known when the program is compiled."""
    g = Graph()
    weights = {"filter": known(g, 8, 8, 1, 1), "bias": known(g, 8)}
    weights[changing] = given(g, *shape_of(weights[changing]))
    assert fused(g, lambda g, y: g.b(op(y, known(g, 1, 1, 1, 1, 8))), lambda g: conv(g, **weights)) != [
        "conv"
    ]


@pytest.mark.parametrize("op", [AddOp, SubOp, MulOp, DivOp])
@pytest.mark.parametrize("known_bias", [True, False])
def test_channels_beside_a_bias(op: type, known_bias: bool) -> None:
    """The bias is scaled and shifted as well."""
    g = Graph()
    start = lambda g: conv(g, bias=known(g, 8) if known_bias else None)  # noqa: E731
    assert fused(g, lambda g, y: g.b(op(y, known(g, 1, 1, 1, 1, 8))), start) == ["conv"]


def test_channels_that_fill_no_block() -> None:
    """Lanes without a channel have no weights."""
    g = Graph()
    start = lambda g: conv(g, known(g, 5, 8, 1, 1))  # noqa: E731
    assert fused(g, lambda g, y: g.b(MulOp(y, known(g, 1, 1, 1, 1, 8))), start) == ["conv"]


def test_division_by_zero() -> None:
    """Weights stay finite."""
    g = Graph()
    y = g.b(DivOp(conv(g), g.constant(np.zeros((1, 1, 1, 1, 8), np.float32))))
    g.save(y)
    CpuFusePass().apply(context(), g.module)
    assert g.ops() == ["glow_cpu.conv", "div"]


def test_what_follows_a_step() -> None:
    """Channels behind a step of the body are a broadcast operand, which bodies do not have."""
    g = Graph()
    assert "add" in fused(g, lambda g, y: g.b(AddOp(g.b(ReluOp(y)), known(g, 1, 1, 1, 1, 8))))


PRODUCTS: dict[str, Build] = {
    "scaled": lambda g, y: g.b(MulOp(y, number(g, 0.5))),
    "scaled on the left": lambda g, y: g.b(MulOp(number(g, 0.5), y)),
    "scaled twice": lambda g, y: g.b(MulOp(g.b(MulOp(y, number(g, 0.5))), number(g, 3.0))),
    "divided": lambda g, y: g.b(DivOp(y, number(g, 4.0))),
    "columns": lambda g, y: g.b(AddOp(y, given(g, 6))),
    "columns on the left": lambda g, y: g.b(AddOp(known(g, 1, 6), y)),
    "columns and a scale behind": lambda g, y: g.b(MulOp(g.b(AddOp(y, known(g, 6))), number(g, 0.5))),
    "two vectors": lambda g, y: g.b(AddOp(y, g.b(MaxOp(given(g, 4, 6), number(g, 1.0))))),
    "transposed": lambda g, y: g.b(TransposeOp(y, permutation=(1, 0))),
    "before a transpose": lambda g, y: g.b(ReluOp(g.b(TransposeOp(y, permutation=(1, 0))))),
    "parts of a whole": lambda g, y: g.b(MaxOp(g.b(ConcatOp([y, product(g)], axis=1)), number(g, 6.0))),
    "moved parts": lambda g, y: g.b(
        ReluOp(g.b(ReshapeOp.to(g.b(ConcatOp([y, product(g)], axis=1)), (12, 4))))
    ),
    "clipped parts": lambda g, y: g.b(ClipOp(g.b(ConcatOp([y, product(g)], axis=1)), min=4.0, max=6.0)),
    "all numbers of a whole": lambda g, y: g.b(
        MaxOp(g.b(ConcatOp([y, product(g)], axis=1)), number(g, 6.0, 4, 12))
    ),
    "a number before all of a whole": lambda g, y: g.b(
        SubOp(number(g, 6.0, 4, 12), g.b(ConcatOp([y, product(g)], axis=1)))
    ),
    "clipped behind a movement": lambda g, y: g.b(
        ClipOp(g.b(ReshapeOp.to(g.b(ReshapeOp.to(y, (2, 12))), (24,))), min=4.0, max=6.0)
    ),
    "a number before what is moved": lambda g, y: g.b(
        SubOp(number(g, 0.5, 24), g.b(ReshapeOp.to(g.b(ReluOp(y)), (24,))))
    ),
}
MOVED = {"concat", "reshape", "transpose", "splat"}


@pytest.mark.parametrize("name", PRODUCTS)
def test_joins_a_product(name: str) -> None:
    """Scales, vectors of columns and steps, through movements and concatenations."""
    g = Graph()
    names = fused(g, PRODUCTS[name], product)
    left = {"max"} if name == "two vectors" else {"sub"} if name.startswith("a number before") else set[str]()
    assert set(names) <= {"gemm", *MOVED, *left}
    if "reshape" in names and "sub" in names:
        assert names.index("sub") < names.index("reshape")


PRODUCTS_APART: dict[str, Build] = {
    "a number by it": lambda g, y: g.b(DivOp(number(g, 4.0), y)),
    "rows": lambda g, y: g.b(AddOp(y, given(g, 4, 1))),
    "wider columns": lambda g, y: g.b(AddOp(y, given(g, 2, 1, 6))),
    "one column": lambda g, y: g.b(AddOp(y, given(g, 1))),
    "a scalar": lambda g, y: g.b(AddOp(y, given(g))),
    "a value": lambda g, y: g.b(MulOp(y, given(g))),
    "more rows": lambda g, y: g.b(MulOp(y, number(g, 0.5, 2, 4, 6))),
    "columns, read elsewhere": lambda g, y: both(g, y, g.b(AddOp(y, given(g, 6)))),
    "columns behind columns": lambda g, y: g.b(AddOp(g.b(AddOp(y, given(g, 6))), given(g, 6))),
    "columns behind a step": lambda g, y: g.b(AddOp(g.b(ReluOp(y)), given(g, 6))),
    "scaled, read elsewhere": lambda g, y: both(g, y, g.b(MulOp(y, number(g, 0.5)))),
    "a part that is no product": lambda g, y: g.b(ReluOp(g.b(ConcatOp([y, given(g, 4, 6)], axis=1)))),
    "parts of a whole that is read elsewhere": lambda g, y: (lambda z: both(g, z, g.b(ReluOp(z))))(
        g.b(ConcatOp([y, product(g)], axis=1))
    ),
    "moved, read elsewhere": lambda g, y: (lambda z: both(g, z, g.b(ReluOp(z))))(g.b(ReshapeOp.to(y, (24,)))),
    "moved, and wider": lambda g, y: g.b(MaxOp(g.b(ReshapeOp.to(y, (1, 24))), number(g, 5.0, 2, 24))),
    "parts, and wider": lambda g, y: g.b(
        MaxOp(g.b(ConcatOp([y, product(g)], axis=1)), number(g, 5.0, 2, 4, 12))
    ),
    "moved under a predicate": lambda g, y: g.b(
        ReluOp(g.b(ReshapeOp.to(y, (24,))), predicate=g.input(np.array(True)))
    ),
    "parts under a predicate": lambda g, y: g.b(
        ReluOp(g.b(ConcatOp([y, product(g)], axis=1)), predicate=g.input(np.array(True)))
    ),
}


@pytest.mark.parametrize("name", PRODUCTS_APART)
def test_beside_a_product(name: str) -> None:
    """What stays behind the product, and behind what moves it."""
    g = Graph()
    names = fused(g, PRODUCTS_APART[name], product)
    assert {"add", "mul", "div", "max", "relu"} & set(names[-2:])


@pytest.mark.parametrize(
    ("sizes", "permutation", "joined"),
    [
        ((5, 4), (1, 0), True),
        ((3, 5, 4), (0, 2, 1), True),
        ((5, 3, 4), (1, 2, 0), False),
        ((4, 3, 5), (1, 0, 2), False),
    ],
)
def test_transposed_operand(sizes: tuple[int, ...], permutation: tuple[int, ...], joined: bool) -> None:
    """Kernels read the last two axes either way."""
    g = Graph()
    turned = g.b(TransposeOp(given(g, *sizes), permutation=permutation))
    assert ("transpose" not in fused(g, lambda g, y: y, lambda g: product(g, turned))) == joined


def test_operands_of_16_bits() -> None:
    """Rows of 16-bit floats are read in their order; columns, which are packed, either way."""
    g = Graph()
    a = g.b(TransposeOp(given(g, 5, 4, dtype="float16"), permutation=(1, 0)))
    b = g.b(TransposeOp(known(g, 6, 5, dtype="float16"), permutation=(1, 0)))
    assert fused(g, lambda g, y: y, lambda g: product(g, a, b)) == ["transpose", "gemm"]


@pytest.mark.parametrize("kind", ["plain", "bias", "step", "constant", "wider", "read", "other axes"])
def test_transposed_result(kind: str) -> None:
    """b' a' in place of (a b)', where nothing follows the product, and constants stay on the right."""
    g = Graph()
    a, b = given(g, 3, 4, 5), given(g, 3, 5, 6)
    if kind in ("constant", "wider"):
        b = known(g, 3, 5, 6) if kind == "constant" else given(g, 5, 6)

    def turned(g: Graph, y: SSAValue) -> SSAValue:
        y = g.b(ReluOp(y)) if kind == "step" else y
        order = (1, 0, 2) if kind == "other axes" else (0, 2, 1)
        z = g.b(TransposeOp(y, permutation=order))
        return both(g, y, z) if kind == "read" else z

    names = fused(g, turned, lambda g: product(g, a, b, given(g, 6) if kind == "bias" else None))
    assert ("transpose" in names) == (kind != "plain")


@pytest.mark.parametrize("kind", ["predicate", "integers", "16 bits", "16 bits, known"])
def test_products_of_the_graph(kind: str) -> None:
    """Kernels of 16-bit floats pack their columns before; integers and predicates have none."""
    g = Graph()
    dtype = "int32" if kind == "integers" else "float16" if kind.startswith("16") else "float32"
    a = g.input(R.integers(0, 9, (4, 5)).astype(dtype))
    b = (g.constant if "known" in kind else g.input)(R.integers(0, 9, (5, 6)).astype(dtype))
    more: dict[str, Any] = {"predicate": g.input(np.array(True))} if kind == "predicate" else {}
    names = fused(g, lambda g, y: y, lambda g: g.b(MatmulOp(a, b, **more)))
    assert names == (["gemm"] if "known" in kind else ["matmul"])
