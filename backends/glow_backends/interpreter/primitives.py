"""Constants and parts of graphs as Python values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue

from glow_dialects.core.attributes import array_of, to_python
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import typed
from glow_dialects.fn.dialect import ConstantOp
from glow_dialects.fn.tensors import TensorsOp
from glow_dialects.ops.module import ConstantOp as GraphConstant
from glow_dialects.ops.module import GetOp


def constant_value(op: ConstantOp) -> Any:
    """The Python value of a constant."""
    if isinstance(op.value, UnitAttr):
        return None
    value = to_python(op.value)
    if isinstance(value, bool | int | float | str):
        return value
    return array_of(op.value, typed(op.result))


def evaluated(op: TensorsOp, values: Sequence[Any]) -> tuple[Any, ...]:
    """The tensors of a part of a graph."""
    known: dict[SSAValue, Any] = dict(zip(op.body.block.args, map(np.asarray, values), strict=True))
    for inner in op.body.block.ops:
        if isinstance(inner, GetOp):
            source = inner.target()
            assert isinstance(source, GraphConstant)
            known[inner.result] = source.array()
        elif isinstance(inner, GraphOp):
            results = inner.evaluate([known[v] for v in inner.operands])
            known.update(zip(inner.results, results, strict=True))
    return tuple(known[v] for v in op.yielded)


def select(condition: Any, yes: Any, no: Any) -> Any:
    """One of two values, by a boolean."""
    return yes if condition else no
