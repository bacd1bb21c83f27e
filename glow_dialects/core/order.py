"""Checks that xDSL's verifier does not make: operations are in functions, definitions come before uses."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.verify import blame


def check_order(block: Block, known: set[SSAValue] | None = None) -> None:
    """Raise a VerifyException where `block`, or a region inside it, uses a value that is not yet defined.

    `known` holds the values of the enclosing blocks.
    """
    known = set() if known is None else known
    own: list[SSAValue] = [*block.args]
    known.update(own)
    for op in block.ops:
        if any(operand not in known for operand in op.operands):
            error = VerifyException(f"{op.name}: an operand is used before its definition; move that up")
            blame(error, op)
            raise error
        for region in op.regions:
            for inner in region.blocks:
                check_order(inner, known)
        own += op.results
        known.update(op.results)
    known.difference_update(own)


def check_in_function(op: Operation) -> None:
    """Raise a VerifyException where `op`, which computes something, stands in the module itself."""
    if isinstance(op.parent_op(), ModuleOp):
        raise VerifyException(
            f"{op.name}: is in the module itself, not in a function; move it into a glow.func"
        )
