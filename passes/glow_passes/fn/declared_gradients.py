"""Derived forms of functions whose gradient is declared: `glow_fn.func @f(..) attributes {gradient = @g}`.

`@g(d, y, x..)` gives the tuple of cotangents of x.. (of one parameter, the cotangent itself) from that of the
result y. It is a function like others: its own derivatives give those of higher orders.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.ir import Block, SSAValue

from glow_dialects.fn.dialect import FuncOp, ReturnOp
from glow_dialects.fn.maker import IDENTITY, Maker, integer
from glow_dialects.fn.primitives.arithmetic import Mul
from glow_dialects.fn.primitives.cotangents import (
    AddAny,
    AreFloats,
    CheckCotangent,
    EnvItem,
    Fill,
    OnesLike,
    SumLike,
)
from glow_dialects.fn.types import any_type
from glow_passes.fn.calls import AddFunction

#: The attribute of a function that names its gradient.
GRADIENT = "gradient"


def declared(source: FuncOp) -> str | None:
    """The name of the function that gives the gradient of another, where one is declared."""
    attribute = source.attributes.get(GRADIENT)
    return attribute.root_reference.data if isinstance(attribute, SymbolRefAttr) else None


def _finish(m: Maker, value: SSAValue) -> Block:
    m.block.add_op(ReturnOp.create(operands=[value]))
    return m.block


def make_reverse(add: AddFunction, source: FuncOp, gradient: str) -> None:
    """Add f.fwd and f.bwd: the function itself, and its declared gradient as the backward step."""
    name, count = source.sym_name.data, len(source.block.args)
    m = Maker(Block(arg_types=[any_type] * (count + 3)))  # x.., y, k, d
    *values, y, after, d = m.block.args
    result = m.call(m.ref(gradient), m.prim(Fill, d, y), y, *values)
    items = [result] if count == 1 else [m.get(result, i, count) for i in range(count)]
    whole = m.tuple([m.prim(CheckCotangent, item, x) for item, x in zip(items, values, strict=True)])
    whole.owner.attributes["of"] = StringAttr(name)  # pyright: ignore[reportAttributeAccessIssue]
    add(f"{name}.bwd", _finish(m, m.call(after, whole)))
    m = Maker(Block(arg_types=[any_type] * (count + 1)))
    *values, after = m.block.args
    y = m.call(m.ref(name), *values)
    step = m.partial(m.ref(f"{name}.bwd"), *values, y, after)
    add(f"{name}.fwd", _finish(m, m.tuple([y, step])))


def make_tangents(add: AddFunction, source: FuncOp, gradient: str) -> None:
    """Add f.jvp: of a number, the gradient times the tangents; else the transpose of the gradient."""
    name, count = source.sym_name.data, len(source.block.args)
    size = 2 * count + 1
    number = Maker(Block(arg_types=[any_type] * size))  # y, x, dx, ..
    y, *pairs = number.block.args
    result = number.call(number.ref(gradient), number.prim(OnesLike, y), y, *pairs[::2])
    items = [result] if count == 1 else [number.get(result, i, count) for i in range(count)]
    total = number.zero()
    for item, x, dx in zip(items, pairs[::2], pairs[1::2], strict=True):
        product = number.prim(Mul, number.prim(CheckCotangent, item, x), dx)
        total = number.prim(AddAny, total, number.prim(SumLike, product, y))
    add(f"{name}.jvp.number", _finish(number, total))
    array = Maker(Block(arg_types=[any_type] * size))
    y, *pairs = array.block.args
    pair = array.call(array.ref(f"{gradient}.fwd"), y, y, *pairs[::2], array.ref(IDENTITY))
    seed = pairs[1] if count == 1 else array.tuple(pairs[1::2])
    whole = array.call(array.get(pair, 1, 2), seed)
    d = array.prim(EnvItem, whole, n=integer(count + 2), i=integer(0))
    add(f"{name}.jvp.array", _finish(array, d))
    m = Maker(Block(arg_types=[any_type] * (2 * count)))
    pairs = list(m.block.args)
    y = m.call(m.ref(name), *pairs[::2])
    chosen = m.switch(m.prim(AreFloats, y), m.ref(f"{name}.jvp.number"), m.ref(f"{name}.jvp.array"))
    add(f"{name}.jvp", _finish(m, m.tuple([y, m.call(chosen, y, *pairs)])))
