"""Stores into parts of arrays in machine code: `y[i] = v`, `y[i, 1:] = v`, `d[i] += v`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import Attribute

from glow_backends.cpu.functions.layout import F64, I1, I64
from glow_dialects.core.attributes import to_attribute
from glow_dialects.core.extent import Extent
from glow_dialects.core.types import bytes_of, tensor
from glow_dialects.fn.array_keys import At, key_of, padded_key, positions
from glow_dialects.fn.domain import MappedType, Scalar, TensorType
from glow_dialects.fn.primitive import Primitive
from glow_dialects.fn.primitives.accumulated import Accumulated
from glow_dialects.fn.primitives.assignment import SetItem
from glow_dialects.fn.primitives.items import ItemPut
from glow_dialects.fn.primitives.shapes import Astype
from glow_dialects.fn.values import V

if TYPE_CHECKING:
    from glow_backends.cpu.functions.target import LlvmTarget

F32 = ir.FloatType()
#: Registers of the element types whose numbers are stored as such.
ELEMENTS: dict[str, ir.Type] = {
    "float64": F64, "float32": F32, "bool": ir.IntType(8),
    **{f"{sign}int{bits}": ir.IntType(bits) for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


@dataclass(frozen=True)
class Block:
    """Elements of an array: for each axis the number of an operand, or (first, step).

    `value` is the number of the operand that they become, or that is added to them. `seen` are the axes of
    the elements, to which it is broadcast: how many there are, and which axis of the array it is, None of
    new ones.
    """

    axes: tuple[int | tuple[int, int], ...]
    seen: tuple[tuple[int, int | None], ...]
    value: int
    adds: bool = False


def block_of(card: Primitive, attributes: Mapping[str, Attribute], values: Sequence[V]) -> Block | None:
    """The elements that a store writes; None of other primitives, and of stores that graphs do."""
    if not card.stores:
        return None
    whole = values[0].type
    if not isinstance(whole, TensorType) or isinstance(whole, MappedType) or not whole.shape:
        return None
    adds = isinstance(card, Accumulated)
    if adds and whole.dtype not in ("float64", "float32"):
        return None
    row = isinstance(card, SetItem) or isinstance(card, Accumulated) and isinstance(card.of, ItemPut)
    key = (At(1),) if row else key_of(attributes)
    value = len(values) - 1 if adds else 2 if row else 1
    axes: list[int | tuple[int, int]] = []
    seen: list[tuple[int, int | None]] = []
    for entry in padded_key(key, len(whole.shape)):
        if entry is None:
            seen.append((1, None))
        elif isinstance(entry, At):
            operand = entry.place + adds
            kind = values[operand].type
            if not isinstance(kind, Scalar) or kind.kind != "int":
                return None
            axes.append(operand)
        elif isinstance(entry, int | slice) and not isinstance(entry, Extent):
            run = positions(entry, whole.shape[len(axes)])
            seen += [(run.count, len(axes))] if isinstance(entry, slice) else []
            axes.append((run.first, run.step))
        else:
            return None
    return Block(tuple(axes), tuple(seen), value, adds)


#: (elements, bytes from one to the next in the array, in the value).
Dimension = tuple[int, int, int]


def write(t: LlvmTarget, block: Block, values: Sequence[V], where: str) -> ir.Value:
    """The array with other elements: in its own memory, or in that of a copy."""
    kind = values[0].type
    assert isinstance(kind, TensorType)
    b, size = t.builder, bytes_of(tensor((), kind.dtype))
    number, source, shape = _value(t, values[block.value], kind, where)
    whole = t.tensors.register(values[0].code)
    indices = {a: t.tensors.register(values[a].code) for a in block.axes if isinstance(a, int)}
    if not t.in_place:
        whole = t.tensors.copied(whole, prod(kind.shape) * size)
    elif t.guarded:
        whole = t.tensors.not_zeros(whole, prod(kind.shape) * size)
    strides = [prod(kind.shape[i + 1 :]) * size for i in range(len(kind.shape))]
    place = whole
    for axis, stride, length in zip(block.axes, strides, kind.shape, strict=True):
        if isinstance(axis, int):
            at = t.tensors.wrapped(indices[axis], length)
            place = b.gep(place, [b.mul(at, ir.Constant(I64, stride))])
        elif axis[0]:
            place = b.gep(place, [ir.Constant(I64, axis[0] * stride)])
    dimensions: list[Dimension] = []
    for (count, axis), given in zip(
        block.seen, _strides(shape, [n for n, _ in block.seen], size), strict=True
    ):
        if not count:
            return whole
        step = block.axes[axis] if axis is not None else 0
        assert not isinstance(step, int) or axis is None
        jump = step[1] * strides[axis] if axis is not None and isinstance(step, tuple) else 0
        dimensions += [(count, jump, given)] if count > 1 else []
    _Fill(t, kind.dtype, size, block.adds, number).all(place, source, _joined(dimensions))
    return whole


def _value(
    t: LlvmTarget, v: V, whole: TensorType, where: str
) -> tuple[ir.Value | None, ir.Value | None, tuple[int, ...]]:
    """What is stored: a number in a register, or an address and a shape."""
    element = ELEMENTS.get(whole.dtype)
    if isinstance(v.type, Scalar) and element is not None:
        code = t.tensors.register(v.code)
        if element in (F64, F32):
            if v.type.kind == "float":
                return code if element == F64 else t.builder.fptrunc(code, F32), None, ()
            convert = t.builder.sitofp if v.type.kind == "int" else t.builder.uitofp
            return convert(code, element), None, ()
        kind = "bool" if whole.dtype == "bool" else "int"
        code = t.cast(code, v.type.kind, kind) if v.type.kind != kind else code
        if code.type != element:
            code = t.builder.zext(code, element) if code.type == I1 else t.builder.trunc(code, element)
        return code, None, ()
    shape = v.type.shape if isinstance(v.type, TensorType) else ()
    code = v.code
    if not isinstance(v.type, TensorType) or v.type.dtype != whole.dtype:
        like = TensorType(shape, whole.dtype)
        code = t.tensors.primitive(Astype(), {"dtype": to_attribute(whole.dtype)}, [v], like, where)
    return None, t.tensors.register(code), shape


def _strides(shape: Sequence[int], seen: Sequence[int], size: int) -> list[int]:
    """Bytes from one to the next element of a value along the axes that it is broadcast to."""
    shape = shape[max(len(shape) - len(seen), 0) :]  # axes of one element in front
    strides = [prod(shape[i + 1 :]) * size if n > 1 else 0 for i, n in enumerate(shape)]
    return [0] * (len(seen) - len(shape)) + strides


def _joined(dimensions: Sequence[Dimension]) -> list[Dimension]:
    """The dimensions, those that go on where the next one ends as one."""
    joined: list[Dimension] = []
    for count, to, of in reversed(dimensions):
        if joined and (to, of) == (joined[0][0] * joined[0][1], joined[0][0] * joined[0][2]):
            joined[0] = (count * joined[0][0], *joined[0][1:])
        else:
            joined.insert(0, (count, to, of))
    return joined


class _Fill:
    """Writes the elements of a block."""

    def __init__(self, t: LlvmTarget, dtype: str, size: int, adds: bool, number: ir.Value | None) -> None:
        self.t, self.b = t, t.builder
        self.size, self.adds, self.number = size, adds, number
        self.element = ELEMENTS.get(dtype) or ir.IntType(8 * size)

    def all(self, place: ir.Value, source: ir.Value | None, dimensions: Sequence[Dimension]) -> None:
        """All of them; a value that may be a part of the array itself is copied before."""
        if source is not None and dimensions:
            if not self.adds and dimensions[-1][1:] == (self.size, self.size):
                *dimensions, (count, _, _) = dimensions
                if not dimensions:
                    self.t.support.move(self.b, place, source, ir.Constant(I64, count * self.size))
                    return
                dimensions = [*dimensions, (count, self.size, self.size)]
            used = sum((n - 1) * of for n, _, of in dimensions) + self.size
            source = self.t.tensors.copied(source, used)
        self._loops(place, source, dimensions)

    def _loops(self, place: ir.Value, source: ir.Value | None, dimensions: Sequence[Dimension]) -> None:
        if not dimensions:
            self._element(place, source)
            return
        b, ((count, to, of), *rest) = self.b, dimensions
        before, loop, done = b.block, b.append_basic_block("fill"), b.append_basic_block("filled")
        b.branch(loop)
        b.position_at_end(loop)
        at = b.phi(I64)
        at.add_incoming(ir.Constant(I64, 0), before)
        inner = source if source is None or not of else b.gep(source, [b.mul(at, ir.Constant(I64, of))])
        self._loops(b.gep(place, [b.mul(at, ir.Constant(I64, to))]), inner, rest)
        after = b.add(at, ir.Constant(I64, 1))
        at.add_incoming(after, b.block)
        b.cbranch(b.icmp_unsigned("<", after, ir.Constant(I64, count)), loop, done)
        b.position_at_end(done)

    def _element(self, place: ir.Value, source: ir.Value | None) -> None:
        b, kind = self.b, self.element.as_pointer()
        value = self.number if source is None else b.load(b.bitcast(source, kind))
        place = b.bitcast(place, kind)
        b.store(b.fadd(b.load(place), value) if self.adds else value, place)
