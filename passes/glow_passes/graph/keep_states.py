"""keep_states: inputs and outputs that pass a value between calls become states, changed in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.errors import ShapeError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of, shape_of, tensor
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.insert import InsertOp
from glow_dialects.ops.module import GetOp, PlaceholderOp, SaveOp, functions, placeholders
from glow_dialects.ops.slice import SliceOp

Corner = tuple[int, ...]


@dataclass(frozen=True)
class Pair:
    """An input, and the output that is its next value.

    What grows along `axis` lies in memory with room for as many more places as the output does not take.
    """

    input: str
    output: str
    axis: int | None = None
    room: int = 0


def keep_states(module: ModuleOp, pairs: Sequence[Pair]) -> None:
    """Let the inputs of pairs be states, to which their outputs are written; those are no outputs any more.

    %c = concat %past, %new; save %c to @present -> %s = insert %state, %new at [.., n, ..]; save %s to @past

    What else reads the old value or the new one reads a slice of the state. ShapeError where a pair's types
    differ, but for the axis along which it grows.
    """
    ports = {(p.kind.data, _name(p)): p for p in placeholders(module).values()}
    for pair in pairs:
        _keep(module, ports["input", pair.input], ports["output", pair.output], pair)


def _name(port: PlaceholderOp) -> str:
    known = port.attributes.get("onnx.name")
    return known.data if isinstance(known, StringAttr) else port.sym_name.data


def _keep(module: ModuleOp, port: PlaceholderOp, out: PlaceholderOp, pair: Pair) -> None:
    old, new, axis = list(shape_of(port.type)), list(shape_of(out.type)), pair.axis
    if element_of(out.type) != element_of(port.type) or not _fits(old, new, axis):
        raise ShapeError(f"state '{pair.input}' is {port.type}, its next value '{pair.output}' {out.type}")
    room = [n + pair.room if i == axis else n for i, n in enumerate(new)]
    port.properties["kind"] = StringAttr("state")
    port.properties["type"] = tensor(room, element_of(port.type))
    for function in functions(module):
        gets = [op for op in function.body.block.ops if isinstance(op, GetOp) and op.target() is port]
        saves = [op for op in function.body.block.ops if isinstance(op, SaveOp) and op.target() is out]
        for save in saves:
            if axis is None:
                _replace(save, SaveOp.of(save.input, port))
            else:
                _grow(save, port, gets, axis)
        if axis is not None:
            for get in gets:
                _read(get, get.result, GetOp.of(port), old)
    out.detach()
    out.erase()


def _fits(old: Sequence[int], new: Sequence[int], axis: int | None) -> bool:
    """Whether shapes are the same but along an axis."""
    pairs = enumerate(zip(old, new, strict=True)) if len(old) == len(new) else None
    return pairs is not None and all(i == axis or a == b for i, (a, b) in pairs)


def _grow(save: SaveOp, port: PlaceholderOp, gets: Sequence[GetOp], axis: int) -> None:
    """Write what is new of a value to the state, where the value is the old one with more behind it."""
    value, shape = save.input, shape_of(save.input)
    state = GetOp.of(port)
    starts = [0] * len(shape)
    small, made = value, value.owner
    if isinstance(made, ConcatOp) and made.axis == axis and len(made.inputs) == 2:
        old, new = made.inputs
        if any(old is get.result for get in gets):
            small, starts[axis] = new, shape_of(old)[axis]
    insert = InsertOp(state.result, small, starts=tuple(starts))
    if small is value:
        _before(save, state, insert)
    elif isinstance(made, ConcatOp):
        _before(made, state, insert)
        insert.location = made.location
        _read(made, value, insert, shape)
    _replace(save, SaveOp.of(insert.result, port))


def _read(made: GetOp | ConcatOp, value: SSAValue, held: GetOp | InsertOp, shape: Sequence[int]) -> None:
    """Let those who read a value read the first places of the state that holds it."""
    if isinstance(held, GetOp):
        _before(made, held)
    part = SliceOp.window(held.result, (0,) * len(shape), shape)
    part.location = made.location if isinstance(made, GraphOp) else part.location
    _before(made, part)
    value.replace_all_uses_with(part.result)
    made.detach()
    made.erase()


def _before(place: Operation, *ops: Operation) -> None:
    block = place.parent
    assert block is not None
    for op in ops:
        block.insert_op_before(op, place)


def _replace(old: SaveOp, new: SaveOp) -> None:
    new.location = old.location
    _before(old, new)
    old.detach()
    old.erase()
