"""Definition before use, which xDSL's own verifier does not check."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException


def check_order(block: Block, known: set[SSAValue] | None = None) -> None:
    """Raise a VerifyException where `block`, or a region inside it, uses a value that is not yet defined.

    `known` holds the values of the enclosing blocks.
    """
    known = set() if known is None else known
    own: list[SSAValue] = [*block.args]
    known.update(own)
    for op in block.ops:
        if any(operand not in known for operand in op.operands):
            raise VerifyException(f"{op.name}: an operand is used before its definition")
        for region in op.regions:
            for inner in region.blocks:
                check_order(inner, known)
        own += op.results
        known.update(op.results)
    known.difference_update(own)
