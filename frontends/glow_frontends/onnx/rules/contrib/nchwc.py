"""Rules of com.microsoft.nchwc: images as onnxruntime's last optimiser lays them out, channels in blocks.

Values between these operators are plain images here, of as many channels as the blocks hold. Only weights lie
in blocks in the file. As in onnxruntime, a model is for the kind of processor that it was optimised on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import helper

from glow_dialects.core.types import Array
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.conv import ConvOp
from glow_frontends.graph import Emitter, RuleError, Value, dtype_of_value, rank, shape
from glow_frontends.graph.movement import cut, join
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules import pool, resample
from glow_frontends.onnx.rules.contrib.fused import activate
from glow_frontends.onnx.rules.contrib.quantized import channels_first, channels_last
from glow_frontends.onnx.rules.rule import Rule, Versions
from glow_frontends.onnx.rules.windows import window_of

#: Version of the standard operators that these stand for.
VERSION = 13


def block_size(filters: int = 0) -> int:
    """Channels of a block, by which `filters` divide: 16 with AVX-512 and on ARM, else 8."""
    from numpy._core._multiarray_umath import __cpu_features__ as features  # pyright: ignore

    wide = features.get("AVX512F", False) or not features.get("SSE2", False)
    return 16 if wide and filters % 16 == 0 else 8


def conv(g: Emitter, n: Node) -> Value:
    """Conv: act(conv(X, W) + B + Sum), the filters in blocks."""
    stored = g.known(n[1], "filters in blocks")
    group = n.integer("group", 1)
    w = _plain(stored, shape(n[0])[1], group)
    window = window_of(n, shape(n[0])[2:], w.shape[2:])
    where: dict[str, Any] = {"strides": window.strides, "pads": window.pads, "dilations": window.dilations}
    y = g(ConvOp, n[0], w, n.get(2), group=group, **where)
    if n.get(3) is not None:
        y = g(AddOp, y, n[3])
    return activate(g, n, y)


def _plain(stored: Array, channels: int, group: int) -> Array:
    """Filters [O, I, H, W] from [O / b, I / b, H, W, b, b], or, of few channels, from [O / b, I, H, W, b]."""
    filters, inner, height, width = stored.shape
    size = block_size(filters)
    if filters % size:
        raise RuleError(f"{filters} filters in blocks of {size}")
    if inner < size or (group > 1 and inner == 1):
        parts = stored.reshape(filters // size, inner, height, width, size)
        return np.ascontiguousarray(parts.transpose(0, 4, 1, 2, 3).reshape(stored.shape))
    parts = stored.reshape(filters // size, inner // size, height, width, size, size)
    plain = parts.transpose(0, 5, 1, 4, 2, 3).reshape(stored.shape)
    return np.ascontiguousarray(plain[:, : channels // group])


def reorder_input(g: Emitter, n: Node) -> Value:
    """ReorderInput: an image of either layout, with channels up to a whole block."""
    x = channels_first(g, n[0]) if n.flag("channels_last") else n[0]
    dims = shape(x)
    missing = -dims[1] % block_size()
    return join(g, [x, np.zeros((dims[0], missing, *dims[2:]), dtype_of_value(x))], 1) if missing else x


def reorder_output(g: Emitter, n: Node) -> Value:
    """ReorderOutput: the channels that count, in either layout."""
    dims = shape(n[0])
    x = cut(g, n[0], [0] * rank(n[0]), [dims[0], n.integer("channels", dims[1]), *dims[2:]])
    return channels_last(g, x) if n.flag("channels_last") else x


def upsample(g: Emitter, n: Node) -> Value:
    """Upsample: Resize by whole numbers."""
    scales = np.array(n.integers("scales"), np.float32)
    attributes = {k: v for k, v in n.attributes.items() if k != "scales"}
    attributes["nearest_mode"] = helper.make_attribute("nearest_mode", "floor")
    return resample.resize(g, replace(n, inputs=[n[0], None, scales], opset=VERSION, attributes=attributes))


def _standard(rule: Rule) -> Rule:
    return lambda g, n: rule(g, replace(n, opset=VERSION))


RULES: dict[str, Versions] = {
    "AveragePool": _standard(pool.average_pool),
    "Conv": conv,
    "GlobalAveragePool": _standard(pool.global_average_pool),
    "GlobalMaxPool": _standard(pool.global_max_pool),
    "MaxPool": _standard(pool.max_pool),
    "ReorderInput": reorder_input,
    "ReorderOutput": reorder_output,
    "Upsample": upsample,
}
