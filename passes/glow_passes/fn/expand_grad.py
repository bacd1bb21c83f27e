"""glow-expand-grad: gradients of known functions become calls of derived functions, in one mode."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.fn.dialect import FuncOp, GradOp, PartialOp, RefOp, ValueAndGradOp
from glow_dialects.fn.maker import Maker, modes_of
from glow_dialects.fn.syntax import LINE
from glow_passes.contract import FunctionPass
from glow_passes.fn.functions import Functions
from glow_passes.fn.lift_closures import lift_closures


def expand_gradients(functions: Functions, mode: str = "r") -> None:
    """Replace gradients of functions that are known, at any order, and make all that they refer to.

    What is derived is derived of functions as they were: before any gradient in them is replaced.
    """
    found: dict[GradOp | ValueAndGradOp, list[str | None]] = {}
    done: set[str] = set()
    pending = [f.sym_name.data for f in functions.module.body.block.ops if isinstance(f, FuncOp)]
    while pending:
        name = pending.pop(0)
        if name in done:
            continue
        done.add(name)
        for op in functions.table[name].block.ops:
            if isinstance(op, RefOp):
                pending.append(op.target)
            elif isinstance(op, GradOp | ValueAndGradOp) and isinstance(op.function.owner, RefOp):
                found[op] = _forms(op, op.function.owner.target, functions, mode)
                pending += filter(None, found[op])
    for op, names in found.items():
        _replace(op, names)


def _forms(op: GradOp | ValueAndGradOp, target: str, functions: Functions, mode: str) -> list[str | None]:
    """The gradient function, and the forms of the function `target` that it holds; None is no tangent."""
    name = functions.gradient_of(op, functions.arity(target), mode)
    before = modes_of(op)
    if before.startswith("r"):  # forward mode over reverse mode
        before = before[1:]
        forms = [functions.derived(target, before, "j"), target]
    else:
        forms = [functions.derived(target, before, mode)]
    tangents = [None] * (2 ** before.count("j") - 1)
    return [name, *(n for form in forms for n in (form, *tangents))]


def _replace(op: GradOp | ValueAndGradOp, names: list[str | None]) -> None:
    target, block = op.function.owner, op.parent
    assert block is not None and isinstance(target, RefOp)
    m = Maker(block)
    m.line = op.attributes.get(LINE)
    gradient, *forms = (m.zero() if n is None else m.ref(n) for n in names)
    partial = m.partial(gradient, *forms).owner
    assert isinstance(partial, PartialOp)
    for new in (*dict.fromkeys(v.owner for v in partial.operands), partial):
        assert isinstance(new, Operation)
        new.detach()
        block.insert_op_before(new, op)
    op.result.replace_all_uses_with(partial.result)
    op.detach()
    op.erase()
    if not target.result.uses:
        target.detach()
        target.erase()


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
