"""Sliding windows over spatial axes: checks, sizes and NumPy views of convolutions and pools.

Conventions are ONNX's: one stride and dilation a spatial axis, pads are all begins, then all ends.
NCHW has the channels second, NHWC last; any number of spatial axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.graph_op import OperandLike, PureOp
from glow_dialects.core.iteration import Along, Axes, Iteration, loops
from glow_dialects.core.products import exact
from glow_dialects.core.properties import check_choice, int_prop, ints_prop, str_prop
from glow_dialects.core.types import Array, Tensor, element_of, is_float, shape_of, tensor

LAYOUTS = ("NCHW", "NHWC")


class WindowOp(PureOp):
    """An operator with windows; strides, pads and dilations that are left out are 1, 0 and 1."""

    strides = ints_prop()
    pads = ints_prop()
    dilations = ints_prop()
    layout = str_prop("NCHW")

    def __init__(
        self,
        *operands: OperandLike,
        results: Sequence[Attribute] | Attribute | None = None,
        predicate: SSAValue | None = None,
        body: Region | None = None,
        **properties: object,
    ) -> None:
        first = operands[0]
        assert first is not None and not isinstance(first, Sequence)
        spatial = len(shape_of(SSAValue.get(first))) - 2
        known = self.get_irdl_definition().properties
        for name, value in (("strides", 1), ("pads", 0), ("dilations", 1), ("output_pads", 0)):
            if name in known and properties.get(name) is None:
                properties[name] = (value,) * (spatial * (2 if name == "pads" else 1))
        super().__init__(*operands, results=results, predicate=predicate, body=body, **properties)

    def sizes(self, value: SSAValue | Attribute) -> tuple[int, int, tuple[int, ...]]:
        """(batch, channels, spatial sizes) of a tensor in this operator's layout."""
        batch, *rest = shape_of(value) or (0,)
        if len(rest) < 2:
            raise VerifyException(
                f"{self.name}: a tensor of rank {len(shape_of(value))} has no spatial axes"
                "; it needs a batch, channels and one more"
            )
        if self.layout == "NHWC":
            return batch, rest[-1], tuple(rest[:-1])
        return batch, rest[0], tuple(rest[1:])

    def shaped(self, batch: int, channels: int, spatial: Sequence[int]) -> tuple[int, ...]:
        """The shape of a tensor in this operator's layout."""
        if self.layout == "NHWC":
            return (batch, *spatial, channels)
        return (batch, channels, *spatial)

    def spatial_axes(self, rank: int) -> tuple[int, ...]:
        """Positions of the spatial axes."""
        return tuple(range(1, rank - 1) if self.layout == "NHWC" else range(2, rank))

    def window_axes(self, others: Axes, kernel: Sequence[int]) -> Axes:
        """The dimensions of an input whose windows follow the loops of the result's spatial ones."""
        axes = list(others)
        for i, axis in enumerate(self.spatial_axes(len(axes))):
            window = (kernel[i] - 1) * self.dilations[i] + 1
            axes[axis] = Along(axis, self.strides[i], window, self.pads[i])
        return tuple(axes)

    def window_properties(self) -> dict[str, Any]:
        """This operator's window as properties of another one's."""
        known = self.get_irdl_definition().properties
        names = ("kernel", "strides", "pads", "dilations", "group", "layout", "count_include_pad")
        return {n: getattr(self, n) for n in names if n in known}

    def check_window(self, rank: int, kernel: Sequence[int]) -> None:
        """Raise unless the window properties fit a tensor of `rank` and are positive."""
        check_choice(self.name, "layout", self.layout, LAYOUTS)
        if rank < 3:
            raise VerifyException(
                f"{self.name}: a tensor of rank {rank} has no spatial axes"
                "; it needs a batch, channels and one more"
            )
        strides, pads, dilations = self.strides, self.pads, self.dilations
        count = rank - 2
        for what, values, wanted in (
            ("kernel", kernel, count),
            ("strides", strides, count),
            ("dilations", dilations, count),
            ("pads", pads, 2 * count),
        ):
            if len(values) != wanted:
                raise VerifyException(
                    f"{self.name}: {what} {list(values)} has {len(values)} entries, "
                    f"{count} spatial axes need {wanted}"
                )
        for what, values in (("kernel", kernel), ("strides", strides), ("dilations", dilations)):
            if any(value < 1 for value in values):
                raise VerifyException(f"{self.name}: {what} {list(values)} must be positive")
        if any(pad < 0 for pad in pads):
            raise VerifyException(
                f"{self.name}: pads {list(pads)} must not be negative; use glow.slice to remove the border"
            )

    def window_result(self, input: SSAValue, kernel: Sequence[int], channels: int) -> Attribute:
        """The type of the result of sliding a checked window over `input`."""
        batch, _, spatial = self.sizes(input)
        sizes = output_sizes(spatial, kernel, self.strides, self.pads, self.dilations)
        if any(size < 1 for size in sizes):
            raise VerifyException(
                f"{self.name}: a kernel of {list(kernel)} with dilations "
                f"{list(self.dilations)} does not fit {list(spatial)} "
                f"padded by {list(self.pads)}"
                "; make the kernel smaller, or the pads larger"
            )
        return tensor(self.shaped(batch, channels, sizes), element_of(input))


