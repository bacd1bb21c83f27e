"""Training: gradients of convolutions, pools and batch normalisation."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.ir import SSAValue

from glow_backends.cpu.calls import CallContext, KernelCall, Rule, dtype_name, shape
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.filters import sizes_of
from glow_backends.cpu.kernels.conv.conv_gemm import ConvGemmSpec, conv_gemm_scratch_bytes, emit_conv_gemm
from glow_backends.cpu.kernels.conv.conv_panels import conv_panels_scratch_bytes, emit_conv_panels, panels_fit
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.conv_weights import (
    ConvWeightsSpec,
    conv_weights_scratch_bytes,
    emit_conv_weights,
)
from glow_backends.cpu.kernels.conv.filter_pack import emit_filter_pack
from glow_backends.cpu.kernels.conv.winograd_weights import (
    emit_winograd_weights,
    winograd_weights_scratch_bytes,
)
from glow_backends.cpu.kernels.norm.batch_norm_blocked import BlockedNormSpec, emit_batch_norm_blocked
from glow_backends.cpu.kernels.norm.batch_norm_train import BatchNormTrainSpec, emit_batch_norm_train
from glow_backends.cpu.kernels.pointwise.dropout import DropoutSpec, emit_dropout
from glow_backends.cpu.kernels.pool.pool_backward import PoolBackwardSpec, emit_pool_backward
from glow_backends.cpu.kernels.pool.pool_backward_blocked import emit_pool_backward_blocked
from glow_backends.cpu.ops.training import filter_pack_spec
from glow_backends.cpu.steps import steps_of
from glow_dialects.core.types import present


def _plain(op: Any) -> bool:
    """Whether all buffers are f32 without a predicate, NCHW, of one or two spatial axes."""
    if op.predicate is not None or any(dtype_name(v) != "f32" or 0 in shape(v) for v in op.operands):
        return False
    return op.layout == "NCHW"


def _pair(values: tuple[int, ...], missing: int) -> tuple[int, int]:
    """Two axes of one or two; a missing first one has the neutral value."""
    return (missing, values[0]) if len(values) == 1 else (values[0], values[1])


def _window(op: Any) -> dict[str, Any]:
    pads = tuple(op.pads)
    return {
        "strides": _pair(tuple(op.strides), 1),
        "pads": (0, pads[0], 0, pads[1]) if len(pads) == 2 else pads,
        "dilations": _pair(tuple(op.dilations), 1),
    }


def conv_gemm(op: Any, mode: str, context: CallContext, values: list[SSAValue]) -> KernelCall | None:
    """One of the products of a convolution; `values` are x (or dx), y (or dy) and w (or dw)."""
    if not _plain(op) or len(shape(values[0])) not in (3, 4):
        return None
    x, y, w = (shape(v) for v in values)
    spec = ConvGemmSpec(
        mode,
        x[0],
        x[1],
        _pair(x[2:], 1),
        y[1],
        _pair(w[2:], 1),
        group=op.group,
        bias=mode == "forward" and op.bias is not None,
        **_window(op),
    )
    if spec.outputs != _pair(y[2:], 1):
        return None
    operands = {"forward": (1, 0, 2), "data": (0, 1, 2), "weights": (2, 0, 1)}[mode]
    extra = present(op.bias) if spec.bias else []
    emit, scratch = emit_conv_gemm, conv_gemm_scratch_bytes
    if panels_fit(spec, context.target):
        emit, scratch = emit_conv_panels, conv_panels_scratch_bytes
    return KernelCall(
        emit,
        spec,
        [*(values[i] for i in operands), *extra],
        scratch=scratch(spec, context.target),
        flops=2 * prod(y) * spec.rows,
    )


def _conv_backward_weights(op: Any, context: CallContext) -> KernelCall | None:
    return conv_gemm(op, "weights", context, [op.input, op.grad, op.result])


def _pool_backward(mode: str) -> Rule:
    def rule(op: Any, context: CallContext) -> KernelCall | None:
        del context
        if not _plain(op) or len(shape(op.result)) not in (3, 4):
            return None
        x = shape(op.result)
        counted = mode == "avg" and bool(op.count_include_pad)
        spec = PoolBackwardSpec(
            mode,
            x[0] * x[1],
            _pair(x[2:], 1),
            _pair(tuple(op.kernel), 1),
            count_include_pad=counted,
            **_window(op),
        )
        inputs = [op.input, op.grad] if mode == "max" else [op.grad]
        return KernelCall(emit_pool_backward, spec, [op.result, *inputs])

    return rule


def _blocked_pool(op: Any, context: CallContext) -> KernelCall | None:
    batch, blocks, height, width, lanes = shape(op.result)
    if lanes != context.target.lanes:
        return None
    mode, window = op.mode, [getattr(op, n) for n in ("kernel", "strides", "pads", "dilations")]
    counted = op.count_include_pad
    spec = PoolBackwardSpec(mode, batch * blocks, (height, width), *window, count_include_pad=counted)
    return KernelCall(emit_pool_backward_blocked, spec, [op.result, *present(op.input), op.grad])


def _batch_norm(backward: bool) -> Rule:
    def rule(op: Any, context: CallContext) -> KernelCall | None:
        del context
        if op.predicate is not None or any(dtype_name(v) != "f32" or 0 in shape(v) for v in op.operands):
            return None
        batch, *rest = shape(op.input)
        outer, channels, inner = batch, rest[0], prod(rest[1:])
        if op.layout == "NHWC":
            outer, channels, inner = batch * prod(rest[:-1]), rest[-1], 1
        spec = BatchNormTrainSpec(outer, channels, inner, op.epsilon, backward)
        return KernelCall(emit_batch_norm_train, spec, list(op.operands))

    return rule


def _pack_filter(op: Any, context: CallContext) -> KernelCall | None:
    if op.width % context.target.lanes or dtype_name(op.input) != "f32":
        return None
    return KernelCall(emit_filter_pack, filter_pack_spec(op), [op.result, op.input])


def conv_weights_spec(op: Any) -> ConvWeightsSpec:
    """What a `glow_cpu.conv_weights` node or instruction computes."""
    size = shape(op.input)
    out, inner, kernel = sizes_of(shape(op.result), op.form)
    window = (op.strides, op.pads, op.dilations)
    plain = len(size) == 4
    conv = DirectConvSpec(size[0], inner, out, (size[2], size[3]), kernel, *window, plain_input=plain)
    return ConvWeightsSpec(conv, op.form)


def _conv_weights(op: Any, context: CallContext) -> KernelCall | None:
    spec = conv_weights_spec(op)
    if op.lanes != context.target.lanes:
        return None
    conv, operands = spec.conv, [op.result, op.input, op.grad]
    flops = 2 * prod((conv.batch, *conv.out_size)) * conv.out_channels * conv.in_channels * prod(conv.kernel)
    if op.algorithm == "direct":
        scratch = conv_weights_scratch_bytes(spec, context.target)
        return KernelCall(emit_conv_weights, spec, operands, scratch, flops)
    scratch = winograd_weights_scratch_bytes(spec, context.target)
    return KernelCall(emit_winograd_weights, spec, operands, scratch, flops)


def _blocked_norm(backward: bool) -> Rule:
    def rule(op: Any, context: CallContext) -> KernelCall | None:
        batch, _, height, width, lanes = shape(op.input)
        if lanes != context.target.lanes:
            return None
        epilogue = Epilogue() if backward else Epilogue(steps=steps_of(op.properties["steps"]))
        gate = backward and op.gate is not None
        channels = shape(op.scale)[0]
        spec = BlockedNormSpec(batch, channels, height * width, op.epsilon, backward, gate, epilogue)
        return KernelCall(emit_batch_norm_blocked, spec, list(op.operands))

    return rule


def _dropout(op: Any, context: CallContext) -> KernelCall | None:
    del context
    if op.predicate is not None or dtype_name(op.input) != "f32":
        return None
    spec = DropoutSpec(prod(shape(op.input)), op.ratio, op.seed)
    return KernelCall(emit_dropout, spec, [op.result, op.mask, op.input, op.step])


RULES: dict[str, Rule] = {
    "glow_cpu_instr.pack_filter": _pack_filter,
    "glow_cpu_instr.conv_weights": _conv_weights,
    "glow_cpu_instr.pool_backward": _blocked_pool,
    "glow_cpu_instr.batch_norm_train": _blocked_norm(backward=False),
    "glow_cpu_instr.batch_norm_backward": _blocked_norm(backward=True),
    "dropout_train": _dropout,
    "conv_backward_weights": _conv_backward_weights,
    "max_pool_backward": _pool_backward("max"),
    "avg_pool_backward": _pool_backward("avg"),
    "batch_norm_train": _batch_norm(backward=False),
    "batch_norm_backward": _batch_norm(backward=True),
}
