"""The functions of a closed program, and those that differentiation derives from them on demand."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.fn.dialect import FuncOp, GradOp, RefOp, ReturnOp, ValueAndGradOp
from glow_dialects.fn.over import KINDS, OverOp
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.types import any_type
from glow_passes.fn.custom import declared, make_reverse, make_tangents
from glow_passes.fn.gradients import IDENTITY, Maker, integer, modes_of
from glow_passes.fn.reverse import Reverse
from glow_passes.fn.tangents import Tangents

#: The suffix of a derived function by the letter of its mode.
SUFFIX = {"r": ".fwd", "j": ".jvp"}

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
        gradient = declared(source)
        if gradient is not None:
            maker = make_tangents if ahead else make_reverse
            maker(self.functions, source, gradient)
        elif ahead:
            Tangents(self.functions, source).make()
        else:
            Reverse(self.functions, source).make()


class Functions:
    """The functions of a closed module by name."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.table = _Table(self)
        self.table.update({f.sym_name.data: f for f in module.body.block.ops if isinstance(f, FuncOp)})
        self._differentiates: dict[str, bool] = {}

    def add(self, name: str, block: Block) -> FuncOp:
        """A new function of the module."""
        made = FuncOp.create(properties={"sym_name": StringAttr(name)}, regions=[Region(block)])
        self.module.body.block.add_op(made)
        self.table[name] = made
        return made

    def arity(self, name: str) -> int:
        """The number of parameters."""
        base, _, kind = name.rpartition(".")
        if name not in self.table and kind == "fwd":
            return self.arity(base) + 1
        if name not in self.table and kind == "jvp":
            return 2 * self.arity(base)
        return len(self.table[name].block.args)

    def place(self, name: str) -> str:
        """Where a function stands: `file:line` of its first operation that stands somewhere."""
        found = (op.source for op in self.table[name].block.ops if isinstance(op, FnOp) and op.source)
        return next(found, "")

    def plain_count(self, name: str, count: int) -> int:
        """Arguments of the user's function where its derived form `name` has `count`."""
        for suffix in reversed(name.split(".")):
            count = count - 1 if suffix == "fwd" else count // 2 if suffix == "jvp" else count
        return count

    def reached(self, name: str) -> list[str]:
        """A function and all that it refers to, directly or through others."""
        found = {name: None}
        pending = [name]
        while pending:
            for op in self.table[pending.pop()].block.ops:
                if isinstance(op, RefOp) and op.target not in found:
                    found[op.target] = None
                    pending.append(op.target)
        return list(found)

    def differentiates(self, name: str) -> bool:
        """Whether a function takes gradients itself."""
        if name not in self._differentiates:
            self._differentiates[name] = any(
                isinstance(op, GradOp | ValueAndGradOp) or n.startswith(("grad.", "value_and_grad."))
                for n in self.reached(name)
                for op in self.table[n].block.ops
            )
        return self._differentiates[name]

    def derived(self, name: str, op: Operation, mode: str) -> str:
        """The name of `f` in another form, where `op` and the name were derived in the same way."""
        before = "".join(SUFFIX[m] for m in modes_of(op))
        assert name.endswith(before), (name, before)
        return name.removesuffix(before) + SUFFIX[mode] + before

    def over(self, op: OverOp, count: int) -> str:
        """The function of an `over` for a tuple of `count` items, derived as the one around it was."""
        if count > MOST_ITEMS:
            where = op.source
            raise UnsupportedError(
                f"{where}: {op.kind.data} over {count} items; use array operators such as np.sum and np.max"
            )
        return f"over.{op.kind.data}.{count}" + "".join(SUFFIX[mode] for mode in modes_of(op))

    # --- gradients --------------------------------------------------------------------------------
    def gradient_of(self, op: GradOp | ValueAndGradOp, arity: int, modes: str = "r") -> str:
        """The function whose first arguments are forms of f, for f of `arity` parameters.

        The forms are those of `modes`: f.fwd for "r", f.jvp for "j", both for "jr", where the types of the
        arguments choose one. Derived as the function around `op` was.
        """
        for mode in reversed(modes_of(op)):
            arity = arity - 1 if mode == "r" else arity // 2
        name = self._gradient(op, arity, modes)
        return name + "".join(SUFFIX[mode] for mode in modes_of(op))

    def _gradient(self, op: GradOp | ValueAndGradOp, count: int, modes: str) -> str:
        with_value = isinstance(op, ValueAndGradOp)
        outside = [p for p in op.positions if not -count <= p < count]
        if outside:
            raise UnsupportedError(
                f"grad: argument {outside[0]} of a function of {count} parameter{'s' * (count != 1)};"
                " argnums counts from 0"
            )
        text = "_".join(map(str, op.positions))
        name = f"{'value_and_grad' if with_value else 'grad'}.{count}.{text}{'' if op.single else '.tuple'}"
        name += {"r": "", "j": ".ahead", "jr": ".either"}[modes]
        if name in self.table:
            return name
        positions = [p % count for p in op.positions]
        block = Block(arg_types=[any_type] * (count + len(modes)))
        m, values = Maker(block), list(block.args[len(modes) :])
        if modes == "jr":
            ahead, back = (self._gradient(op, count, mode) for mode in modes)
            made = _gradient_by_choice(m, block, positions, ahead, back)
        else:
            maker = _gradient_ahead if modes == "j" else _gradient_back
            value, found = maker(m, block.args[0], values, positions)
            filled = [
                m.prim("fill_like", d, values[p], position=integer(shown))
                for d, p, shown in zip(found, positions, op.positions, strict=True)
            ]
            result = filled[0] if op.single else m.tuple(filled)
            made = m.tuple([value, result]) if with_value else result
        block.add_op(ReturnOp.create(operands=[made]))
        self.add(name, block)
        return name


