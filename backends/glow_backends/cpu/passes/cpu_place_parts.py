"""glow-cpu-place-parts: slices and concatenations become views of one buffer instead of copies."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter, defaultdict
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_backends.cpu.memory import ALIGN
from glow_dialects.core.extent import are_equal
from glow_dialects.core.instr_op import InstrOp, is_instr_of
from glow_dialects.core.types import buffer_type, bytes_of, element_of, shape_of, tensor
from glow_dialects.instr.memory import (
    AllocOp,
    CopyOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    WeightOp,
    instr_functions,
    origin,
    uses_of,
    view_offset,
)
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.slice import SliceOp
from glow_passes.contract import InstructionPass
from glow_passes.instr.shrink_lives import shrink

MOST_PARTS = 128
"""Parts of a concatenation that one kernel copies."""


class Places:
    """Where the instructions of a function stand, and which of them write each buffer."""

    def __init__(self, function: InstrFuncOp) -> None:
        self.function = function
        self.at: dict[Operation, int] = {}
        #: Places of the instructions that write an alloc or weight, or a view of it, in order.
        self.writers: defaultdict[SSAValue, list[int]] = defaultdict(list)
        for at, op in enumerate(function.block.ops):
            for item in op.walk() if op.regions else (op,):
                self.at[item] = at
                if isinstance(item, InstrOp) and not isinstance(item, DeallocOp):
                    for value in item.written():
                        self.writers[origin(value)].append(at)

    def last_reader(self, op: SliceOp, result: SSAValue) -> int:
        """Where a slice's result is used last."""
        users = (user for user, _ in uses_of([result]) if user is not op and not isinstance(user, DeallocOp))
        return max((self.at[user] for user in users), default=-1)

    def written_between(self, base: SSAValue, after: int, last: int) -> bool:
        """Whether an instruction behind `after`, `last` at most, writes a buffer."""
        writers = self.writers[base]
        index = bisect_right(writers, after)
        return index < len(writers) and writers[index] <= last

    def insert(self, op: Operation, before: Operation) -> None:
        """Insert an operation before another one, at whose place it stands then."""
        self.function.block.insert_op_before(op, before)
        self.at[op] = self.at[before]

    def move(self, old: SSAValue, new: SSAValue) -> None:
        """Let the writers of the alloc `old` be those of the alloc `new`."""
        more, less = self.writers.pop(old, []), self.writers[new]
        if len(more) < len(less):
            more, less = less, more
        for at in less:
            insort(more, at)
        self.writers[new] = more


def _replace(old: SSAValue, new: SSAValue) -> None:
    """Let `new` stand for the alloc `old`, whose life ends with that of what `new` lies in."""
    for use in list(old.uses):
        if isinstance(use.operation, DeallocOp):
            use.operation.detach()
            use.operation.erase()
    new.name_hint = new.name_hint or old.name_hint
    alloc = old.owner
    assert isinstance(alloc, AllocOp)
    old.replace_all_uses_with(new)
    alloc.detach()
    alloc.erase()


def _block_offset(op: SliceOp) -> int | None:
    """The element at which a slice starts, if its elements are neighbours; else None."""
    size, part = shape_of(op.input), shape_of(op.result)
    starts, steps = op.starts, op.steps
    if any(step != 1 for step, n in zip(steps, part, strict=True) if not are_equal(n, 1)):
        return None
    whole = True  # all axes so far are taken entirely
    offset, stride = 0, 1
    for start, have, wanted in zip(starts[::-1], size[::-1], part[::-1], strict=True):
        if not whole and not are_equal(wanted, 1):
            return None
        whole = whole and are_equal(wanted, have)
        offset += start * stride
        stride *= have
    return offset


def view_slice(places: Places, op: SliceOp) -> bool:
    """slice @out b, @in a -> b = tensorview a offset n."""
    offset, result, source = _block_offset(op), op.result, op.input
    if offset is None or not isinstance(result.owner, AllocOp) or len(places.writers[result]) != 1:
        return False
    base = origin(source)
    if isinstance(base.owner, WeightOp) and places.writers[base]:
        return False  # its contents may change while the slice is still read
    if places.written_between(base, places.at[op], places.last_reader(op, result)):
        return False
    view = ViewOp.of(source, result.type, offset)  # pyright: ignore[reportArgumentType]
    if not are_equal(view_offset(view.result) % ALIGN, 0):
        view.erase()
        return False
    _insert_like(places, op, view)
    op.detach()
    op.erase()
    del places.writers[result]
    _replace(result, view.result)
    return True


