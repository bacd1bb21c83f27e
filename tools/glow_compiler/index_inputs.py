"""Inputs that index tables, such as token numbers, and their valid range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_backends.base import public_name
from glow_dialects.core.types import dtype_of, shape_of
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.identity import IdentityOp
from glow_dialects.ops.module import GetOp, PlaceholderOp, functions
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.symbols import Symbols
from glow_passes.quantize.schema import QuantizationError

#: What leaves every subscript as it is. A select is between it and what stands for it where it is negative.
MOVES = (CastOp, ExpandOp, IdentityOp, ReshapeOp, TransposeOp)


def sizes_of_tables(module: ModuleOp) -> dict[str, int]:
    """Inputs all of whose elements are subscripts, and the length of the shortest axis they are of."""
    table, least = Symbols(module).table, dict[str, int]()
    for function in functions(module):
        for op in function.body.block.ops:
            place = table.get(op.symbol.root_reference.data) if isinstance(op, GetOp) else None
            if isinstance(place, PlaceholderOp) and dtype_of(op.results[0].type).kind in "iu":
                name, sizes = public_name(place), list(_sizes(op.results[0]))
                least.update({name: min([*sizes, least.get(name, sizes[0])])} if sizes else {})
    return least


def _sizes(value: SSAValue) -> Iterator[int]:
    for use in value.uses:
        op = use.operation
        if isinstance(op, GatherOp) and use.index == 1:
            yield shape_of(op.data)[op.axis]
        elif isinstance(op, MOVES) or (isinstance(op, SelectOp) and use.index > 0):
            yield from _sizes(op.results[0])


def inside(data: Iterable[Mapping[str, Any]], sizes: Mapping[str, int]) -> Iterator[Mapping[str, Any]]:
    """The batches; raises QuantizationError for a subscript beyond its table."""
    for number, feed in enumerate(data):
        for name, size in sizes.items():
            array = np.asarray(feed.get(name, 0))
            wrong = array[(array < -size) | (array >= size)] if array.dtype.kind in "iu" else array[:0]
            if wrong.size:
                message = f"input '{name}' in batch {number} has {wrong.flat[0]}, a subscript of {size} rows"
                raise QuantizationError(message)
        yield feed
