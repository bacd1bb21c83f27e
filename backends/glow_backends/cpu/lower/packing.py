"""Operands as an instruction takes them: columns in panels, rows in lines; in another type, or split."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.builder import I8, I32, I64, KernelBuilder
from glow_backends.cpu.emit.integer import dot4
from glow_backends.cpu.emit.line_builder import vector
from glow_backends.cpu.emit.memory import Index, minimum
from glow_backends.cpu.lower.units import I16
from glow_backends.nests.instructions import Instruction


def live_of(k: KernelBuilder, left: Index, lanes: int) -> Index | None:
    """How many of `lanes` there are where `left` elements are left; None: all."""
    if isinstance(left, int):
        return None if left >= lanes else max(left, 0)
    return minimum(k, k.b.select(k.b.icmp_signed(">", k.i(left), k.i(0)), k.i(left), k.i(0)), lanes)


class Packer:
    """Elements of a view as `unit` wants them: of one of its operands, from the type `given`."""

    def __init__(self, k: KernelBuilder, unit: Instruction, given: str, wanted: str, shift: int) -> None:
        self.k, self.unit, self.given, self.wanted, self.shift = k, unit, given, wanted, shift

    def raw(self, start: ir.Value, at: Index, lanes: int, live: Index | None) -> ir.Value:
        """Elements as they are stored; those that are not there are 0."""
        k, kind = self.k, values.storage(self.given)
        if live is None:
            return k.load(start, at, kind, lanes)
        whole = vector(kind, lanes)
        mask = values.mask(lanes, live) if _known(live) else values.first_lanes(k, lanes, k.i(live))
        name = f"llvm.masked.load.v{lanes}{_suffix(kind)}.p0"
        place, align = k.gep(start, at, kind), ir.Constant(I32, values.size(self.given))
        return values.call(k, name, whole, [place, align, mask, values.zero(whole)])

    def converted(self, raw: ir.Value, live: Index | None) -> list[ir.Value]:
        """The parts of elements as the instruction takes them."""
        k, unit = self.k, self.unit
        if self.wanted == "bf16":
            return _split(k, values.to_compute(k, raw, self.given), unit.parts)
        if self.shift:
            raw = k.b.xor(raw, values.constant(raw.type, 128))
            if live is not None:
                lanes = raw.type.count
                mask = values.mask(lanes, live) if _known(live) else values.first_lanes(k, lanes, k.i(live))
                raw = k.b.select(mask, raw, values.zero(raw.type))
        return [raw]

    # --- rows -----------------------------------------------------------------------------------------------
    def row(self, start: ir.Value, step: Index, room: ir.Value, depth: int, part: Index) -> None:
        """A row of elements `step` apart; its parts `part` bytes apart, whole vectors of them stored."""
        k, size = self.k, values.size(self.wanted)
        lanes = 64 // size // (2 if self.wanted == "bf16" else 1)
        lanes = min(lanes, k.target.vector_bytes // values.size(self.given))
        kind = values.storage(self.wanted)

        def piece(at: Index, live: Index | None) -> None:
            for number, value in enumerate(
                self.converted(self._elements(start, step, at, lanes, live), live)
            ):
                k.store(value, k.gep(room, k.mul(number, part), I8), at, kind)

        whole = depth // lanes * lanes
        if not _known(whole) or whole:
            with k.loop(0, k.opened(whole), lanes) as at:
                piece(at, None)
        if not _known(depth) or depth > whole:
            piece(k.opened(whole), live_of(k, k.opened(depth - whole), lanes))

    def _elements(self, start: ir.Value, step: Index, at: Index, lanes: int, live: Index | None) -> ir.Value:
        if _known(step) and step == 1:
            return self.raw(start, at, lanes, live)
        k, kind = self.k, values.storage(self.given)
        value: ir.Value = values.zero(vector(kind, lanes))
        for lane in range(lanes):
            place, lane_at = k.add(at, lane), ir.Constant(I32, lane)
            if live is None:
                value = k.b.insert_element(value, k.load(start, k.mul(place, step), kind), lane_at)
                continue
            inside = k.b.icmp_signed("<", k.i(lane), k.i(live))
            found = k.load(start, k.mul(k.b.select(inside, k.i(place), k.i(at)), step), kind)
            value = k.b.insert_element(value, k.b.select(inside, found, values.zero(kind)), lane_at)
        return value

    # --- columns --------------------------------------------------------------------------------------------
    def group(
        self,
        start: ir.Value,
        row: Index,
        places: tuple[Index, Index],
        lanes: int,
        live: Index | None,
        rows: Index | None,
    ) -> list[ir.Value]:
        """Elements of a group of rows side by side, for `lanes` columns; of the first `rows` rows, or all.

        `places`: how far rows are apart, and where the columns begin.
        """
        k, unit = self.k, self.unit
        stride, column = places
        lines: list[list[ir.Value]] = []
        for i in range(unit.group):
            if isinstance(rows, int) and i >= rows:
                lines.append([values.zero(v.type) for v in lines[0]])
                continue
            own = live
            if rows is not None and not _known(rows):  # rows that are not there are not read
                inside = k.b.icmp_signed("<", k.i(i), k.i(rows))
                own = k.b.select(inside, k.i(lanes if live is None else live), k.i(0))
            at = k.add(k.mul(k.add(row, i), stride), column)
            lines.append(self.converted(self.raw(start, at, lanes, own), own))
        return [_interleaved(k, list(part)) for part in zip(*lines, strict=True)]


def _known(value: Index | None) -> bool:
    return isinstance(value, int)


def _suffix(kind: ir.Type) -> str:
    return {"float": "f32", "double": "f64", "half": "f16"}.get(str(kind), str(kind))


def _interleaved(k: KernelBuilder, lines: Sequence[ir.Value]) -> ir.Value:
    """Vectors of rows as one vector, in which the elements of a column lie side by side."""
    if len(lines) == 1:
        return lines[0]
    lanes = lines[0].type.count
    order = [i * lanes + c for c in range(lanes) for i in range(len(lines))]
    while len(lines) > 1:
        lines = [
            k.b.shuffle_vector(a, b, _run(2 * a.type.count))
            for a, b in zip(lines[::2], lines[1::2], strict=True)
        ]
    return values.shuffle(k, lines[0], order)


def _run(count: int) -> ir.Constant:
    return ir.Constant(vector(I32, count), [ir.Constant(I32, i) for i in range(count)])


def _split(k: KernelBuilder, value: ir.Value, parts: int) -> list[ir.Value]:
    """Floats as sums of bfloat16, each the nearest to what is left."""
    found: list[ir.Value] = []
    for number in range(parts):
        bits = values.to_storage(k, value, "bf16")
        found.append(bits)
        if number + 1 < parts:
            value = k.b.fsub(value, values.to_compute(k, bits, "bf16"))
    return found


def row_sum(k: KernelBuilder, row: ir.Value, words: int, signed: bool) -> ir.Value:
    """The sum of bytes of some words."""
    lanes = k.target.lanes
    kind = vector(I32, lanes)
    ones = values.constant(kind, 0x01010101)

    def part(at: Index, live: Index | None, total: ir.Value) -> ir.Value:
        mask = None if live is None else live if _known(live) else values.first_lanes(k, lanes, k.i(live))
        held = values.load(k, row, at, "i32", lanes, mask)
        return dot4(k, ones, held, total) if signed else dot4(k, held, ones, total)

    whole = words // lanes * lanes
    total: ir.Value = values.zero(kind)
    if not _known(whole) or whole:
        end = k.opened(whole)
        (total,) = k.reduce_loop(0, end, lanes, [total], lambda at, held: [part(at, None, held[0])])
    if not _known(words) or words > whole:
        total = part(k.opened(whole), live_of(k, k.opened(words - whole), lanes), total)
    return k.intrinsic("vector.reduce.add", [total], I32)


def column_sums(
    k: KernelBuilder, panel: ir.Value, words: int, tiles: tuple[int, int], signed: bool, lanes: int
) -> list[ir.Value]:
    """The sums of the bytes of each column of a panel; `tiles`: how many, and words of a column of one."""
    kind = vector(I32, lanes)
    ones = values.constant(kind, 0x01010101)
    columns, groups = tiles

    def step(at: ir.Value, sums: Sequence[ir.Value]) -> list[ir.Value]:
        number, within = k.b.udiv(at, k.i(groups)), k.b.urem(at, k.i(groups))
        first = k.add(k.mul(number, columns * groups), within)
        held = [k.load(panel, k.mul(k.add(first, v * groups), lanes), I32, lanes) for v in range(columns)]
        return [dot4(k, *((ones, w) if signed else (w, ones)), s) for w, s in zip(held, sums, strict=True)]

    return k.reduce_loop(0, k.opened(words), 1, [values.zero(kind)] * columns, step)


__all__ = ["I16", "I64", "Packer", "column_sums", "live_of", "row_sum"]