def place_concat(places: Places, op: ConcatOp) -> bool:
    """Parts of a concatenation along the outermost axis are computed where they belong."""
    result, parts = op.result, op.inputs
    axis: int = op.axis
    if prod(shape_of(result)[:axis]) != 1 or not isinstance(result.owner, AllocOp):
        return False
    if (
        any(not are_equal(bytes_of(p.type) % ALIGN, 0) for p in parts[:-1])
        or len(places.writers[result]) != 1
    ):
        return False
    at, times = places.at, Counter(parts)
    placed = [
        isinstance(p.owner, AllocOp)
        and times[p] == 1
        and places.writers[p][-1:] < [at[op]]  # later, it is used for something else
        for p in parts
    ]
    if not any(placed):
        return False
    owners = [p.owner for p, movable in zip(parts, placed, strict=True) if movable]
    first = min((o for o in owners if isinstance(o, AllocOp)), key=lambda o: at[o])
    if at[first] < at[result.owner]:
        result.owner.detach()
        places.insert(result.owner, first)
    start = 0
    places.writers[result] = []
    op.operands = ()  # else the tuple would be made anew for each part
    for part, movable in zip(parts, placed, strict=True):
        view = ViewOp.of(result, part.type, start)  # pyright: ignore[reportArgumentType]
        start += prod(shape_of(part))
        if movable:
            assert isinstance(part.owner, AllocOp)
            view.location = op.location
            places.insert(view, part.owner)
            places.move(part, result)
            _replace(part, view.result)
        else:
            _insert_like(places, op, view, CopyOp(view.result, part))
            insort(places.writers[result], at[op])
    op.detach()
    op.erase()
    return True


def divide_concat(places: Places, op: ConcatOp) -> bool:
    """concat r, a, b, c, d   ->   concat g, a, b; concat h, c, d; concat r, g, h.

    The code generator takes far more than twice as long for the code of twice as many copies, which groups of
    equal parts share.
    """
    parts = list(op.inputs)
    if len(parts) <= MOST_PARTS or op.predicate is not None:
        return False
    made: list[SSAValue] = []
    for start in range(0, len(parts), MOST_PARTS):
        group = parts[start : start + MOST_PARTS]
        shape = [*shape_of(op.result)]
        shape[op.axis] = sum(shape_of(p)[op.axis] for p in group)
        alloc = AllocOp.of(buffer_type(tensor(shape, element_of(op.result))))
        _insert_like(places, op, alloc, type(op)(alloc.result, group, axis=op.axis))
        made.append(alloc.result)
    whole = type(op)(op.result, made, axis=op.axis)
    _insert_like(places, op, whole, *map(DeallocOp, made))
    op.detach()
    op.erase()
    divide_concat(places, whole)  # pyright: ignore[reportArgumentType]
    return True


def _insert_like(places: Places, op: Operation, *made: Operation) -> None:
    """Insert operations before one, from which they come."""
    for new in made:
        new.location = op.location
        places.insert(new, op)


def place(function: InstrFuncOp) -> int:
    """Place what can be placed, and divide what is left; how many instructions that changed."""
    found = [op for op in function.block.ops if is_instr_of(op, SliceOp) or is_instr_of(op, ConcatOp)]
    if not found:
        return 0
    places, saved = Places(function), 0
    for op in found:
        if is_instr_of(op, SliceOp):
            saved += view_slice(places, op)
        elif is_instr_of(op, ConcatOp):
            saved += place_concat(places, op) or divide_concat(places, op)
    if saved:
        shrink(function.block)
    return saved


@dataclass(frozen=True)
class CpuPlacePartsPass(InstructionPass):
    """Slices and concatenations of whole blocks of memory become views.

    a @out %a; b @out %b; concat @out %c, @in %a, @in %b -> a @out %c[0..]; b @out %c[n..]

    Only where every part starts on an aligned address, as kernels demand.
    """

    name = "glow-cpu-place-parts"
    OPTIONAL = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in instr_functions(op):
            place(function)
