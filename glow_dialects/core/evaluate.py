"""Running one graph operator on NumPy arrays (constant folding, tests, the interpreter of graphs)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue
from xdsl.irdl import VariadicDef

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import (
    Array,
    UniformQuantizedType,
    buffer_type,
    dtype_of,
    shape_of,
    typed,
)


def evaluate(op: GraphOp, arrays: Sequence[Array | None]) -> list[Array]:
    """Results of `op` for its flat operands; raises UnsupportedError where nothing defines them."""
    if op.INSTR is None:
        return _evaluate_decomposed(op, arrays)
    outs = [np.zeros(shape_of(r), dtype_of(cast(TensorType, r.type))) for r in op.results]
    instruction = op.INSTR
    properties = dict(op.properties)
    grouped: list[object] = []
    kinds, position = op.get_irdl_definition().results, 0
    for _, definition in kinds:
        many = isinstance(definition, VariadicDef)
        count = len(outs) - len(kinds) + 1 if many else 1
        grouped.append(outs[position : position + count] if many else outs[position])
        position += count
    position = 0
    for name, many in op.operand_groups():
        count = len(op.operand_group(name))
        part = list(arrays[position : position + count])
        position += count
        optional = many and type(dict(op.get_irdl_definition().operands)[name]).__name__.startswith("Opt")
        grouped.append((part[0] if part else None) if optional or not many else part)
    types = [typed(v) for v in (*op.results, *op.operands)]
    quantized = any(isinstance(k.element_type, UniformQuantizedType) for k in types)
    # Quantised references read scales off the buffers' types; the others need no buffers.
    block = Block(arg_types=[buffer_type(k) for k in types] if quantized else ())
    probe = instruction.create(
        operands=block.args, properties=properties, regions=[r.clone() for r in op.regions]
    )
    probe.reference(*grouped)
    probe.drop_all_references()
    return outs


def _evaluate_decomposed(op: GraphOp, arrays: Sequence[Array | None]) -> list[Array]:
    block = Block(arg_types=[v.type for v in op.operands])
    twin = op.clone({v: a for v, a in zip(op.operands, block.args, strict=True)})
    block.add_op(twin)
    results = twin.decompose(Builder.before(twin))
    assert results is not None, f"{op.name} has neither an instruction nor a decomposition"
    known: dict[SSAValue, Array] = {}
    for argument, array in zip(block.args, arrays, strict=True):
        assert array is not None
        known[argument] = array
    for inner in block.ops:
        if inner is twin:
            break
        assert isinstance(inner, GraphOp)
        values = inner.evaluate([known[v] for v in inner.operands])
        known.update(zip(inner.results, values, strict=True))
    return [known[r] for r in results]
