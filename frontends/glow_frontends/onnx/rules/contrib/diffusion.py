"""Rules of onnxruntime's operators for diffusion models, and for images with channels last."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glow_dialects.ops.activation import GeluOp, SwishOp
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.group_norm import GroupNormOp
from glow_dialects.ops.logic import AndOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.movement import broadcast, element, pieces, take
from glow_frontends.graph.sampling import gather_points, linear_taps, nearest_tap, within
from glow_frontends.onnx.node import REQUIRED, Node
from glow_frontends.onnx.rules import nn
from glow_frontends.onnx.rules.contrib.fused import activate
from glow_frontends.onnx.rules.contrib.quantized import channels_first, channels_last
from glow_frontends.onnx.rules.rule import Versions


def group_norm(g: Emitter, n: Node) -> Value:
    """GroupNorm, channels last where nothing else is said, and SiLU behind it on request."""
    return _normed(g, n, n[0])


def skip_group_norm(g: Emitter, n: Node) -> list[Value]:
    """SkipGroupNorm: the same of X + skip + bias, and that sum."""
    x, skip, turned = n[0], n[3], n.flag("channels_last", True)
    if rank(skip) == 2 and rank(x) == 4:
        count, channels = shape(skip)
        skip = g.reshape(skip, (count, 1, 1, channels) if turned else (count, channels, 1, 1))
    total = g(AddOp, x, broadcast(g, skip, shape(x)))
    if n.get(4) is not None:
        bias = n[4] if turned else g.reshape(n[4], (shape(x)[1], *(1,) * (rank(x) - 2)))
        total = g(AddOp, total, bias)
    return [_normed(g, n, total), total]


def _normed(g: Emitter, n: Node, x: Value) -> Value:
    turned = n.flag("channels_last", True)
    kind = dtype_of_value(x)
    y = cast_to(g, channels_first(g, x) if turned else x, np.dtype(np.float32))
    scale, shift = (cast_to(g, n[i], np.dtype(np.float32)) for i in (1, 2))
    y = g(
        GroupNormOp, y, scale, shift, groups=n.integer("groups", REQUIRED), epsilon=n.number("epsilon", 1e-5)
    )
    if n.integer("activation", 0) == 1:
        y = g(SwishOp, y)
    y = cast_to(g, y, kind)
    return channels_last(g, y) if turned else y


def split_gelu(g: Emitter, n: Node) -> Value:
    """BiasSplitGelu: the first half of X + bias times Gelu of the second."""
    x = g(AddOp, n[0], n[1])
    half = shape(x)[-1] // 2
    left, right = pieces(g, x, rank(x) - 1, (half, half))
    return g(MulOp, left, g(GeluOp, right))


def conv_channels_last(g: Emitter, n: Node) -> Value:
    """NhwcConv and NhwcFusedConv: a convolution of images with channels last, with its sum and activation."""
    y = nn.conv(g, replace(n, inputs=[channels_first(g, n[0]), *n.inputs[1:3]]))
    y = channels_last(g, y)
    if n.get(3) is not None:
        y = g(AddOp, y, n[3])
    return activate(g, n, y)


def transposed_conv(g: Emitter, n: Node) -> Value:
    """ConvTransposeWithDynamicPads: pads are an input."""
    if n.get(2) is None:
        return nn.conv_transpose(g, replace(n, inputs=[*n.inputs[:2], n.get(3)]))
    pads = g.ints(n[2], "pads of ConvTransposeWithDynamicPads")
    return nn.conv_transpose(g, replace(n, inputs=[*n.inputs[:2], n.get(3)]), pads)


def crop_and_resize(g: Emitter, n: Node) -> Value:
    """CropAndResize: regions [R, 4] (y1, x1, y2, x2, of the image's extent) of images, of one size each."""
    x, regions = n[0], n[1]
    out = g.ints(n[3], "crop_size")
    mode = n.text("mode", "bilinear")
    if mode not in ("bilinear", "nearest"):
        raise RuleError(f"mode '{mode}' is unknown")
    count, kind, sizes = shape(regions)[0], dtype_of_value(x), shape(x)[2:]
    places: list[Value] = []
    inside: list[Value] = []
    for axis in (0, 1):
        low, high = (g.reshape(element(g, regions, -1, axis + end), (count, 1)) for end in (0, 2))
        steps = np.arange(out[axis])[None] / max(1, out[axis] - 1)
        near, far = (steps, 1 - steps) if out[axis] > 1 else (np.full((1, 1), 0.5),) * 2
        where = g(AddOp, g(MulOp, low, far.astype(kind)), g(MulOp, high, near.astype(kind)))
        where = g(MulOp, where, np.array(sizes[axis] - 1, kind))
        kept = within(g, where, 0, sizes[axis] - 1)
        dims = (count, out[0], 1) if axis == 0 else (count, 1, out[1])
        whole = (count, out[0], out[1])
        places.append(g.reshape(broadcast(g, g.reshape(where, dims), whole), (count, out[0] * out[1])))
        inside.append(g.reshape(broadcast(g, g.reshape(kept, dims), whole), (count, 1, out[0] * out[1])))
    images = take(g, x, cast_to(g, n[2], np.dtype(np.int64)), 0)
    taps = [linear_taps(g, p) if mode == "bilinear" else nearest_tap(g, p) for p in places]
    values = gather_points(g, images, taps, False)
    outside = np.array(n.number("extrapolation_value", 0.0), kind)
    values = g(SelectOp, g(AndOp, *inside), values, outside)
    return g.reshape(values, (count, shape(x)[1], *out))


RULES: dict[str, Versions] = {
    "BiasSplitGelu": split_gelu,
    "ConvTransposeWithDynamicPads": transposed_conv,
    "CropAndResize": crop_and_resize,
    "GroupNorm": group_norm,
    "NhwcConv": conv_channels_last,
    "NhwcFusedConv": conv_channels_last,
    "SkipGroupNorm": skip_group_norm,
}