class PoolOp(WindowOp):
    """A window of the sizes `kernel` over every channel."""

    kernel = ints_prop()

    def pooled(self, input: SSAValue) -> Attribute:
        """The type of the pool of `input`; raises unless the window fits."""
        kernel = self.kernel
        self.check_window(len(shape_of(input)), kernel)
        return self.window_result(input, kernel, self.sizes(input)[1])

    def pool_iteration(self, input: SSAValue) -> Iteration:
        """A loop for each dimension of the result; windows of `input` along the spatial ones."""
        shape = shape_of(self.results[0])
        axes = self.spatial_axes(len(shape))
        return Iteration(
            shape, (loops(len(shape)),), (self.window_axes(loops(len(shape)), self.kernel),), axes
        )


class ConvolutionOp(WindowOp):
    """A window of the filter's sizes over all channels of a group; `bias` has an element a channel."""

    group = int_prop(1)
    input = operand_def(Tensor)
    filter = operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    result = result_def(Tensor)

    @property
    def kernel(self) -> tuple[int, ...]:
        """Spatial sizes of the filter."""
        return self.sizes(self.filter)[2]

    def conv_iteration(self) -> Iteration | None:
        """The result's dimensions, and of one group the input channels, which are summed.

        Where each channel is a group of its own, input and result follow one loop.
        """
        shape, rank = shape_of(self.results[0]), len(shape_of(self.input))
        channel = rank - 1 if self.layout == "NHWC" else 1
        _, inner, _ = self.sizes(self.filter)
        own = inner == 1 and self.group == shape[channel]
        if self.group != 1 and not own:
            return None
        inputs: list[Along | None] = list(loops(rank))
        filters: list[Along | None] = [Along(channel), *(None for _ in range(rank - 1))]
        if not own:
            inputs[channel] = filters[channel] = Along(rank)
        operands = [self.window_axes(tuple(inputs), self.kernel), tuple(filters)]
        vectors = [(Along(channel),) for _ in self.operands[2:]]
        sizes = shape if own else (*shape, inner)
        counts = (("group", channel),) if own else ()
        return Iteration(sizes, (loops(rank),), (*operands, *vectors), self.spatial_axes(rank), counts)

    def check_filter(self) -> None:
        """Raise unless input and filter are of one rank and element type and the window fits."""
        rank = len(shape_of(self.input))
        if len(shape_of(self.filter)) != rank:
            raise VerifyException(
                f"{self.name}: filter {self.filter.type} and input {self.input.type} differ in rank"
                "; both need one"
            )
        self.check_window(rank, self.kernel)
        if element_of(self.filter) != element_of(self.input):
            raise VerifyException(
                f"{self.name}: element types of input {self.input.type} and filter {self.filter.type} differ"
                "; cast one of them"
            )


def check_float(op: str, value: SSAValue) -> None:
    """Raise unless the elements are floating-point."""
    if not is_float(element_of(value)):
        raise VerifyException(f"{op}: expected floating-point elements, got {value.type}")


