"""Rules of element type conversion."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from glow_dialects.ops.arithmetic import MaxOp, MulOp
from glow_dialects.ops.compare import CmpGtOp, CmpLtOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph import Emitter, Value, cast_to, dtype_of_value
from glow_frontends.graph.cast import E8M0, bits_as
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.tensors import numpy_type


def _power_of_two(g: Emitter, value: Value, mode: str) -> Value:
    """`value` as a power of two, of the given rounding, before it becomes a float8_e8m0."""
    wide = cast_to(g, value, np.dtype(np.float32))
    wide = g(MaxOp, wide, g.like(2.0**-127, wide))
    near = cast_to(g, cast_to(g, wide, E8M0), np.dtype(np.float32))
    if mode == "nearest":
        return near
    up = mode == "up"
    wrong = g(CmpLtOp if up else CmpGtOp, near, wide)
    return g(SelectOp, wrong, g(MulOp, near, g.like(2.0 if up else 0.5, near)), near)


def cast(g: Emitter, n: Node) -> Value:
    """Cast and CastLike."""
    if n.op == "CastLike":
        to = dtype_of_value(n[1])
    elif n.opset < 6:
        to = numpy_type(TensorProto.DataType.Value(n.text("to").upper()))
    else:
        to = numpy_type(n.integer("to"))
    value = n[0]
    if to == E8M0 and dtype_of_value(value) != E8M0:
        value = _power_of_two(g, value, n.text("round_mode", "up"))
    return cast_to(g, value, to, n.flag("saturate", True))


def bitcast(g: Emitter, n: Node) -> Value:
    """BitCast: the same bits as another element type."""
    x, to = n[0], numpy_type(n.integer("to"))
    byte = np.dtype(np.uint8)
    if dtype_of_value(x) == np.dtype(bool):
        x = cast_to(g, x, byte)
    if to == np.dtype(bool):
        return cast_to(g, bits_as(g, x, byte), to)
    return bits_as(g, x, to)


RULES: dict[str, Versions] = {"Cast": cast, "CastLike": cast, "BitCast": bitcast}
