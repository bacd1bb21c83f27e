"""The derivative of a gradient: forward mode over reverse mode, at any order.

The second derivatives of f are symmetric. The cotangents that a cotangent d of the gradient of f by x gives
to all parameters are therefore the derivatives, in the direction d of x, of the gradients by all parameters.
Reverse mode is applied to no function that reverse mode made: types stay as simple as those of the gradient,
and a loop stays a loop in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, SSAValue

from glow_dialects.fn.dialect import ReturnOp, TupleOp
from glow_dialects.fn.maker import IDENTITY, Maker, integer
from glow_dialects.fn.primitives.arithmetic import Mul
from glow_dialects.fn.primitives.cotangents import Active, AddAny, EnvDrop, EnvItem, OnesLike
from glow_dialects.fn.primitives.tuples import TupleItem
from glow_dialects.fn.types import any_type
from glow_passes.fn.calls import AddFunction


@dataclass(frozen=True)
class Gradient:
    """The parts of a gradient function.

    The gradients of a function of `count` parameters by those at `positions`: one (`single`) or a tuple,
    after the value (`with_value`).
    """

    name: str
    count: int
    positions: tuple[int, ...]
    single: bool
    with_value: bool


def make_second(add: AddFunction, gradient: Gradient) -> None:
    """Add the reverse form of the gradient function `g(f, x..)`.

    `g.fwd(ahead, f, x.., k)` takes f as f.fwd and, for its backward step, as f.fwd.jvp.
    `g.whole(f, scale, x..)` are the cotangents of all parameters, and of what f captured.
    """
    name, count = gradient.name, gradient.count
    whole = f"{name}.whole"
    m = Maker(Block(arg_types=[any_type] * (count + 2)))
    forward, scale, *values = m.block.args
    pair = m.call(forward, *values, m.ref(IDENTITY))
    value, back = m.pair(pair)
    seed = m.prim(OnesLike, value)
    tangent = m.call(back, m.prim(Mul, seed, scale) if gradient.with_value else seed)
    m.block.add_op(ReturnOp.create(operands=[tangent]))
    add(whole, m.block)
    _backward(add, gradient, f"{whole}.jvp")
    m = Maker(Block(arg_types=[any_type] * (count + 3)))
    ahead, forward, *values, after = m.block.args
    value = m.call(m.ref(name), forward, *values)
    step = m.partial(m.ref(f"{name}.bwd"), ahead, *values, after)
    m.block.add_op(ReturnOp.create(operands=[m.tuple([value, step])]))
    add(f"{name}.fwd", m.block)


def _backward(add: AddFunction, gradient: Gradient, whole: str) -> None:
    """g.bwd(ahead, x.., k, d): the cotangents of (ahead, f, x..) go to k."""
    count = gradient.count
    m = Maker(Block(arg_types=[any_type] * (count + 3)))
    ahead, *bound, after, d = m.block.args
    values: list[SSAValue] = list(bound)
    scale = m.zero()
    if gradient.with_value:
        scale, d = (m.prim(TupleItem, d, i=integer(i)) for i in (0, 1))
    tangents: list[SSAValue] = [m.zero()] * count
    for index, position in enumerate(gradient.positions):
        cotangent = d if gradient.single else m.prim(TupleItem, d, i=integer(index))
        old = tangents[position]
        tangents[position] = cotangent if old is m.zero() else m.prim(AddAny, old, cotangent)
        values[position] = m.prim(Active, values[position])
    pairs = [v for pair in zip(values, tangents, strict=True) for v in pair]
    both = m.call(m.ref(whole), ahead, m.zero(), m.number(1.0), scale, *pairs)
    cotangent, n = m.get(both, 1, 2), integer(count)
    items = [m.prim(EnvItem, cotangent, n=n, i=integer(i)) for i in range(count)]
    gradients = m.tuple([m.zero(), m.prim(EnvDrop, cotangent, n=n), *items])
    assert isinstance(gradients.owner, TupleOp)
    gradients.owner.attributes["of"] = StringAttr(gradient.name)
    m.block.add_op(ReturnOp.create(operands=[m.call(after, gradients)]))
    add(f"{gradient.name}.bwd", m.block)
