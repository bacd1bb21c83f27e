"""Region: the blocked values of a graph, while layout assignment walks a function.

A blocked value is N x C/c x H x W x c. It stands for a plain value of rank 4 (N C H W, or N H W C
where its channel axis is last) or of rank 3 (H is 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from glow_backends.cpu.emit.packing import block_channels
from glow_backends.cpu.ops.layers import BlockOp, UnblockOp
from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, dtype_of, element_of, shape_of, tensor
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp
from glow_dialects.ops.quantize import RescaleOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.splat import SplatOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.driver import producer
from glow_passes.graph.symbols import Symbols

N = TypeVar("N", int, float)
_BLOCKED = ("float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16")
"""Elements that are blocked."""


@dataclass(frozen=True)
class Blocked:
    """A blocked value and the plain form it stands for: rank 3 or 4, channels at 1 or last."""

    value: SSAValue
    channels: int
    rank: int
    last: bool

    @property
    def axis(self) -> int:
        """Position of the channels in the plain form."""
        return self.rank - 1 if self.last else 1

    @property
    def spatial(self) -> tuple[int, ...]:
        """Positions of the spatial axes in the plain form."""
        return tuple(a for a in range(1, self.rank) if a != self.axis)

    def over_blocks(self, plain: Sequence[N], channel: N, lane: N, height: N) -> tuple[N, ...]:
        """One entry an axis of the plain form as one an axis of the blocked form.

        `channel` and `lane` are the entries of the axes that replace the channels, `height` that of
        the axis that a form of rank 3 lacks.
        """
        spatial = [plain[a] for a in self.spatial]
        if self.rank == 3:
            spatial.insert(0, height)
        return (plain[0], channel, *spatial, lane)


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

    def __init__(self, function: FuncOp, symbols: Symbols, lanes: int) -> None:
        self.symbols, self.lanes = symbols, lanes
        self.known: dict[SSAValue, Blocked] = {}
        self.plains: dict[SSAValue, SSAValue] = {}
        self.early: set[Operation] = set()  # joins and interpolations to be blocked, whatever they read
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
            layout = "NHWC" if form.last else "NCHW"
            value = self.add(UnblockOp(value, channels=form.channels, layout=layout))
        if element_of(value) != element_of(kind):  # bytes are unsigned in blocks
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
        elif dtype_of(value.type).name in _BLOCKED:
            turned = None if last else _channels_last(value)
            wide = self.plain(value if turned is None else turned)
            channels, size = (shape[-1], shape[1:-1]) if last else (shape[1], shape[2:])
            rows = (1, *size) if rank == 3 else size
            first = not last and turned is None
            whole = (shape[0], channels, *rows) if first else (shape[0], *rows, channels)
            if shape_of(wide) != whole:
                wide = self.add(ReshapeOp(wide, results=tensor(whole, element_of(value))))
            form = self.add(BlockOp(wide, lanes=self.lanes, layout="NCHW" if first else "NHWC"))
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
