"""Which convolutions change their algorithm, and which filters are packed in front of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_runner import Graph

from glow_backends.cpu.kernels.conv.conv_ops import ConvOp
from glow_backends.cpu.kernels.conv.conv_plan import plan_conv
from glow_backends.cpu.kernels.conv.conv_spec import conv_spec
from glow_backends.cpu.kernels.conv.training_ops import ConvWeightsOp, PackFilterOp
from glow_backends.cpu.passes.cpu_choose import CpuChoosePass
from glow_backends.cpu.target import named
from glow_dialects.core.types import tensor
from glow_dialects.dialects import context

CONV: dict[str, Any] = {"lanes": 16, "strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}


def conv(g: Graph, changing: bool, channels: int = 64, image: tuple[int, ...] = (), **more: Any) -> ConvOp:
    """A convolution of 3 x 3 whose filter changes at run time, or is known."""
    x = g.input(np.zeros(image or (1, channels // 16, 28, 28, 16), np.float32))
    inner = image[1] if len(image) == 4 else channels // more.get("group", 1)
    filter = np.zeros((channels, inner, 3, 3), np.float32)
    w = g.input(filter) if changing else g.constant(filter)
    op = g.b.insert(ConvOp(x, w, None, [], None, **{**CONV, **more}))
    g.save(op.result)
    return op


def chosen(g: Graph, winograd: bool = True) -> tuple[list[ConvOp], list[PackFilterOp]]:
    """The convolutions and packed filters after the pass, which runs twice: it finds nothing more."""
    for _ in range(2):
        CpuChoosePass("znver5", winograd=winograd).apply(context(), g.module)
        g.module.verify()
    ops = list(g.function.body.block.ops)
    return [o for o in ops if isinstance(o, ConvOp)], [o for o in ops if isinstance(o, PackFilterOp)]


@pytest.mark.parametrize("plain", [False, True])
def test_filters_that_change(plain: bool) -> None:
    """They are packed in panels of the kernel's width, with the lanes of the image's blocks."""
    g, target = Graph(), named("znver5", 1)
    op = conv(g, True, image=(1, 3, 28, 28) if plain else ())
    vectors = plan_conv(conv_spec(op), target).block.vectors
    (new,), (pack,) = chosen(g, winograd=False)
    assert new.algorithm == "direct" and new.packed is pack.result
    assert (pack.lanes, pack.width, pack.tile) == (1 if plain else 16, vectors * 16, 0)


def test_known_filters() -> None:
    """The program packs them when it is built."""
    g = Graph()
    conv(g, False)
    (op,), packs = chosen(g)
    assert op.algorithm == "winograd4" and op.packed is None and not packs


def test_an_algorithm_that_is_given() -> None:
    """A layout rule has chosen what only it can tell."""
    g = Graph()
    conv(g, False, group=64, algorithm="depthwise")
    (op,), _ = chosen(g)
    assert op.algorithm == "depthwise"


@pytest.mark.parametrize("winograd", [True, False])
def test_gradients_of_filters(winograd: bool) -> None:
    """They have Winograd's algorithm too, where it is allowed."""
    g = Graph()
    x, grad = (g.input(np.zeros((8, 16, 14, 14, 16), np.float32)) for _ in "xg")
    op = g.b.insert(ConvWeightsOp(x, grad, results=tensor((256, 256, 3, 3)), **CONV))
    g.save(op.result)
    chosen(g, winograd)
    assert op.algorithm == ("winograd4" if winograd else "direct")
