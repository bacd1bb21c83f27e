"""Who calls whom in a specialised program, and which calls become the operations of their callee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glow_dialects.fn.dialect import CallOp, ReturnOp
from glow_dialects.fn.domain import Bottom, TensorType, Type
from glow_dialects.fn.meaning import failure
from glow_dialects.fn.primitive import Primitive
from glow_dialects.fn.primitives.items import Item
from glow_dialects.fn.values import NoCode
from glow_passes.fn.specialize import Instance, Specializer

#: Operations of a function without branches that replace several calls of it.
MAX_INLINED = 2000
#: How deep calls of a function in itself are written out, and to how many operations in all.
NESTED, MAX_NESTED = 5, 1200


def is_tail(op: CallOp) -> bool:
    """Whether a function returns what a call in it gives."""
    after = op.next_op
    return isinstance(after, ReturnOp) and after.value is op.result


class Survey(NoCode):
    """The instances that a root reaches, visited once more with their final types.

    It is the target of that visit: it notices calls, and whether the program computes with tensors.
    """

    def __init__(self, inferred: Specializer, root: Instance) -> None:
        #: Whether the program computes with tensors.
        self.tensorial = False
        #: Whether loops read or store elements.
        self.over_elements = self._loop = False
        #: The instances that each instance calls.
        self.edges: dict[Instance, list[Instance]] = {}
        #: The places that call each instance.
        self.sites: dict[Instance, int] = {}
        #: Instances that a call in tail position reaches.
        self.tails: set[Instance] = set()
        self._branching: set[Instance] = set()
        self._cycles: dict[Instance, set[Instance]] = {}
        self._reaches: dict[Instance, set[Instance]] = {}
        #: Operations of instances whose every call has one callee, which is straight as well.
        self._sizes: dict[Instance, int | None] = {}
        pending, program = [root], inferred.aimed_at(self)
        while pending:
            now = pending.pop()
            if now not in self.edges:
                self.edges[now] = []
                self._loop = inferred.is_recursive(now.name)
                program.visit(now)
                pending += self.edges[now]
        for function in self.edges.values():
            for target in function:
                self.sites[target] = self.sites.get(target, 0) + 1
        #: Whether calls in tail position are counted: they could go on forever without more stack.
        self.counting = any(self.counted(i) for i in self.tails)

    def calls(self, op: CallOp, caller: Instance, callees: Sequence[Instance]) -> None:
        """Note what a call reaches."""
        self.edges[caller] += callees
        if len(callees) > 1:
            self._branching.add(caller)
        if is_tail(op):
            self.tails.update(callees)

    def tensor(self, card: Primitive, attributes: Any, x: Any, result: Type, where: str) -> None:
        """A primitive on tensors."""
        self.tensorial = True
        if self._loop and (card.stores or isinstance(card, Item) and not isinstance(result, TensorType)):
            self.over_elements = True

    def graph(self, *_: Any) -> None:
        """A part of a graph."""
        self.tensorial = True

    def cycle(self, instance: Instance) -> set[Instance]:
        """The instances that an instance calls and that call it, directly or through others."""
        if instance not in self._cycles:
            reached = self._reached(instance)
            function = {i for i in reached if i is instance or instance in self._reached(i)}
            function = function if instance in reached else set[Instance]()
            self._cycles[instance] = function
            self._cycles.update(dict.fromkeys(function, function))
        return self._cycles[instance]

    def _reached(self, instance: Instance) -> set[Instance]:
        if instance not in self._reaches:
            seen: set[Instance] = set()
            pending = list(self.edges[instance])
            while pending:
                now = pending.pop()
                if now not in seen:
                    seen.add(now)
                    pending += self.edges[now]
            self._reaches[instance] = seen
        return self._reaches[instance]

    def reaches_itself(self, instance: Instance) -> bool:
        """Whether an instance can be called while it runs."""
        return bool(self.cycle(instance))

    def counted(self, instance: Instance) -> bool:
        """Whether calls count as recursion: those of functions of the user that call themselves."""
        return any("counted" in i.function.attributes for i in self.cycle(instance))

    def inlined(self, target: Instance) -> bool:
        """Whether calls of an instance are replaced by its operations."""
        if not self.tensorial:
            return False
        size = self._straight(target)
        return size is not None and (size <= MAX_INLINED or self.sites[target] == 1)

    def _straight(self, instance: Instance) -> int | None:
        if instance not in self._sizes:
            self._sizes[instance] = None  # while it is looked at: what calls itself is not straight
            sizes = [self._straight(t) for t in dict.fromkeys(self.edges[instance])]
            returns = not isinstance(instance.result, Bottom)
            if returns and instance not in self._branching and None not in sizes:
                ops = len(instance.function.block.ops)
                self._sizes[instance] = ops + sum(s or 0 for s in sizes)
        return self._sizes[instance]

    def fails(self, instance: Instance) -> bool:
        """Whether an instance, or an instance that it calls, may raise an error."""
        pending, seen = [instance], {instance}
        while pending:
            now = pending.pop()
            if any(failure(op) is not None for op in now.function.block.ops):
                return True
            more = [t for t in self.edges[now] if t not in seen]
            seen.update(more)
            pending += more
        return False

    def nesting(self, instance: Instance) -> int:
        """How many levels of calls of an instance in itself are written out; 0 where it is a loop."""
        if self.tensorial or instance in self.tails:
            return 0
        ops = calls = 0
        pending, seen = [instance], {instance}
        while pending:
            now = pending.pop()
            ops += len(now.function.block.ops)
            for target in self.edges[now]:
                if target is instance:
                    calls += 1
                elif target not in seen and self.sites[target] == 1:
                    seen.add(target)
                    pending.append(target)
        depth = total = 0
        while calls and depth < NESTED and total + ops * calls ** (depth + 1) <= MAX_NESTED:
            depth += 1
            total += ops * calls**depth
        return depth
