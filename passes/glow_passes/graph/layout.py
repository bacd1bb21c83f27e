"""Layout propagation: regions of a graph on blocked values, with conversions at their borders alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.blocks import Blocked
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import UniformQuantizedType, element_of, shape_of, tensor
from glow_dialects.ops.module import FuncOp, functions
from glow_passes.graph.driver import is_used_once
from glow_passes.graph.regions import BlockedLayout, Region
from glow_passes.graph.symbols import Symbols


def propagate(module: ModuleOp, layout: BlockedLayout) -> None:
    """conv(x, w), relu  ->  unblock(relu(blocked conv(block(x), w)))

    What the target has a rule for starts regions of blocked values. Element-wise nodes keep blocks, and those
    that say what they are `in_blocks`; any other reader gets one conversion.
    """
    symbols = Symbols(module)
    for function in functions(module):
        _assign(function, symbols, layout)
    symbols.sweep()


def _assign(function: FuncOp, symbols: Symbols, layout: BlockedLayout) -> None:
    """Rewrite one function."""
    region = Region(function, symbols, layout)
    region.early = _early(function, layout)
    converted: list[Operation] = []
    for op in list(function.body.block.ops):
        region.start(op)
        if isinstance(op, GraphOp) and _convert(op, region):
            converted.append(op)
            continue
        for index, operand in enumerate(op.operands):
            plain = region.plain(operand)
            if plain is not operand:
                op.operands[index] = plain
    for op in reversed(converted):
        op.detach()
        op.erase()


def _early(function: FuncOp, layout: BlockedLayout) -> set[Operation]:
    """Nodes that are better blocked before them: what reads them wants blocks, or is such a node."""
    found: set[Operation] = set()
    for op in reversed(list(function.body.block.ops)):
        for value in op.operands if op in found else layout.wanted(op):
            owner = value.owner
            if isinstance(owner, GraphOp) and is_used_once(value) and layout.early(owner):
                found.add(owner)
    return found


def _convert(op: GraphOp, region: Region) -> bool:
    """Whether a node has another form from now on."""
    rule = region.layout.rule(type(op))
    if rule is not None:
        return rule(op, region)
    return elementwise(op, region) if op.DATA_PARALLEL else carried(op, region)


def carried(op: GraphOp, region: Region) -> bool:
    """A node that says what it is in blocks, where an operand is blocked, or had better be."""
    forms = [region.known[v] for v in op.operands if v in region.known]
    if not forms and op in region.early:
        forms = [f for v in op.operands[:1] if (f := region.layout.form(v, False, region)) is not None]
    if not forms or any((f.last, f.rank) != (forms[0].last, forms[0].rank) for f in forms):
        return False
    first = forms[0]

    def parts(values: Sequence[SSAValue]) -> Sequence[SSAValue] | None:
        found = [region.layout.form(v, first.last, region) for v in values]
        return None if any(f is None for f in found) else [f.value for f in found if f is not None]

    made = op.in_blocks(first, parts)
    if made is None:
        return False
    new = made.value.owner
    if isinstance(new, GraphOp) and new.parent is None:
        region.builder.insert(new)
    region.remember(op.results[0], made)
    return True


def elementwise(op: GraphOp, region: Region) -> bool:
    """An element-wise node with a blocked operand of the result's shape."""
    shapes = {shape_of(r) for r in op.results}
    if len(shapes) != 1 or op.predicate is not None:
        return False
    shape = shapes.pop()
    forms = [region.known[v] for v in op.operands if v in region.known and shape_of(v) == shape]
    if not forms:
        return False
    operands = [_beside(v, forms[0], shape, region) for v in op.operands]
    if any(o is None for o in operands):
        return False
    wide = shape_of(forms[0].value)
    new = type(op).create(
        operands=[o for o in operands if o is not None],
        properties=dict(op.properties),
        result_types=[tensor(wide, region.layout.stored(r)) for r in op.results],
    )
    region.builder.insert(new)
    for result, value in zip(op.results, new.results, strict=True):
        region.remember(result, replace(forms[0], value=value))
    return True


def _beside(value: SSAValue, form: Blocked, shape: Sequence[int], region: Region) -> SSAValue | None:
    """An operand in blocks; stored integers as they are stored there, with all channels of the result."""
    if not isinstance(element_of(value), UniformQuantizedType):
        return region.operand(value, form)
    own = shape_of(value)
    whole = len(own) == len(shape) and own[form.axis] == shape[form.axis]
    part = region.layout.form(value, form.last, region) if whole else None
    return None if part is None else part.value


__all__ = ["BlockedLayout", "Region", "carried", "elementwise", "propagate"]
