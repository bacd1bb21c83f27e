"""Training functions: their parts, and the placeholders that they share with inference."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.ir import SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.types import Array, Tensor, tensor
from glow_dialects.ops.module import FuncOp, GetOp, PlaceholderOp, placeholders

#: The state that counts finished steps.
STEP = "train.step"


@dataclass
class Training:
    """A training function, the end of it, its parameters and their gradients by name."""

    function: FuncOp
    builder: Builder
    parameters: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    gradients: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])


def add_placeholder(
    module: ModuleOp, name: str, kind: Tensor, role: str, init: Array | None = None
) -> PlaceholderOp:
    """The module's placeholder `name`, made if there is none."""
    placeholder = placeholders(module).get(name)
    if placeholder is None:
        placeholder = PlaceholderOp.of(name, kind, role, init)
        block = module.body.block
        first = block.first_op
        if first is None:
            block.add_op(placeholder)
        else:
            block.insert_op_before(placeholder, first)
    return placeholder


def read(symbol: PlaceholderOp, b: Builder) -> SSAValue:
    """The value of a placeholder when the function starts."""
    return b.insert(GetOp.of(symbol)).result


def step_value(module: ModuleOp, b: Builder) -> SSAValue:
    """The number of finished steps, a scalar i64."""
    return read(add_placeholder(module, STEP, tensor((), i64), "state", np.zeros((), np.int64)), b)
