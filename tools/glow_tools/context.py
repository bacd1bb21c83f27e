"""The context of the tools: our dialects, and the few of xDSL's that our programs meet."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import get_all_dialects

from glow_backends.base import registry
from glow_dialects.dialects import context

FROM_XDSL = ("arith", "cf", "func", "llvm", "math", "memref", "scf", "tensor", "test")


def tool_context() -> Context:
    """A context that loads each dialect when a program first uses it."""
    ctx = context()
    known = get_all_dialects()
    for name in FROM_XDSL:
        ctx.register_dialect(name, known[name])
    for backend in registry().values():
        for name, make in backend.dialects().items():
            ctx.register_dialect(name, make)
    return ctx
