"""A program as data: machine code, weights and the memory it needs; written and read back."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_backends.base import Port, ProgramFiles, TimedStep
from glow_backends.cpu import cache
from glow_backends.cpu.memory import address, file_block
from glow_backends.cpu.open_sizes import Numbers
from glow_backends.report import Report
from glow_dialects.core.element_types import dtype_named
from glow_dialects.core.extent_json import SizeReader, SizeWriter

if TYPE_CHECKING:
    from glow_backends.cpu.debug.source import Source
    from glow_dialects.core.types import Array

FORMAT = 7
"""Version of the written form."""


@dataclass(frozen=True)
class Slot:
    """An entry of the program's pointer table: one placeholder of the module."""

    symbol: str
    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def port(self) -> Port:
        """The slot as users see it."""
        return Port(self.name, self.shape, dtype_named(self.dtype))


@dataclass
class Bundle:
    """Everything that running a program takes. Sizes are bytes."""

    slots: list[Slot]
    objects: list[bytes]
    weights: Array
    arena_bytes: int
    scratch_bytes: int
    #: First values of state and trainable placeholders, by symbol.
    states: dict[str, Array]
    host_steps: int = 0
    #: Workers that the code is for.
    threads: int = 1
    report: Report = field(default_factory=Report)
    #: Blocks of other programs in which some constants are, and where others are in `weights`, by content.
    shared: list[Array] = field(default_factory=list["Array"])
    places: dict[str, int] = field(default_factory=dict[str, int])
    #: The names of the calls that report indices out of range.
    faults: list[str] = field(default_factory=list[str])
    #: What a run works out from the sizes of its inputs; None where they are known.
    numbers: Numbers | None = None
    #: What debuggers list; it is not written.
    source: Source | None = None
    #: The steps of a program that tells their times: see `timed`.
    steps: list[TimedStep] = field(default_factory=list[TimedStep])


# --- on disk ------------------------------------------------------------------------------------


