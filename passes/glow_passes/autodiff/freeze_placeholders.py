"""glow-freeze-placeholders: trained placeholders become constants, for a better inference build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.attributes import array_of
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array, dtype_of, shape_of, typed
from glow_dialects.instr.memory import instr_functions
from glow_dialects.ops.module import ConstantOp, GetOp, PlaceholderOp, SaveOp, functions, placeholders
from glow_passes.contract import GraphPass


def freeze_placeholders(module: ModuleOp, values: Mapping[str, Array] | None = None) -> list[str]:
    """Turn trainable and state placeholders that nothing writes any more into constants.

    Training functions are dropped, and with them placeholders that nothing else names. `values` are
    the arrays by name; the initial contents stand in for absent ones. Returns the names. GlowError
    where instructions have them as mutable already.
    """
    if instr_functions(module):
        raise GlowError("placeholders can become constants in a graph only: instructions write to them")
    block = module.body.block
    for function in list(functions(module)):
        if function.training is not None:
            function.detach()
            function.erase()
    read, written = _uses(module, GetOp), _uses(module, SaveOp)
    names: list[str] = []
    for name, op in placeholders(module).items():
        if name not in read | written and op.kind.data != "input":
            op.detach()
            op.erase()
        elif op.kind.data in ("trainable", "state") and name not in written:
            constant = ConstantOp.of(name, _value(name, op, values or {}))
            constant.attributes.update(op.attributes)
            block.insert_op_before(constant, op)
            op.detach()
            op.erase()
            names.append(name)
    return names


def _uses(module: ModuleOp, kind: type[GetOp] | type[SaveOp]) -> set[str]:
    ops = [op for f in functions(module) for op in f.walk()]
    return {op.symbol.root_reference.data for op in ops if isinstance(op, kind)}


def _value(name: str, op: PlaceholderOp, values: Mapping[str, Array]) -> Array:
    shape, dtype = shape_of(op.type), dtype_of(op.type)
    array = values.get(name)
    if array is None:
        initial = array_of(op.init, typed(op.type)) if op.init is not None else None
        return np.zeros(shape, dtype) if initial is None else np.array(initial)
    if array.shape != shape or array.dtype != dtype:
        raise GlowError(f"@{name} is {op.type}, its value is {array.dtype}{list(array.shape)}")
    return np.array(array)


@dataclass(frozen=True)
class FreezePlaceholdersPass(GraphPass):
    """Trainable and state placeholders become constants with their initial contents."""

    name = "glow-freeze-placeholders"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        freeze_placeholders(op)
