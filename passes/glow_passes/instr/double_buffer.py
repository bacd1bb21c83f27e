"""Double buffering: loops load data for the next iteration while they compute the current one."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from glow_dialects.core.instr_op import InstrOp
from glow_dialects.instr.flights import touched
from glow_dialects.instr.loops import ForOp, YieldOp
from glow_dialects.instr.memory import AllocOp, DeallocOp, StartCopyOp, ViewOp, origin
from glow_passes.instr.unroll import copy_ops


def double_buffer(loop: ForOp) -> bool:
    """Let a loop start what its next turn loads; whether it loads anything ahead.

    for i { load a[i]; I(a) }  ->  load a[0]; for i by 2 { load b[i+1]; I(a); load a[i+2]; I(b) }; I(a)
    """
    loads = loads_of(loop)
    if not loads:
        return False
    _Rotation(loop, loads).run()
    return True


def loads_of(loop: ForOp) -> list[StartCopyOp]:
    """The transfers of a turn that could start in the turn before: nothing in the loop has a part in them."""
    if loop.tokens or len(loop.turns) < 2:
        return []
    ops = list(loop.block.ops)
    written = {origin(v) for op in loop.walk() if isinstance(op, InstrOp) for v in op.written()}
    first: dict[SSAValue, Operation] = {}
    for op in ops:
        if isinstance(op, InstrOp | ForOp):
            for buffer in touched(op):
                first.setdefault(buffer, op)
    return [
        op
        for op in ops
        if isinstance(op, StartCopyOp)
        and isinstance(op.dest.owner, AllocOp)
        and op.dest.owner.parent is loop.block
        and first[op.dest] is op
        and origin(op.src) not in written
    ]


class _Rotation:
    """A loop that is being written anew."""

    def __init__(self, loop: ForOp, loads: Sequence[StartCopyOp]) -> None:
        self.loop = loop
        self.loads = loads
        ops = [op for op in loop.block.ops if not isinstance(op, YieldOp)]
        own = {load.dest for load in loads}
        ends = [op for op in ops if isinstance(op, DeallocOp) and op.buffer in own]
        skipped = {*loads, *ends, *(load.dest.owner for load in loads)}
        self.rest = [op for op in ops if op not in skipped]
        #: Views that loads read are made with them; others may need them, too.
        needed = {load.src for load in loads}
        for op in reversed(ops):
            if isinstance(op, ViewOp) and op.result in needed:
                needed.add(op.source)
        self.views = [op for op in ops if isinstance(op, ViewOp) and op.result in needed]
        only: set[Operation] = set(loads)
        for view in reversed(self.views):
            if all(use.operation in only for use in view.result.uses):
                only.add(view)
        self.rest = [op for op in self.rest if op not in only]

    def run(self) -> None:
        """Write it."""
        loop, turns, outer = self.loop, self.loop.turns, self.loop.parent
        assert outer is not None
        allocs = [[AllocOp.of(load.dest.type) for load in self.loads] for _ in range(2)]  # pyright: ignore
        for op in (*allocs[0], *allocs[1]):
            outer.insert_op_before(op, loop)
        even, odd = ([a.result for a in some] for some in allocs)
        tokens = self.load(outer, loop, even, turns[0])
        pairs = (len(turns) - 1) // 2
        if pairs:
            wide = ForOp.of(range(turns[0], turns[0] + 2 * pairs * turns.step, 2 * turns.step), tokens)
            outer.insert_op_before(wide, loop)
            block, step = wide.block, turns.step
            ahead = self.load(block, None, odd, wide.index, step)
            self.work(block, None, even, wide.carried, wide.index)
            following = self.load(block, None, even, wide.index, 2 * step)
            self.work(block, None, odd, ahead, wide.index, step)
            block.add_op(YieldOp.of(following))
            tokens = list(wide.last)
        left = turns[2 * pairs :]
        ahead = self.load(outer, loop, odd, left[1]) if len(left) > 1 else []
        self.work(outer, loop, even, tokens, left[0])
        if len(left) > 1:
            self.work(outer, loop, odd, ahead, left[1])
        for buffer in (*even, *odd):
            outer.insert_op_before(DeallocOp(buffer), loop)
        loop.detach()
        loop.erase()

    def load(
        self,
        block: Block,
        before: Operation | None,
        buffers: Sequence[SSAValue],
        index: int | SSAValue,
        ahead: int = 0,
    ) -> list[SSAValue]:
        """Start the loads of the turn `index + ahead`; returns their tokens."""
        known = {load.dest: buffer for load, buffer in zip(self.loads, buffers, strict=True)}
        copy_ops([*self.views, *self.loads], self.loop, known, block, before, ahead, index)
        return [known[load.results[0]] for load in self.loads]

    def work(
        self,
        block: Block,
        before: Operation | None,
        buffers: Sequence[SSAValue],
        tokens: Sequence[SSAValue],
        index: int | SSAValue,
        ahead: int = 0,
    ) -> None:
        """The turn `index + ahead` on what was loaded."""
        known = {load.dest: buffer for load, buffer in zip(self.loads, buffers, strict=True)}
        known |= {load.results[0]: token for load, token in zip(self.loads, tokens, strict=True)}
        copy_ops(self.rest, self.loop, known, block, before, ahead, index)


__all__ = ["double_buffer", "loads_of"]
