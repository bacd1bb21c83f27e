"""Inputs of runs: arrays from files, values of options, or random ones, for models with open inputs too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_backends.base import Port, check_inputs, ports
from glow_dialects.core.errors import BindingError
from glow_dialects.core.extent import Extent, is_open
from glow_dialects.core.file_kinds import FileKind, is_kind
from glow_tools.common import note, read_module, settled
from glow_tools.input_values import (
    FORMS,
    Feed,
    GivenInputs,
    load_archive,
    load_inputs,
    load_parts,
    random_numbers,
)

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_dialects.core.types import Array
    from glow_runtime.program_source import ProgramSource

Shapes = Mapping[str, Sequence[int]]
#: Inputs that count the elements of others, each of which is whole in random inputs.
_LENGTHS = re.compile(r"(^|[_./])(len|lens|length|lengths)$", re.IGNORECASE)


def feeds(module: ModuleOp, files: Sequence[str], random: int | None, batches: int) -> list[Feed]:
    """One dict of inputs for each batch: from `files`, or `batches` of normal random numbers.

    A .npz file is one batch, an array for each input by name. A .npy file is for models of one
    input: one batch, or many along an axis before it.
    """
    expected = ports(module, "input")
    if not files:
        if random is None:
            raise BindingError("give typical inputs with --inputs, or --random SEED")
        shapes = _closed(module, expected)
        rng = np.random.default_rng(random)
        return [_random(expected, shapes, rng) for _ in range(batches)]
    return [feed for name in files for feed in _read(Path(name), expected)]


def one_feed(module: ModuleOp, file: Path | None, seed: int, known: Feed | None = None) -> Feed:
    """Inputs of one run: the arrays of a .npz file, checked, or random ones; subscripts are in range.

    Inputs that are `known` have those values.
    """
    from glow_compiler.index_inputs import sizes_of_tables

    expected = ports(module, "input")
    if file is not None:
        arrays = load_inputs(file, [p.name for p in expected])
        return arrays if any(is_open(p.shape) for p in expected) else check_inputs(expected, arrays)
    shapes = _closed(module, expected)
    made = _random(expected, shapes, np.random.default_rng(seed), sizes_of_tables(module))
    return {name: (known or {}).get(name, value) for name, value in made.items()}


def _closed(module: ModuleOp, expected: Sequence[Port]) -> Mapping[str, tuple[int, ...]]:
    """The shapes of a module's inputs, those that are open settled."""
    if not any(is_open(p.shape) for p in expected):
        return {p.name: p.shape for p in expected}
    return settled(module, {}).shapes


def model_feed(
    model: Any,
    shapes: Shapes,
    options: Sequence[tuple[str, str]] = (),
    file: Path | None = None,
    seed: int | None = None,
    source: ProgramSource | None = None,
) -> Feed:
    """The inputs of a run of a model (whose programs `source` makes, where it is known): those of options and
    of a file, others random where there is a seed or nothing is given.

    BindingError with all inputs that have no value.
    """
    from glow_compiler.settle import settle_source, source_of

    source = source or source_of(model, shapes)
    inputs, defaults = list(source.inputs), list(source.defaults)
    given = GivenInputs(options, file, [*inputs, *defaults])
    missing = [p for p in inputs if p.name not in given]
    if missing and seed is None and given:
        listed = "".join(f"\n  {p.name}: {p.dtype}{p.named_shape}" for p in missing)
        ways = f"give each --input NAME=VALUE ({FORMS}), or --random SEED for all of them"
        raise BindingError(f"{len(missing)} inputs have no value:{listed}\n{ways}")
    name = str(model) if isinstance(model, str | Path) else "the model"
    taken = [*inputs, *(p for p in defaults if p.name in given)]
    made = settle_source(source, name, shapes, given.arrays, taken)
    if made.note:
        note(made.note)
    if missing and seed is None:
        note("no inputs are given: they are random (--random 0); --input NAME=VALUE gives one")
    rng = np.random.default_rng(seed or 0)
    open_sizes = [made.shapes[p.name][a] for p in taken for a in range(1, len(p.shape)) if p.shape[a] is None]
    longest = max(open_sizes, default=0)
    feed = given.finished(made.shapes, rng)
    for port in missing:
        shape, value = made.shapes[port.name], made.values.get(port.name)
        if value is None and port.dtype.kind in "iu" and _LENGTHS.search(port.name) and longest:
            value = np.full(shape, longest, port.dtype)
        feed[port.name] = random_numbers(rng, shape, port.dtype) if value is None else value
    return {p.name: feed[p.name] for p in taken}


def _random(
    expected: Sequence[Port],
    shapes: Mapping[str, tuple[int, ...]],
    rng: np.random.Generator,
    sizes: Mapping[str, int] | None = None,
) -> Feed:
    """Random inputs; `sizes` are those of tables of which inputs are subscripts."""

    known = sizes or {}
    return {
        p.name: random_numbers(rng, shapes[p.name], p.dtype, max(min(8, known.get(p.name, 8)), 1))
        for p in expected
    }


def open_model(
    path: str, shapes: Mapping[str, Sequence[int]], usual: Mapping[str, Sequence[int]], feed: Feed
) -> ModuleOp:
    """The graph of a model file; an ONNX model's as `glow_compiler.quantization.opened` settles it."""
    if not is_kind(path, FileKind.ONNX):
        return read_module(path, dict(shapes))
    from glow_compiler.quantization import opened

    return opened(path, shapes, usual, feed)


def first_archive(files: Sequence[str]) -> Feed:
    """The arrays of the first file, where it is a .npz: they settle what a model leaves open."""
    return load_archive(Path(files[0])) if files and files[0].endswith(".npz") else {}


def _parts(array: Array, port: Port, path: Path) -> Iterator[Array]:
    """An array as one batch, or as many along an axis before it, for an input of open sizes."""
    for shape, batches in ((array.shape, [array]), (array.shape[1:], array)):
        known = zip(shape, port.shape, strict=False)
        if len(shape) == len(port.shape) and all(isinstance(d, Extent) or n == d for n, d in known):
            yield from batches
            return
    raise BindingError(f"{path}: shape {array.shape} for input '{port.name}' of {port.shape}")


def _read(path: Path, expected: Sequence[Port]) -> Iterator[Feed]:
    array = load_parts(path)
    if isinstance(array, dict):
        yield array
        return
    if len(expected) != 1:
        names = ", ".join(p.name for p in expected)
        raise BindingError(f"{path}: the model has inputs {names}; give a .npz file with one array for each")
    (port,) = expected
    if is_open(port.shape):
        yield from ({port.name: part} for part in _parts(array, port, path))
    elif array.shape == port.shape:
        yield {port.name: array}
    elif array.shape[1:] == port.shape:
        yield from ({port.name: part} for part in array)
    elif port.shape and array.shape[1:] == port.shape[1:] and array.shape[0] % port.shape[0] == 0:
        for start in range(0, array.shape[0], port.shape[0]):
            yield {port.name: array[start : start + port.shape[0]]}
    else:
        raise BindingError(f"{path}: shape {array.shape} for input '{port.name}' of {port.shape}")
