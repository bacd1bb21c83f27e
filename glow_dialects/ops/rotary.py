"""rotary: rotary position embeddings (RoPE), rotations of pairs of features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, dtype_of, element_of, shape_of


@graph_op
class RotaryOp(PureOp):
    """x [B, T, H, D] with pairs of its first 2 W features turned by the angles of their tokens' places.

    Token t of batch b stands at starts[b] + t (brought into the tables' range), whose cosines and sines are
    rows of `cos` and `sin` [P, W]. Pair i is features i and i + W, or 2 i and 2 i + 1 where `interleaved`;
    features from 2 W on stay as they are.
    """

    name = "glow.rotary"
    interleaved = bool_prop(False)
    x = operand_def(Tensor)
    cos = operand_def(Tensor)
    sin = operand_def(Tensor)
    starts = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        x, cos = shape_of(self.x), shape_of(self.cos)
        if len(x) != 4:
            raise VerifyException(
                f"{self.name}: x is {self.x.type}, expected [batch, tokens, heads, features]"
            )
        fits = len(cos) == 2 and cos[0] > 0 and 2 * cos[1] <= x[3]
        if not fits or self.sin.type != self.cos.type or element_of(self.cos) != element_of(self.x):
            raise VerifyException(
                f"{self.name}: angles {self.cos.type} and {self.sin.type} for {self.x.type}"
                "; give one row per token, one angle per pair of features"
            )
        check_places(self.name, "starts", self.starts.type, x[0])
        return [self.x.type]

    def reference(self, result: Array, x: Array, cos: Array, sin: Array, starts: Array) -> None:
        width = cos.shape[1]
        places = starts.astype(np.int64)[:, None] + np.arange(x.shape[1])
        places = np.clip(places, 0, len(cos) - 1)
        c, s = (t[places][:, :, None].astype(x.dtype) for t in (cos, sin))
        result[...] = x
        if self.interleaved:
            first, second = slice(0, 2 * width, 2), slice(1, 2 * width, 2)
        else:
            first, second = slice(0, width), slice(width, 2 * width)
        a, b = x[..., first], x[..., second]
        result[..., first], result[..., second] = a * c - b * s, b * c + a * s


def check_places(op: str, what: str, kind: Attribute, batch: int) -> None:
    """Raise unless `kind` is one i32 for each of a batch."""
    if shape_of(kind) != (batch,) or dtype_of(kind) != np.int32:
        raise VerifyException(f"{op}: {what} is {kind}, expected one i32 for each of a batch of {batch}")


def _starts(*values: int) -> Array:
    return np.array(values, np.int32)


SAMPLES = (
    Sample(RotaryOp, (random(2, 3, 2, 8), random(9, 4), random(9, 4, seed=1), _starts(0, 5)), smooth=False),
    Sample(
        RotaryOp,
        (random(1, 2, 3, 10), random(7, 3), random(7, 3, seed=1), _starts(4)),
        {"interleaved": True},
        smooth=False,
    ),
    Sample(RotaryOp, (random(1, 1, 2, 64), random(5, 16), random(5, 16, seed=1), _starts(3)), smooth=False),
    Sample(RotaryOp, (random(1, 4, 1, 32), random(5, 16), random(5, 16, seed=1), _starts(3)), smooth=False),
)
