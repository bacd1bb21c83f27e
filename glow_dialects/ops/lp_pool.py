"""lp_pool: the p-norm of each window."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.properties import int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, element_of
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.windows import PoolOp, channels_first, channels_last, check_float, windows


@graph_op
class LpPoolOp(PoolOp):
    """(sum over the window of |x|^p)^(1/p)."""

    name = "glow.lp_pool"
    p = int_prop(2)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_float(self.name, self.input)
        if self.p < 1:
            raise VerifyException(f"{self.name}: p is {self.p}, expected at least 1")
        return [self.pooled(self.input)]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        # |x|^p, mean of all of the window, times its size, ^(1/p)
        p, x = self.p, Term(self.input, b).widened()
        power = x * x if p == 2 else abs(x) ** p
        mean = power.apply(AvgPoolOp, count_include_pad=True, **self.window_properties())
        return [((mean * prod(self.kernel)) ** (1 / p)).cast(element_of(self.result)).value]

    def reference(self, result: Array, input: Array) -> None:
        last = self.layout == "NHWC"
        x = channels_first(widen(input)) if last else widen(input)
        window = [getattr(self, n) for n in ("kernel", "strides", "pads", "dilations")]
        view = windows(np.abs(x) ** x.dtype.type(self.p), *window)
        y = view.sum(axis=tuple(range(2 - x.ndim, 0))) ** x.dtype.type(1 / self.p)
        result[...] = channels_last(y) if last else y


SAMPLES: tuple[Sample, ...] = (
    Sample(LpPoolOp, (random(2, 2, 6, 5),), {"kernel": (2, 2), "strides": (2, 2)}),
    Sample(LpPoolOp, (random(1, 2, 6, 5),), {"kernel": (3, 2), "pads": (1, 0, 1, 1), "p": 3}),
    Sample(LpPoolOp, (random(1, 6, 2),), {"kernel": (3,), "dilations": (2,), "p": 1, "layout": "NHWC"}),
)
