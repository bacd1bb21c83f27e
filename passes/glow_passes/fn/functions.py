"""The functions of a closed program, and those that differentiation derives from them on demand."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Region, SSAValue, Use

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.fn.dialect import (
    CallOp,
    FuncOp,
    GradOp,
    JvpOp,
    PartialOp,
    PrimOp,
    RefOp,
    ReturnOp,
    ValueAndGradOp,
)
from glow_dialects.fn.maker import IDENTITY, Maker, integer, modes_of
from glow_dialects.fn.over import KINDS, OverOp
from glow_dialects.fn.primitives.arithmetic import Mul
from glow_dialects.fn.primitives.cotangents import (
    Active,
    AreFloats,
    EnvItem,
    Inactive,
    InstantiateZeros,
    OnesLike,
)
from glow_dialects.fn.primitives.linear import CheckTangent, Instantiated
from glow_dialects.fn.primitives.tuples import ToTuple
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.types import any_type
from glow_passes.fn.calls import known_callee, recursive
from glow_passes.fn.declared_gradients import declared, make_reverse, make_tangents
from glow_passes.fn.grouped_turns import Counted, chunk_of, counted, make_turns, turns_name
from glow_passes.fn.handed_back import handed_back
from glow_passes.fn.reverse import Reverse
from glow_passes.fn.second_derivatives import Gradient, make_second
from glow_passes.fn.tangents import Tangents

#: The suffix of a derived function by the letter of its mode.
SUFFIX = {"r": ".fwd", "j": ".jvp"}

#: In the names of gradient functions: what they do not differentiate by is fixed.
ALONE = ".alone"
#: In the names of gradient functions: the types of the arguments choose the mode.
EITHER = ".either"

#: Items of a tuple that a function may be applied to one by one.
MOST_ITEMS = 1024


class _Table(dict[str, FuncOp]):
    """Functions by name; `f.fwd`, `f.bwd` and `f.jvp` are made from `f` when they are first wanted."""

    def __init__(self, functions: Functions) -> None:
        super().__init__()
        self.functions = functions

    def __missing__(self, name: str) -> FuncOp:
        base, _, kind = name.rpartition(".")
        if name == IDENTITY:
            block = Block(arg_types=[any_type])
            block.add_op(ReturnOp.create(operands=[block.args[0]]))
            return self.functions.add(name, block)
        if kind in ("fwd", "bwd", "jvp"):
            self._derive(self[base], kind == "jvp")
        elif name.startswith("over."):
            _, what, count = name.split(".")
            self.functions.add(name, _over(what, int(count)))
        else:
            raise KeyError(name)
        return self[name]

    def _derive(self, source: FuncOp, ahead: bool) -> None:
        gradient, of = declared(source), self.functions.gradients.get(source.sym_name.data)
        if gradient is not None:
            maker = make_tangents if ahead else make_reverse
            maker(self.functions.add, source, gradient)
        elif of is not None and not ahead:
            make_second(self.functions.add, of)
        elif ahead:
            Tangents(self.functions.add, source).make()
        else:
            Reverse(self.functions.add, handed_back(self.functions, source)).make()


class Functions:
    """The functions of a closed module by name."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.table = _Table(self)
        self.table.update({f.sym_name.data: f for f in module.body.block.ops if isinstance(f, FuncOp)})
        #: The gradient functions in reverse mode by name.
        self.gradients: dict[str, Gradient] = {}
        self._differentiates: dict[str, bool] = {}
        self._orders: dict[str, int] = {}
        self._only_types: dict[str, frozenset[int]] = {}
        self._loops: dict[str, Counted | None] = {}
        #: The maps of the program that go row by row, by their places.
        self.by_rows: set[str] = set()

    def add(self, name: str, block: Block) -> FuncOp:
        """A new function of the module."""
        function = FuncOp.create(properties={"sym_name": StringAttr(name)}, regions=[Region(block)])
        self.module.body.block.add_op(function)
        self.table[name] = function
        return function

    def arity(self, name: str) -> int:
        """The number of parameters."""
        base, _, kind = name.rpartition(".")
        if name not in self.table and kind == "fwd":
            return self.arity(base) + (2 if base in self.gradients else 1)
        if name not in self.table and kind == "jvp":
            return 2 * self.arity(base)
        return len(self.table[name].block.args)

    def loop(self, name: str) -> Counted | None:
        """A function as a loop that counts, if it is one."""
        if name not in self._loops:
            function = self.table.get(name)
            self._loops[name] = None if function is None else counted(function)
        return self._loops[name]

    def in_turns(self, loop: Counted, first: int, turns: int, order: int) -> str:
        """The name of the function for so many turns of a loop, in a program with derivatives of an order."""
        size = chunk_of(loop.operations, turns, order, self._nested(loop))
        name = turns_name(loop, first, turns, size)
        if name not in self.table:
            make_turns(self.add, loop, name, turns, size)
        return name

    def _nested(self, loop: Counted) -> bool:
        """Whether a turn calls a function that loops, or is not known."""
        called = [known_callee(op) for op in loop.body if isinstance(op, CallOp)]
        names = [n for callee in called if callee is not None for n in self.reached(callee[0].target)]
        return None in called or bool(recursive({n: self.table[n] for n in names}))

    def only_types(self, name: str) -> frozenset[int]:
        """The parameters of which a function uses the type only, not the value."""
        if name not in self._only_types:
            arguments = self.table[name].block.args
            with_types = (i for i, a in enumerate(arguments) if a.uses and all(map(_type_of, a.uses)))
            self._only_types[name] = frozenset(with_types)
        return self._only_types[name]

    def place(self, name: str) -> str:
        """Where a function stands: `file:line` of its first operation that stands somewhere."""
        sources = (op.source for op in self.table[name].block.ops if isinstance(op, FnOp))
        return next(filter(None, sources), "")

    def plain_count(self, name: str, count: int) -> int:
        """Arguments of the user's function where its derived form `name` has `count`."""
        for suffix in reversed(name.split(".")[1:]):
            count = count - 1 if suffix == "fwd" else count // 2 if suffix == "jvp" else count
        return count

    def reached(self, name: str) -> list[str]:
        """A function and all that it refers to, directly or through others."""
        names = {name: None}
        pending = [name]
        while pending:
            for op in self.table[pending.pop()].block.ops:
                if isinstance(op, RefOp) and op.target not in names:
                    names[op.target] = None
                    pending.append(op.target)
        return list(names)

    def differentiates(self, name: str) -> bool:
        """Whether a function takes gradients itself."""
        if name not in self._differentiates:
            self._differentiates[name] = any(
                isinstance(op, GradOp | ValueAndGradOp | JvpOp) or n.startswith(("grad.", "value_and_grad."))
                for n in self.reached(name)
                for op in self.table[n].block.ops
            )
        return self._differentiates[name]

    def order(self, name: str) -> int:
        """The order of the derivatives that a function takes, as far as these are of known functions."""
        if name not in self._orders:
            self._orders[name] = 0  # of a function that takes a gradient of itself
            order = 0
            for op in (op for n in self.reached(name) for op in self.table[n].block.ops):
                if isinstance(op, GradOp | ValueAndGradOp | JvpOp):
                    target = op.function.owner
                    while isinstance(target, PartialOp):
                        target = target.callee.owner
                    order = max(order, 1 + (self.order(target.target) if isinstance(target, RefOp) else 0))
            self._orders[name] = order
        return self._orders[name]

    def derived(self, name: str, before: str, mode: str) -> str:
        """The name of `f` in another form, where the function around it was derived by `before`."""
        name, after = self._parted(name, before)
        return name + SUFFIX[mode] + after

    def _parted(self, name: str, before: str) -> tuple[str, str]:
        name = name.replace(ALONE, "")  # what another derivative goes through is not alone
        after = "".join(SUFFIX[m] for m in before)
        assert name.endswith(after), (name, after)
        return name.removesuffix(after), after

    def second(self, name: str, before: str) -> str | None:
        """The reverse form of a gradient function; None for other functions.

        It holds f.fwd.jvp and f.fwd for what the gradient function holds last, f.fwd.
        """
        name, after = self._parted(name, before)
        name = name.replace(EITHER, "")
        return f"{name}.fwd{after}" if name in self.gradients else None

    def over(self, op: OverOp, count: int) -> str:
        """The function of an `over` for a tuple of `count` items, derived as the one around it was."""
        if count > MOST_ITEMS:
            where = op.source
            raise UnsupportedError(
                f"{where}: {op.kind.data} over {count} items; use array operators such as np.sum and np.max"
            )
        return f"over.{op.kind.data}.{count}" + "".join(SUFFIX[mode] for mode in modes_of(op))

    # --- gradients --------------------------------------------------------------------------------
    def gradient_of(
        self, op: GradOp | ValueAndGradOp | JvpOp, arity: int, modes: str = "r", alone: bool = False
    ) -> str:
        """The function whose first arguments are forms of f, for f of `arity` parameters.

        The forms are those of `modes`: f.fwd for "r", f.jvp for "j", both for "jr", where the types of the
        arguments choose one. Derived as the function around `op` was. `alone`: f takes no gradients itself,
        so that what it is not differentiated by is fixed.
        """
        for mode in reversed(modes_of(op)):
            arity = arity - 1 if mode == "r" else arity // 2
        name = self._tangents(arity) if isinstance(op, JvpOp) else self._gradient(op, arity, modes, alone)
        return name + "".join(SUFFIX[mode] for mode in modes_of(op))

    def _tangents(self, count: int) -> str:
        """The function of f.jvp, the parameters of f, and their tangents: the value of f and its tangent."""
        name = f"jvp.{count}"
        if name not in self.table:
            m = Maker(Block(arg_types=[any_type] * (1 + 2 * count)))
            ahead, *values = m.block.args
            pairs = zip(values[:count], values[count:], strict=True)
            checked = [(x, m.prim(CheckTangent, d, x)) for x, d in pairs]
            value, tangent = m.pair(m.call(ahead, *[v for pair in checked for v in pair]))
            result = m.tuple([value, m.prim(Instantiated, tangent, value)])
            m.block.add_op(ReturnOp.create(operands=[result]))
            self.add(name, m.block)
        return name

    def _gradient(self, op: GradOp | ValueAndGradOp, count: int, modes: str, alone: bool = False) -> str:
        with_value = isinstance(op, ValueAndGradOp)
        outside = [p for p in op.positions if not -count <= p < count]
        if outside:
            raise UnsupportedError(
                f"grad: argument {outside[0]} of a function of {count} parameter{'s' * (count != 1)};"
                " argnums counts from 0"
            )
        text = "_".join(map(str, op.positions))
        name = f"{'value_and_grad' if with_value else 'grad'}.{count}.{text}{'' if op.single else '.tuple'}"
        name += {"r": "", "j": ".ahead", "jr": EITHER}[modes] + ALONE * alone
        if name in self.table:
            return name
        if modes == "r" and not alone:
            at = tuple(p % count for p in op.positions)
            self.gradients[name] = Gradient(name, count, at, bool(op.single), with_value)
        if alone:
            self._gradient(op, count, modes)  # what another derivative of it is made of
        positions = [p % count for p in op.positions]
        block = Block(arg_types=[any_type] * (count + len(modes)))
        m, values = Maker(block), list(block.args[len(modes) :])
        forward = block.args[0]
        if alone:
            forward = m.prim(Inactive, forward)
            values = [m.prim(Active if i in positions else Inactive, v) for i, v in enumerate(values)]
        if modes == "jr":
            ahead, back = (self._gradient(op, count, mode) for mode in modes)
            returned = _gradient_by_choice(m, block, positions, ahead, back)
        else:
            maker = _gradient_ahead if modes == "j" else _gradient_back
            value, cotangents = maker(m, forward, values, positions)
            filled = [
                m.prim(InstantiateZeros, d, values[p], position=integer(shown))
                for d, p, shown in zip(cotangents, positions, op.positions, strict=True)
            ]
            result = filled[0] if op.single else m.tuple(filled)
            returned = m.tuple([value, result]) if with_value else result
            returned = m.prim(Active, returned) if alone else returned
        block.add_op(ReturnOp.create(operands=[returned]))
        self.add(name, block)
        return name


