"""Reverse mode of one function of a closed program.

For each function f(p..) there is `f.fwd(p.., k)`, which returns f's value and a backpropagator: a
function from the cotangent of the value to whatever `k` makes of the tuple of cotangents of p... A call
in tail position passes its own backward step on as `k`, so that loops (which are tail calls) stay loops
in both directions. The cotangent of a function value is the tuple of those of what it captured, aligned
at its end; a missing front is zero.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

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
from glow_dialects.fn.maker import IDENTITY, MODES, Maker, Term, integer, modes_of
from glow_dialects.fn.over import OverOp
from glow_dialects.fn.primitive import options_of
from glow_dialects.fn.primitives.accumulated import Accumulated, of_part
from glow_dialects.fn.primitives.arithmetic import Mod
from glow_dialects.fn.primitives.compare import Eq
from glow_dialects.fn.primitives.cotangents import AddAny, EnvDrop, EnvItem, EnvPut, Zero
from glow_dialects.fn.primitives.linear import PrimalsOf
from glow_dialects.fn.primitives.tuples import TuplePut
from glow_dialects.fn.syntax import LINE
from glow_dialects.fn.types import any_type
from glow_passes.fn.calls import AddFunction
from glow_passes.fn.grouped_turns import stands_for


class Reverse:
    """Makes f.fwd and f.bwd of one function."""

    def __init__(self, add: AddFunction, source: FuncOp) -> None:
        self.add = add
        self.source = source
        self.name = source.sym_name.data
        self.forward = Maker(Block(arg_types=[any_type] * (len(source.block.args) + 1)))
        self.backward = Maker(Block(arg_types=[any_type, any_type]))
        self.values: dict[SSAValue, SSAValue] = {}
        self.backs: dict[Operation, SSAValue] = {}
        self.saved: dict[SSAValue, SSAValue] = {}
        self.copies: dict[SSAValue, SSAValue] = {}
        self.cotangents: dict[SSAValue, SSAValue] = {}
        #: Which way conditions went where a cotangent is not zero, the innermost switch last.
        self.ways: dict[SSAValue, tuple[tuple[SSAValue, bool], ...]] = {}

    def make(self) -> None:
        """Add both functions to the table."""
        block = self.forward.block
        for old, new in zip(self.source.block.args, block.args, strict=False):
            self.values[old] = new
            new.name_hint = old.name_hint
        ops = list(self.source.block.ops)
        last = ops.pop()
        assert isinstance(last, ReturnOp)
        tail: CallOp | None = None
        if isinstance(last.value.owner, CallOp) and last.value.owner is ops[-1]:
            tail = ops.pop()  # pyright: ignore[reportAssignmentType]
        for op in ops:
            self._ahead(op)
        self._back(ops, tail, last.value)
        self._finish(tail, last.value)

    def _ahead(self, op: Operation) -> None:
        m = self.forward
        m.line = op.attributes.get(LINE)
        if isinstance(op, RefOp):
            self.values[op.result] = m.ref(f"{op.target}.fwd")
            return
        operands = [self.values[v] for v in op.operands]
        if isinstance(op, CallOp):
            pair = m.call(*operands, m.ref(IDENTITY))
            self.values[op.result], self.backs[op] = m.pair(pair)
            return
        twin = op.clone(self.values)
        if isinstance(op, GradOp | ValueAndGradOp | JvpOp | OverOp):
            twin.attributes[MODES] = StringAttr(modes_of(op) + "r")
        self.values[op.results[0]] = m.add(twin)

    # --- the backward function --------------------------------------------------------------------
    def _saved(self, value: SSAValue) -> SSAValue:
        """A value of the forward function in the backward one."""
        owner = value.owner
        if isinstance(owner, ConstantOp) or (isinstance(owner, PrimOp) and isinstance(owner.card, Zero)):
            if value not in self.copies:
                self.copies[value] = self.backward.add(owner.clone())
            return self.copies[value]
        return self._kept(self.values[value])

    def _kept(self, ahead: SSAValue) -> SSAValue:
        if ahead not in self.saved:
            block = self.backward.block
            argument = block.insert_arg(any_type, len(self.saved))
            argument.name_hint = ahead.name_hint
            self.saved[ahead] = argument
        return self.saved[ahead]

    def _accumulate(self, value: SSAValue, cotangent: SSAValue | None) -> None:
        if cotangent is None or isinstance(value.owner, ConstantOp | RefOp):
            return
        old = self.cotangents.get(value)
        if old is not None:
            part, other = cotangent.owner, self._other_way(old, cotangent)
            if other is not None:
                cotangent = other
            elif isinstance(part, PrimOp) and of_part(part.card) and cotangent.first_use is None:
                card, operands, options = Accumulated(part.card), list(part.operands), options_of(part)
                part.detach()
                part.erase()
                cotangent = self.backward.prim(card, old, *operands, **options)
            else:
                cotangent = self.backward.prim(AddAny, old, cotangent)
        self.cotangents[value] = cotangent

    def _other_way(self, old: SSAValue, new: SSAValue) -> SSAValue | None:
        """One of two cotangents of which a condition chooses one, so that the other is zero."""
        (*outer, (condition, way)), after = self.ways.get(old) or [(old, False)], self.ways.get(new)
        if after is None or after != (*outer, (condition, not way)):
            return None
        chosen = self.backward.switch(condition, *((old, new) if way else (new, old)))
        if outer:
            self.ways[chosen] = tuple(outer)
        return chosen

    def _switched(self, condition: SSAValue, d: SSAValue, way: bool) -> SSAValue:
        """The cotangent of one side of a switch."""
        m = self.backward
        side = m.switch(condition, *((d, m.zero()) if way else (m.zero(), d)))
        self.ways[side] = (*self.ways.get(d, ()), (condition, way))
        return side

    def _spread(
        self, whole: SSAValue, function: SSAValue, values: list[SSAValue], of: str | None = None
    ) -> None:
        """Cotangents of a callee and its arguments from those of all parameters of the callee.

        `of` names the function that the cotangents belong to where several may have been captured.
        """
        m, count = self.backward, integer(len(values))
        options: dict[str, Attribute] = {} if of is None else {"of": StringAttr(of)}
        if not isinstance(function.owner, RefOp):
            self._accumulate(function, m.prim(EnvDrop, whole, n=count))
        for index, value in enumerate(values):
            if not isinstance(value.owner, ConstantOp | RefOp):
                item = m.prim(EnvItem, whole, n=count, i=integer(index), **options)
                if whole in self.ways:
                    self.ways[item] = self.ways[whole]
                self._accumulate(value, item)

    def _back(self, ops: list[Operation], tail: CallOp | None, value: SSAValue) -> None:
        m = self.backward
        seed = m.block.args[1]
        if tail is not None:
            m.line = tail.attributes.get(LINE)
            self._spread(seed, tail.callee, list(tail.arguments))
        else:
            self._accumulate(value, seed)
        for op in reversed(ops):
            d = self.cotangents.get(op.results[0])
            if d is not None:
                m.line = op.attributes.get(LINE)
                self._step(op, d)
        cotangents = [self.cotangents.get(p) for p in self.source.block.args]
        whole = m.tuple([m.zero() if d is None else d for d in cotangents])
        owner = whole.owner
        assert isinstance(owner, TupleOp)
        owner.attributes["of"] = StringAttr(stands_for(self.name))
        result = m.call(m.block.args[len(self.saved)], whole)
        m.block.add_op(ReturnOp.create(operands=[result]))

    def _step(self, op: Operation, d: SSAValue) -> None:
        m = self.backward
        match op:
            case CallOp():
                whole = m.call(self._kept(self.backs[op]), d)
                self._spread(whole, op.callee, list(op.arguments))
            case PartialOp():
                callee = op.callee.owner
                of = stands_for(callee.target) if isinstance(callee, RefOp) else None
                self._spread(d, op.callee, list(op.arguments), of)
            case SwitchOp():
                condition = self._saved(op.condition)
                self._accumulate(op.on_true, self._switched(condition, d, True))
                self._accumulate(op.on_false, self._switched(condition, d, False))
            case SwitchLayerOp():
                index, count = self._saved(op.index), len(op.values)
                for i, value in enumerate(op.values):
                    here = m.prim(Eq, m.prim(Mod, index, m.number(count)), m.number(i))
                    self._accumulate(value, m.switch(here, d, m.zero()))
            case TupleOp():
                count = integer(len(op.values))
                of = {n: a for n, a in op.attributes.items() if n == "of"}
                for i, value in enumerate(op.values):
                    self._accumulate(value, m.prim(EnvItem, d, n=count, i=integer(i), **of))
            case GetOp():
                self._get(op, d)
            case PrimOp():
                self._prim(op, d)
            case GradOp() | ValueAndGradOp() | JvpOp():
                # It holds its function last, followed by no tangents.
                n = integer(2 ** modes_of(op).count("j"))
                cotangent = m.prim(EnvItem, d, n=n, i=integer(0))
                if isinstance(op, JvpOp):
                    cotangent = m.prim(PrimalsOf, cotangent, self._saved(op.function), size=n)
                self._accumulate(op.function, cotangent)
            case _:
                pass

    def _get(self, op: GetOp, d: SSAValue) -> None:
        m, source, index = self.backward, op.source_tuple, op.index.value.data
        known = op.attributes.get("of")
        if isinstance(source.owner, TupleOp):
            self._accumulate(source.owner.values[index], d)
        elif isinstance(known, IntegerAttr):
            cotangent = m.prim(EnvPut, d, n=known, i=integer(index % known.value.data))
            self._accumulate(source, cotangent)
        else:
            cotangent = m.prim(TuplePut, self._saved(source), d, i=integer(index))
            self._accumulate(source, cotangent)

    def _prim(self, op: PrimOp, d: SSAValue) -> None:
        m = self.backward
        terms = op.card.vjp(op, Term(m, d), _Arguments(self, op), lambda: Term(m, self._saved(op.result)))
        for value, term in zip(op.operands, terms, strict=True):
            self._accumulate(value, None if term is None else term.value)

    def _finish(self, tail: CallOp | None, value: SSAValue) -> None:
        m, add = self.forward, self.add
        bwd = f"{self.name}.bwd"
        m.line = None
        back = m.ref(bwd)
        bound = [*self.saved, m.block.args[-1]]
        step = m.add(PartialOp.create(operands=[back, *bound], result_types=[any_type]))
        if tail is not None:
            m.line = tail.attributes.get(LINE)
            result = m.call(*[self.values[v] for v in tail.operands], step)
        else:
            result = m.tuple([self.values[value], step])
        m.block.add_op(ReturnOp.create(operands=[result]))
        add(bwd, self.backward.block)
        forward = add(f"{self.name}.fwd", m.block)
        forward.attributes.update(self.source.attributes)


class _Arguments(list[Term]):
    """The arguments of a primitive in the backward function; saved when they are first used."""

    def __init__(self, origin: Reverse, op: PrimOp) -> None:
        super().__init__([Term(origin.backward, v) for v in op.operands])
        self.origin, self.op = origin, op

    def __getitem__(self, index: object) -> Term:  # pyright: ignore[reportIncompatibleMethodOverride]
        assert isinstance(index, int)
        return Term(self.origin.backward, self.origin._saved(self.op.operands[index]))

    def __iter__(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        return (self[i] for i in range(len(self)))
