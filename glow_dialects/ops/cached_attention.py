"""cache_write, cached_attention: keys and values of earlier tokens, kept in caches of fixed capacity.

A cache is [sequences, heads, capacity, features]. What stands in it at places from a sequence's length on
has no meaning: it is overwritten before anything reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, opt_operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import float_prop, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, present, shape_of, tensor
from glow_dialects.ops.rotary import check_places


@graph_op
class CacheWriteOp(PureOp):
    """`cache` [S, H, C, D] with the rows [B, T, H, D] of new tokens.

    Token t of batch b goes to place starts[b] + t of sequence slots[b]; nowhere if there is none.
    """

    name = "glow.cache_write"
    INPLACE = ("cache",)
    cache = operand_def(Tensor)
    rows = operand_def(Tensor)
    slots = operand_def(Tensor)
    starts = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        cache, rows = shape_of(self.cache), shape_of(self.rows)
        fits = len(cache) == len(rows) == 4 and (rows[2], rows[3]) == (cache[1], cache[3])
        if not fits or element_of(self.cache) != element_of(self.rows):
            raise VerifyException(
                f"{self.name}: {self.rows.type} does not go into {self.cache.type}"
                "; give rows of the cache's width and type"
            )
        _check_numbers(self)
        return [self.cache.type]

    def reference(self, result: Array, cache: Array, rows: Array, slots: Array, starts: Array) -> None:
        result[...] = cache
        for batch, (slot, start) in enumerate(zip(slots.tolist(), starts.tolist(), strict=True)):
            first, last = max(start, 0), min(start + rows.shape[1], cache.shape[2])
            if 0 <= slot < len(cache) and first < last:
                new = rows[batch, first - start : last - start]
                result[slot, :, first:last] = new.transpose(1, 0, 2)


@graph_op
class CachedAttentionOp(PureOp):
    """softmax(scale q k') v of new tokens' queries over the caches of their sequences, [B, T, H, E].

    `q` is [B, T, H, D], `keys` [S, G, C, D], `values` [S, G, C, E]; H is a multiple of G, and heads that
    follow each other share keys. Token t of batch b stands at p = starts[b] + t (brought into [0, C)) and
    sees places 0 to p of sequence slots[b] (brought into [0, S)), of which the last `window` if that is not
    0. `softcap` c, if not 0: scores are c tanh(scores / c). `sinks` [H], if given: the score of one more
    place that every token of a head sees, whose value is 0.
    """

    name = "glow.cached_attention"
    scale = float_prop()
    window = int_prop(0)
    softcap = float_prop(0.0)
    q = operand_def(Tensor)
    keys = operand_def(Tensor)
    values = operand_def(Tensor)
    slots = operand_def(Tensor)
    starts = operand_def(Tensor)
    sinks = opt_operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        q, keys, values = (shape_of(v) for v in (self.q, self.keys, self.values))
        fits = len(q) == len(keys) == len(values) == 4 and keys[:3] == values[:3] and q[3] == keys[3]
        if not fits or 0 in keys[:3] or q[2] % keys[1]:
            raise VerifyException(
                f"{self.name}: {self.q.type} over {self.keys.type} and {self.values.type}"
                "; heads and features must agree"
            )
        if self.window < 0 or self.softcap < 0:
            raise VerifyException(
                f"{self.name}: window {self.window} and softcap {self.softcap} are not below 0"
                "; give 0 for none"
            )
        for sinks in present(self.sinks):
            if shape_of(sinks) != q[2:3] or element_of(sinks) != element_of(self.q):
                raise VerifyException(f"{self.name}: sinks are {sinks.type}; give one number per head of q")
        _check_numbers(self)
        return [tensor((*q[:3], values[3]), element_of(self.q))]

    def reference(
        self,
        result: Array,
        q: Array,
        keys: Array,
        values: Array,
        slots: Array,
        starts: Array,
        sinks: Array | None,
    ) -> None:
        each = q.shape[2] // keys.shape[1]
        for batch, (slot, start) in enumerate(zip(slots.tolist(), starts.tolist(), strict=True)):
            slot = min(max(slot, 0), len(keys) - 1)
            for t in range(q.shape[1]):
                place = min(max(start + t, 0), keys.shape[2] - 1)
                first = max(0, place + 1 - self.window) if self.window else 0
                k, v = (np.repeat(c[slot, :, first : place + 1], each, 0) for c in (keys, values))
                scores = np.matmul(k, q[batch, t][..., None])[..., 0] * q.dtype.type(self.scale)
                if self.softcap:
                    scores = np.tanh(scores / self.softcap) * self.softcap
                if sinks is not None:
                    scores = np.concatenate([scores, sinks[:, None]], 1)
                weights = np.exp(scores - scores.max(1, keepdims=True))
                weights = (weights / weights.sum(1, keepdims=True))[:, : v.shape[1]]
                result[batch, t] = np.matmul(weights[:, None].astype(v.dtype), v)[:, 0]


def _check_numbers(op: CacheWriteOp | CachedAttentionOp) -> None:
    """Raise unless each of the batch has its sequence and its start."""
    batch = shape_of(op.operands[1] if isinstance(op, CacheWriteOp) else op.operands[0])[0]
    check_places(op.name, "slots", op.slots.type, batch)
    check_places(op.name, "starts", op.starts.type, batch)


def _numbers(*values: int) -> Array:
    return np.array(values, np.int32)


SAMPLES = (
    Sample(
        CacheWriteOp,
        (random(3, 2, 8, 4), random(2, 3, 2, 4), _numbers(2, 0), _numbers(6, 1)),
        smooth=False,
    ),
    Sample(CacheWriteOp, (random(1, 1, 5, 16), random(1, 1, 1, 16), _numbers(0), _numbers(3)), smooth=False),
    Sample(
        CacheWriteOp,
        (random(2, 1, 4, 5), random(2, 2, 1, 5), _numbers(0, 7), _numbers(-1, 0)),
        smooth=False,
    ),
    Sample(
        CachedAttentionOp,
        (random(2, 3, 4, 8), random(3, 2, 9, 8), random(3, 2, 9, 6, seed=1), _numbers(2, 0), _numbers(4, 0)),
        {"scale": 0.35},
        smooth=False,
    ),
    Sample(
        CachedAttentionOp,
        (
            random(1, 1, 6, 16),
            random(1, 2, 150, 16),
            random(1, 2, 150, 16, seed=1),
            *[_numbers(0), _numbers(140)],
        ),
        {"scale": 2.0, "softcap": 3.0},
        smooth=False,
    ),
    Sample(
        CachedAttentionOp,
        (
            random(1, 70, 2, 24),
            random(1, 2, 100, 24),
            random(1, 2, 100, 24, seed=1),
            _numbers(0),
            _numbers(20),
        ),
        {"scale": 1.0, "window": 17},
        smooth=False,
    ),
    Sample(
        CachedAttentionOp,
        (
            random(2, 3, 38, 20),
            random(2, 2, 30, 20),
            random(2, 2, 30, 12, seed=1),
            *[_numbers(1, 0), _numbers(0, 19)],
            random(38, seed=2),
        ),
        {"scale": 0.4, "window": 8},
        smooth=False,
    ),
)
