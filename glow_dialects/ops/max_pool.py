"""max_pool: the largest element of each window, optionally with its index, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.iteration import Iteration
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, dtype_of, shape_of, tensor
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.windows import PoolOp, channels_first, channels_last, windows


def lowest(dtype: np.dtype) -> float | int:
    """The value of padding: smaller than every element."""
    return -np.inf if dtype.kind == "f" else int(np.iinfo(dtype).min)


def max_windows(
    x: Array, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]
) -> Array:
    """Maxima of the windows of NCHW data; NaN where a window has one."""
    view = windows(x, kernel, strides, pads, dilations, lowest(x.dtype))
    return view.max(axis=tuple(range(-len(kernel), 0)))


def max_places(
    x: Array, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]
) -> Array:
    """Flat index into NCHW `x` of the first maximum of each window, int64."""
    count = len(kernel)
    view = windows(x, kernel, strides, pads, dilations, lowest(x.dtype))
    flat = view.reshape(*view.shape[: 2 + count], math.prod(kernel))
    inside: Any = np.unravel_index(flat.argmax(axis=-1), tuple(kernel))
    place: Any = np.arange(x.shape[0] * x.shape[1])
    place = place.reshape(*x.shape[:2], *(1,) * count)
    for axis in range(count):
        starts: Any = np.arange(view.shape[2 + axis]) * strides[axis] - pads[axis]
        starts = starts.reshape(-1, *(1,) * (count - 1 - axis))
        # A window that holds nothing but padding points at the nearest element.
        index: Any = np.clip(starts + inside[axis] * dilations[axis], 0, x.shape[2 + axis] - 1)
        place = place * x.shape[2 + axis] + index
    return place.astype(np.int64)


class _MaxPool(PoolOp):
    """Maxima of windows; padding never wins."""

    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        input = self.input
        if dtype_of(input.type).kind == "b":
            raise VerifyException(f"{self.name}: booleans have no maximum, got {input.type}; cast them to i8")
        return [self.pooled(input)]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        dy = grads[0]
        return [None if dy is None else b(MaxPoolBackwardOp(self.input, dy, **self.window_properties()))]


@graph_op
class MaxPoolOp(_MaxPool):
    """The largest element of each window; padding never wins."""

    name = "glow.max_pool"
    MOVES_ELEMENTS = True
    CHEAP = True

    def iteration(self) -> Iteration | None:
        return self.pool_iteration(self.input)

    def reference(self, result: Array, input: Array) -> None:
        last = self.layout == "NHWC"
        x = channels_first(widen(input)) if last else widen(input)
        y = max_windows(x, *(getattr(self, n) for n in ("kernel", "strides", "pads", "dilations")))
        result[...] = channels_last(y) if last else y


@graph_op
class MaxPoolWithArgmaxOp(_MaxPool):
    """max_pool, and the flat index of each maximum (the first one) in the whole input, i64."""

    name = "glow.max_pool_with_argmax"
    argmax = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        (kind,) = super().infer()
        return [kind, tensor(shape_of(kind), i64)]

    def reference(self, result: Array, argmax: Array, input: Array) -> None:
        last = self.layout == "NHWC"
        x = channels_first(widen(input)) if last else widen(input)
        window = [getattr(self, n) for n in ("kernel", "strides", "pads", "dilations")]
        y, places = max_windows(x, *window), max_places(x, *window)
        if last:
            batch, channels, *spatial = np.unravel_index(places, x.shape)
            places = np.ravel_multi_index((batch, *spatial, channels), input.shape)
            y, places = channels_last(y), channels_last(places)
        result[...], argmax[...] = y, places


@graph_op
class MaxPoolBackwardOp(PoolOp):
    """The gradient of max_pool: each element of `grad` goes to the first maximum of its window."""

    name = "glow.max_pool_backward"
    input = operand_def(Tensor)
    grad = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        wanted = self.pooled(self.input)
        if self.grad.type != wanted:
            raise VerifyException(
                f"{self.name}: gradient {self.grad.type} of a result {wanted}; both must be equal"
            )
        return [self.input.type]

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        flat = Term(dy, b).reshape((math.prod(shape_of(self.input)),))
        places = b.insert(MaxPoolWithArgmaxOp(self.input, **self.window_properties())).argmax
        return [None, flat.apply(GatherOp, places, axis=0).value]

    def reference(self, result: Array, input: Array, grad: Array) -> None:
        last = self.layout == "NHWC"
        x, dy = widen(input), widen(grad)
        if last:
            x, dy = channels_first(x), channels_first(dy)
        places = max_places(x, *(getattr(self, n) for n in ("kernel", "strides", "pads", "dilations")))
        total = np.bincount(places.ravel(), dy.ravel(), x.size).reshape(x.shape)
        result[...] = channels_last(total) if last else total


_OVERLAPPING = {"kernel": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1), "dilations": (1, 2)}
_HALVES = {"kernel": (2, 2), "strides": (2, 2)}
SAMPLES: tuple[Sample, ...] = (
    Sample(MaxPoolOp, (random(2, 2, 6, 5),), {"kernel": (2, 2), "strides": (2, 2)}),
    Sample(MaxPoolOp, (random(1, 2, 6, 5),), _OVERLAPPING),
    Sample(MaxPoolOp, (random(1, 2, 7),), {"kernel": (3,)}),
    Sample(MaxPoolOp, (random(1, 5, 6, 2),), {**_OVERLAPPING, "layout": "NHWC"}),
    Sample(MaxPoolOp, (random(1, 2, 6, 5, low=-9, high=9, dtype="int8"),), _OVERLAPPING, smooth=False),
    Sample(MaxPoolWithArgmaxOp, (random(2, 2, 6, 5),), _OVERLAPPING, smooth=False),
    Sample(MaxPoolWithArgmaxOp, (random(1, 5, 6, 2),), {"kernel": (2, 2), "layout": "NHWC"}, smooth=False),
    Sample(MaxPoolBackwardOp, (random(1, 2, 6, 5), random(1, 2, 3, 4)), _OVERLAPPING),
    Sample(MaxPoolBackwardOp, (random(1, 4, 6, 2), random(1, 2, 3, 2)), {**_HALVES, "layout": "NHWC"}),
)
