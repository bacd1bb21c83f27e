"""How selections by data are written in ONNX: their operator, filled up to the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import shape_of
from glow_dialects.ops.non_max_suppression import NonMaxSuppressionOp
from glow_dialects.ops.non_zero import NonZeroOp
from glow_frontends.onnx.export.rule import Exporter, Rule, element_dtype


def _filled(e: Exporter, rows: str, axis: int, rank: int, bound: int) -> list[str]:
    """Rows with zeros up to the bound, and how many there were."""
    count = e.node("Gather", [e.node("Shape", [rows]), e.constant(np.array(axis, np.int64))], axis=0)
    rest = e.node("Sub", [e.constant(np.array([bound], np.int64)), count])
    none = [e.ints(*(0,) * n) if n else "" for n in (rank + axis, rank - 1 - axis)]
    pads = e.node("Concat", [p for p in (none[0], rest, none[1]) if p], axis=0)
    return [e.node("Pad", [rows, pads]), count]


def _non_zero(op: NonZeroOp, e: Exporter) -> list[str]:
    rank, bound = shape_of(op.indices)
    if not rank:
        there = e.node("Cast", [e.name(op.input)], to=TensorProto.BOOL)
        return [e.constant(np.zeros((0, 1), np.int64)), e.node("Cast", [there], to=TensorProto.INT64)]
    return _filled(e, e.node("NonZero", [e.name(op.input)]), 1, 2, bound)


def _non_max_suppression(op: NonMaxSuppressionOp, e: Exporter) -> list[str]:
    """Among the boxes that are available; ONNX has the operator in float32 only."""

    def real(value: Any) -> str:
        name = e.name(value)
        return name if element_dtype(value) == np.float32 else e.node("Cast", [name], to=TensorProto.FLOAT)

    def number(name: str) -> str:
        return e.node("Reshape", [name, e.ints(1)])

    zero = e.constant(np.array(0, np.int64))
    end = number(e.node("Max", [e.name(op.available), zero]))
    boxes = e.node("Slice", [real(op.boxes), e.ints(0), end, e.ints(1)])
    scores = e.node("Slice", [real(op.scores), e.ints(0), end, e.ints(2)])
    limit = e.constant(np.array(op.limit, np.int64))
    most = number(e.node("Max", [e.node("Min", [e.name(op.most), limit]), zero]))
    inputs = [boxes, scores, most, number(real(op.overlap))]
    if op.threshold is not None:
        inputs.append(number(real(op.threshold)))
    rows = e.node("NonMaxSuppression", inputs, center_point_box=int(bool(op.center_point_box)))
    return _filled(e, rows, 0, 2, shape_of(op.selected)[0])


RULES: dict[type[GraphOp], Rule] = {NonMaxSuppressionOp: _non_max_suppression, NonZeroOp: _non_zero}
