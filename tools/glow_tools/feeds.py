"""Representative inputs for profiling: arrays from files, or random ones."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_backends.base import Port, check_inputs, ports
from glow_dialects.core.errors import BindingError, GlowError
from glow_dialects.core.extent import Extent, is_open
from glow_dialects.core.file_kinds import FileKind, is_kind
from glow_tools.common import fixed, read_module

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_dialects.core.types import Array

Feed = dict[str, Any]


def feeds(module: ModuleOp, files: Sequence[str], random: int | None, batches: int) -> list[Feed]:
    """One dict of inputs for each batch: from `files`, or `batches` of normal random numbers.

    A .npz file is one batch, an array for each input by name. A .npy file is for models of one
    input: one batch, or many along an axis before it.
    """
    expected = ports(module, "input")
    if not files:
        if random is None:
            raise BindingError("give typical inputs with --inputs, or --random SEED")
        fixed(module)
        rng = np.random.default_rng(random)
        return [_random(expected, rng) for _ in range(batches)]
    return [feed for name in files for feed in _read(Path(name), expected)]


def one_feed(module: ModuleOp, file: Path | None, seed: int) -> Feed:
    """Inputs of one run: the arrays of a .npz file, checked, or random ones; subscripts are in range."""
    from glow_compiler.index_inputs import sizes_of_tables

    expected = ports(module, "input")
    if file is not None:
        arrays = load_inputs(file, [p.name for p in expected])
        return arrays if any(is_open(p.shape) for p in expected) else check_inputs(expected, arrays)
    fixed(module)
    return _random(expected, np.random.default_rng(seed), sizes_of_tables(module))


def run_feed(net: Any, given: Feed, seed: int | None, shapes: Mapping[str, tuple[int, ...]]) -> Feed:
    """The inputs of an executable: those given, else random ones where there is a seed.

    BindingError where one has no value, and says how to give it.
    """
    known = [p.name for p in (*net.inputs, *net.defaults)]
    for name in given:
        if name not in known:
            raise BindingError(f"unknown input '{name}'; the inputs are: {', '.join(known)}")
    rng = np.random.default_rng(seed or 0)
    feed = {p.name: given[p.name] for p in net.defaults if p.name in given}
    for port in net.inputs:
        if port.name in given:
            feed[port.name] = given[port.name]
        elif seed is None:
            ways = f"give --input {port.name}=FILE.npy or --random SEED"
            raise BindingError(f"input '{port.name}' has no value; {ways}")
        else:
            feed[port.name] = _numbers(rng, _shape(port, shapes), port.dtype)
    return feed


def _shape(port: Any, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of an input's random value."""
    if port.kind == "other":
        raise BindingError(f"input '{port.name}' is not a tensor; run it from Python, with glow.compile")
    if port.kind == "unranked" and port.name not in shapes:
        raise BindingError(f"input '{port.name}' may have any rank; bind it with --shape {port.name}=1x...")
    declared: Sequence[int | None] = port.shape
    shape = shapes.get(port.name, declared)
    if None in shape:
        dims = "x".join("?" if d is None else str(d) for d in shape)
        binding = f"--shape {port.name}={dims.replace('?', '1')}"
        raise BindingError(f"input '{port.name}' is {dims}; bind it with {binding}")
    return tuple(d or 0 for d in shape)


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, most: int = 2) -> Any:
    """Random numbers of a type: integers below `most`, floats of the standard normal distribution."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0, most, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def _random(
    expected: Sequence[Port], rng: np.random.Generator, sizes: Mapping[str, int] | None = None
) -> Feed:
    """Random inputs; `sizes` are those of tables of which inputs are subscripts."""

    known = sizes or {}
    return {
        port.name: _numbers(rng, port.shape, port.dtype, max(min(8, known.get(port.name, 8)), 1))
        for port in expected
    }


def _load(path: Path) -> Array | Feed:
    """The array of a .npy file or those of a .npz file; GlowError where it is neither."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        raise GlowError(f"{path}: not a .npy or .npz file of plain arrays") from None


def load_inputs(path: Path, names: Sequence[str], name: str = "") -> Feed:
    """Inputs by name: the arrays of a .npz file, or the one of a .npy file, for `name` or the only input.

    BindingError where it is not said which input an array is for.
    """
    loaded = _load(path)
    if isinstance(loaded, dict):
        if name:
            raise BindingError(f"{path}: this is an archive of arrays by name; give it without '{name}='")
        return loaded
    if not name and len(names) != 1:
        known = ", ".join(names)
        raise BindingError(f"{path}: the model has inputs {known}; give a .npz file with one array for each")
    return {name or names[0]: loaded}


def load_archive(path: Path) -> Feed:
    """The arrays of a .npz file by name; GlowError where it is none."""
    loaded = _load(path)
    if not isinstance(loaded, dict):
        raise GlowError(f"{path}: one array; a .npz archive of arrays by name is needed")
    return loaded


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
    array = _load(path)
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
