"""glow-quantize-weights: weight-only quantisation, with one scale per group of inputs.

    matmul(x, w)  ->  matmul(round_blocks(x), transpose(dequantize_blocks(codes, scales)))

No profile is needed. What follows keeps the codes: kernels read them, and ONNX has MatMulNBits for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, element_of, present
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.dequantize_blocks import DequantizeBlocksOp
from glow_dialects.ops.expert_matmul import ExpertMatmulOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.matmul_half import MatmulHalfOp
from glow_dialects.ops.module import FuncOp, GetOp
from glow_dialects.ops.round_blocks import RoundBlocksOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, rewrite
from glow_passes.graph.match import is_known
from glow_passes.quantize.schema import QuantizationError
from glow_passes.quantize.weight_blocks import quantize_blocks

RUN = 32
"""Groups of whole runs of so many inputs have products of integers."""


@dataclass(frozen=True)
class Form:
    """Of weights: bits, inputs that share a scale, and whether what meets them is rounded to 8 bits."""

    bits: int = 4
    group: int = 32
    rounded: bool = True

    def check(self) -> None:
        """Raise QuantizationError for what there is no form of."""
        if self.bits not in (4, 8):
            raise QuantizationError(f"weights of {self.bits} bits are not supported; use 4 or 8")
        if self.group < 1:
            raise QuantizationError(f"group={self.group}: expected a number of inputs")


def weight_name(value: SSAValue) -> str | None:
    """The name of the constant that a matrix is, turned or not."""
    owner = value.owner
    if isinstance(owner, TransposeOp):
        owner = owner.input.owner
    return owner.symbol.root_reference.data if isinstance(owner, GetOp) else None


def weighted(function: FuncOp) -> Iterator[tuple[SSAValue, str]]:
    """The activations of each product by a named matrix, and the name."""
    for op in function.body.block.ops:
        if isinstance(op, MatmulOp | FullyConnectedOp | MatmulHalfOp | ExpertMatmulOp):
            name = weight_name(op.operands[1])
            if name is not None:
                yield op.operands[0], name


def few_bits(op: GraphOp, r: Rewriter, form: Form, importance: Mapping[str, Array]) -> SSAValue | None:
    """fully_connected(x, w, b) with constant weights -> a product by codes."""
    x, w = op.operands[0], op.operands[1]
    if element_of(x) != f32 or op.predicate is not None or is_known(x, r) or not is_known(w, r):
        return None
    weights = r.array(w)
    if weights is None or weights.shape[0] % form.group or not np.isfinite(weights).all():
        return None
    hint = w.name_hint or "weights"
    weigh = importance.get(weight_name(w) or "")
    codes, scales = quantize_blocks(weights.T, form.bits, form.group, weigh)
    parts = r.weight(codes, f"{hint}.codes"), r.weight(scales, f"{hint}.scales")
    depth, point = weights.shape[0], float(1 << (form.bits - 1))
    blocks: Any = {"bits": form.bits, "block": form.group, "depth": depth, "point": point}
    packed = r(DequantizeBlocksOp(*parts, None, **blocks))
    near = r(RoundBlocksOp(x, block=form.group)) if form.rounded and form.group % RUN == 0 else x
    y = r(MatmulOp(near, r(TransposeOp(packed, permutation=(1, 0)))))
    for bias in present(op.bias) if isinstance(op, FullyConnectedOp) else ():
        y = r(AddOp(y, bias))
    return y


def quantize_weights(module: ModuleOp, form: Form, importance: Mapping[str, Array] | None = None) -> int:
    """Rewrite all products whose inputs are whole groups; how many there were.

    `importance`: by the name of a matrix, how much each of its inputs weighs.
    """
    form.check()
    before = _count(module)
    rule = partial(few_bits, form=form, importance=importance or {})
    rewrite(module, (Pattern((FullyConnectedOp, MatmulOp), rule),))
    return _count(module) - before


def _count(module: ModuleOp) -> int:
    return sum(isinstance(op, DequantizeBlocksOp) for op in module.walk())


@dataclass(frozen=True)
class QuantizeWeightsPass(GraphPass):
    """Weights of products in `bits` bits (4 or 8), a scale for each `group` of inputs.

    `rounded`: activations that meet them have 8 bits themselves.
    """

    name = "glow-quantize-weights"
    bits: int = 4
    group: int = 32
    rounded: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        quantize_weights(op, Form(self.bits, self.group, self.rounded))
