"""glow-cpu-fuse-sums: a quantised convolution adds the residual before it stores its bytes."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_backends.cpu.kernels.conv.quantized_ops import QuantizedConvOp
from glow_dialects.core.types import UniformQuantizedType, element_of, shape_of
from glow_dialects.ops.quantized_arithmetic import QuantizedAddOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, producer, rewrite

WINDOW = ("lanes", "strides", "pads", "dilations", "group", "low", "high")


def sum_after(op: QuantizedAddOp, r: Rewriter) -> SSAValue | None:
    """quantized_add(quantized_conv(x), y) -> quantized_conv(x, y), one store."""
    if op.predicate is not None:
        return None
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        conv = producer(value, QuantizedConvOp, single=True)
        kind = element_of(value)
        if conv is None or conv.residual is not None or shape_of(value) != shape_of(other):
            continue
        if not isinstance(kind, UniformQuantizedType):
            continue
        return r(
            QuantizedConvOp(
                conv.input,
                conv.filter,
                conv.bias,
                other,
                results=op.result.type,
                between=kind,
                sum_low=op.low,
                sum_high=op.high,
                **{n: getattr(conv, n) for n in WINDOW},
            )
        )
    return None


@dataclass(frozen=True)
class CpuFuseSumsPass(GraphPass):
    """Fuse quantised residual sums into the convolutions before them."""

    name = "glow-cpu-fuse-sums"
    OPTIONAL = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, (Pattern((QuantizedAddOp,), sum_after),))
