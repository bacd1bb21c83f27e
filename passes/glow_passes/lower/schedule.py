"""glow-schedule: order the nodes of a function, by child memory size or plain topological order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.estimates import estimate
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import bytes_of
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.module import FuncOp, GetOp, SaveOp, bodies
from glow_passes.contract import GraphPass


def _parents(op: Operation) -> list[Operation]:
    owners = dict.fromkeys(value.owner for value in op.operands)
    return [owner for owner in owners if isinstance(owner, Operation)]


def _users(value: SSAValue) -> list[Operation]:
    """The operations that read the memory of `value`, through views too."""
    users: list[Operation] = []
    for use in value.uses:
        op = use.operation
        users.append(op)
        if isinstance(op, GraphOp) and op.VIEW:
            users += _users(op.results[0])
    return users


def _readers(ops: list[Operation]) -> dict[Operation, list[Operation]]:
    """For each save of a placeholder that is also read: the reads that come before it, in `ops`' order."""
    gets = [op for op in ops if isinstance(op, GetOp)]
    before: dict[str, list[Operation]] = {}
    for get in gets:
        before.setdefault(get.symbol.root_reference.data, []).extend(_users(get.result))
    readers: dict[Operation, list[Operation]] = {}
    for op in ops:
        if isinstance(op, SaveOp):
            earlier = before.setdefault(op.symbol.root_reference.data, [])
            readers[op] = [o for o in earlier if o is not op]
            earlier.append(op)
    return readers


def _stored(value: SSAValue) -> GetOp | None:
    """The read of the placeholder in whose memory a value lies; None for one that is computed."""
    op = value.owner
    while isinstance(op, GraphOp) and op.VIEW:
        op = op.operands[0].owner
    return op if isinstance(op, GetOp) else None


def _copy_exchanged(ops: list[Operation]) -> None:
    """Copy what states hand to each other in a circle: no order of the saves keeps a, b = b, a.

    get @a to @b, get @b to @a  ->  concat (get @a) to @b, concat (get @b) to @a
    """
    saves = [op for op in ops if isinstance(op, SaveOp)]
    sources: dict[str, str] = {}
    for save in saves:
        get = _stored(save.input)
        if get is not None:
            sources[save.symbol.root_reference.data] = get.symbol.root_reference.data
    for save in saves:
        target = save.symbol.root_reference.data
        source, seen = sources.get(target), {target}
        while source is not None and source not in seen:
            seen.add(source)
            source = sources.get(source)
        if source == target and len(seen) > 1:
            save.operands[0] = Builder.before(save)(ConcatOp([save.input], axis=0))


def _order(ops: list[Operation], by_memory: bool) -> list[Operation]:
    """Post-order from the roots; with `by_memory`, operands that need most memory come first.

    The generalised Sethi-Ullman numbering (Appel & Supowit): visit first the operand whose subtree
    peaks highest over what it leaves behind.
    """
    peak: dict[Operation, int] = {}
    left: dict[Operation, int] = {}
    sorted_parents: dict[Operation, list[Operation]] = {}
    readers = _readers(ops)
    # Definitions come before uses, and every reader of a placeholder, be it a save, before its saves.
    waiting = [op for op in ops if readers.get(op)]
    ops = [op for op in ops if not readers.get(op)]
    while waiting:
        placed = {*ops}
        ops += [op for op in waiting if placed.issuperset(readers[op])]
        waiting = [op for op in waiting if not placed.issuperset(readers[op])]
    for op in ops:
        parents = [*dict.fromkeys((*_parents(op), *readers.get(op, ())))]
        if by_memory:
            parents.sort(key=lambda p: peak[p] - left[p], reverse=True)
        size = 0 if isinstance(op, GetOp) else sum(estimate(bytes_of(r.type)) for r in op.results)
        held = most = 0
        for parent in parents:
            most = max(most, held + peak[parent])
            held += left[parent]
        peak[op], left[op] = max(most, held + size), size
        sorted_parents[op] = parents
    done: set[Operation] = set()
    out: list[Operation] = []
    for root in ops:
        if any(r.uses.get_length() for r in root.results):
            continue
        stack: list[tuple[Operation, int]] = [(root, 0)]
        while stack:
            op, index = stack.pop()
            if op in done:
                continue
            if index < len(sorted_parents[op]):
                stack.append((op, index + 1))
                stack.append((sorted_parents[op][index], 0))
                continue
            done.add(op)
            out.append(op)
    return out + [op for op in ops if op not in done]


def schedule(function: FuncOp, by_memory: bool = True) -> None:
    """Reorder the function in place. Saves keep their order after every read of what they write."""
    block = function.body.block
    _copy_exchanged(list(block.ops))
    ops = list(block.ops)
    gets = [op for op in ops if isinstance(op, GetOp)]
    order = _order(ops, by_memory)
    for op in ops:
        op.detach()
    block.add_ops([*gets, *[op for op in order if not isinstance(op, GetOp)]])


@dataclass(frozen=True)
class SchedulePass(GraphPass):
    """Order nodes so that little memory is live (`by=memory`) or simply topologically (`by=order`)."""

    name = "glow-schedule"
    by: Literal["memory", "order"] = "memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in bodies(op):
            schedule(function, self.by == "memory")
