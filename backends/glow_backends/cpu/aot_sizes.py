"""Dynamic sizes in ahead-of-time compilation: code that computes a program's values from the sizes of a call.

In this process `open_sizes` does so in Python. Here it becomes LLVM IR: extents are arithmetic, and what
functions of Python give for sizes is looked up in tables over all sizes that the program is for. Buffers
that never live at once share a place; the places follow from the sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod
from typing import Any

from llvmlite import ir

from glow_backends.cpu.jit import new_module
from glow_backends.cpu.memory import rounded
from glow_backends.cpu.open_sizes import Life, Numbers
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.conditions import Condition, Symbol
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.estimates import estimate
from glow_dialects.core.extent import Atom, Computed, Extent, Quotient

I1, I32, I64, PTR = ir.IntType(1), ir.IntType(32), ir.IntType(64), ir.PointerType()
MOST_ENTRIES = 1 << 16
"""Entries of a table over sizes."""
_ALIGN = 64


@dataclass(frozen=True)
class Size:
    """A size that calls give: its name, least and largest value."""

    name: str
    least: int
    most: int


@dataclass(frozen=True)
class Part:
    """A program of a function: for some of its sizes, which are symbols of the program or numbers.

    `main` is its function, `work` the bytes that it works in where all sizes are known, `state` those that
    its workers share; `shapes` are those of the function's tensors, `rows` how many pointers to rows of the
    turns of loops its table has behind them.
    """

    main: str
    sizes: Mapping[str, int]
    numbers: Numbers | None
    work: int
    state: int
    shapes: Sequence[Sequence[int]]
    rows: int = 0

    @property
    def front(self) -> int:
        """Bytes before the work space: the workers' state, the table of numbers."""
        numbers = self.numbers
        count = 0 if numbers is None else 1 + len(numbers.lives) + len(numbers.values)
        return self.state + rounded(8 * count)

    @property
    def most_bytes(self) -> int:
        """Bytes of the arena for the largest sizes."""
        if self.numbers is None:
            return self.front + self.work
        lives = self.numbers.lives
        groups = ([most_of(lives[i].bytes) for i in group] for group in shared(lives))
        arena = sum(rounded(max(group)) for group in groups)
        return self.front + arena + rounded(max(map(most_of, self.numbers.scratch), default=0))


def most_of(value: int) -> int:
    """The most that a number can be, for all sizes that its symbols may have."""
    if not isinstance(value, Extent):
        return value
    high = value.range()[1]
    if high == inf:
        raise UnsupportedError(f"{value} has no upper bound, so its memory is unknown")
    return int(high)


def shared(lives: Sequence[Life]) -> list[list[int]]:
    """Groups of buffers that never live at once, the largest first; each group shares a place."""
    groups: list[list[int]] = []
    room: list[int] = []
    for i in sorted(range(len(lives)), key=lambda i: -estimate(lives[i].bytes)):
        free = [g for g, group in enumerate(groups) if not any(_meet(lives[i], lives[j]) for j in group)]
        if free:  # all have room, as the larger come first: the one that is fullest
            groups[min(free, key=lambda g: room[g])].append(i)
        else:
            groups.append([i])
            room.append(estimate(lives[i].bytes))
    return groups


def _meet(a: Life, b: Life) -> bool:
    return a.start < b.end and b.start < a.end


def sizes_text(part: Part, names: Sequence[str], target: CpuTarget) -> str:
    """LLVM IR of two functions, which give 0 where the program is not for the sizes, and else 1.

    `MAIN_numbers(sizes, table)` writes the numbers that the program reads, `MAIN_needs(sizes, shapes,
    bytes)` the shapes of all tensors, one after the other, and the bytes of the arena.
    """
    module = new_module("sizes", target)
    code = _Function(module, f"{part.main}_numbers", part, names, 2)
    if part.numbers is not None:
        places, end, _ = code.placed(part.numbers)
        values = [end, *places, *map(code.value, part.numbers.values)]
        for number, value in enumerate(values):
            code.store(value, code.function.args[1], number)
    code.end()
    code = _Function(module, f"{part.main}_needs", part, names, 3)
    for number, extent in enumerate(d for shape in part.shapes for d in shape):
        code.store(code.value(extent), code.function.args[1], number)
    total = I64(part.front + part.work)
    if part.numbers is not None:
        total = code.builder.add(I64(part.front), code.placed(part.numbers)[2])
    code.store(total, code.function.args[2], 0)
    code.end()
    return str(module)


