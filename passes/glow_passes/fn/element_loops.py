"""Loops over elements: they read and store numbers, and have no operators on arrays for graphs to share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glow_dialects.core.errors import GlowError
from glow_dialects.fn.dialect import PrimOp, ReturnOp
from glow_dialects.fn.domain import NotNative, TensorType, Type
from glow_dialects.fn.primitive import Primitive
from glow_dialects.fn.primitives.accumulated import of_part
from glow_dialects.fn.primitives.items import Item
from glow_dialects.fn.primitives.operators import GetItem
from glow_dialects.fn.values import NoCode
from glow_passes.fn.functions import Functions
from glow_passes.fn.specialize import Instance, Specializer
from glow_passes.fn.unrolling import Unrolling, deep, has_tensors, plain


class _Watch(NoCode):
    """The target that notes who calls whom, and who computes arrays."""

    def __init__(self) -> None:
        self.now: Any = None
        self.edges: dict[Instance, list[Instance]] = {}
        #: Those of calls that come back.
        self.inner: dict[Instance, list[Instance]] = {}
        self.arrays: set[Instance] = set()

    def calls(self, op: Any, caller: Instance, callees: Sequence[Instance]) -> None:
        """A call."""
        self.edges[caller] += callees
        after = op.next_op
        if not isinstance(after, ReturnOp) or after.value is not op.result:
            self.inner[caller] += callees

    def tensor(self, card: Primitive, attributes: Any, values: Any, result: Type, where: str) -> None:
        """An operator on arrays."""
        rows = card.stores or isinstance(card, Item) or of_part(card)
        if isinstance(result, TensorType) and result.shape and not rows:
            self.arrays.add(self.now)

    def graph(self, *_: Any) -> None:
        """A part of a graph."""
        self.arrays.add(self.now)


def rolled(
    functions: Functions, name: str, arguments: Sequence[Type], ahead_only: bool
) -> tuple[set[str], Specializer | None, Instance | None]:
    """The functions that are loops over elements; the types of the program, if it has no others of arrays."""
    nothing = set[str](), None, None
    if not any(_takes_items(op) for n in functions.reached(name) for op in functions.table[n].block.ops):
        return nothing
    specializer = Specializer(functions, ahead_only, Unrolling(enabled=False, turns=False))
    try:
        with deep():
            root = specializer.infer(name, arguments)
            watch = _Watch()
            program, pending = specializer.aimed_at(watch), [root]
            while pending:
                watch.now = pending.pop()
                if watch.now not in watch.edges:
                    watch.edges[watch.now], watch.inner[watch.now] = [], []
                    program.visit(watch.now)
                    pending += watch.edges[watch.now]
    except (GlowError, NotNative):
        return nothing
    loops, others = _loops(watch)
    names = {plain(i.name) for i in loops} - {plain(i.name) for i in others}
    return (names, None, None) if others else (names, specializer, root)


def _takes_items(op: Any) -> bool:
    return isinstance(op, PrimOp) and (op.card.stores or isinstance(op.card, Item | GetItem))


def _loops(watch: _Watch) -> tuple[list[Instance], list[Instance]]:
    """The instances that call themselves and have arrays: those over elements, and others."""
    reached: dict[Instance, set[Instance]] = {}
    for instance in watch.edges:
        seen: set[Instance] = set()
        pending = list(watch.edges[instance])
        while pending:
            now = pending.pop()
            if now not in seen:
                seen.add(now)
                pending += watch.edges[now]
        reached[instance] = seen
    over, others = list[Instance](), list[Instance]()
    for instance, seen in reached.items():
        if instance in seen and any(map(has_tensors, instance.parameters)):
            # what it goes on with after the last turn is no part of the loop
            body = {i for i in seen if instance in reached[i]}
            body |= {t for i in tuple(body) for c in watch.inner[i] for t in (c, *reached[c])}
            (others if body & watch.arrays else over).append(instance)
    return over, others