def output_sizes(
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> tuple[int, ...]:
    """How many windows fit each axis, rounded down."""
    count = len(spatial)
    return tuple(
        (spatial[i] + pads[i] + pads[i + count] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        for i in range(count)
    )


def channels_first(x: Array) -> Array:
    """NHWC -> NCHW, a view."""
    return np.moveaxis(x, -1, 1)


def channels_last(x: Array) -> Array:
    """NCHW -> NHWC, a view."""
    return np.moveaxis(x, 1, -1)


def padded(x: Array, pads: Sequence[int], fill: Any = 0) -> Array:
    """NCHW data with its spatial axes padded; the data itself where there is no padding."""
    if not any(pads):
        return x
    count = x.ndim - 2
    widths = [(0, 0), (0, 0), *((pads[i], pads[i + count]) for i in range(count))]
    return np.pad(x, widths, constant_values=fill)


def windows(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    fill: Any = 0,
) -> Array:
    """[batch, channels, *outputs, *kernel]: every window of NCHW data, a read-only view."""
    x = padded(x, pads, fill)
    count = len(kernel)
    span = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(x, span, axis=tuple(range(2, 2 + count)))
    steps = tuple(slice(None, None, s) for s in strides)
    inner = tuple(slice(None, None, d) for d in dilations)
    return view[(slice(None), slice(None), *steps, *inner)]


def positions(
    outputs: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """(index in the kernel, slices of the padded input that this index meets over all outputs)."""
    for index in product(*(range(k) for k in kernel)):
        yield (
            index,
            tuple(
                slice(i * d, i * d + s * (o - 1) + 1, s)
                for i, d, s, o in zip(index, dilations, strides, outputs, strict=True)
            ),
        )


def scatter_windows(
    parts: Array,
    spatial: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> Array:
    """The adjoint of `windows`: overlapping windows are summed, padding is dropped.

    `parts` is [batch, channels, *outputs, *kernel], the result NCHW of `spatial` sizes.
    """
    count = len(spatial)
    outputs, kernel = parts.shape[2 : 2 + count], parts.shape[2 + count :]
    full = tuple(s + pads[i] + pads[i + count] for i, s in enumerate(spatial))
    total = np.zeros((*parts.shape[:2], *full), parts.dtype)
    for index, where in positions(outputs, kernel, strides, dilations):
        total[(slice(None), slice(None), *where)] += parts[(..., *index)]
    inside = tuple(slice(pads[i], pads[i] + s) for i, s in enumerate(spatial))
    return total[(slice(None), slice(None), *inside)]


def convolve(
    x: Array,
    w: Array,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    group: int = 1,
    bias: Array | None = None,
) -> Array:
    """Convolution (cross-correlation) of NCHW data with OIHW weights, N-D, as matrix products.

    `bias` has one value an output channel. The result is NCHW in the wider of the operands' dtypes.
    """
    batch, channels = x.shape[:2]
    out, inner, *kernel = w.shape
    dtype, x, w = np.result_type(x, w), exact(x), exact(w)
    view = windows(x, kernel, strides, pads, dilations)
    count = len(kernel)
    outputs = view.shape[2 : 2 + count]
    # [batch, channels, *kernel, *outputs]: the columns of the matrix product
    columns = np.moveaxis(view, range(2, 2 + count), range(2 + count, 2 + 2 * count))
    rows = inner * prod(kernel)
    columns = columns.reshape(batch, group, rows, prod(outputs))
    y = np.matmul(w.reshape(1, group, out // group, rows), columns)
    assert channels == inner * group
    y = y.reshape(batch, out, *outputs)
    y = y if bias is None else y + bias.reshape(1, out, *(1,) * count)
    return y.astype(dtype, copy=False)


def window_counts(spatial: Sequence[int], window: Sequence[Sequence[int]], count_include_pad: bool) -> Array:
    """How many elements each window divides by, [*outputs], float64; at least 1.

    `window` is (kernel, strides, pads, dilations).
    """
    kernel, strides, pads, dilations = window
    ones = np.ones((1, 1, *spatial))
    view = windows(ones, kernel, strides, pads, dilations, int(count_include_pad))
    return np.maximum(view.sum(axis=tuple(range(-len(kernel), 0)))[0, 0], 1)
