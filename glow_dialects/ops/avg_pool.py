"""avg_pool: the mean of each window, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.iteration import Iteration
from glow_dialects.core.properties import bool_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, tensor
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.quantized_avg_pool import QuantizedAvgPoolOp
from glow_dialects.ops.windows import (
    PoolOp,
    channels_first,
    channels_last,
    check_float,
    scatter_windows,
    window_counts,
    windows,
)


@graph_op
class AvgPoolOp(PoolOp):
    """The mean of each window: of its elements inside the input, or also of padding zeros."""

    name = "glow.avg_pool"
    HOMOGENEOUS = True
    QUANTIZED = QuantizedAvgPoolOp
    CHEAP = True
    count_include_pad = bool_prop(False)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_float(self.name, self.input)
        return [self.pooled(self.input)]

    def iteration(self) -> Iteration | None:
        return self.pool_iteration(self.input)

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        return [b(AvgPoolBackwardOp(dy, results=self.input.type, **self.window_properties()))]

    def reference(self, result: Array, input: Array) -> None:
        last = self.layout == "NHWC"
        x = channels_first(widen(input)) if last else widen(input)
        window = [getattr(self, n) for n in ("kernel", "strides", "pads", "dilations")]
        total = windows(x, *window).sum(axis=tuple(range(2 - x.ndim, 0)))
        y = total / window_counts(x.shape[2:], window, self.count_include_pad)
        result[...] = channels_last(y) if last else y


@graph_op
class AvgPoolBackwardOp(PoolOp):
    """The gradient of avg_pool: each element of `grad` spreads evenly over its window."""

    name = "glow.avg_pool_backward"
    count_include_pad = bool_prop(False)
    grad = operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        wanted = self.pooled(self.result)
        if self.grad.type != wanted:
            raise VerifyException(
                f"{self.name}: gradient {self.grad.type} of a result {wanted}; both must be equal"
            )

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        return [b(AvgPoolOp(dy, **self.window_properties()))]

    def reference(self, result: Array, grad: Array) -> None:
        last = self.layout == "NHWC"
        dy = channels_first(widen(grad)) if last else widen(grad)
        spatial = result.shape[1:-1] if last else result.shape[2:]
        window = [getattr(self, n) for n in ("kernel", "strides", "pads", "dilations")]
        kernel = window[0]
        share = dy / window_counts(spatial, window, self.count_include_pad)
        share = share.astype(dy.dtype).reshape(*dy.shape, *(1,) * len(kernel))
        total = scatter_windows(np.broadcast_to(share, (*dy.shape, *kernel)), spatial, *window[1:])
        result[...] = channels_last(total) if last else total


_WINDOW = {"kernel": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1), "dilations": (1, 2)}
SAMPLES: tuple[Sample, ...] = (
    Sample(AvgPoolOp, (random(2, 2, 6, 5),), {"kernel": (2, 2), "strides": (2, 2)}),
    Sample(AvgPoolOp, (random(1, 2, 6, 5),), _WINDOW),
    Sample(AvgPoolOp, (random(1, 2, 6, 5),), {**_WINDOW, "count_include_pad": True}),
    Sample(AvgPoolOp, (random(1, 6, 5, 2),), {**_WINDOW, "layout": "NHWC"}),
    Sample(AvgPoolOp, (random(1, 2, 3, 4, 3),), {"kernel": (3, 4, 3)}),
    Sample(AvgPoolBackwardOp, (random(1, 2, 3, 4),), _WINDOW, results=tensor((1, 2, 6, 5))),
    Sample(
        AvgPoolBackwardOp,
        (random(1, 3, 2, 2),),
        {"kernel": (2, 2), "strides": (2, 2), "layout": "NHWC"},
        results=tensor((1, 6, 5, 2)),
    ),
)
