"""glow-cse: equal nodes and equal constants become one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from glow_dialects.core.location import fused
from glow_dialects.core.types import Array
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, bodies
from glow_passes.contract import GraphPass
from glow_passes.graph.symbols import Symbols


def _fingerprint(array: Array) -> Hashable:
    """Equal for equal arrays; a handful of elements, not the whole tensor."""
    step = max(1, array.size // 16)
    return (array.shape, array.dtype, array.flat[::step].tobytes())


def _same(left: Array, right: Array) -> bool:
    """Equality of bits of arrays of one fingerprint, so that NaN equals itself and -0 differs from 0."""
    if not any(left.strides) and not any(right.strides):
        return True  # each has one value
    a, b = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (left, right))
    return bool(np.array_equal(a, b))


def merge_constants(module: ModuleOp) -> None:
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
    for function in bodies(module) if renamed else ():
        for get in function.body.block.ops:
            if isinstance(get, GetOp) and (new := renamed.get(get.symbol.root_reference.data)):
                get.properties["symbol"] = new
    if renamed:
        Symbols(module).sweep()


def merge_nodes(function: FuncOp) -> None:
    """Replace each pure node by an earlier one of the same class, operands and properties.

    The predicate is an operand: nodes under different predicates stay apart.
    """
    seen: dict[Hashable, Operation] = {}
    for op in list(function.body.block.ops):
        if type(op) is not GetOp and not op.has_trait(Pure):
            continue
        twin = seen.setdefault(_key(op), op)
        if twin is op:
            continue
        for old, new in zip(op.results, twin.results, strict=True):
            old.replace_all_uses_with(new)
        if op.location is not twin.location:
            twin.location = fused((twin.location, op.location))
        op.detach()
        op.erase()


def _key(op: Operation, inner: Mapping[SSAValue, int] | None = None) -> Hashable:
    """What equal operations have in common. A key of a dictionary: sizes are not equal by chance.

    `inner` numbers the values of the body that it stands in.
    """
    properties = frozenset({**op.attributes, **op.properties}.items())
    operands = tuple(op.operands) if inner is None else tuple(inner.get(v, v) for v in op.operands)
    inside = tuple(_body_key(block) for region in op.regions for block in region.blocks)
    return type(op), operands, tuple(r.type for r in op.results), properties, inside


def _body_key(block: Block) -> Hashable:
    """What equal bodies have in common, whatever their values are called."""
    own = [*block.args, *(r for op in block.ops for r in op.results)]
    numbers: dict[SSAValue, int] = {value: i for i, value in enumerate(own)}
    return tuple(a.type for a in block.args), tuple(_key(op, numbers) for op in block.ops)


@dataclass(frozen=True)
class CsePass(GraphPass):
    """Common-subexpression elimination on constants, their reads and pure nodes."""

    name = "glow-cse"
    OPTIONAL = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        merge_constants(op)
        for function in bodies(op):
            merge_nodes(function)