def _type_of(use: Use) -> bool:
    op = use.operation
    return isinstance(op, PrimOp) and use.index in op.card.types_only


def _over(kind: str, count: int) -> Block:
    """The body of `over.kind.count`."""
    block = Block(arg_types=[any_type] * len(KINDS[kind].split()))
    m = Maker(block)
    function, whole, *start = block.args
    whole = m.prim(ToTuple, whole, count=integer(count))
    items = [m.get(whole, i, count) for i in range(count)]
    if kind == "map":
        mapped = m.tuple([m.call(function, item) for item in items])
    elif kind == "apply":
        mapped = m.call(function, *items)
    else:
        if not start and not items:
            raise UnsupportedError("reduce of an empty tuple; give a first value")
        mapped, *rest = [*start, *items]
        for item in rest:
            mapped = m.call(function, mapped, item)
    block.add_op(ReturnOp.create(operands=[mapped]))
    return block


Gradients = tuple[SSAValue, list[SSAValue]]


def _gradient_back(m: Maker, forward: SSAValue, values: Sequence[SSAValue], at: Sequence[int]) -> Gradients:
    """The value and the gradients in reverse mode: f.fwd, then its backpropagator."""
    pair = m.call(forward, *values, m.ref(IDENTITY))
    value, back = m.pair(pair)
    whole = m.call(back, m.prim(OnesLike, value))
    return value, [m.prim(EnvItem, whole, n=integer(len(values)), i=integer(p)) for p in at]


def _gradient_ahead(m: Maker, tangents: SSAValue, values: Sequence[SSAValue], at: Sequence[int]) -> Gradients:
    """The value and the gradients in forward mode: f.jvp once a number."""
    derivatives: list[SSAValue] = []
    value: SSAValue | None = None
    for position in at:
        pairs: list[SSAValue] = []
        for index, x in enumerate(values):
            pairs += [x, m.prim(OnesLike, x) if index == position else m.zero()]
        pair = m.call(tangents, *pairs)
        value, tangent = m.pair(pair)
        derivatives.append(m.prim(Mul, m.prim(OnesLike, value), tangent))
    assert value is not None
    return value, derivatives


def _gradient_by_choice(m: Maker, block: Block, at: Sequence[int], ahead: str, back: str) -> SSAValue:
    """Forward mode where all that is differentiated by is a number, reverse mode for arrays."""
    tangents, forward, *values = block.args
    numbers = m.prim(AreFloats, *[values[p] for p in at])
    chosen = m.switch(numbers, m.partial(m.ref(ahead), tangents), m.partial(m.ref(back), forward))
    return m.call(chosen, *values)
