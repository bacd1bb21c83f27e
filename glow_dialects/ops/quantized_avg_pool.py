"""quantized_avg_pool: averages of windows of stored integers."""

from __future__ import annotations

import numpy as np
from xdsl.irdl import operand_def, result_def

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.iteration import Iteration
from glow_dialects.core.properties import bool_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import (
    Array,
    QuantizedArray,
    Tensor,
    UniformQuantizedType,
    shape_of,
    tensor,
)
from glow_dialects.ops.quantize import quantized_type
from glow_dialects.ops.requantize import (
    RequantizingOp,
    finish,
    per_tensor,
    scale_of,
    zero_of,
)
from glow_dialects.ops.windows import PoolOp, channels_first, channels_last, window_counts, windows


@graph_op
class QuantizedAvgPoolOp(RequantizingOp, PoolOp):
    """avg_pool of stored integers, requantised; pads are the input's zero point."""

    name = "glow.quantized_avg_pool"
    count_include_pad = bool_prop(False)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        per_tensor(self, self.input)
        self.check_result(shape_of(self.pooled(self.input)))

    def iteration(self) -> Iteration | None:
        return self.pool_iteration(self.input)

    def reference(self, result: Array, input: Array) -> None:
        to, source = quantized_type(self.operands[0]), quantized_type(self.operands[1])
        last = self.layout == "NHWC"
        x = input.astype(np.float32) - np.float32(zero_of(source))
        x = channels_first(x) if last else x
        kernel, strides, pads, dilations = (
            getattr(self, n) for n in ("kernel", "strides", "pads", "dilations")
        )
        total = windows(x, kernel, strides, pads, dilations).sum(axis=tuple(range(2 - x.ndim, 0)))
        counted = self.count_include_pad
        counts = window_counts(x.shape[2:], (kernel, strides, pads, dilations), counted)
        factor = (scale_of(source) / scale_of(to) / counts).astype(np.float32)
        y = finish(total.astype(np.float32) * factor, to, self.low, self.high)
        result[...] = channels_last(y) if last else y


_X = QuantizedArray.of(
    random(1, 2, 6, 5, dtype="int8", low=-127, high=127), UniformQuantizedType.of(8, 0.05, -3)
)
_WINDOW = {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
SAMPLES: tuple[Sample, ...] = tuple(
    Sample(
        QuantizedAvgPoolOp,
        (_X,),
        {**_WINDOW, "count_include_pad": counted},
        results=tensor((1, 2, 3, 3), UniformQuantizedType.of(8, 0.04, 7)),
        smooth=False,
    )
    for counted in (False, True)
)
