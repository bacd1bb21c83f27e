"""glow-cse: equal nodes and equal constants become one."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute, Operation
from xdsl.traits import Pure

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, functions
from glow_passes.contract import GraphPass
from glow_passes.graph.symbols import Symbols


def _fingerprint(array: Array) -> Hashable:
    """Equal for equal arrays; a handful of elements, not the whole tensor."""
    step = max(1, array.size // 16)
    if any(array.strides) or array.size == 1:
        sample = array.flat[: 16 * step : step].tobytes()
    else:
        sample = array.flat[0].tobytes() if array.size else b""
    return (array.shape, array.dtype, sample)


def _same(left: Array, right: Array) -> bool:
    """Equality of bits, so that NaN equals itself and -0 differs from 0."""
    if left is right or not left.size:
        return True
    if not any(left.strides) and not any(right.strides):
        return left.flat[0].tobytes() == right.flat[0].tobytes()
    a, b = np.ascontiguousarray(left), np.ascontiguousarray(right)
    width = f"u{a.itemsize}" if a.itemsize in (1, 2, 4, 8) else f"V{a.itemsize}"
    return bool(np.array_equal(a.view(width), b.view(width)))


def merge_constants(module: ModuleOp) -> int:
    """Let every read of a constant name the first one with the same contents."""
    kept: dict[Hashable, list[tuple[ConstantOp, Array]]] = {}
    renamed: dict[str, SymbolRefAttr] = {}
    for op in module.body.block.ops:
        if not isinstance(op, ConstantOp):
            continue
        array = op.array()
        if array is None:
            continue
        peers = kept.setdefault(_fingerprint(array), [])
        twin = next((other for other, known in peers if other.type == op.type and _same(known, array)), None)
        if twin is None:
            peers.append((op, array))
        else:
            renamed[op.sym_name.data] = SymbolRefAttr(twin.sym_name)
    for function in functions(module) if renamed else ():
        for get in function.body.block.ops:
            if isinstance(get, GetOp) and (new := renamed.get(get.symbol.root_reference.data)):
                get.properties["symbol"] = new
    if renamed:
        Symbols(module).sweep()
    return len(renamed)


def _properties(op: Operation) -> dict[str, Attribute]:
    return {**op.attributes, **op.properties}


def merge_nodes(function: FuncOp) -> int:
    """Replace each pure node by an earlier one of the same class, operands and properties.

    The predicate is an operand: nodes under different predicates stay apart.
    """
    seen: dict[Hashable, list[Operation]] = {}
    removed = 0
    for op in list(function.body.block.ops):
        if type(op) is GetOp:
            key: Hashable = op.symbol.root_reference.data
        elif isinstance(op, GraphOp) and op.has_trait(Pure):
            key = (type(op), tuple(op.operands))
        else:
            continue
        peers = seen.setdefault(key, [])
        twin = next((other for other in peers if _equal(op, other)), None)
        if twin is None:
            peers.append(op)
            continue
        for old, new in zip(op.results, twin.results, strict=True):
            old.replace_all_uses_with(new)
        op.detach()
        op.erase()
        removed += 1
    return removed


def _equal(op: Operation, other: Operation) -> bool:
    return [r.type for r in op.results] == [r.type for r in other.results] and (
        _properties(op) == _properties(other)
    )


@dataclass(frozen=True)
class CsePass(GraphPass):
    """Common-subexpression elimination on constants, their reads and pure nodes."""

    name = "glow-cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        merge_constants(op)
        for function in functions(op):
            merge_nodes(function)