def write(bundle: Bundle, folder: Path) -> None:
    """Write a bundle as a folder, whole or not at all.

    `program.json` describes it, `code.N.o` are objects, `weights.bin` is the block as it lies in
    memory (it is mapped when read), `shared.N.bin` those of other programs (the same files, where these are
    kept), `state.N` are first values.
    """
    assert not bundle.host_steps, "host steps live in the IR"
    writer = SizeWriter()
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        for number, data in enumerate(bundle.objects):
            (aside / f"code.{number}.o").write_bytes(cache.sealed(data))
        bundle.weights.tofile(aside / "weights.bin")
        for number, block in enumerate(bundle.shared):
            _write_shared(block, aside / f"shared.{number}.bin")
        for number, array in enumerate(bundle.states.values()):
            (aside / f"state.{number}").write_bytes(cache.sealed(array.tobytes()))
        text = {
            "format": FORMAT,
            "slots": [asdict(s) | {"shape": writer.sizes(s.shape)} for s in bundle.slots],
            "objects": len(bundle.objects),
            "weight_bytes": bundle.weights.nbytes,
            "blocks": [_stamp(aside / name) for name in _block_names(len(bundle.shared))],
            "places": bundle.places,
            "faults": bundle.faults,
            "arena_bytes": bundle.arena_bytes,
            "scratch_bytes": bundle.scratch_bytes,
            "threads": bundle.threads,
            "states": list(bundle.states),
            "kernels": bundle.report.kernels,
            "numbers": bundle.numbers.written(writer) if bundle.numbers is not None else None,
            "symbols": writer.symbols(),
            "steps": [asdict(s) for s in bundle.steps],
        }
        (aside / "program.json").write_bytes(cache.sealed(json.dumps(text, indent=1).encode()))
        if folder.exists():
            shutil.rmtree(folder)
        aside.replace(folder)
        _note_files(bundle, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


class Folder(ProgramFiles):
    """The files that `write` wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def block(self, name: str, stamp: Mapping[str, Any]) -> Array:
        return _mapped(self.path / name, stamp)


def read(files: ProgramFiles) -> Bundle | None:
    """The bundle in some files, its weights mapped; None where there is none of this version."""
    try:
        text = json.loads(_unsealed(files, "program.json"))
        if text["format"] != FORMAT:
            return None
        reader = SizeReader(text["symbols"])
        slots = [Slot(**s | {"shape": reader.sizes(s["shape"])}) for s in text["slots"]]
        names = _block_names(len(text["blocks"]) - 1)
        weights, *shared = (files.block(n, stamp) for n, stamp in zip(names, text["blocks"], strict=True))
        by_symbol = {s.symbol: s for s in slots}
        states: dict[str, Array] = {}
        for number, symbol in enumerate(text["states"]):
            slot = by_symbol[symbol]
            values = np.frombuffer(_unsealed(files, f"state.{number}"), dtype_named(slot.dtype))
            states[symbol] = values.reshape(slot.shape)
        report = Report(
            kernels=text["kernels"],
            arena_bytes=text["arena_bytes"],
            weight_bytes=text["weight_bytes"],
            notes={"host instructions": 0, "threads": text["threads"], "kernels compiled": 0},
        )
        bundle = Bundle(
            slots,
            [_unsealed(files, f"code.{i}.o") for i in range(text["objects"])],
            weights,
            text["arena_bytes"],
            text["scratch_bytes"],
            states,
            0,
            text["threads"],
            report,
            shared,
            text["places"],
            text["faults"],
            None if text["numbers"] is None else Numbers.read(text["numbers"], reader),
            steps=[TimedStep(s["operation"], s["kernel"], tuple(s["nodes"])) for s in text.get("steps", ())],
        )
        if isinstance(files, Folder):
            _note_files(bundle, files.path)
        return bundle
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ImportError):
        return None


def _block_names(shared: int) -> list[str]:
    """The files of a program's own block of weights, and of those of others."""
    return ["weights.bin", *(f"shared.{i}.bin" for i in range(shared))]


_digests: dict[tuple[int, int, int], str] = {}
"""Digests of blocks that this process wrote or mapped, by device, file and time: programs of other sizes link
to the same weights, which are read for a digest once."""


def _stamp(file: Path) -> dict[str, int | str]:
    """The identity of a written block: bytes, time, and a digest of the contents."""
    status = file.stat()
    key = status.st_dev, status.st_ino, status.st_mtime_ns
    if key not in _digests:
        _digests[key] = _digest(file)
    return {"bytes": status.st_size, "time": status.st_mtime_ns, "digest": _digests[key]}


def _digest(file: Path) -> str:
    with file.open("rb") as contents:
        return hashlib.file_digest(contents, "sha256").hexdigest()


def _mapped(file: Path, stamp: Mapping[str, Any]) -> Array:
    """A block, mapped. Its contents are read only where its time has changed; OSError where it is damaged."""
    status = file.stat()
    if status.st_mtime_ns != stamp["time"] and _digest(file) != stamp["digest"]:
        raise OSError(f"{file} is damaged")
    _digests[status.st_dev, status.st_ino, status.st_mtime_ns] = stamp["digest"]
    held = _blocks.get((status.st_dev, status.st_ino), lambda: None)()
    if held is None or held.nbytes != stamp["bytes"]:
        held = file_block(file, stamp["bytes"])
        _blocks[status.st_dev, status.st_ino] = weakref.ref(held)
    return held


def _unsealed(files: ProgramFiles, name: str) -> bytes:
    data = cache.unsealed(files.read(name))
    if data is None:
        raise OSError(f"{name} is damaged")
    return data


_blocks: dict[tuple[int, int], weakref.ref[Array]] = {}
"""Blocks that are mapped, by device and file: programs of several sizes have the same weights."""
_files: dict[int, tuple[weakref.ref[Array], Path]] = {}
"""The files of blocks of weights, by address."""


def _note_files(bundle: Bundle, folder: Path) -> None:
    names = _block_names(len(bundle.shared))
    for block, name in zip((bundle.weights, *bundle.shared), names, strict=True):
        _files[address(block)] = weakref.ref(block), folder / name


def _write_shared(block: Array, path: Path) -> None:
    """A block that another program's folder has, too, if it still does: then as the same file."""
    held, file = _files.get(address(block), (None, path))
    if held is not None and held() is block:
        try:
            os.link(file, path)
            return
        except OSError:
            pass  # it was forgotten, or the file system has no links
    block.tofile(path)


def slots_of(bundle: Bundle, kinds: Sequence[str]) -> list[tuple[int, Slot]]:
    """(place in the pointer table, slot) of the slots of some kinds."""
    return [(i, s) for i, s in enumerate(bundle.slots) if s.kind in kinds]
