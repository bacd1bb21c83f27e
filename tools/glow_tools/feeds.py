"""Representative inputs for profiling: arrays from files, or random ones."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_backends.base import Port, ports
from glow_dialects.core.errors import BindingError, GlowError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

Feed = dict[str, Any]


def feeds(module: ModuleOp, files: Sequence[str], random: int | None, batches: int) -> list[Feed]:
    """One dict of inputs for each batch: from `files`, or `batches` of normal random numbers.

    A .npz file is one batch, an array for each input by name. A .npy file is for models of one
    input: one batch, or many along an axis before it.
    """
    expected = ports(module, "input")
    if not files:
        if random is None:
            raise BindingError("give representative inputs with --inputs, or --random SEED")
        rng = np.random.default_rng(random)
        return [_random(expected, rng) for _ in range(batches)]
    return [feed for name in files for feed in _read(Path(name), expected)]


def _random(expected: Sequence[Port], rng: np.random.Generator) -> Feed:
    def one(port: Port) -> Any:
        if port.dtype.kind == "b":
            return rng.random(port.shape) < 0.5
        if port.dtype.kind in "iu":
            return rng.integers(0, 8, port.shape).astype(port.dtype)
        return rng.standard_normal(port.shape).astype(port.dtype)

    return {port.name: one(port) for port in expected}


def _load(path: Path) -> Any:
    """What np.load reads; GlowError where that is nothing."""
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise GlowError(f"no such file: {path}") from None
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise GlowError(f"{path}: not a .npy or .npz file of plain arrays") from None


def load_array(path: Path) -> Any:
    """The array of a .npy file; GlowError where it holds none."""
    loaded = _load(path)
    if not isinstance(loaded, np.ndarray):
        raise GlowError(f"{path}: an archive of arrays; a .npy file holds one")
    return loaded


def _read(path: Path, expected: Sequence[Port]) -> Iterator[Feed]:
    loaded = _load(path)
    if isinstance(loaded, np.lib.npyio.NpzFile):
        yield {name: loaded[name] for name in loaded.files}
        return
    if len(expected) != 1:
        names = ", ".join(p.name for p in expected)
        raise BindingError(f"{path}: the model has inputs {names}; give a .npz with one array each")
    (port,) = expected
    array = np.asarray(loaded)
    if array.shape == port.shape:
        yield {port.name: array}
    elif array.shape[1:] == port.shape:
        yield from ({port.name: part} for part in array)
    elif port.shape and array.shape[1:] == port.shape[1:] and array.shape[0] % port.shape[0] == 0:
        for start in range(0, array.shape[0], port.shape[0]):
            yield {port.name: array[start : start + port.shape[0]]}
    else:
        raise BindingError(f"{path}: shape {array.shape} for input '{port.name}' of {port.shape}")
