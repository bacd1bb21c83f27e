"""glow-unroll: unroll loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.instr.loops import ForOp, YieldOp, body_ops
from glow_dialects.instr.memory import ViewOp, instr_functions
from glow_passes.contract import InstructionPass


def unroll(loop: ForOp) -> None:
    """for i = 0 to 32 step 16 { I(i) }   ->   I(0); I(16)."""
    block = loop.parent
    assert block is not None
    tokens: list[SSAValue] = list(loop.tokens)
    for number in loop.turns:
        tokens = _turn(loop, block, loop, tokens, 0, number)
    for old, new in zip(loop.last, tokens, strict=True):
        old.replace_all_uses_with(new)
    loop.detach()
    loop.erase()


def unroll_by(loop: ForOp, by: int) -> None:
    """for i = 0 to 64 step 16 { I(i) }   ->   for i = 0 to 64 step 32 { I(i); I(i + 16) }, for by = 2."""
    turns = loop.turns
    if len(turns) % by or by == len(turns):
        return unroll(loop) if by == len(turns) else None
    wide = ForOp.of(range(turns.start, turns.stop, turns.step * by), list(loop.tokens))
    tokens: list[SSAValue] = list(wide.carried)
    for turn in range(by):
        tokens = _turn(loop, wide.block, None, tokens, turn * turns.step, wide.index)
    if tokens:
        wide.block.add_op(YieldOp.of(tokens))
    block = loop.parent
    assert block is not None
    block.insert_op_before(wide, loop)
    for old, new in zip(loop.last, wide.last, strict=True):
        old.replace_all_uses_with(new)
    loop.detach()
    loop.erase()


def _turn(
    loop: ForOp,
    block: Block,
    before: Operation | None,
    tokens: list[SSAValue],
    ahead: int,
    index: int | SSAValue,
) -> list[SSAValue]:
    """Copy a loop's body for `index + ahead` to `block`; returns the tokens that the turn yields."""
    known: dict[SSAValue, SSAValue] = dict(zip(loop.carried, tokens, strict=True))
    copy_ops(body_ops(loop), loop, known, block, before, ahead, index)
    return [known.get(token, token) for token in loop.yielded]


def copy_ops(
    ops: Sequence[Operation],
    loop: ForOp,
    known: dict[SSAValue, SSAValue],
    block: Block,
    before: Operation | None,
    ahead: int,
    index: int | SSAValue,
) -> None:
    """Copy operations of a loop's body for `index + ahead` to `block`; `known` has what stands for values."""
    if isinstance(index, SSAValue):
        known[loop.index] = index
    for op in ops:
        copy = op.clone(known)
        if before is None:
            block.add_op(copy)
        else:
            block.insert_op_before(copy, before)
        for inner in copy.walk():
            if isinstance(inner, ViewOp) and (loop.index in inner.operands or index in inner.operands):
                _shift(inner, loop.index, index, ahead, known)


def _shift(
    view: ViewOp, old: SSAValue, index: int | SSAValue, ahead: int, known: dict[SSAValue, SSAValue]
) -> None:
    """Let a view that a loop's body has depend on `index + ahead` in place of the loop's index."""
    terms, offset = view.terms(), view.offset.value.data
    if isinstance(index, SSAValue):
        offset += terms[index] * ahead
    else:
        offset += terms.pop(old) * index
    shifted = ViewOp.of(view.source, view.result.type, offset, terms)  # pyright: ignore[reportArgumentType]
    block = view.parent
    assert block is not None
    block.insert_op_before(shifted, view)
    shifted.result.name_hint = view.result.name_hint
    view.result.replace_all_uses_with(shifted.result)
    for name, value in known.items():
        if value is view.result:
            known[name] = shifted.result
    view.detach()
    view.erase()


@dataclass(frozen=True)
class UnrollPass(InstructionPass):
    """Unroll the innermost loops `by` turns where these divide their number; 0: all loops whole."""

    name = "glow-unroll"
    by: int = 0

    def __post_init__(self) -> None:
        if self.by < 0:
            raise UnsupportedError(f"by={self.by}: the number of unrolled iterations must be positive, or 0")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in instr_functions(op):
            if not any(isinstance(step, ForOp) for step in function.block.ops):
                continue
            loops = [step for step in function.walk() if isinstance(step, ForOp)]
            for loop in reversed(loops):  # inner ones first
                if self.by == 0:
                    unroll(loop)
                elif not any(isinstance(step, ForOp) for step in loop.block.ops):
                    unroll_by(loop, self.by)
