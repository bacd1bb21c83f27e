"""Values that are one number everywhere, known when the program is compiled."""

from __future__ import annotations

from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of, shape_of
from glow_dialects.ops.splat import SplatOp
from glow_passes.graph.symbols import Symbols


def known_number(value: SSAValue, symbols: Symbols) -> float | int | bool | None:
    """The number of a splat or of a constant of one element, looked up behind reshapes; else None."""
    while isinstance(value.owner, GraphOp) and value.owner.VIEW:
        source = value.owner.operands[0]
        if element_of(source) != element_of(value):
            return None  # the bits of another number
        value = source
    if isinstance(value.owner, SplatOp):
        return value.owner.value
    if any(n != 1 for n in shape_of(value)):
        return None
    array = symbols.array(value)
    return None if array is None else array.reshape(-1)[0].item()
