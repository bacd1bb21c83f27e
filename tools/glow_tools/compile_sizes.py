"""glow-compile --size: programs of a model for sizes that calls give, enough of them for all sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from glow_backends.cpu.aot import Source
from glow_backends.cpu.select import select
from glow_compiler.module_programs import signatures
from glow_compiler.onnx_model import OnnxModel
from glow_dialects.core.conditions import Conditions
from glow_dialects.core.errors import GlowError, OpenSizes, ShapeError
from glow_dialects.core.extent import Extent
from glow_dialects.core.file_kinds import FileKind, is_kind
from glow_dialects.core.symbols import parse_size, symbol
from glow_dialects.instr.memory import instr_functions
from glow_runtime.program_source import dimension_name
from glow_tools.bench_kernels import planned
from glow_tools.common import fail, read_module

if TYPE_CHECKING:
    from glow_backends.cpu.aot import Source
    from glow_backends.cpu.aot_sizes import Size
    from glow_backends.cpu.backend import CpuBackend
    from glow_runtime.program_source import Signature

PARTS = 32
"""Programs of one function."""
_TRIED = 4096
"""Combinations of sizes that are looked at: all, or those around powers of two."""
Sizes = dict[str, int]


def open_sources(
    path: str,
    name: str,
    sizes: Sequence[Size],
    shapes: Mapping[str, Sequence[int]],
    backend: CpuBackend,
    exact: bool = False,
) -> Iterator[Source]:
    """The programs of an ONNX model for sizes within bounds, the first for the largest of them.

    What is decided while compiling holds for some sizes only, and sizes of one are told apart. As long as
    there are sizes left another program is made for the largest of these. Ends with a message where a
    dimension has no size, or cannot stay open.
    """

    if is_kind(path, FileKind.ONNX):
        inputs = OnnxModel(path, backend).description.inputs
    else:
        inputs = signatures(read_module(path), "input")
    _check(inputs, sizes, shapes)
    left = _combinations(sizes)
    for _ in range(PARTS):
        if not left:
            return
        example = max(left, key=lambda values: (_is_odd_one(values), prod(values.values())))
        source, known = _source(path, name, sizes, example, (inputs, shapes), backend, exact)
        remaining = [values for values in left if not _holds(known, values)]
        if len(remaining) == len(left):
            fail(
                f"sizes {_text(example)} cannot be dynamic: there is no program "
                "for them; give fixed shapes with --shape"
            )
        left = remaining
        yield source
    if left:
        print(f"{name} refuses some sizes, such as {_text(left[-1])}")


def _source(
    path: str,
    name: str,
    sizes: Sequence[Size],
    example: Sizes,
    known: tuple[Sequence[Signature], Mapping[str, Sequence[int]]],
    backend: CpuBackend,
    exact: bool,
) -> tuple[Source, Sizes]:
    """A program made for an example, and its sizes: symbols, and ones."""

    conditions = Conditions()
    chosen: Sizes = {}
    for size in sizes:
        value = example[size.name]
        bounds = {"least": max(2, size.least), "most": size.most}
        chosen[size.name] = value if value < 2 else symbol(conditions, size.name, value, **bounds)
    inputs, shapes = known
    given = {s.name: _shape(s, chosen, shapes) for s in inputs}
    try:
        module, _, _ = planned(path, given, backend, opened=True, exact=exact)
        functions = list(instr_functions(module))
        selection = select(functions[0], backend.target, checked=False)
        _ = selection.kernels  # written now: what that decides is among the conditions
    except OpenSizes as error:
        raise GlowError(f"{path}: sizes cannot be dynamic: {error}; give fixed shapes with --shape") from None
    return Source(module, functions[0], name, chosen, selection), chosen


def _check(inputs: Sequence[Signature], sizes: Sequence[Size], shapes: Mapping[str, Sequence[int]]) -> None:
    dims = {i.name: [dimension_name(i, axis) for axis in range(len(i.shape))] for i in inputs}
    known = {part for names in dims.values() for n in names if n for part in (n, *_terms(n))}
    for size in sizes:
        if size.name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise ShapeError(f"--size {size.name}: no open dimension of that name; there are: {there}")
    given = {size.name for size in sizes}
    for name, names in dims.items():
        missing = next((n for n in names if n and n not in given and not given.issuperset(_terms(n))), None)
        if missing is not None and name not in shapes:
            raise ShapeError(
                f"dimension '{missing}' of input '{name}' has no size: --size {missing}=1..64 or --shape"
            )


def _terms(name: str) -> list[str]:
    """The dimensions that the text of another one names: `past + 1`."""
    names: list[str] = []

    def named(part: str) -> int:
        names.append(part)
        return 1

    try:
        parse_size(name, named)
    except ShapeError:  # a name and nothing else
        return [name]
    return names


def _shape(
    signature: Signature, chosen: Mapping[str, int], shapes: Mapping[str, Sequence[int]]
) -> tuple[int, ...]:
    """The shape of an input: as the caller says, or its dimensions by their names."""
    if signature.name in shapes:
        return tuple(shapes[signature.name])

    def extent(axis: int, known: int | None) -> int:
        name = dimension_name(signature, axis)
        if name is None:
            assert known is not None
            return known
        if name in chosen:
            return chosen[name]
        return parse_size(name, chosen.__getitem__)

    return tuple(extent(axis, known) for axis, known in enumerate(signature.shape))


def _combinations(sizes: Sequence[Size]) -> list[Sizes]:
    """Sizes to look at."""
    every = [range(s.least, s.most + 1) for s in sizes]
    if prod(map(len, every)) > _TRIED:
        near = [{n + d for n in (1 << bit for bit in range(32)) for d in (-1, 0, 1)} for _ in sizes]
        every = [
            sorted({s.least, s.most} | {n for n in all_near if s.least <= n <= s.most})
            for s, all_near in zip(sizes, near, strict=True)
        ]
    return [dict(zip((s.name for s in sizes), values, strict=True)) for values in product(*every)]


def _is_odd_one(sizes: Mapping[str, int]) -> bool:
    """Whether an example suits most: sizes that differ, and that little else divides or equals."""
    values = [v for v in sizes.values() if v > 1]
    return len({*values}) == len(values) and all(v % 2 for v in values)


def _holds(chosen: Mapping[str, int], values: Mapping[str, int]) -> bool:
    """Whether a program is for some sizes."""
    symbols = {e.symbol: values[n] for n, e in chosen.items() if isinstance(e, Extent)}
    known = {s: v for s, v in symbols.items() if s is not None}
    if any(not isinstance(e, Extent) and values[n] != e for n, e in chosen.items()):
        return False
    if any(not s.least <= v <= s.most for s, v in known.items()):
        return False
    return all(c.holds(known) for s in list(known)[:1] for c in s.conditions.met)


def _text(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
