"""Specialisation: types of every function for the arguments that reach it, through closures and recursion.

Functions are instantiated for the types of their arguments; a closure's type is its function with the types
of its captured values, so that calls know what they call. A function that calls itself keeps one instance,
whose types grow until nothing changes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.errors import GlowError, UnsupportedError, raised
from glow_dialects.fn.dialect import (
    CallOp,
    ConstantOp,
    FuncOp,
    GetOp,
    GradOp,
    JvpOp,
    PartialOp,
    PrimOp,
    RefOp,
    ReturnOp,
    SwitchLayerOp,
    SwitchOp,
    TupleOp,
    ValueAndGradOp,
)
from glow_dialects.fn.domain import (
    BOTTOM,
    ZERO,
    Bottom,
    FnType,
    NamedType,
    NotNative,
    Sets,
    TupleType,
    Type,
    TypesDiffer,
    has_sets,
    text,
)
from glow_dialects.fn.maker import modes_of
from glow_dialects.fn.meaning import Meaning, failure
from glow_dialects.fn.over import OverOp
from glow_dialects.fn.primitives.tuples import length
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.tensors import TensorsOp
from glow_dialects.fn.values import NoCode, Target, V, captured, parts
from glow_passes.fn.functions import Functions
from glow_passes.fn.grouped_turns import ROLLED
from glow_passes.fn.source_places import placed
from glow_passes.fn.unrolling import LONG, TooLong, Unrolling, has_tensors, plain, same_step

#: Instances of one function that may nest before their types are merged.
NESTING = 8
#: Instances of a program; more means that specialisation does not end.
MAX_INSTANCES = 400
#: Operations visited while types are inferred; a bound on the time that it takes.
MAX_VISITS = 60_000


@dataclass(eq=False)
class Instance:
    """A function for certain argument types."""

    name: str
    function: FuncOp
    parameters: list[Type]
    parent: Instance | None
    number: int
    result: Type = BOTTOM
    #: The instances that call it, to which its result matters.
    callers: set[Instance] = field(default_factory=set["Instance"])
    #: Whether recursive sets of closures are among its values.
    named: bool = False

    def chain(self) -> list[Instance]:
        """This instance and those that led to it."""
        chain: list[Instance] = []
        now: Instance | None = self
        while now is not None:
            chain.append(now)
            now = now.parent
        return chain


@dataclass
class Scope:
    """The values of a function body."""

    instance: Instance
    values: dict[SSAValue, V] = field(default_factory=dict)


class Specializer(Meaning):
    """Infers the types of a program, and then does its operations for a target: a survey, or code.

    `ahead_only`: gradients by numbers are taken in forward mode, not only gradients of gradients.
    `unrolling` says which loops of tensors become an instance a turn.
    """

    def __init__(self, functions: Functions, ahead_only: bool, unrolling: Unrolling) -> None:
        super().__init__(Sets(), NoCode())
        self.unrolling = unrolling
        self.ahead_only = ahead_only
        self.functions = functions
        self.by_rows = functions.by_rows
        self.instances: list[Instance] = []
        self.table: dict[tuple[Any, ...], Instance] = {}
        #: Instances to be visited again: what they depend on has changed since.
        self.waiting: set[Instance] = set()
        self.visits = 0
        #: Results of operations other than calls, by operand types.
        self.known: dict[Any, V] = {}
        self.recursive: dict[str, bool] = {}
        #: Instances that call one of several functions, and loops whose turns are instances of their own.
        self.branching: set[Instance] = set()
        self.apart: set[str] = set()
        #: The order of the derivatives that are taken, as far as it is known.
        self.order = 0
        #: Whether all types are known; the instances do not change any more.
        self.settled = False

    def aimed_at(self, target: Target | NoCode) -> Specializer:
        """The same program, whose operations are now done by another target."""
        specializer = copy(self)
        specializer.t, specializer.known = target, {}
        return specializer

    def infer(self, name: str, arguments: Sequence[Type]) -> Instance:
        """The instance of a function for argument types; errors of types are raised here."""
        root = self._new(name, list(arguments), None)
        for _ in range(400):
            self.sets.changed = False
            for instance in sorted(self.waiting, key=lambda i: i.number):
                if instance in self.waiting:
                    self.visit(instance)
            if self.visits > MAX_VISITS * self.unrolling.factor:
                self.unrolling.crowded = self.unrolling.met
                raise NotNative("types that take long to settle")
            if self.sets.changed:
                self.waiting.update(i for i in self.instances if i.named)
            if not self.waiting:
                break
        else:
            raise NotNative("types that keep growing")
        if isinstance(root.result, Bottom):
            self._no_base()
        self.settled = True
        return root

    def _no_base(self) -> None:
        stuck = [i for i in self.instances if isinstance(i.result, Bottom)]
        for error in (failure(op) for i in stuck for op in i.function.block.ops):
            if error is not None:
                raise raised(*error)
        looping = [i for i in stuck if "counted" in i.function.attributes and self.is_recursive(i.name)]
        name = (looping or stuck)[0].name
        raise UnsupportedError(
            f"{self.functions.place(name)}: {name.split('.')[0]} never returns: every path calls it again;"
            " add a base case that returns a value"
        )

    # --- instances --------------------------------------------------------------------------------
    def is_recursive(self, name: str) -> bool:
        """Whether a function refers to itself, directly or through others."""
        if name not in self.recursive:
            seen: set[str] = set()
            pending = [name]
            while pending:
                for op in self.functions.table[pending.pop()].block.ops:
                    if isinstance(op, RefOp) and op.target not in seen:
                        seen.add(op.target)
                        pending.append(op.target)
            self.recursive[name] = name in seen
        return self.recursive[name]

    def _new(self, name: str, arguments: list[Type], parent: Instance | None) -> Instance:
        assert not self.settled, f"{name} is called with types that were not inferred"
        key = (name, *[self.sets.resolve(t) for t in arguments])
        instance = Instance(name, self.functions.table[name], arguments, parent, number=len(self.instances))
        self.table[key] = instance
        self.instances.append(instance)
        self.waiting.add(instance)
        factor = self.unrolling.factor
        if len(self.instances) > MAX_INSTANCES * factor or self.visits > MAX_VISITS * factor:
            self.unrolling.crowded = self.unrolling.met
            raise NotNative("a program of too many instances")
        return instance

    def instance(self, name: str, arguments: Sequence[Type], current: Instance) -> Instance:
        """The instance that a call with these argument types reaches."""
        kinds = [self.sets.resolve(t) for t in arguments]
        name = self._in_turns(name, kinds, current)
        same = [i for i in current.chain() if i.name == name]
        if same and (
            (self.is_recursive(name) or len(same) > NESTING)
            and not self._apart(name, kinds, same, current)
            or same_step(kinds, [self.sets.resolve(t) for t in same[0].parameters])
        ):
            self._merge(same[0], kinds)
            return same[0]
        key = (name, *kinds)
        instance = self.table.get(key)
        if instance is None:
            instance = self._new(name, kinds, current)
            self.visit(instance)
        return instance

    def _apart(self, name: str, kinds: Sequence[Type], same: Sequence[Instance], current: Instance) -> bool:
        """Whether a call inside another of the function gets an instance of its own: turns of loops do."""
        attributes = self.functions.table[name].attributes
        if "counted" in attributes or ROLLED in attributes:
            return False  # a recursion that the user wrote, or a loop of chunks
        before = same[0].parameters
        if self.unrolling.unrolls(name, kinds, before, len(same)):
            self._check_short(name, same[0], current)
            return True
        return not self.is_recursive(name) and self.unrolling.shrinks(kinds, before)

    def _check_short(self, name: str, before: Instance, current: Instance) -> None:
        """TooLong for a loop that branches on what the run tells, and where turns are much work already."""
        if not self.unrolling.straight or self.settled:
            return
        chain = current.chain()
        turn = chain[: chain.index(before) + 1]
        if any(i in self.branching for i in turn):
            raise TooLong(name)
        self.apart.add(name)
        if self.visits > LONG:
            raise TooLong(next(i.name for i in reversed(chain) if i.name in self.apart))

    def _in_turns(self, name: str, kinds: Sequence[Type], current: Instance) -> str:
        """The function of several turns at a time for a loop of tensors whose number of turns is known."""
        if (
            not self.unrolling.turns
            or not any(map(has_tensors, kinds))
            or plain(name) in self.unrolling.rolled
        ):
            return name
        base, *derived = re.split(r"(?=\.(?:fwd|jvp)(?:\.|$))", name)
        if derived.count(".fwd") > 1:
            return name  # the tape of a loop, differentiated again, refers to itself: one instance a turn
        loop = self.functions.loop(base)
        if loop is None:
            return name
        turns = loop.turns(kinds, 2 ** derived.count(".jvp"))
        if turns is None or turns[1] < 2 or any(i.name == name for i in current.chain()):
            return name
        self.unrolling.turned = True
        return "".join([self.functions.in_turns(loop, *turns, self.order), *derived])

    def _merge(self, instance: Instance, kinds: list[Type]) -> None:
        for index, kind in enumerate(kinds):
            old = self.sets.resolve(instance.parameters[index])
            try:
                new = self.sets.join(old, kind, recursive=True)
            except TypesDiffer as error:
                name = instance.function.block.args[index].name_hint or f"argument {index}"
                raise UnsupportedError(
                    f"{self.functions.place(instance.name)}: '{name}' is alternately {error}; keep one type "
                    "and shape for a value that a loop or recursion carries"
                ) from None
            if new != old:
                assert not self.settled, f"{instance.name} is called with types that were not inferred"
                instance.parameters[index] = new
                self.waiting.add(instance)

    def visit(self, instance: Instance) -> None:
        """Infer the types of a body once more."""
        self.waiting.discard(instance)
        result = self.body(instance)
        try:
            joined = self.sets.join(instance.result, result, recursive=self.is_recursive(instance.name))
        except TypesDiffer as error:
            last = instance.function.block.last_op
            assert isinstance(last, ReturnOp)
            where = last.source
            raise UnsupportedError(f"{where}: the paths return {error}; return one type") from None
        if joined != self.sets.resolve(instance.result):
            assert not self.settled, f"{instance.name} returns {text(joined)}, which was not inferred"
            instance.result = joined
            self.waiting |= instance.callers

    def body(self, instance: Instance) -> Type:
        """The type of a function's value as far as it is known now."""
        scope = Scope(instance)
        for argument, kind in zip(instance.function.block.args, instance.parameters, strict=True):
            scope.values[argument] = V(self.sets.resolve(kind))
            instance.named |= has_sets(kind)
        for op in instance.function.block.ops:
            if isinstance(op, ReturnOp):
                return self.sets.resolve(scope.values[op.value].type)
            operands = [scope.values[v] for v in op.operands]
            kinds = [v.type for v in operands]
            if BOTTOM in kinds:
                scope.values[op.results[0]] = V(BOTTOM)
                continue
            key = None if isinstance(op, CallOp) else (op, *kinds)
            value = self.known.get(key)
            if value is None:
                value = self.step(op, operands, instance)
                if key is not None:
                    self.known[key] = value
            scope.values[op.results[0]] = value
            instance.named |= has_sets(value.type)
            self.visits += 1
        raise AssertionError(instance.name)

    # --- operations -------------------------------------------------------------------------------
    def step(self, op: Operation, x: list[V], instance: Instance) -> V:
        """The value of one operation."""
        where = op.source if isinstance(op, FnOp) else ""
        match op:
            case ConstantOp():
                return self.literal(op)
            case RefOp():
                return V(FnType(((op.target, ()),)), [])
            case PartialOp():
                return self.partial(x[0], x[1:], where)
            case SwitchOp():
                return self.switch(self.truth(x[0], where), x[1], x[2], where)
            case SwitchLayerOp():
                return self.layer(x[0], x[1:], where)
            case TupleOp():
                return self.packed(op, x)
            case GetOp():
                return self.get(x[0], op.index.value.data, where)
            case PrimOp():
                return self.primitive(op, x, where)
            case TensorsOp():
                return self.graph(op, x)
            case GradOp() | ValueAndGradOp() | JvpOp():
                return self.gradient(op, x[0], where)
            case OverOp():
                return V(FnType(((self.functions.over(op, length(x[0], where)), ()),)), [])
            case _:
                assert isinstance(op, CallOp), op.name
                return self.call(op, x, instance)

    def call(self, op: CallOp, x: list[V], instance: Instance) -> V:
        """The types that the possible callees give."""
        result: Type = BOTTOM
        targets = [target for target, _ in self.targets(x, instance, op.source)]
        self.t.calls(op, instance, targets)
        for target in targets:
            try:
                result = self.sets.join(result, target.result)
            except TypesDiffer as error:
                raise UnsupportedError(
                    f"{op.source}: the branches give {error}; both need the same type"
                ) from None
        return V(result)

    def targets(self, x: list[V], instance: Instance, where: str) -> list[tuple[Instance, tuple[Type, ...]]]:
        """The instances that a call may reach, with the types of the captured values."""
        function = self.sets.resolve(x[0].type)
        if not isinstance(function, FnType | NamedType):
            raise UnsupportedError(f"{where}: {text(function)} is called, but is not a function")
        kinds = tuple(v.type for v in x[1:])
        calls: list[tuple[Instance, tuple[Type, ...]]] = []
        members = self.sets.members(function)
        if len(members) > 1:
            self.branching.add(instance)
        for name, bound in members:
            wanted = self.functions.arity(name) - len(bound)
            if wanted != len(kinds):
                short = name.split(".")[0]
                have, want = (self.functions.plain_count(name, n) for n in (len(kinds), wanted))
                raise UnsupportedError(
                    f"{where}: {short} is called with {have} argument{'s' * (have != 1)}, it has {want}"
                )
            try:
                target = self.instance(name, (*bound, *kinds), instance)
            except GlowError as error:
                raise placed(error, where) from None
            target.callers.add(instance)
            calls.append((target, bound))
        return calls

    def partial(self, function: V, values: Sequence[V], where: str) -> V:
        """A closure with further captured values."""
        kind = self.sets.resolve(function.type)
        if isinstance(kind, NamedType):
            raise NotNative("partial of a function that refers to its own kind")
        if not isinstance(kind, FnType):
            raise UnsupportedError(f"{where}: {text(kind)} is called, but is not a function")
        more = tuple(v.type for v in values)
        entries = tuple((n, (*c, *more)) for n, c in kind.entries)
        for name, bound in entries:
            if len(bound) > self.functions.arity(name):
                raise UnsupportedError(f"{where}: too many arguments for {name.split('.')[0]}")
        if function.code is None:
            return V(FnType(entries))
        codes = [v.code for v in values]
        for index, v in enumerate(values):
            if all(len(c) + index in self.functions.only_types(n) for n, c in kind.entries):
                codes[index] = self.unread(v).code
        if len(entries) == 1:
            return V(FnType(entries), [*function.code, *codes])
        return V(FnType(entries), [function.code[0], [[*c, *codes] for c in function.code[1]]])

    def gradient(self, op: GradOp | ValueAndGradOp | JvpOp, function: V, where: str) -> V:
        """The gradient of a function value, as a closure over its forward form."""
        kind = self.sets.resolve(function.type)
        if not isinstance(kind, FnType):
            if isinstance(kind, NamedType):
                raise NotNative("gradient of a function that refers to its own kind")
            raise UnsupportedError(f"{where}: grad of {text(kind)}; give it a function")
        arities = {self.functions.arity(n) - len(c) for n, c in kind.entries}
        if len(arities) > 1:
            raise UnsupportedError(f"{where}: grad of functions with different numbers of parameters")
        self.order = max(self.order, 1 + max(self.functions.order(n) for n, _ in kind.entries))
        before = modes_of(op)
        either = self.ahead_only or any(self.functions.differentiates(n) for n, _ in kind.entries)
        modes = "jr" if either and not before.startswith("r") else "r"
        modes = "j" if isinstance(op, JvpOp) else modes
        try:
            name = self.functions.gradient_of(op, arities.pop(), modes, alone=modes == "r" and not before)
        except GlowError as error:
            raise placed(error, where) from None
        if before.startswith("r") and not isinstance(op, JvpOp):
            values = self._second(function, before[1:])
        else:
            forms = [self.derived(function, before, mode) for mode in modes]
            values = [v for form in forms for v in (form, *_no_tangents(before))]
        return V(FnType(((name, tuple(v.type for v in values)),)), [v.code for v in values])

    def _second(self, function: V, before: str) -> list[V]:
        """The captured functions of a gradient's reverse form: f.fwd.jvp and f.fwd, from f.fwd."""
        nothing = _no_tangents(before)
        return [self.derived(function, before, "j"), *nothing, function, *nothing]

    def derived(self, v: V, before: str, mode: str) -> V:
        """A value with its functions in their form for a mode; they hold the same values.

        `before` is how the function around it was derived.
        """
        if isinstance(v.type, TupleType):
            items = [self.derived(x, before, mode) for x in parts(v)]
            return V(v.type.of(tuple(x.type for x in items)), [x.code for x in items])
        if isinstance(v.type, NamedType):
            raise NotNative("gradient of a function that captures functions of its own kind")
        if not isinstance(v.type, FnType):
            return v
        nothing = _no_tangents(before)
        size = len(nothing) + 1
        kinds: list[tuple[str, tuple[Type, ...]]] = []
        codes: list[Any] = []
        for index, (name, _) in enumerate(v.type.entries):
            values = captured(v, index)
            second = self.functions.second(name, before) if mode == "r" else None
            if second is not None:
                items = self._second(values[-size], before)
            else:
                items = []
                for start in range(0, len(values), size):
                    items += [self.derived(x, before, mode) for x in values[start : start + size]]
                    items += [V(ZERO)] * (size if mode == "j" else 0)
            name = second or self.functions.derived(name, before, mode)
            kinds.append((name, tuple(x.type for x in items)))
            codes.append([x.code for x in items])
        kind = FnType(tuple(kinds))
        if v.code is None:
            return V(kind)
        return V(kind, codes[0] if len(codes) == 1 else [v.code[0], codes])

    def packed(self, op: TupleOp, x: list[V]) -> V:
        """A tuple; in backward functions, the cotangents of the parameters of one function."""
        values = self.tuple(x)
        names = op.attributes.get("names")
        if isinstance(names, ArrayAttr):
            kind = TupleType(tuple(v.type for v in x), tuple(n.data for n in names))  # pyright: ignore
            return V(kind, values.code)
        of = op.attributes.get("of")
        if of is None:
            return values
        return self.env({of.data: values})  # pyright: ignore


def _no_tangents(before: str) -> list[V]:
    """The tangents that follow a function in a function derived in this way: nothing."""
    return [V(ZERO)] * (2 ** before.count("j") - 1)
