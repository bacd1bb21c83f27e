"""Removal of operators that return their input."""

from __future__ import annotations

from xdsl.ir import SSAValue

from glow_dialects.ops.dropout import DropoutOp
from glow_dialects.ops.identity import IdentityOp
from glow_passes.graph.driver import Pattern, Rewriter, Values


def remove_identity(op: IdentityOp, r: Rewriter) -> SSAValue | None:
    """identity(x) -> x."""
    return op.input


def remove_dropout(op: DropoutOp, r: Rewriter) -> Values | None:
    """dropout(x) -> x and a mask that keeps everything: nothing is dropped in inference."""
    return [op.input, r.splat(True, op.mask)]


IDENTITY = Pattern((IdentityOp,), remove_identity)
PATTERNS = (IDENTITY, Pattern((DropoutOp,), remove_dropout))
