"""Rows times panels of columns, for products whose weights are packed in panels.

Rows may choose among several matrices, one behind the other: those that follow each other and have the same
expert are a run, which shares its tiles as the rows of a product with one matrix do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from glow_backends.cpu.emit import common
from glow_backends.cpu.emit.builder import I64, KernelBuilder
from glow_backends.cpu.emit.memory import Index, ceil_div, minimum, split_index
from glow_dialects.core.types import Array

_ROWS = 64
"""Rows of an item of work, about."""


@dataclass(frozen=True)
class PanelRows:
    """`m` rows by `n` columns in panels of so many `vectors`, `rows` rows a tile.

    `experts`: how many matrices rows choose from, 0: there is one for all.
    """

    m: int
    n: int
    vectors: int
    rows: int
    experts: int = 0

    def emit(
        self,
        k: KernelBuilder,
        choice: ir.Value | None,
        begin: Callable[[Index, Index, int], None],
        tile: Callable[[Index, int, int], None],
        faults: ir.Value | None = None,
    ) -> None:
        """Items (group of rows, panel of columns), shared by the workers.

        `begin(column, panel, live)`: the first column of what follows, the number of its panel among those
        of all matrices, and the columns of its last vector. `tile(row, rows, vectors)`: some of its sums.
        `choice`: the expert of each row (i64), where there are several; others are brought into range, and
        reported to `faults`, if that is given.
        """
        lanes = k.target.lanes
        width = self.vectors * lanes
        panels, vectors = ceil_div(self.n, width), ceil_div(self.n, lanes)
        tail, live = (vectors - 1) % self.vectors + 1, self.n - (vectors - 1) * lanes
        group = max(1, _ROWS // self.rows) * self.rows
        units = ceil_div(self.m, group) if choice is None else self.m

        def part(unit: Index, panel: Index, vectors: int, live: int) -> None:
            if choice is None:
                begin(k.mul(panel, width), panel, live)
                self._group(k, k.mul(unit, group), group, lambda row, rows: tile(row, rows, vectors))
                return
            expert = self._expert(k, choice, unit, faults)
            begin(k.mul(panel, width), k.add(k.mul(expert, k.size(panels)), panel), live)
            self._run(k, choice, k.i(unit), lambda row, rows: tile(row, rows, vectors))

        with k.items(k.size(units * panels)) as item:
            unit, panel = split_index(k, item, [0, k.size(panels)])
            with self._first(k, choice, unit):
                if panels == 1 or (tail, live) == (self.vectors, lanes):
                    part(unit, panel, tail, live)
                    return
                last = k.b.icmp_signed("==", k.i(panel), k.size(panels - 1))
                with k.b.if_else(last) as (then, otherwise):
                    with then:
                        part(unit, panel, tail, live)
                    with otherwise:
                        part(unit, panel, self.vectors, lanes)

    def _group(self, k: KernelBuilder, first: Index, group: int, tile: Callable[[Index, int], None]) -> None:
        """The rows of a group; the last tile begins early enough to end with the last row."""
        if self.m <= self.rows:
            tile(0, self.m)
            return
        last = k.size(self.m - self.rows)
        with k.loop(0, group, self.rows) as step:
            row = k.b.add(k.i(first), step)
            with k.b.if_then(k.b.icmp_signed("<", row, k.size(self.m))):
                early = k.b.icmp_signed("<", row, last)
                tile(k.b.select(early, row, last), self.rows)

    # --- rows with experts --------------------------------------------------------------------------
    @contextmanager
    def _first(self, k: KernelBuilder, choice: ir.Value | None, row: Index) -> Generator[None]:
        """Where a run begins, if there are such."""
        if choice is None:
            yield
            return
        before = k.b.select(k.b.icmp_signed(">", k.i(row), k.i(0)), k.b.sub(k.i(row), k.i(1)), k.i(0))
        other = k.b.icmp_signed("!=", k.load(choice, row, I64), k.load(choice, before, I64))
        with k.b.if_then(k.b.or_(other, k.b.icmp_signed("==", k.i(row), k.i(0)))):
            yield

    def _expert(self, k: KernelBuilder, choice: ir.Value, row: Index, faults: ir.Value | None) -> ir.Value:
        named, count = k.load(choice, row, I64), k.size(self.experts)
        inside = k.b.icmp_unsigned("<", named, count)
        common.report(k, inside, named, count, faults)
        return k.b.select(inside, named, k.b.sub(count, k.i(1)))

    def _run(
        self, k: KernelBuilder, choice: ir.Value, first: ir.Value, tile: Callable[[Index, int], None]
    ) -> None:
        """The rows from the first on that have its expert: whole tiles, then tiles of fewer rows."""
        named, last = k.load(choice, first, I64), k.size(self.m - 1)

        def same(at: list[ir.Value]) -> ir.Value:
            here = k.load(choice, minimum(k, at[0], last), I64)
            return k.b.and_(k.b.icmp_signed("<=", at[0], last), k.b.icmp_signed("==", here, named))

        (end,) = common.repeat(k, [k.b.add(first, k.i(1))], same, lambda at: [k.b.add(at[0], k.i(1))])
        for size in (self.rows, *(few for few in (8, 4, 2, 1) if few < self.rows)):
            stop = k.b.sub(end, k.b.urem(k.b.sub(end, first), k.i(size)))
            with k.loop(first, stop, size) as row:
                tile(row, size)
            first = stop


def each_expert(pack: Callable[[Array], Array], matrices: Array) -> Array:
    """A packed matrix, or those of several experts, one behind the other."""
    return pack(matrices) if matrices.ndim == 2 else np.stack([pack(m) for m in matrices])
