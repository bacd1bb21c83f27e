"""Instructions of processors as data: what one computes, what it reads, what must be there to run it.

An instruction is for sums of products: c[m, n] += sum over k of a[m, k] * b[k, n], for a footprint m x n x k.
A row of the table is all that describing, packing and checking know of a unit; each lowering adds how it
is written there (`glow_backends.cpu.lower.units` for LLVM).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.types import Array

Meaning = Callable[[Array, Array, Array], Array]
"""(c [m, n], a [m, k], b [k, n]) -> the new c, bit for bit as the instruction gives it."""


def in_order(c: Array, a: Array, b: Array) -> Array:
    """One product after the other is added, each rounded with its sum; integers wrap."""
    kind = c.dtype
    for i in range(a.shape[1]):
        x, y = a[:, i, None].astype(kind), b[None, i].astype(kind)
        c = (c + x * y) if kind.kind in "iu" else _fused(x, y, c)
    return c


def even_and_odd(c: Array, a: Array, b: Array) -> Array:
    """Even and odd products in two sums from 0, which are added and then join c; denormals are 0."""
    sums = [np.zeros_like(c), np.zeros_like(c)]
    for i in range(a.shape[1]):
        x, y = (_normal(v.astype(np.float32)) for v in (a[:, i, None], b[None, i]))
        sums[i % 2] = _normal(_fused(x, y, sums[i % 2]))
    return _normal(_normal(c) + _normal(sums[0] + sums[1]))


def pairs_backwards(c: Array, a: Array, b: Array) -> Array:
    """Of each pair the second product joins the sum first; denormals are 0."""
    c = _normal(c)
    for i in range(0, a.shape[1], 2):
        for at in (i + 1, i):
            x, y = (_normal(v.astype(np.float32)) for v in (a[:, at, None], b[None, at]))
            c = _normal(_fused(x, y, c))
    return c


def _fused(x: Array, y: Array, z: Array) -> Array:
    """x * y + z rounded once: exact for the products of float32 in float64, which are rounded to odd."""
    if z.dtype != np.float32:
        wide = np.longdouble
        return (x.astype(wide) * y.astype(wide) + z.astype(wide)).astype(z.dtype)
    product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = product + addend
    # Knuth's error of the sum; where there is one, the last bit of an even sum is moved towards it.
    back = total - product
    error = (product - (total - back)) + (addend - back)
    even = (total.view(np.int64) & 1) == 0
    towards = np.where(error > 0, np.inf, -np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        odd = np.where(even & (error != 0) & np.isfinite(total), np.nextafter(total, towards), total)
        return odd.astype(np.float32)


def _normal(x: Array) -> Array:
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


@dataclass(frozen=True)
class Instruction:
    """c[m, n] += sum over k of a[m, k] * b[k, n]; m, n and k as many as one instruction takes, or fewer of m.

    `n` 0: as many as a vector register has lanes of `c`. `group`: elements along k that lie side by side,
    in a and in packed b. `parts`: how many narrower numbers a factor is split into, and `products`: which
    part of a times which of b, in the order in which they are added.
    """

    name: str
    a: str
    b: str
    c: str
    meaning: Meaning
    m: int = 1
    n: int = 0
    k: int = 1
    group: int = 1
    #: Where a, b and c lie: vector registers, or those of tiles of rows, and how many there are.
    file: str = "vector"
    registers: int = 0
    #: What the processor must have, as LLVM calls it; and what the system must allow a process.
    features: tuple[str, ...] = ()
    permission: str = ""
    #: In bytes, what addresses and strides should be multiples of.
    alignment: int = 1
    parts: int = 1
    products: tuple[tuple[int, int], ...] = ((0, 0),)
    #: Most products of a chain of sums before it is stored and another begins; 0: any.
    deepest: int = 0

    @property
    def is_tile(self) -> bool:
        """Whether it works on tiles of rows."""
        return self.file == "tile"

    def columns(self, lanes: int) -> int:
        """How many columns it takes, where a vector has some `lanes`."""
        return self.n or lanes


def _vector(name: str, a: str, b: str, c: str, meaning: Meaning = in_order, **more: object) -> Instruction:
    return Instruction(name, a, b, c, meaning, **more)  # pyright: ignore[reportArgumentType]


def _tile(name: str, a: str, b: str, c: str, meaning: Meaning, feature: str, **more: object) -> Instruction:
    """A product of AMX: 16 rows of 64 bytes times 16 columns, eight registers for all three."""
    group = 4 if c == "i32" else 2
    shape: dict[str, int] = {"m": 16, "n": 16, "k": 16 * group, "group": group, "registers": 8}
    asked = {"features": ("amx-tile", feature), "permission": "amx", "alignment": 64, "file": "tile"}
    return Instruction(name, a, b, c, meaning, **shape, **asked, **more)  # pyright: ignore[reportArgumentType]


_THREE = ((1, 0), (0, 1), (0, 0))
#: Measured: of longer chains the float32 sums themselves lose more than the split does.
_CHAIN = 1152

_OWN = (
    _vector("fma.f32", "f32", "f32", "f32"),
    _vector("fma.f64", "f64", "f64", "f64"),
    _vector("muladd.i32", "i32", "i32", "i32"),
    _vector("muladd.i64", "i64", "i64", "i64"),
    _vector("dot4.u8s8", "u8", "i8", "i32", k=4, group=4),
    _vector("dot2.bf16", "bf16", "bf16", "f32", pairs_backwards, k=2, group=2, features=("avx512bf16",)),
    _tile("tile.u8s8", "u8", "i8", "i32", in_order, "amx-int8"),
    _tile("tile.s8s8", "i8", "i8", "i32", in_order, "amx-int8"),
    _tile("tile.u8u8", "u8", "u8", "i32", in_order, "amx-int8"),
    _tile("tile.s8u8", "i8", "u8", "i32", in_order, "amx-int8"),
    _tile("tile.bf16", "bf16", "bf16", "f32", even_and_odd, "amx-bf16"),
    _tile(
        "tile.bf16x3", "bf16", "bf16", "f32", even_and_odd, "amx-bf16",
        parts=2, products=_THREE, deepest=_CHAIN,
    ),
)  # fmt: skip


@cache
def instructions() -> Mapping[str, Instruction]:
    """Every instruction by name: ours, and those of packages (entry point `glow.instructions`)."""
    from glow_dialects.core.packages import added

    others = added("glow.instructions", _no_instruction)
    return {**others, **{i.name: i for i in _OWN}}


def _no_instruction(thing: object) -> str | None:
    return None if isinstance(thing, Instruction) else f"{thing!r} is no Instruction"


def instruction(name: str) -> Instruction:
    """The instruction of a name; UnsupportedError says which there are."""
    if name not in instructions():
        raise UnsupportedError(f"no instruction '{name}'; there are: {', '.join(sorted(instructions()))}")
    return instructions()[name]
