"""Layout assignment of small graphs, for tests of its rules: a region of blocks begins at a convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from graph_runner import Graph
from xdsl.dialects.builtin import f16
from xdsl.ir import SSAValue

from glow_backends.cpu.passes.cpu_layout import CpuLayoutPass
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of, shape_of, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.module import SaveOp

R = np.random.default_rng(0)
Build = Callable[[Graph], SSAValue | GraphOp]


def given(g: Graph, *shape: int, dtype: str = "float32") -> SSAValue:
    """An input."""
    return g.input(R.normal(size=shape).astype(dtype))


def constant(g: Graph, *shape: int) -> SSAValue:
    """Positive weights."""
    return g.constant(R.uniform(0.5, 2, shape).astype(np.float32))


def blocked(g: Graph, *shape: int, last: bool = False) -> SSAValue:
    """What a convolution of one pixel makes, on blocks; the nodes are `*block *conv`."""
    channels, rank = shape[-1] if last else shape[1], len(shape)
    ones = (1,) * (rank - 2)
    w = constant(g, channels, *((*ones, channels) if last else (channels, *ones)))
    window: dict[str, Any] = {"strides": ones, "dilations": ones, "pads": (0, 0) * (rank - 2)}
    return g.b(ConvOp(given(g, *shape), w, None, layout="NHWC" if last else "NCHW", **window))


def half(g: Graph, x: SSAValue) -> SSAValue:
    """A value as float16."""
    return g.b(CastOp(x, results=tensor(shape_of(x), f16)))


def laid_out(build: Build, cpu: str = "haswell") -> str:
    """The nodes of a graph after layout assignment for a processor, those of the CPU with an asterisk.

    All results of what is built last are saved; they stay as they were.
    """
    g = Graph()
    made = build(g)
    for value in made.results if isinstance(made, GraphOp) else [made]:
        g.save(value)
    before, kinds = g.run(), _saved(g)
    CpuLayoutPass(cpu).apply(context(), g.module)
    g.module.verify()
    assert _saved(g) == kinds
    for have, want in zip(g.run(), before, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)
    return " ".join(name.replace("glow_cpu.", "*") for name in g.ops())


def _saved(g: Graph) -> list[Any]:
    saves = [op for op in g.function.body.block.ops if isinstance(op, SaveOp)]
    return [(shape_of(op.operands[0]), element_of(op.operands[0])) for op in saves]