class _Function:
    """A function of sizes: it begins with the checks of what the program assumes of them."""

    def __init__(
        self, module: ir.Module, name: str, part: Part, names: Sequence[str], arguments: int
    ) -> None:
        self._module = module
        self.function = ir.Function(module, ir.FunctionType(I32, [PTR] * arguments), name)
        self.builder = ir.IRBuilder(self.function.append_basic_block())
        self._known: dict[Symbol, Any] = {}
        self._values: dict[Extent, Any] = {}
        right: Any = I1(1)
        conditions: dict[Condition, None] = {}
        for number, size_name in enumerate(names):
            given = self.builder.load(self._at(self.function.args[0], number), typ=I64)
            extent = part.sizes[size_name]
            symbol = extent.symbol if isinstance(extent, Extent) else None
            if symbol is None:
                right = self.builder.and_(right, self.builder.icmp_signed("==", given, I64(extent)))
                continue
            self._known[symbol] = given
            conditions = symbol.conditions.met
            for relation, limit in ((">=", symbol.least), ("<=", symbol.most)):
                right = self.builder.and_(right, self.builder.icmp_signed(relation, given, I64(int(limit))))
        self._unless(right)  # tables end where the limits do
        right = I1(1)
        for condition in list(conditions):
            value = self.value(condition.extent)
            met = self.builder.icmp_signed(condition.relation, value, I64(0))
            right = self.builder.and_(right, met)
        self._unless(right)

    def _unless(self, right: Any) -> None:
        with self.builder.if_then(self.builder.not_(right), likely=False):
            self.builder.ret(I32(0))

    def end(self) -> None:
        """The sizes are right."""
        self.builder.ret(I32(1))

    def store(self, value: Any, table: Any, number: int) -> None:
        """A number into a table of 64-bit integers."""
        self.builder.store(value, self._at(table, number))

    def _at(self, table: Any, number: int) -> Any:
        return self.builder.gep(table, [I64(number)], source_etype=I64)

    def placed(self, numbers: Numbers) -> tuple[list[Any], Any, Any]:
        """The places of buffers, of the scratch behind them, and of its end."""
        lives, end = numbers.lives, I64(0)
        places: list[Any] = [end] * len(lives)
        for group in shared(lives):
            for buffer in group:
                places[buffer] = end
            end = self.builder.add(end, self._largest([lives[i].bytes for i in group]))
        return places, end, self.builder.add(end, self._largest(numbers.scratch))

    def _largest(self, values: Sequence[int]) -> Any:
        """The largest of some numbers of bytes, rounded up."""
        known = max((v for v in values if not isinstance(v, Extent)), default=0)
        largest: Any = I64(known)
        for value in {v: None for v in values if isinstance(v, Extent)}:
            made = self.value(value)
            largest = self.builder.select(self.builder.icmp_signed(">", made, largest), made, largest)
        return self.builder.and_(self.builder.add(largest, I64(_ALIGN - 1)), I64(-_ALIGN))

    def value(self, number: int) -> Any:
        """A size."""
        if not isinstance(number, Extent):
            return I64(number)
        if number not in self._values:
            total: Any = I64(0)
            for atoms, factor in number.terms.items():
                term: Any = I64(factor)
                for atom in atoms:
                    term = self.builder.mul(term, self._atom(atom))
                total = self.builder.add(total, term)
            self._values[number] = total
        return self._values[number]

    def _atom(self, atom: Atom) -> Any:
        if isinstance(atom, Symbol):
            return self._known[atom]
        if isinstance(atom, Computed):
            return self._looked_up(atom)
        return self._divided(atom)

    def _divided(self, atom: Quotient) -> Any:
        """As Python divides by what is positive: what remains is not negative."""
        top, bottom = self.value(atom.top), self.value(atom.bottom)
        rest = self.builder.srem(top, bottom)
        below = self.builder.icmp_signed("<", rest, I64(0))
        if atom.kind == "%":
            return self.builder.select(below, self.builder.add(rest, bottom), rest)
        return self.builder.add(self.builder.sdiv(top, bottom), self.builder.sext(below, I64))

    def _looked_up(self, atom: Computed) -> Any:
        symbols = sorted(_symbols(atom), key=lambda s: s.name)
        count = prod(int(s.most) + 1 - s.least for s in symbols)
        if count > MOST_ENTRIES:
            names = ", ".join(s.name for s in symbols)
            raise UnsupportedError(f"{names}: {count} sizes, at most {MOST_ENTRIES}; choose closer bounds")
        numbers = _tabulated(atom, symbols)
        if len(set(numbers)) == 1:
            return I64(numbers[0])
        place: Any = I64(0)
        for symbol in symbols:
            from_least = self.builder.sub(self._known[symbol], I64(symbol.least))
            many = I64(int(symbol.most) + 1 - symbol.least)
            place = self.builder.add(self.builder.mul(place, many), from_least)
        short = all(-(2**31) <= n < 2**31 for n in numbers)
        kind = I32 if short else I64
        table = self._table(numbers, kind)
        found = self.builder.load(self.builder.gep(table, [place], source_etype=kind), typ=kind)
        return self.builder.sext(found, I64) if short else found

    def _table(self, numbers: Sequence[int], kind: ir.IntType) -> Any:
        """A constant of the module; equal ones are one."""
        content = ir.Constant(ir.ArrayType(kind, len(numbers)), list(numbers))
        same = (t for t in self._module.global_values if isinstance(t, ir.GlobalVariable))
        for table in same:
            if table.initializer.type == content.type and table.initializer.constant == content.constant:
                return table
        table = ir.GlobalVariable(self._module, content.type, self._module.get_unique_name("table"))
        table.initializer, table.global_constant, table.linkage = content, True, "internal"
        return table


def _symbols(atom: Computed) -> set[Symbol]:
    return set[Symbol]().union(*(a.symbols() for a in atom.arguments if isinstance(a, Extent)))


def _tabulated(atom: Computed, symbols: Sequence[Symbol]) -> list[int]:
    """What a function gives for all sizes, the last symbol's the fastest; 0 where they have no meaning."""
    numbers: list[int] = []
    for values in product(*(range(s.least, int(s.most) + 1) for s in symbols)):
        sizes = dict(zip(symbols, values, strict=True))
        arguments = (a.at(sizes) if isinstance(a, Extent) else a for a in atom.arguments)
        try:
            numbers.append(int(atom.function(*arguments)[atom.index]))
        except (ArithmeticError, ValueError):  # a condition keeps the program from being for them
            numbers.append(0)
    return numbers
