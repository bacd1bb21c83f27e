"""Windows of convolutions and pooling: auto_pad, ceil_mode, defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from glow_frontends.graph.errors import RuleError
from glow_frontends.graph.windows import Window
from glow_frontends.onnx.node import Node


def window_of(n: Node, sizes: Sequence[int], kernel: Sequence[int] | None = None) -> Window:
    """The window of a node over spatial `sizes`; `kernel` where the weights give it."""
    count = len(sizes)
    kernel = tuple(n.integers("kernel_shape") or kernel or ())
    strides = tuple(n.integers("strides") or (1,) * count)
    dilations = tuple(n.integers("dilations") or (1,) * count)
    pads = tuple(n.integers("pads") or (0,) * 2 * count)
    if (len(kernel), len(strides), len(dilations), len(pads)) != (count, count, count, 2 * count):
        raise RuleError(
            f"kernel {kernel}, strides {strides}, dilations {dilations}, pads {pads} "
            f"do not fit {count} spatial axes"
        )
    if any(number < 1 for number in (*kernel, *strides, *dilations)):
        raise RuleError("kernel, strides and dilations must be positive")
    window = Window(kernel, strides, dilations, pads)
    mode = n.text("auto_pad", "NOTSET")
    if mode == "VALID":
        pads = (0,) * 2 * count
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same(sizes, window, mode == "SAME_UPPER")
    elif mode not in ("NOTSET", ""):
        raise RuleError(f"auto_pad '{mode}' is unknown")
    window = replace(window, pads=pads)
    return window.ceiled(sizes) if n.flag("ceil_mode") else window


def _same(sizes: Sequence[int], window: Window, upper: bool) -> tuple[int, ...]:
    begins: list[int] = []
    ends: list[int] = []
    for size, stride, span in zip(sizes, window.strides, window.span, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + span - size)
        small, large = total // 2, total - total // 2
        begins.append(small if upper else large)
        ends.append(large if upper else small)
    return (*begins, *ends)
