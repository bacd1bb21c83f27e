"""Arrays that a call reads items of are handed back by it, so that their cotangents are handed on.

The backward step of a call gives the cotangents of its arguments, which are added to what later uses of the
same arrays gave: a sum of whole arrays for each call. In a function that is differentiated,

    y = g(x, i); .. x ..        becomes        y, x1 = g.back(x, i); .. x1 ..

where `g.back` returns x as well. The cotangent of x1 enters the backward step of g.back, which adds that of
each item to it, in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from glow_dialects.fn.array_keys import operands_of
from glow_dialects.fn.dialect import CallOp, ConstantOp, FuncOp, PrimOp, RefOp, ReturnOp, SwitchOp
from glow_dialects.fn.maker import Maker
from glow_dialects.fn.primitives.items import Item
from glow_dialects.fn.primitives.operators import GetItem
from glow_dialects.fn.syntax import LINE
from glow_dialects.fn.types import any_type
from glow_passes.fn.calls import known_callee, reached, remove_dead, replace, targets

if TYPE_CHECKING:
    from glow_passes.fn.functions import Functions


@dataclass(frozen=True)
class _Ways:
    """What a call may reach: each function with all its arguments; `conditions` choose one after another."""

    conditions: tuple[SSAValue, ...]
    ways: tuple[tuple[RefOp, tuple[SSAValue, ...]], ...]


def handed_back(functions: Functions, source: FuncOp) -> FuncOp:
    """The function with calls that hand back the arrays that they read; itself where it has none."""
    if not any(isinstance(op, CallOp) for op in source.block.ops):
        return source
    return _HandedBack(functions, source).made()


class _HandedBack:
    def __init__(self, functions: Functions, source: FuncOp) -> None:
        self.functions = functions
        self.source = source
        self.function = source
        self.reads = _reads(functions, source)

    def made(self) -> FuncOp:
        """The function, a copy where something in it changes."""
        if not any(self._kept(op) for op in self.source.block.ops):
            return self.source
        self.function = self.source.clone()
        for op in list(self.function.block.ops):
            kept = self._kept(op)
            if kept:
                assert isinstance(op, CallOp)
                self._call(op, kept)
        remove_dead(self.function)
        return self.function

    def _kept(self, op: Operation) -> list[SSAValue]:
        """The values that a call is to hand back: it reads items of them, and they are used later."""
        after = op.next_op
        if not isinstance(op, CallOp) or isinstance(after, ReturnOp) and after.value is op.result:
            return []
        ways = _ways(op)
        if ways is None:
            return []
        names = [ref.target for ref, _ in ways.ways]
        if not all(self._ends_known(n) for n in names):
            return []
        read = {
            v: None for ref, values in ways.ways for i, v in enumerate(values) if i in self.reads[ref.target]
        }
        block = op.parent
        assert block is not None
        later = set(list(block.ops)[block.get_operation_index(op) + 1 :])
        return [v for v in read if any(u.operation in later for u in v.uses)]

    def _ends_known(self, name: str) -> bool:
        """Whether it is known what a function calls last, and what that does."""
        seen, pending = set[str](), [name]
        while pending:
            now = pending.pop()
            if now in seen:
                continue
            seen.add(now)
            if now not in self.reads or "gradient" in self.functions.table[now].attributes:
                return False
            last = self.functions.table[now].block.last_op
            call = last.value.owner if isinstance(last, ReturnOp) else None
            if isinstance(call, CallOp) and call.next_op is last:
                ways = _ways(call)
                if ways is None:
                    return False
                pending += [ref.target for ref, _ in ways.ways]
        return True

    def _call(self, op: CallOp, kept: list[SSAValue]) -> None:
        block = op.parent
        assert block is not None
        later = set(list(block.ops)[block.get_operation_index(op) + 1 :])
        m = _Before(op)
        pair = m.call(*self._callee(m, op, kept))
        for index, value in enumerate(kept, 1):
            new = m.get(pair, index, 1 + len(kept))
            new.name_hint = value.name_hint
            for use in list(value.uses):
                if use.operation in later:
                    use.operation.operands[use.index] = new
        replace(op, m.get(pair, 0, 1 + len(kept)))

    def _callee(self, m: Maker, op: CallOp, kept: Sequence[SSAValue]) -> list[SSAValue]:
        """The callee that hands values back, and its arguments."""
        ways = _ways(op)
        assert ways is not None
        chosen: list[SSAValue] = []
        for ref, values in ways.ways:
            added = [v for v in kept if v not in values]
            every = [*added, *values]
            name = self._back(ref.target, [every.index(v) for v in kept], len(added))
            bound = every[: len(every) - len(op.arguments)]
            chosen.append(m.partial(m.ref(name), *bound) if bound else m.ref(name))
        value = chosen[-1]
        for condition, way in zip(reversed(ways.conditions), reversed(chosen[:-1]), strict=True):
            value = m.switch(condition, way, value)
        return [value, *op.arguments]

    def _back(self, name: str, places: Sequence[int], added: int) -> str:
        """The name of a function that returns parameters as well, of which the first `added` are new."""
        back = f"{name}.back_{'_'.join(map(str, places))}" + (f"_of_{added}" if added else "")
        if back in self.functions.table:
            return back
        source = self.functions.table[name]
        block = Block(arg_types=[any_type] * (len(source.block.args) + added))
        for old, new in zip(source.block.args, block.args[added:], strict=True):
            new.name_hint = old.name_hint
        function = self.functions.add(back, block)
        function.attributes.update(source.attributes)
        mapping: dict[SSAValue, SSAValue] = dict(zip(source.block.args, block.args[added:], strict=True))
        for op in source.block.ops:
            block.add_op(op.clone(mapping))
        last, kept = block.last_op, [block.args[i] for i in places]
        assert isinstance(last, ReturnOp)
        call = last.value.owner
        if isinstance(call, CallOp) and call.next_op is last:
            m = _Before(call)
            replace(call, m.call(*self._callee(m, call, kept)))
        else:
            result = _Before(last).tuple([last.value, *kept])
            last.operands[0] = result
        remove_dead(function)
        return back


class _Before(Maker):
    """Puts operations in front of another, with its line."""

    def __init__(self, op: Operation) -> None:
        assert op.parent is not None
        super().__init__(op.parent)
        self.op, self.line = op, op.attributes.get(LINE)

    def add(self, op: Operation) -> SSAValue:
        if self.line is not None:
            op.attributes.setdefault(LINE, self.line)
        self.block.insert_op_before(op, self.op)
        return op.results[0]


def _ways(op: CallOp) -> _Ways | None:
    conditions: list[SSAValue] = []
    ways: list[tuple[RefOp, tuple[SSAValue, ...]]] = []
    callee, arguments = op.callee, tuple(op.arguments)
    while isinstance(callee.owner, SwitchOp):
        choice = callee.owner
        found = _known(choice.on_true)
        if found is None:
            return None
        conditions.append(choice.condition)
        ways.append((found[0], (*found[1], *arguments)))
        callee = choice.on_false
    found = _known(callee)
    if found is None:
        return None
    return _Ways(tuple(conditions), (*ways, (found[0], (*found[1], *arguments))))


def _known(callee: SSAValue) -> tuple[RefOp, tuple[SSAValue, ...]] | None:
    if isinstance(callee.owner, RefOp):
        return callee.owner, ()
    found = known_callee(callee.owner) if isinstance(callee.owner, Operation) else None
    return None if found is None else (found[0], tuple(found[1]))


def _reads(functions: Functions, source: FuncOp) -> dict[str, set[int]]:
    """The parameters of which functions that one reaches read items, at places that are not known."""
    table = functions.table
    names = reached([t for t in targets(source) if t in table], table)
    found: dict[str, set[int]] = {n: set[int]() for n in names}
    changed = True
    while changed:
        changed = False
        for name in names:
            before = len(found[name])
            for op in table[name].block.ops:
                found[name] |= {v.index for v in _read(op, found) if isinstance(v, BlockArgument)}
            changed |= len(found[name]) > before
    return found


def _read(op: Operation, found: dict[str, set[int]]) -> list[SSAValue]:
    """The values of which an operation, or a function that it names, reads items."""
    if isinstance(op, PrimOp):
        places: Sequence[SSAValue] = ()
        if isinstance(op.card, Item):
            places = op.operands[1:2]
        elif isinstance(op.card, GetItem):
            places = [op.operands[i] for i in operands_of(op.attributes)]
        return [op.operands[0]] if any(not isinstance(p.owner, ConstantOp) for p in places) else []
    callee = known_callee(op)
    if callee is None:
        return []
    return [v for i, v in enumerate(callee[1]) if i in found.get(callee[0].target, ())]
