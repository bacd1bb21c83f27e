"""non_max_suppression: the best boxes of each class that do not overlap a better one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor


@graph_op
class NonMaxSuppressionOp(PureOp):
    """(batch, class, box) of the boxes kept, i64, classes in order, boxes of a class by falling score.

    `boxes` [batch, box, 4] are corners (y, x, y, x, in either order) or, with `center_point_box`, centre
    and size (x, y, width, height); `scores` is [batch, class, box]. Only the first `available` boxes
    count; of each class at most `limit` and `most` are kept (i64, one number each): those whose score is
    above `threshold`, if it is given, and whose shared area with every box kept is at most `overlap` of
    their union. The shape is an upper bound: the first `count` (i64, one number) rows are results, the
    others 0.
    """

    name = "glow.non_max_suppression"
    limit = int_prop()
    center_point_box = bool_prop(False)
    boxes = operand_def(Tensor)
    scores = operand_def(Tensor)
    available = operand_def(Tensor)
    most = operand_def(Tensor)
    overlap = operand_def(Tensor)
    threshold = opt_operand_def(Tensor)
    selected = result_def(Tensor)
    count = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        boxes, scores = shape_of(self.boxes), shape_of(self.scores)
        if len(boxes) != 3 or len(scores) != 3 or boxes[2] != 4:
            raise VerifyException(f"{self.name}: boxes must be [batch, box, 4], scores [batch, class, box]")
        if (boxes[0], boxes[1]) != (scores[0], scores[2]):
            raise VerifyException(
                f"{self.name}: boxes {boxes} and scores {scores} do not match; both need the same batch "
                "and number of boxes"
            )
        if element_of(self.boxes) != element_of(self.scores):
            raise VerifyException(
                f"{self.name}: boxes and scores have different element types; cast one of them"
            )
        for name in ("available", "most", "overlap", "threshold"):
            if any(shape_of(value) != () for value in self.operand_group(name)):
                raise VerifyException(
                    f"{self.name}: {name} is not a single number; give a tensor of one element"
                )
        kept = max(0, min(self.limit, boxes[1]))
        return [tensor((scores[0] * scores[1] * kept, 3), i64), tensor((), i64)]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        return [None] * len(self.operands)

    def reference(
        self,
        selected: Array,
        count: Array,
        boxes: Array,
        scores: Array,
        available: Array,
        most: Array,
        overlap: Array,
        threshold: Array | None = None,
    ) -> None:
        chosen: list[tuple[int, int, int]] = []
        edges = corners(boxes, self.center_point_box)
        limit = min(int(most), self.limit)
        scores = scores[..., : max(0, int(available))]
        for batch in range(scores.shape[0]):
            for kind in range(scores.shape[1]):
                row = scores[batch, kind]
                order = np.argsort(-row, kind="stable")
                if threshold is not None:
                    order = order[row[order] > threshold]
                chosen += [(batch, kind, i) for i in suppress(edges[batch], order, limit, overlap)]
        selected[...] = 0
        selected[: len(chosen)] = np.array(chosen, np.int64).reshape(-1, 3)
        count[...] = len(chosen)


def corners(boxes: Array, centred: bool) -> Array:
    """Boxes as (low, low, high, high)."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if centred:
        return np.concatenate([first - second / 2, first + second / 2], -1)
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


def suppress(boxes: Array, order: Array, most: int, overlap: Array) -> list[int]:
    """Those of `order` (best first) that are kept; `boxes` are corners."""
    chosen: list[int] = []
    area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    while order.size and len(chosen) < most:
        best, order = int(order[0]), order[1:]
        chosen.append(best)
        low = np.maximum(boxes[best, :2], boxes[order, :2])
        high = np.minimum(boxes[best, 2:], boxes[order, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        union = area[best] + area[order] - shared
        part = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
        order = order[~(part > overlap)]
    return chosen


def _number(value: float) -> Array:
    return np.array(value, np.float32)


_BOXES = np.concatenate([random(2, 30, 2, high=1), random(2, 30, 2, high=1, seed=1)], -1)
_SCORES = random(2, 3, 30, low=0, seed=2)
_TIED = np.round(_SCORES * 4) / 4
_WIDE = _BOXES.astype(np.float64), _SCORES.astype(np.float64)
SAMPLES = (
    Sample(
        NonMaxSuppressionOp,
        (_BOXES, _SCORES, np.array(17), np.array(9), _number(0.3), None),
        {"limit": 20},
        smooth=False,
    ),
    Sample(
        NonMaxSuppressionOp,
        (_BOXES, _SCORES, np.array(30), np.array(8), _number(0.3), _number(0.2)),
        {"limit": 8},
        smooth=False,
    ),
    Sample(
        NonMaxSuppressionOp,
        (_BOXES, _TIED, np.array(99), np.array(4), _number(0.1), None),
        {"limit": 30, "center_point_box": True},
        smooth=False,
    ),
    Sample(
        NonMaxSuppressionOp,
        (
            _BOXES.astype(np.float64),
            _SCORES.astype(np.float64),
            np.array(30),
            np.array(-1),
            _number(0.5),
            _number(0.5),
        ),
        {"limit": 5},
        smooth=False,
    ),
)
