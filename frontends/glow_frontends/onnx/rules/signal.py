"""Rules of signal processing: Fourier transforms and spectra."""

from __future__ import annotations

import numpy as np

from glow_dialects.core.types import Array
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.dft import DftOp
from glow_frontends.graph import Emitter, RuleError, Value, rank, shape
from glow_frontends.graph.axes import axis_of, ranked
from glow_frontends.graph.movement import take
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.tensors import numpy_type


def dft(g: Emitter, n: Node) -> Value:
    """DFT: the axis is an attribute before opset 20."""
    x = n[0]
    if n.opset < 20:
        axis = n.integer("axis", 1)
    else:
        axis = -2 if n.get(2) is None else g.integer(n[2], "the axis of DFT")
    axis = axis_of(axis, rank(x))
    length = None if n.get(1) is None else g.integer(n[1], "the length of DFT")
    return transform(g, x, axis, length, n.flag("inverse"), n.flag("onesided"))


def transform(
    g: Emitter, x: Value, axis: int, length: int | None, inverse: bool = False, onesided: bool = False
) -> Value:
    """The transform of x [..., 1 or 2]; by default of the length that the axis has."""
    if length is None:
        size = shape(x)[axis]
        length = 2 * (size - 1) if inverse and onesided else size
    return g(DftOp, x, axis=axis, length=length, inverse=inverse, onesided=onesided)


def stft(g: Emitter, n: Node) -> Value:
    """STFT: windowed frames, each transformed."""
    signal = n[0]
    step = g.integer(n[1], "the frame step of STFT")
    window = n.get(2)
    length = ranked(signal, 2)[1] if window is None else ranked(window, 1)[0]
    if n.get(3) is not None:
        length = g.integer(n[3], "the frame length of STFT")
    if step < 1 or length < 1:
        raise RuleError("frame step and length must be positive")
    if rank(signal) == 2:
        signal = g.reshape(signal, (*shape(signal), 1))
    count = (shape(signal)[1] - length) // step + 1
    starts = g(MulOp, g.reshape(g.numbers(count), (count, 1)), np.array(step))
    places = g(AddOp, starts, g.numbers(length))
    frames = take(g, signal, places, 1)
    if window is not None:
        frames = g(MulOp, frames, g.reshape(window, (length, 1)))
    return transform(g, frames, 2, None, onesided=n.flag("onesided", True))


def mel_weight_matrix(g: Emitter, n: Node) -> Array:
    """MelWeightMatrix: triangles over the bins of a spectrum, even on the mel scale."""
    bins, length, rate, low, high = (float(g.known(n[i], "the mel weights").reshape(-1)[0]) for i in range(5))
    count = int(bins)
    step = (_mel(high) - _mel(low)) / (count + 2)
    edges = _mel(low) + step * np.arange(count + 2)
    hertz = 700.0 * (10.0 ** (edges / 2595.0) - 1.0)
    places = ((int(length) + 1) * hertz // rate).astype(int)
    out = np.zeros((int(length) // 2 + 1, count))
    for index in range(count):
        start, middle, end = places[index : index + 3]
        rise = middle - start
        if rise == 0:
            out[middle, index] = 1
        else:
            out[start : middle + 1, index] = np.arange(rise + 1) / rise
        fall = end - middle
        if fall:
            out[middle:end, index] = 1 - np.arange(fall) / fall
    return out.astype(numpy_type(n.integer("output_datatype", 1)))


def _mel(hertz: float) -> float:
    return 2595.0 * np.log10(1.0 + hertz / 700.0)


RULES: dict[str, Versions] = {"DFT": dft, "MelWeightMatrix": mel_weight_matrix, "STFT": stft}
