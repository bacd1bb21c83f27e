"""Region: the blocked values of a graph, while layout assignment walks a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from glow_dialects.core.blocks import Blocked, block_channels
from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, dtype_of, element_of, shape_of, tensor
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.quantize import RescaleOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.splat import SplatOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.driver import producer
from glow_passes.graph.symbols import Symbols


class BlockedLayout:
    """What a target says of values whose channels lie in blocks of `lanes`; see `propagate`.

    Operators with a blocked form of the target's own have a rule; element-wise ones, and those that say
    what they are `in_blocks`, need none.
    """

    #: Elements that are blocked, by the names of their NumPy types.
    ELEMENTS: tuple[str, ...] = ("float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16")

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes

    def rule(self, kind: type[GraphOp]) -> Callable[[Any, Region], bool] | None:
        """How nodes of a class are carried over.

        A rule returns whether the region remembers another form of the node's results, blocked or plain;
        where it returns False the node stays as it is, on plain values.
        """
        return None

    def block(self, value: SSAValue, last: bool, region: Region) -> SSAValue:
        """A plain value of rank 4, its channels `last` or at 1, in blocks; lanes without a channel are 0."""
        axis, shape = 3 if last else 1, shape_of(value)
        if missing := -shape[axis] % self.lanes:
            pads = tuple(missing if i == 4 + axis else 0 for i in range(8))
            value = region.add(PadOp(value, pads=pads))
        blocks = -(-shape[axis] // self.lanes)
        split = (*shape[:axis], blocks, self.lanes, *shape[axis + 1 :])
        value = region.add(ReshapeOp.to(value, split))
        return region.add(TransposeOp(value, permutation=(0, 3, 1, 2, 4) if last else (0, 1, 3, 4, 2)))

    def unblock(self, value: SSAValue, channels: int, last: bool, region: Region) -> SSAValue:
        """What `block` made of a value of so many channels, plain again."""
        batch, blocks, *rows, lanes = shape_of(value)
        value = region.add(TransposeOp(value, permutation=(0, 2, 3, 1, 4) if last else (0, 1, 4, 2, 3)))
        whole, sizes = (
            (batch, *rows, count) if last else (batch, count, *rows) for count in (blocks * lanes, channels)
        )
        value = region.add(ReshapeOp.to(value, whole))
        return value if sizes == whole else region.add(SliceOp.window(value, (0,) * 4, sizes))

    def stored(self, value: SSAValue) -> Attribute:
        """The element type in blocks of what a plain value holds."""
        return element_of(value)

    def form(self, value: SSAValue, last: bool, region: Region) -> Blocked | None:
        """The blocked form of a value of rank 3 or 4, of elements as they are stored in blocks."""
        return region.blocked(value, last)

    def wanted(self, op: Operation) -> Sequence[SSAValue]:
        """The operands that a node reads in blocks, whatever they are made of: see `early`."""
        return ()

    def early(self, op: GraphOp) -> bool:
        """Whether a node that only such nodes read is better blocked before it than behind it."""
        return False


def _channels_last(value: SSAValue) -> SSAValue | None:
    """x where `value` is x with its last axis moved behind the first, and then perhaps its others split."""
    split = producer(value, ReshapeOp)
    if split is not None and shape_of(split.input)[:2] != shape_of(value)[:2]:
        return None
    turned = producer(value if split is None else split.input, TransposeOp)
    if turned is None:
        return None
    rank = len(shape_of(turned.input))
    return turned.input if turned.permutation == (0, rank - 1, *range(1, rank - 1)) else None


class Region:
    """The values of one function; conversions are inserted before the current operation, once."""

    def __init__(self, function: FuncOp, symbols: Symbols, layout: BlockedLayout) -> None:
        self.symbols, self.layout, self.lanes = symbols, layout, layout.lanes
        self.known: dict[SSAValue, Blocked] = {}
        self.plains: dict[SSAValue, SSAValue] = {}
        self.early: set[Operation] = set()  # nodes to be blocked, whatever they read
        self.builder = Builder.at_end(function.body.block)

    def start(self, op: Operation) -> None:
        """Insert before `op` from now on."""
        self.builder = Builder.before(op)

    def add(self, op: GraphOp) -> SSAValue:
        """Insert an operation of one result."""
        return self.builder(op)

    # --- contents -------------------------------------------------------------------------------
    def array(self, value: SSAValue) -> Array | None:
        """The compile-time contents of a value."""
        return self.symbols.array(value)

    def is_known(self, value: SSAValue) -> bool:
        """Whether the value is a compile-time tensor."""
        owner = value.owner
        if isinstance(owner, GetOp):
            return isinstance(self.symbols.constant(owner), ConstantOp)
        return isinstance(owner, SplatOp | LiteralOp)

    def weight(self, array: Array, hint: str, element: Attribute | None = None) -> SSAValue:
        """A new constant of the module; `element` is its quantised type, if it has one."""
        symbol = self.symbols.add(array, tensor(array.shape, element or array.dtype), hint)
        return self.builder.insert(GetOp.of(symbol)).result

    def name_of(self, value: SSAValue) -> str:
        """A name for what is made of `value`."""
        owner = value.owner
        return owner.symbol.root_reference.data if isinstance(owner, GetOp) else "constant"

    def constant(self, value: SSAValue) -> SSAValue:
        """The same compile-time tensor as a constant of the module."""
        if isinstance(value.owner, GetOp):
            return value
        array = self.array(value)
        assert array is not None
        return self.weight(array, self.name_of(value))

    # --- forms ----------------------------------------------------------------------------------
    def plain(self, value: SSAValue) -> SSAValue:
        """The plain form of a value of the original graph."""
        if value in self.plains:
            return self.plains[value]
        if value not in self.known:
            return value
        plain = self.unblocked(self.known[value], value.type)
        self.plains[value] = plain
        return plain

    def unblocked(self, form: Blocked, kind: Attribute) -> SSAValue:
        """The plain tensor of type `kind` that a blocked value stands for (or a reshape of it)."""
        _, _, height, width, lanes = shape_of(form.value)
        value = form.value
        if height * width != 1 or form.channels % lanes:
            value = self.layout.unblock(value, form.channels, form.last, self)
        if element_of(value) != element_of(kind):  # bytes may be unsigned in blocks
            value = self.add(RescaleOp(value, results=tensor(shape_of(value), element_of(kind))))
        return value if value.type == kind else self.add(ReshapeOp(value, results=kind))

    def blocked(self, value: SSAValue, last: bool) -> Blocked | None:
        """The blocked form of a plain value of rank 3 or 4, made where there is none."""
        form_known = self.known.get(value)
        if form_known is not None:
            return form_known if form_known.last == last else None
        shape = shape_of(value)
        rank = len(shape)
        if rank not in (3, 4):
            return None
        array = self.array(value) if self.is_known(value) else None
        if array is not None:
            first = np.moveaxis(array, -1, 1) if last else array
            first = first[:, :, None, :] if rank == 3 else first
            name = f"{self.name_of(value)}.blocked"
            form = self.weight(block_channels(first, self.lanes), name, element_of(value))
        elif dtype_of(value.type).name in self.layout.ELEMENTS:
            turned = None if last else _channels_last(value)
            wide = self.plain(value if turned is None else turned)
            channels, size = (shape[-1], shape[1:-1]) if last else (shape[1], shape[2:])
            rows = (1, *size) if rank == 3 else size
            first = not last and turned is None
            whole = (shape[0], channels, *rows) if first else (shape[0], *rows, channels)
            if shape_of(wide) != whole:
                wide = self.add(ReshapeOp(wide, results=tensor(whole, element_of(value))))
            form = self.layout.block(wide, not first, self)
        else:
            return None
        blocked = Blocked(form, shape[-1] if last else shape[1], rank, last)
        self.known[value] = blocked
        self.plains.setdefault(value, value)  # its plain form, unless another took its place
        return blocked

    def operand(self, value: SSAValue, like: Blocked) -> SSAValue | None:
        """A broadcasting operand beside `like` in the form that broadcasts alike with blocks."""
        form_known = self.known.get(value)
        if form_known is not None:
            return form_known.value if (form_known.last, form_known.rank) == (like.last, like.rank) else None
        shape = shape_of(value)
        if len(shape) > like.rank:
            return None
        wide = (1,) * (like.rank - len(shape)) + shape
        channels = wide[like.axis]
        if channels == 1:
            kind = tensor(like.over_blocks(wide, 1, 1, 1), element_of(value))
            return self.add(ReshapeOp(self.plain(value), results=kind))
        if wide != shape:
            array = self.array(value) if self.is_known(value) else None
            if array is not None:
                value = self.weight(array.reshape(wide), self.name_of(value))
            else:
                kind = tensor(wide, element_of(value))
                value = self.add(ReshapeOp(self.plain(value), results=kind))
        form = self.blocked(value, like.last)
        return None if form is None else form.value

    def remember(self, value: SSAValue, form: Blocked) -> None:
        """From now on `value` of the original graph is held as `form`."""
        if value.name_hint and not form.value.name_hint:
            form.value.name_hint = value.name_hint
        self.known[value] = form
