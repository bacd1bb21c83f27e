"""glow-rematerialize: values that wait long for the backward pass are computed again instead of kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import bytes_of
from glow_dialects.ops.module import FuncOp, GetOp, SaveOp, bodies
from glow_passes.contract import GraphPass

#: Attribute of a function: bytes of activations that it should not exceed.
BUDGET = "memory_budget"
#: At most this many operators are repeated for one value.
_CHAIN = 6


def cheap(op: Operation) -> bool:
    """Whether computing `op` again is as cheap as reading its operands."""
    return isinstance(op, GraphOp) and op.has_trait(Pure) and (op.DATA_PARALLEL or op.VIEW or op.CHEAP)


def base(value: SSAValue) -> SSAValue:
    """The value whose memory `value` is a view of."""
    while isinstance(value.owner, GraphOp) and value.owner.VIEW:
        value = value.owner.operands[0]
    return value


@dataclass
class _Lives:
    """When values are alive in an order of operations, and how many bytes that takes."""

    ops: Sequence[Operation]
    first: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    last: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    #: Where a placeholder is first written.
    saved: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        for place, op in enumerate(self.ops):
            if isinstance(op, SaveOp):
                self.saved.setdefault(op.symbol.root_reference.data, place)
            for value in op.operands:
                self.last[base(value)] = place
            for result in op.results:
                if base(result) is result and not isinstance(op, GetOp):
                    self.first[result] = place
                    self.last.setdefault(result, place)

    def peak(self) -> tuple[int, int]:
        """(most bytes alive at once, the operation where)."""
        change = Counter[int]()
        for value, place in self.first.items():
            size = bytes_of(value.type)
            change[place] += size
            change[self.last[value] + 1] -= size
        most = where = now = 0
        for place in range(len(self.ops)):
            now += change[place]
            if now > most:
                most, where = now, place
        return most, where


class _Rebuild:
    """Clones of the operations that compute a value again before operation `at`."""

    def __init__(self, lives: _Lives, target: SSAValue, at: int) -> None:
        self.lives, self.target, self.at = lives, target, at
        self.left = _CHAIN
        self.clones: list[Operation] = []
        self.known: dict[SSAValue, SSAValue] = {}

    def value(self, wanted: SSAValue) -> SSAValue | None:
        """`wanted` before the operation; None where that takes too much."""
        if wanted in self.known:
            return self.known[wanted]
        root = base(wanted)
        if isinstance(root.owner, GetOp):
            # A weight's value before its update cannot be computed again.
            old = self.lives.saved.get(root.owner.symbol.root_reference.data, self.at) >= self.at
            return wanted if old else None
        if root is not self.target and self.lives.last[root] >= self.at:
            return wanted
        owner = wanted.owner
        if not isinstance(owner, Operation) or not cheap(owner) or self.left == 0:
            return None
        self.left -= 1
        mapping: dict[SSAValue, SSAValue] = {}
        for operand in owner.operands:
            rebuilt = self.value(operand)
            if rebuilt is None:
                return None
            mapping[operand] = rebuilt
        clone = owner.clone(mapping)
        self.clones.append(clone)
        for old, new in zip(owner.results, clone.results, strict=True):
            self.known[old] = new
        return self.known[wanted]

    def drop(self) -> None:
        """Forget the clones."""
        for op in reversed(self.clones):
            op.erase()
        self.clones.clear()


def rematerialize(function: FuncOp, budget: int) -> tuple[int, int]:
    """Repeat cheap operators until at most `budget` bytes are alive at once, or nothing more helps.

    y = relu x; ...; peak; ...; dy y   ->   y = relu x; ...; peak; ...; y' = relu x; dy y'
    Returns the most bytes alive before and after. The order of operations stays; what has not helped
    in the end is not repeated.
    """
    block, tried = function.body.block, set[SSAValue]()
    changes: list[_Change] = []
    peaks: list[int] = []
    while True:
        ops = list(block.ops)
        lives = _Lives(ops)
        most, where = lives.peak()
        peaks.append(most)
        if most <= budget or (change := _relieve(ops, lives, where, tried)) is None:
            break
        changes.append(change)
    least = min(peaks)
    for change in reversed(changes[peaks.index(least) :]):
        change.undo()
    return peaks[0], least


@dataclass(frozen=True)
class _Change:
    """Operations that were repeated, and operands as they were: the operation, which one, the value."""

    clones: Sequence[Operation]
    operands: Sequence[tuple[Operation, int, SSAValue]]

    def undo(self) -> None:
        """Repeat nothing."""
        for op, index, value in self.operands:
            op.operands[index] = value
        for clone in reversed(self.clones):
            clone.detach()
            clone.erase()


def _relieve(ops: list[Operation], lives: _Lives, where: int, tried: set[SSAValue]) -> _Change | None:
    """Shorten the life of one large value that only waits at operation `where`; None where none can."""
    needed = {base(v) for v in ops[where].operands}
    alive = [v for v, place in lives.first.items() if place < where < lives.last[v]]
    waiting = [v for v in alive if v not in needed and v not in tried]
    for value in sorted(waiting, key=lambda v: bytes_of(v.type), reverse=True):
        tried.add(value)
        late = [p for p in range(where + 1, len(ops)) if any(base(o) is value for o in ops[p].operands)]
        rebuild = _Rebuild(lives, value, late[0])
        users = [(ops[p], i, o) for p in late for i, o in enumerate(ops[p].operands) if base(o) is value]
        # Views that were taken before the peak are taken again behind it, later ones move over.
        early = [o for _, _, o in users if o.owner in ops[:where]]
        if any(rebuild.value(o) is None for o in early):
            rebuild.drop()
            continue
        block = ops[late[0]].parent
        assert block is not None
        for rebuilt in rebuild.clones:
            block.insert_op_before(rebuilt, ops[late[0]])
        moved = [user for user in users if user[2] in rebuild.known]
        for op, index, operand in moved:
            op.operands[index] = rebuild.known[operand]
        tried.update(r for op in rebuild.clones for r in op.results)
        return _Change(rebuild.clones, moved)
    return None


@dataclass(frozen=True)
class RematerializePass(GraphPass):
    """Keep functions within `budget` bytes, or within their own `memory_budget` where that is 0."""

    name = "glow-rematerialize"
    budget: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in bodies(op):
            own = function.attributes.get(BUDGET)
            budget = self.budget or (own.value.data if isinstance(own, IntegerAttr) else 0)
            if budget:
                rematerialize(function, budget)
