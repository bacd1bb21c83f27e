"""Losses of the Trainer: their operators, their labels, and the checks of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_compiler.checks import number
from glow_dialects.core.builder import Builder
from glow_dialects.core.errors import BindingError, GlowError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, Tensor, dtype_of, shape_of, tensor, tensor_of, typed
from glow_dialects.ops.loss import (
    BinaryCrossEntropyOp,
    CrossEntropyOp,
    HuberLossOp,
    L1LossOp,
    MeanSquaredErrorOp,
    RegressionOp,
    SigmoidCrossEntropyOp,
)
from glow_dialects.ops.reduce import ReduceMeanOp

LOSSES: dict[str, type[GraphOp]] = {
    "cross_entropy": CrossEntropyOp,
    "sigmoid_cross_entropy": SigmoidCrossEntropyOp,
    "binary_cross_entropy": BinaryCrossEntropyOp,
    "mse": MeanSquaredErrorOp,
    "l1": L1LossOp,
    "huber": HuberLossOp,
    "regression": RegressionOp,
}


#: The loss of a model that computes it: its output, the mean where that is many numbers.
OUTPUT = "output"


@dataclass(frozen=True)
class Loss:
    """A loss by name, with options: `label_smoothing`, `ignore_index`, `weights`, `delta`, `reduction`."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if self.name == OUTPUT and not self.options:
            return
        if self.name not in LOSSES:
            there = ", ".join((*LOSSES, f"{OUTPUT} (without options)"))
            raise GlowError(f"no loss '{self.name}'; there are: {there}")
        number("label_smoothing", self.options.get("label_smoothing", 0.0), most=1.0)
        if "delta" in self.options and number("delta", self.options["delta"]) == 0:
            raise GlowError("delta is 0, expected more")
        if self.options.get("reduction") == "none":
            raise GlowError("a loss to train on is one number: reduction is 'mean' or 'sum'")
        known = LOSSES[self.name].get_irdl_definition().properties
        allowed = {*known, *(("weights",) if self.name == "cross_entropy" else ())} - {"operandSegmentSizes"}
        for name in self.options:
            if name not in allowed:
                raise GlowError(f"loss '{self.name}' has no option '{name}'; there are: {', '.join(allowed)}")

    @property
    def classes(self) -> bool:
        """Whether labels are class indices."""
        return self.name == "cross_entropy"

    @property
    def labelled(self) -> bool:
        """Whether it compares an output with labels."""
        return self.name != OUTPUT

    def check_labels(self, labels: Any) -> None:
        """GlowError where labels are missing, or there is nothing to compare with them."""
        if self.labelled and labels is None:
            raise GlowError(f"loss '{self.name}' needs labels")
        if not self.labelled and labels is not None:
            raise GlowError("the model's output is the loss: it takes no labels")

    def labels(self, output: Tensor) -> Tensor | None:
        """The type of the labels for a network's output; None where there are none."""
        if not self.labelled:
            return None
        shape = shape_of(output)
        if not self.classes:
            return output
        if len(shape) < 2:
            raise GlowError(f"cross_entropy needs classes along axis 1; the output is {output}")
        return tensor((shape[0], *shape[2:]), i64)

    def insert(self, output: SSAValue, labels: SSAValue | None, b: Builder) -> tuple[SSAValue, SSAValue]:
        """(the loss to report, the value to differentiate); GlowError where an option does not fit."""
        if labels is None:
            axes = tuple(range(len(shape_of(output))))
            value = b(ReduceMeanOp(output, axes=axes, keepdims=False)) if axes else output
            return value, value
        try:
            return self._inserted(output, labels, b)
        except (VerifyException, TypeError, ValueError) as error:
            raise GlowError(f"loss '{self.name}': {error}") from None

    def _inserted(self, output: SSAValue, labels: SSAValue, b: Builder) -> tuple[SSAValue, SSAValue]:
        properties = {n: v for n, v in self.options.items() if n != "weights"}
        if self.name == "regression":
            root = b(RegressionOp(output, labels))
            return b(MeanSquaredErrorOp(output, labels)), root
        operands = [output, labels]
        weights = self.options.get("weights")
        if weights is not None:
            dtype = dtype_of(typed(output))
            operands.append(b.constant(np.asarray(weights, dtype)))
        value = b(LOSSES[self.name](*operands, **properties))
        return value, value

    def check(self, labels: Array, kind: Tensor, classes: int) -> Array:
        """Labels in the type that the program takes; BindingError where one does not fit."""
        wanted = shape_of(kind)
        if labels.shape != wanted:
            raise BindingError(f"labels have shape {labels.shape}, expected {wanted}")
        if not self.classes:
            return np.ascontiguousarray(labels, dtype=dtype_of(kind))
        if labels.dtype.kind not in "iu":
            raise BindingError(f"labels have dtype {labels.dtype}, expected integers (class indices)")
        if labels.size and not 0 <= labels.min() <= labels.max() < classes:
            ignored = self.options.get("ignore_index")
            bad = (labels < 0) | (labels >= classes)
            if ignored is not None:
                bad &= labels != ignored
            if bad.any():
                place = tuple(int(i) for i in np.argwhere(bad)[0])
                raise BindingError(
                    f"label {labels[place]} at {list(place)} is out of range: there are {classes} classes"
                )
        return np.ascontiguousarray(labels, np.int64)

    def counted(self, labels: Array) -> Array:
        """Which labels count: those that are not `ignore_index`."""
        return np.asarray(labels != self.options.get("ignore_index"))

    def value(self, output: Array, labels: Array) -> float:
        """The loss of arrays of any batch size."""
        block = Block(arg_types=[tensor_of(output), tensor_of(labels)])
        b = Builder.at_end(block)
        value, _ = self.insert(block.args[0], block.args[1], b)
        known: dict[SSAValue, Array] = dict(zip(block.args, (output, labels), strict=True))
        for op in block.ops:
            assert isinstance(op, GraphOp)
            known.update(zip(op.results, op.evaluate([known[v] for v in op.operands]), strict=True))
        return float(known[value])
