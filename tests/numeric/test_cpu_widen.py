"""Which operators on 16-bit floats compute in 32 bits, on which processors; the results stay close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from graph_runner import Graph
from xdsl.dialects.builtin import f16, f64, i32
from xdsl.ir import SSAValue

from glow_backends.cpu.passes.cpu_widen import CpuWidenPass
from glow_dialects.core.types import element_of, shape_of, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.batch_norm import BatchNormOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp
from glow_dialects.ops.max_pool import MaxPoolOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp
from glow_dialects.ops.softmax import SoftmaxOp
from glow_passes.graph.dce import DcePass

R = np.random.default_rng(0)
WITHOUT, HALVES, NATIVE = "haswell", "sapphirerapids", "znver4"
"""Processors without arithmetic on 16-bit floats, with sums in float16, and with float32 sums of bfloat16."""
BF16 = "bfloat16"
Build = Callable[[Graph], SSAValue]


def given(g: Graph, *shape: int, dtype: str = "float16", known: bool = False) -> SSAValue:
    """An input, or a constant."""
    array = R.uniform(0.5, 1.5, shape).astype(ml_dtypes.bfloat16 if dtype == BF16 else dtype)
    return g.constant(array) if known else g.input(array)


def product(
    g: Graph, rows: int = 3, depth: int = 2, *batch: int, dtype: str = "float16", **more: Any
) -> SSAValue:
    """A product by constant weights."""
    a, b = given(g, *batch, rows, depth, dtype=dtype), given(g, *batch, depth, 4, dtype=dtype, known=True)
    return g.b((BatchMatmulOp if batch else MatmulOp)(a, b, **more))


def conv(g: Graph, dtype: str = "float16") -> SSAValue:
    """A convolution of one pixel each."""
    return g.b(ConvOp(given(g, 1, 2, 3, 3, dtype=dtype), given(g, 2, 2, 1, 1, dtype=dtype, known=True), None))


def norm(g: Graph, dtype: str = "float16") -> SSAValue:
    """A normalisation."""
    x = given(g, 1, 2, 3, 3, dtype=dtype)
    return g.b(BatchNormOp(x, *(given(g, 2, dtype=dtype, known=True) for _ in range(4))))


def scattered(g: Graph, reduction: str) -> SSAValue:
    """Rows put into others, beside a layer."""
    g.save(product(g))
    indices = g.constant(np.zeros((1, 4), np.int64))
    return g.b(ScatterElementsOp(given(g, 3, 4), indices, given(g, 1, 4), axis=0, reduction=reduction))


def again(g: Graph, value: SSAValue, *kinds: Any) -> SSAValue:
    """A value cast from type to type."""
    for kind in kinds:
        value = g.b(CastOp(value, results=tensor(shape_of(value), kind)))
    return value


def types(cpu: str, build: Build) -> dict[str, Any]:
    """The element type of the last operator of each name after the pass, whose results stay close."""
    g = Graph()
    g.save(build(g))
    before = g.run()
    CpuWidenPass(cpu).apply(context(), g.module)
    g.module.verify()
    for have, want in zip(g.run(), before, strict=True):
        np.testing.assert_allclose(have.astype(float), want.astype(float), rtol=2e-2, atol=2e-2)
    ops = [op for op in g.function.body.block.ops if op.results and op.operands]
    return {op.name.removeprefix("glow."): str(element_of(op.results[0])) for op in ops}


WIDE: dict[str, tuple[str, str, Build]] = {
    "a product": (WITHOUT, "matmul", product),
    "what follows it": (WITHOUT, "relu", lambda g: g.b(ReluOp(product(g)))),
    "a pool": (WITHOUT, "max_pool", lambda g: g.b(MaxPoolOp(conv(g), kernel=(2, 2)))),
    "a sum of rows": (WITHOUT, "scatter_elements", lambda g: scattered(g, "add")),
    "a normalisation": (WITHOUT, "batch_norm", norm),
    "a product whose sums would be float16": (HALVES, "matmul", product),
    "a normalisation, of which none has kernels": (NATIVE, "batch_norm", lambda g: norm(g, BF16)),
    "products of a batch": (NATIVE, "batch_matmul", lambda g: product(g, 3, 2, 2, dtype=BF16)),
    "an odd depth": (NATIVE, "matmul", lambda g: product(g, 3, 3, dtype=BF16)),
    "no depth": (NATIVE, "matmul", lambda g: product(g, 3, 0, dtype=BF16)),
    "no rows": (NATIVE, "matmul", lambda g: product(g, 0, dtype=BF16)),
}
NARROW: dict[str, tuple[str, str, Build]] = {
    "a product": (NATIVE, "matmul", lambda g: product(g, dtype=BF16)),
    "a product of one batch": (NATIVE, "batch_matmul", lambda g: product(g, 3, 2, 1, dtype=BF16)),
    "under a predicate": (
        WITHOUT, "matmul", lambda g: product(g, predicate=g.input(np.array(True))),
    ),
    "rows put in": (WITHOUT, "scatter_elements", lambda g: scattered(g, "none")),
    "no layer": (WITHOUT, "relu", lambda g: g.b(ReluOp(given(g, 3, 2)))),
    "no layer of 16 bits": (WITHOUT, "relu", lambda g: g.b(ReluOp(again(g, conv(g, "float32"), f16)))),
    "an operator without blocks": (WITHOUT, "softmax", lambda g: g.b(SoftmaxOp(product(g), axis=1))),
}  # fmt: skip


@pytest.mark.parametrize("name", WIDE)
def test_wide(name: str) -> None:
    """Layers, and what stands between them."""
    cpu, op, build = WIDE[name]
    assert types(cpu, build)[op] == "f32"


@pytest.mark.parametrize("name", NARROW)
def test_narrow(name: str) -> None:
    """What has kernels of its own, or is in no network of such layers."""
    cpu, op, build = NARROW[name]
    assert types(cpu, build)[op] == ("bf16" if cpu == NATIVE else "f16")


@pytest.mark.parametrize(
    ("cpu", "start", "kinds", "casts"),
    [
        (WITHOUT, conv, (), 2),  # the image's and the result's, none before the relu
        (WITHOUT, product, (), 4),
        (HALVES, norm, (), 2),
        (WITHOUT, conv, (i32, f16), 6),
        (WITHOUT, conv, (f64, f16), 6),
    ],
)
def test_rounding_behind_a_convolution(cpu: str, start: Build, kinds: tuple[Any, ...], casts: int) -> None:
    """Values between layers stay wide in blocks of channels alone."""
    g = Graph()
    g.save(g.b(ReluOp(again(g, start(g), *kinds))))
    CpuWidenPass(cpu).apply(context(), g.module)
    g.module.verify()
    DcePass().apply(context(), g.module)
    assert g.ops().count("cast") == casts
