"""resize: interpolation onto another grid (ONNX Resize), and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.blocks import Blocked, Parts
from glow_dialects.core.builder import Builder
from glow_dialects.core.extent import are_equal, is_open
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import (
    bool_prop,
    check_choice,
    check_length,
    float_prop,
    floats_prop,
    ints_prop,
    str_prop,
)
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, dtype_of, element_of, is_float, shape_of, tensor
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.gather import GatherOp, gathered_gradient
from glow_dialects.ops.select import SelectOp

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")


class ResizeBaseOp(PureOp):
    """The properties of ONNX Resize; `scales` and `roi` may be empty (sizes' ratio; everything).

    `sizes`, `scales` have one entry an axis; `roi` has the begins, then the ends, of every axis in
    parts of its size.
    """

    sizes = ints_prop()
    mode = str_prop("nearest")
    coordinate_transformation_mode = str_prop("half_pixel")
    nearest_mode = str_prop("round_prefer_floor")
    cubic_coeff_a = float_prop(-0.75)
    exclude_outside = bool_prop(False)
    extrapolation_value = float_prop(0.0)
    antialias = bool_prop(False)
    scales = floats_prop(())
    roi = floats_prop(())

    def check_resize(self, shape: Sequence[int]) -> None:
        """Raise where the properties do not fit an input of `shape`."""
        sizes = self.sizes
        check_length(self.name, "sizes", sizes, len(shape))
        for what, choices in (
            ("mode", MODES),
            ("coordinate_transformation_mode", COORDINATES),
            ("nearest_mode", NEAREST),
        ):
            check_choice(self.name, what, getattr(self, what), choices)
        if self.scales:
            check_length(self.name, "scales", self.scales, len(shape))
        cropped = self.coordinate_transformation_mode == "tf_crop_and_resize"
        corners = len(self.roi)
        if (cropped or corners) and corners != 2 * len(shape):
            raise VerifyException(
                f"{self.name}: roi has {corners} entries, expected a begin and an end for each of "
                f"{len(shape)} axes"
            )
        if any(size < 0 for size in sizes) or min((*self.scales, 1.0)) <= 0:
            raise VerifyException(
                f"{self.name}: sizes {list(sizes)} or scales {list(self.scales)} are not positive"
                "; give numbers above 0"
            )
        if any(n == 0 and m != 0 for n, m in zip(shape, sizes, strict=True)):
            raise VerifyException(
                f"{self.name}: nothing to interpolate in {'x'.join(map(str, shape))}"
                "; it needs at least one element on each axis"
            )


@graph_op
class ResizeOp(ResizeBaseOp):
    """The input sampled at `sizes` places of each axis (ONNX Resize).

    Linear sampling adds up the elements around a place in the order of their places, each by the product of
    its axes' weights, every product and sum rounded: so what is stored on 8 bits behind it is onnxruntime's.
    Cubic and antialiased sampling goes axis by axis. Integers are interpolated as float64 (linearly, up to
    16 bits: as float32), rounded, halves up, and clamped to the range of the element type. Plain linear
    sampling truncates them, as onnxruntime does.
    """

    name = "glow.resize"
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        self.check_resize(shape_of(self.input))
        return [tensor(self.sizes, element_of(self.input))]

    def in_blocks(self, form: Blocked, parts: Parts) -> Blocked | None:
        sizes, scales = self.sizes, self.scales
        cropped = self.coordinate_transformation_mode == "tf_crop_and_resize"
        if cropped or sizes[form.axis] != form.channels or (scales and scales[form.axis] != 1):
            return None
        known: dict[str, Any] = {n: a for n, a in self.properties.items() if n != "roi"}
        known["sizes"] = form.over_blocks(sizes, shape_of(form.value)[1], form.lanes, 1)
        known["scales"] = form.over_blocks(scales, 1, 1, 1) if scales else ()
        return replace(form, value=ResizeOp(form.value, **known).result)

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        properties: dict[str, Any] = dict(self.properties)
        return [b(ResizeGradOp(grads[0], results=self.input.type, **properties))]

    def decompose(self, b: Builder) -> Sequence[SSAValue] | None:
        sampled, value = taps(self, shape_of(self.input)), self.input
        assert not any(t.repeat for t in sampled), "kernels take dynamic sizes"
        if not is_float(element_of(value)) and not all(t.single for t in sampled):
            return None  # integers are rounded and clamped at the end
        for tap in sampled:
            parts = [
                _weighted(b(GatherOp(value, b.constant(index), axis=tap.axis)), weights, tap, b)
                for index, weights in tap.columns()
            ]
            value = reduce(lambda x, y: b(AddOp(x, y)), parts)
        for tap in sampled:
            if tap.outside is not None:
                mask = b.constant(tap.along(tap.outside, self.result))
                fill = b.scalar(self.extrapolation_value, value)
                value = b(SelectOp(mask, fill, value))
        return [value]

    def reference(self, result: Array, input: Array) -> None:
        x = resized(self, input)
        if result.dtype.kind in "iu" and x.dtype.kind == "f":
            limits = np.iinfo(result.dtype)
            x = np.clip(np.trunc(x) if is_linear(self) else np.floor(x + 0.5), limits.min, limits.max)
        result[...] = x


@graph_op
class ResizeGradOp(ResizeBaseOp):
    """The adjoint of glow.resize: each element of `grad` is added to the elements it was sampled from."""

    name = "glow.resize_grad"
    grad = operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        self.check_resize(shape_of(self.result))
        same = element_of(self.grad) == element_of(self.result) and is_float(element_of(self.grad))
        if shape_of(self.grad) != self.sizes or not same:
            raise VerifyException(
                f"{self.name}: {self.grad.type} is not a cotangent of {self.result.type}"
                "; give one of that shape and type"
            )

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        value, shape = self.grad, shape_of(self.result)
        sampled = taps(self, shape)
        for tap in sampled:
            if tap.outside is not None:
                mask = b.constant(tap.along(tap.outside, self.grad))
                value = b(SelectOp(mask, b.scalar(0, value), value))
        for tap in sampled:
            sizes = list(shape_of(value))
            sizes[tap.axis] = shape[tap.axis]
            kind = tensor(sizes, element_of(value))
            parts = [
                gathered_gradient(_weighted(value, weights, tap, b), kind, b.constant(index), tap.axis, b)
                for index, weights in tap.columns()
            ]
            value = reduce(lambda x, y: b(AddOp(x, y)), parts)
        return [value]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        properties: dict[str, Any] = dict(self.properties)
        del properties["extrapolation_value"]  # a constant: the adjoint has none
        return [b(ResizeOp(grads[0], **properties))]

    def reference(self, result: Array, grad: Array) -> None:
        dy = widen(grad)
        sampled = taps(self, result.shape)
        for tap in sampled:
            if tap.outside is not None:
                dy = np.where(np.expand_dims(tap.outside, _others(tap.axis, dy.ndim)), 0, dy)
        for tap in sampled:
            back = tap.matrix(result.shape[tap.axis]).astype(dy.dtype)
            dy = np.moveaxis(np.tensordot(back, dy, (0, tap.axis)), 0, tap.axis)
        result[...] = dy


@dataclass(frozen=True)
class Taps:
    """How one axis is sampled: result[o] = sum over t of weights[o, t] * input[indices[o, t]].

    `outside` marks results that take the extrapolation value instead; None where there are none.
    With `repeat` f > 0 result[o] is input[o // f], for axes whose size the run tells; there are no
    indices then.
    """

    axis: int
    indices: np.ndarray
    weights: np.ndarray
    outside: np.ndarray | None
    repeat: int = 0

    @property
    def single(self) -> bool:
        """Whether each result is a copy of one element."""
        return self.indices.shape[1] == 1

    def columns(self) -> list[tuple[Array, Array]]:
        """(index, weight) of every result, tap after tap."""
        return list(zip(self.indices.T, self.weights.T, strict=True))

    def along(self, vector: Array, like: SSAValue) -> Array:
        """A vector over the axis, shaped to broadcast over `like`."""
        return vector.reshape([-1 if i == self.axis else 1 for i in range(len(shape_of(like)))])

    def matrix(self, size: int) -> np.ndarray:
        """The dense weights, [results, `size` inputs]."""
        dense = np.zeros((len(self.indices), size))
        np.add.at(dense, (np.arange(len(self.indices))[:, None], self.indices), self.weights)
        return dense


def _weighted(value: SSAValue, weights: Array, tap: Taps, b: Builder) -> SSAValue:
    """`value` times weights along a sampled axis."""
    if tap.single:
        return value
    along = tap.along(weights, value).astype(dtype_of(value.type))
    return b(MulOp(value, b.constant(along)))


def is_linear(op: ResizeBaseOp) -> bool:
    """Whether a result of a node or instruction is a sum over all axes at once, of two elements of each."""
    return op.mode == "linear" and not op.antialias


def taps(op: ResizeBaseOp, shape: Sequence[int]) -> list[Taps]:
    """The sampled axes of a resize node or instruction for an input of `shape`; others are copied."""
    scales, sizes = op.scales, op.sizes
    cropped = op.coordinate_transformation_mode == "tf_crop_and_resize"
    out: list[Taps] = []
    for axis, (size, new_size) in enumerate(zip(shape, sizes, strict=True)):
        scale = scales[axis] if scales else new_size / size if size != 0 else 1.0
        if are_equal(new_size, size) and scale == 1.0 and not cropped:
            continue
        repeat = repeats(op, scale) if is_open((size, new_size)) else 0
        if repeat and new_size == repeat * size:
            out.append(Taps(axis, np.empty((0, 1), np.int64), np.empty((0, 1)), None, repeat))
            continue
        out.append(_axis(op, axis, size, new_size, scale))
    return out


def repeats(op: ResizeBaseOp, scale: float) -> int:
    """f where an axis of any size has each of its elements f times in a row, else 0."""
    factor = int(scale) if scale == int(scale) else 0
    if op.mode != "nearest" or not factor or op.coordinate_transformation_mode == "tf_crop_and_resize":
        return 0
    sampled = (_axis(op, 0, size, factor * size, scale).indices[:, 0] for size in _TRIED)
    alike = all(np.array_equal(i, np.arange(len(i)) // factor) for i in sampled)
    return factor if alike else 0


_TRIED = (1, 2, 5, 17)
"""Sizes that show whether places depend on the size of an axis."""


def _axis(op: ResizeBaseOp, axis: int, size: int, new_size: int, scale: float) -> Taps:
    place = _coordinates(op, axis, size, new_size, scale)
    outside = None
    if op.coordinate_transformation_mode == "tf_crop_and_resize":
        outside = (place < 0) | (place > size - 1)
    if op.mode == "nearest":
        index = _NEAREST[op.nearest_mode](place.astype(np.float64)).clip(0, size - 1).astype(np.int64)
        return Taps(axis, index[:, None], np.ones((new_size, 1)), outside)
    if is_linear(op):
        return Taps(axis, *_between(place, size), outside)
    return Taps(axis, *_filtered(op, place, size, scale), outside)


def _coordinates(op: ResizeBaseOp, axis: int, size: int, new_size: int, scale: float) -> np.ndarray:
    """Where in the input each result of an axis is sampled, by ONNX's formulas in float32.

    A place between two elements (of nearest sampling), or one that lies on an element but for its last bit,
    is the other one in a wider type: runtimes agree where they round alike.
    """
    f32 = np.float32
    place, half, last = np.arange(new_size, dtype=f32), f32(0.5), f32(size - 1)
    length, factor = f32(scale * size), f32(scale)  # the length of the result before it was made whole
    match op.coordinate_transformation_mode:
        case "half_pixel":
            return (place + half) / factor - half
        case "half_pixel_symmetric":
            offset = f32(size) / 2 * (1 - f32(new_size) / (factor * f32(size)))
            return ((place + half).astype(np.float64) / factor + offset - half).astype(f32)
        case "pytorch_half_pixel":
            return (place + half) / factor - half if new_size > 1 else np.zeros(new_size, f32)
        case "align_corners":
            return place * last / (length - 1) if length != 1 else np.zeros(new_size, f32)
        case "asymmetric":
            return place / factor
        case "tf_half_pixel_for_nn":
            return (place + half) / factor
        case _:
            rank = len(op.sizes)
            begin, end = f32(op.roi[axis]), f32(op.roi[axis + rank])
            if length == 1:
                return np.full(new_size, half * (begin + end) * last)
            return place * (end - begin) * last / (length - 1) + begin * last


_TIE = 1e-6
"""How far from halfway between two elements float32 may put a place that lies there, in elements."""
_NEAREST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5 - _TIE),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5 + _TIE),
    "floor": np.floor,
    "ceil": np.ceil,
    "simple": np.floor,
}


def _between(place: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(indices, weights) of linear sampling: an element and the next, both the last one at the end."""
    place = place.astype(np.float64).clip(0, size - 1)
    left = np.floor(place)
    index = np.stack([left, np.minimum(left + 1, size - 1)], axis=1).astype(np.int64)
    share = np.where(left == size - 1, 0.5, place - left)
    return index, np.stack([1 - share, share], axis=1)


def _filtered(op: ResizeBaseOp, place: np.ndarray, size: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """(indices, weights) of cubic and antialiased sampling; the input's edges are repeated outside it."""
    place = place.astype(np.float64)
    cubic = op.mode == "cubic"
    shrink = min(scale, 1.0) if op.antialias and scale else 1.0  # 0: of a result without elements
    reach = 2 if cubic else 1
    first = int(np.floor(-reach / shrink)) + 1
    # the distance to the element on the left is in (0, 1], as ONNX counts it
    left = np.ceil(place) - 1
    steps = np.arange(first, 2 - first)
    distance = np.abs(steps[None, :] - (place - left)[:, None]) * shrink
    weights = _cubic(distance, op.cubic_coeff_a) if cubic else np.clip(1 - distance, 0, 1)
    index = (left[:, None] + steps[None, :]).astype(np.int64)
    if op.exclude_outside:
        weights = np.where((index < 0) | (index >= size), 0.0, weights)
    if op.exclude_outside or op.antialias:
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(index, 0, size - 1), weights


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution kernel."""
    x = distance
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def resized(op: ResizeBaseOp, input: Array) -> Array:
    """The values of glow.resize, in the widened element type."""
    x = input
    sampled = taps(op, input.shape)
    if not all(t.single for t in sampled):
        x = widen(input)
        if x.dtype.kind in "biu":
            x = x.astype(np.float32 if is_linear(op) and input.itemsize <= 2 else np.float64)
    if is_linear(op):
        x = _interpolated(x, sampled)
    else:
        for tap in sampled:
            x = _interpolated(x, [tap])
    for tap in sampled:
        if tap.outside is not None and tap.outside.any():
            x = x.copy()
            value = np.array(op.extrapolation_value).astype(x.dtype)
            np.moveaxis(x, tap.axis, 0)[tap.outside] = value
    return x


def _interpolated(x: Array, sampled: Sequence[Taps]) -> Array:
    """Sums over the taps of all axes together: an element times the product of its weights."""
    parts: list[tuple[Array, list[Array]]] = [(x, [])]
    for tap in sampled:
        wide = [-1 if i == tap.axis else 1 for i in range(x.ndim)]
        columns = [(index, weight.reshape(wide).astype(x.dtype)) for index, weight in tap.columns()]
        parts = [(np.take(v, i, tap.axis), [*ws, w]) for v, ws in parts for i, w in columns]
    if all(tap.single for tap in sampled):
        return parts[0][0]
    return reduce(np.add, (value * reduce(np.multiply, weights) for value, weights in parts))


def _others(axis: int, rank: int) -> tuple[int, ...]:
    return tuple(i for i in range(rank) if i != axis)


_X = random(1, 2, 4, 5)
_UP, _DOWN = (1, 2, 7, 11), (1, 2, 3, 2)
SAMPLES = (
    *(
        Sample(
            ResizeOp,
            (_X,),
            {"sizes": sizes, "mode": mode, "coordinate_transformation_mode": kind},
            smooth=mode != "nearest",
        )
        for mode in MODES
        for kind, sizes in (
            ("half_pixel", _UP),
            ("asymmetric", _DOWN),
            ("align_corners", _UP),
            ("pytorch_half_pixel", (1, 2, 1, 9)),
        )
    ),
    *(Sample(ResizeOp, (_X,), {"sizes": _UP, "nearest_mode": n}, smooth=False) for n in NEAREST),
    *(
        Sample(ResizeOp, (_X,), {"sizes": _DOWN, "mode": m, "antialias": True, "exclude_outside": e})
        for m in MODES[1:]
        for e in (False, True)
    ),
    Sample(ResizeOp, (_X,), {"sizes": _UP, "mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": True}),
    Sample(
        ResizeOp,
        (_X,),
        {
            "sizes": (1, 2, 3, 4),
            "mode": "linear",
            "coordinate_transformation_mode": "tf_crop_and_resize",
            "roi": (0.0, 0.0, 0.4, 0.6, 1.0, 1.0, 1.2, 1.7),
            "extrapolation_value": 10.0,
        },
    ),
    Sample(
        ResizeOp,
        (_X,),
        {
            "sizes": (1, 2, 9, 13),
            "mode": "linear",
            "coordinate_transformation_mode": "half_pixel_symmetric",
            "scales": (1.0, 1.0, 2.3, 2.7),
        },
    ),
    Sample(ResizeOp, (random(3, 4, 5),), {"sizes": (6, 3, 7), "mode": "linear"}),
    Sample(
        ResizeOp,
        (random(1, 1, 3, 3, dtype="uint8", low=0, high=255),),
        {"sizes": (1, 1, 7, 7), "mode": "cubic"},
        smooth=False,
    ),
    Sample(
        ResizeGradOp,
        (random(1, 2, 7, 11),),
        {"sizes": _UP, "mode": "linear"},
        results=tensor((1, 2, 4, 5)),
    ),
)
