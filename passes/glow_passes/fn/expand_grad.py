"""glow-expand-grad: gradients of known functions become calls of derived functions, in one mode."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.fn.dialect import FuncOp, GradOp, RefOp, ValueAndGradOp
from glow_dialects.fn.maker import Maker, modes_of
from glow_dialects.fn.syntax import LINE
from glow_passes.contract import FunctionPass
from glow_passes.fn.functions import Functions
from glow_passes.fn.lift_closures import lift_closures


def expand_gradients(functions: Functions, mode: str = "r") -> None:
    """Replace gradients of functions that are known, innermost first, and make all that they refer to."""
    done: set[str] = set()
    pending = [f.sym_name.data for f in functions.module.body.block.ops if isinstance(f, FuncOp)]
    while pending:
        name = pending.pop(0)
        if name in done:
            continue
        done.add(name)
        for op in list(functions.table[name].block.ops):
            if isinstance(op, GradOp | ValueAndGradOp) and not modes_of(op):
                target = op.function.owner
                if isinstance(target, RefOp):
                    pending += _replace(op, functions, mode)
            elif isinstance(op, RefOp):
                pending.append(op.target)


def _replace(op: GradOp | ValueAndGradOp, functions: Functions, mode: str) -> list[str]:
    target, block = op.function.owner, op.parent
    assert block is not None and isinstance(target, RefOp)
    name = functions.gradient_of(op, functions.arity(target.target), mode)
    m = Maker(block)
    m.line = op.attributes.get(LINE)
    form = functions.derived(target.target, "", mode)
    closure = m.partial(m.ref(name), m.ref(form))
    partial = closure.owner
    assert isinstance(partial, Operation)
    for new in (*[v.owner for v in partial.operands], partial):
        assert isinstance(new, Operation)
        new.detach()
        block.insert_op_before(new, op)
    op.result.replace_all_uses_with(closure)
    op.detach()
    op.erase()
    if not target.result.uses:
        target.detach()
        target.erase()
    return [name, form]


@dataclass(frozen=True)
class ExpandGradPass(FunctionPass):
    """grad @f -> partial @grad(@f.fwd), with the forward and backward functions that it needs.

    `mode`: "reverse", or "forward" (partial @grad.ahead(@f.jvp), tangents instead of cotangents).
    """

    name = "glow-expand-grad"
    mode: str = "reverse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lift_closures(op)
        modes = {"reverse": "r", "forward": "j"}
        if self.mode not in modes:
            raise UnsupportedError(f"glow-expand-grad: mode is reverse or forward, got {self.mode}")
        expand_gradients(Functions(op), modes[self.mode])


__all__ = ["ExpandGradPass", "Functions", "expand_gradients"]