def _over(kind: str, count: int) -> Block:
    """The body of `over.kind.count`."""
    block = Block(arg_types=[any_type] * len(KINDS[kind].split()))
    m = Maker(block)
    function, whole, *start = block.args
    whole = m.prim("to_tuple", whole, count=integer(count))
    items = [m.get(whole, i, count) for i in range(count)]
    if kind == "map":
        made = m.tuple([m.call(function, item) for item in items])
    elif kind == "apply":
        made = m.call(function, *items)
    else:
        if not start and not items:
            raise UnsupportedError("reduce of an empty tuple; give a first value")
        made, *rest = [*start, *items]
        for item in rest:
            made = m.call(function, made, item)
    block.add_op(ReturnOp.create(operands=[made]))
    return block


Gradients = tuple[SSAValue, list[SSAValue]]


def _gradient_back(m: Maker, forward: SSAValue, values: Sequence[SSAValue], at: Sequence[int]) -> Gradients:
    """The value and the gradients in reverse mode: f.fwd, then its backpropagator."""
    pair = m.call(forward, *values, m.ref(IDENTITY))
    value, back = m.get(pair, 0, 2), m.get(pair, 1, 2)
    whole = m.call(back, m.prim("one_like", value))
    return value, [m.prim("env_item", whole, n=integer(len(values)), i=integer(p)) for p in at]


def _gradient_ahead(m: Maker, tangents: SSAValue, values: Sequence[SSAValue], at: Sequence[int]) -> Gradients:
    """The value and the gradients in forward mode: f.jvp once a number."""
    found: list[SSAValue] = []
    value: SSAValue | None = None
    for position in at:
        pairs: list[SSAValue] = []
        for index, x in enumerate(values):
            pairs += [x, m.prim("one_like", x) if index == position else m.zero()]
        pair = m.call(tangents, *pairs)
        value = m.get(pair, 0, 2)
        found.append(m.prim("mul", m.prim("one_like", value), m.get(pair, 1, 2)))
    assert value is not None
    return value, found


def _gradient_by_choice(m: Maker, block: Block, at: Sequence[int], ahead: str, back: str) -> SSAValue:
    """Forward mode where all that is differentiated by is a number, reverse mode for arrays."""
    tangents, forward, *values = block.args
    numbers = m.prim("are_floats", *[values[p] for p in at])
    chosen = m.switch(numbers, m.partial(m.ref(ahead), tangents), m.partial(m.ref(back), forward))
    return m.call(chosen, *values)
