"""glow-make-trainable: constants become placeholders that training may change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.errors import GlowError
from glow_dialects.core.name_patterns import selected
from glow_dialects.core.types import Tensor, element_of, is_float, typed
from glow_dialects.instr.memory import instr_functions
from glow_dialects.ops.batch_norm import BatchNormOp
from glow_dialects.ops.module import ConstantOp, GetOp, PlaceholderOp, constants, functions
from glow_passes.contract import GraphPass


def running_statistics(module: ModuleOp) -> set[str]:
    """Names of the constants that batch_norm reads as mean or variance."""
    names: set[str] = set()
    for function in functions(module):
        for op in function.walk():
            if isinstance(op, BatchNormOp):
                sources = [v.owner for v in (op.mean, op.variance)]
                names |= {s.symbol.root_reference.data for s in sources if isinstance(s, GetOp)}
    return names


def make_trainable(module: ModuleOp, patterns: Sequence[str] = ("*",)) -> list[str]:
    """Turn floating-point constants whose names match a pattern into trainable placeholders.

    Running statistics of batch_norm become state. Returns the trainable names; GlowError where a
    pattern matches nothing, a constant has no values, or instructions have it as a constant already.
    """
    if instr_functions(module):
        raise GlowError("constants can become trainable in a graph only: instructions rely on their values")
    known = constants(module)
    statistics = running_statistics(module)
    chosen = set(selected(known, patterns, "constant")) if known else set[str]()
    names: list[str] = []
    for name, constant in known.items():
        kind = typed(constant.type)
        if not is_float(element_of(kind)) or name not in chosen:
            continue
        role = "state" if name in statistics else "trainable"
        _convert(module, constant, kind, role)
        if role == "trainable":
            names.append(name)
    return names


def _convert(module: ModuleOp, constant: ConstantOp, kind: Tensor, role: str) -> None:
    array = constant.array()
    name = constant.sym_name.data
    if array is None:
        raise GlowError(f"@{name} has no values: its weights file was not found")
    placeholder = PlaceholderOp.of(name, kind, role, np.array(array))
    placeholder.attributes.update(constant.attributes)
    block = module.body.block
    block.insert_op_before(placeholder, constant)
    constant.detach()
    constant.erase()


@dataclass(frozen=True)
class MakeTrainablePass(GraphPass):
    """Constants whose names match one of `names` (`*`, `?`; `!` leaves out) become trainable placeholders."""

    name = "glow-make-trainable"
    names: tuple[str, ...] = ("*",)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        make_trainable(op, self.names)
