"""Programs in one file: `Executable.save` writes it, `load_program` starts it without the compiler.

The file is an uncompressed zip archive: `manifest.json` and its seal, then a folder for each program as its
backend writes it. Blocks of constants begin at multiples of a page, so that they are mapped; one that several
programs share is there once. The manifest has a digest of each file, so that its seal is that of all: the
files hold machine code, which runs only if this user sealed it or somebody says that it is trusted.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_backends.base import Backend, Program, ProgramFiles
from glow_dialects.core.element_types import dtype_named
from glow_dialects.core.errors import GlowError, OpenSizes, ShapeError, UnsupportedError
from glow_dialects.core.files import unreadable, whole
from glow_dialects.core.mapped_files import file_bytes
from glow_runtime.kept_states import Kept, KeptStates
from glow_runtime.program_source import Key, ProgramSource, Signature
from glow_runtime.seal import is_sealed, is_unchanged, keep_unchanged, key_file, seal

if TYPE_CHECKING:
    from glow_dialects.core.types import Array

FORMAT = 3
"""Version of the written form."""
MANIFEST, SEAL = "manifest.json", "seal"
PAGE = 4096
"""Bytes to whose multiples files in the archive are aligned: a page of every system that this runs on."""
_HEADER, _LOCAL_EXTRA = 30, 20
"""Bytes of a file's header in an archive without its name, and of its sizes in 64 bits."""


# --- writing --------------------------------------------------------------------------------------


def save(
    path: Path,
    source: ProgramSource,
    programs: Sequence[tuple[Any, Program]],
    open_programs: Sequence[tuple[Key, Program]],
) -> None:
    """Write the programs of a model, by their keys in an executable; see `Executable.save`."""
    entries = [
        *((_static_entry(source, key), program) for key, program in programs),
        *((_open_entry(key), program) for key, program in open_programs),
    ]
    if not entries:
        raise ShapeError(f"{path}: nothing has been compiled yet: run the model, or give shapes")
    for _, program in entries:
        obstacle = source.backend.obstacle(program)
        if obstacle:
            raise UnsupportedError(f"{path}: the program cannot be saved: {obstacle}")
    backend = source.backend
    manifest = {
        "format": FORMAT,
        "backend": backend.name,
        "needs": backend.needs(),
        "inputs": [_plain(s) for s in source.inputs],
        "outputs": [_plain(s) for s in source.outputs],
        "defaults": [_plain(s) for s in source.defaults],
        "value_inputs": list(source.value_inputs),
        "cache_counts": {name: list(caches) for name, caches in source.cache_counts.items()},
        "states": [
            {"input": _plain(k.input), "output": k.output, "axis": k.axis}
            for k in (source.states.states.values() if source.states else ())
        ],
        "programs": [entry for entry, _ in entries],
    }
    with whole(path) as temporary, tempfile.TemporaryDirectory(dir=temporary.parent) as name:
        for number, (_, program) in enumerate(entries):
            backend.write_program(program, Path(name) / str(number))
        _archive(temporary, Path(name), manifest)
    keep_unchanged(path)


def _plain(signature: Signature) -> dict[str, Any]:
    return asdict(signature) | {"dtype": signature.dtype.name}


def _static_entry(source: ProgramSource, key: Any) -> dict[str, Any]:
    """What a program of certain shapes is for, by its key in an executable."""
    sizes, contents, *optional = key
    shapes = {s.name: size for s, size in zip(source.inputs, sizes, strict=True) if size is not None}
    shapes |= dict(optional[0]) if optional else {}
    return {"shapes": shapes, "contents": {name: data.hex() for name, data in contents}}


def _open_entry(key: Key) -> dict[str, Any]:
    names, contents = key
    return {"names": sorted(names), "contents": {name: data.hex() for name, data in contents.items()}}


def _archive(path: Path, folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest and the files of a folder, those that are one file on the disk once."""
    first: dict[tuple[int, int], str] = {}
    links: dict[str, str] = {}
    for file in sorted(f for f in folder.rglob("*") if f.is_file()):
        name, status = file.relative_to(folder).as_posix(), file.stat()
        same = first.setdefault((status.st_dev, status.st_ino), name)
        if same != name:
            links[name] = same
    with path.open("wb") as out, zipfile.ZipFile(out, "w") as archive:
        digests = {name: _digest(file_bytes(folder / name)) for name in first.values()}
        text = json.dumps(manifest | {"links": links, "digests": digests}, indent=1).encode()
        archive.writestr(zipfile.ZipInfo(MANIFEST), text)
        archive.writestr(zipfile.ZipInfo(SEAL), seal(text))
        for name in first.values():
            info = zipfile.ZipInfo(name)
            info.extra = _padding(out.tell() + _HEADER + _LOCAL_EXTRA + len(name))
            with archive.open(info, "w", force_zip64=True) as sink, (folder / name).open("rb") as data:
                while piece := data.read(1 << 22):
                    sink.write(piece)


def _digest(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


def _padding(start: int) -> bytes:
    """An extra field behind which data that would begin at `start` begins at a page."""
    length = (-start - 4) % PAGE
    return b"\x00\x00" + length.to_bytes(2, "little") + bytes(length)


# --- reading --------------------------------------------------------------------------------------


class SavedPrograms(ProgramSource):
    """The programs of a file."""

    def __init__(self, archive: Archive, backend: Backend, manifest: Mapping[str, Any]) -> None:
        self.backend, self._path = backend, archive.path
        self.inputs, self.outputs, self.defaults = (
            [_signature(s) for s in manifest[kind]] for kind in ("inputs", "outputs", "defaults")
        )
        self.value_inputs, self.cache_counts = manifest["value_inputs"], manifest["cache_counts"]
        kept = [Kept(_signature(s["input"]), s["output"], s["axis"]) for s in manifest["states"]]
        self.states = KeptStates(kept) if kept else None
        self._programs: dict[Any, Program] = {}
        self._texts: list[str] = []
        open_programs: list[tuple[Key, Program]] = []
        for number, entry in enumerate(manifest["programs"]):
            program = backend.read_program(archive.folder(str(number)))
            if program is None:
                raise GlowError(f"{archive.path}: program {number} is damaged, or of another version of Glow")
            contents = {name: bytes.fromhex(data) for name, data in entry["contents"].items()}
            if "names" in entry:
                open_programs.append(((set(entry["names"]), contents), program))
            else:
                shapes = {name: tuple(shape) for name, shape in entry["shapes"].items()}
                self._programs[_key(shapes, contents)] = program
                self._texts.append(_text(self.plain(shapes)))
        self.open_programs = open_programs

    def program(self, shapes: dict[str, tuple[int, ...]], values: dict[str, Array]) -> Program:
        program = self._programs.get(_key(shapes, {n: a.tobytes() for n, a in values.items()}))
        if program is None:
            open_ones = [
                f"any {p.limits(shapes)}" for (names, _), p in self.open_programs if names == set(shapes)
            ]
            known = "; ".join([*self._texts, *open_ones]) or "other inputs"
            raise ShapeError(
                f"{self._path} has no program for {_text(self.plain(shapes))}, only for {known}; compile "
                "the model for these shapes too, and save it again"
            )
        return program

    def accept(self, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, Array]) -> None:
        names = set(shapes)
        if not any(known == names and p.fits(shapes) for (known, _), p in self.open_programs):
            self.program(dict(shapes), dict(values))

    def known_shapes(self) -> list[dict[str, tuple[int, ...]]]:
        return [dict(shapes) for shapes, _ in self._programs]

    def open_program(self, shapes: Mapping[str, tuple[int, ...]], values: dict[str, Array]) -> Program | None:
        raise OpenSizes("programs of a file are not compiled again")


def _key(shapes: Mapping[str, tuple[int, ...]], contents: Mapping[str, bytes]) -> Any:
    return frozenset(shapes.items()), frozenset(contents.items())


def _text(shapes: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{n} {'x'.join(map(str, s)) or 'scalar'}" for n, s in shapes.items())


def _signature(data: Mapping[str, Any]) -> Signature:
    shape = tuple(data["shape"])
    return Signature(data["name"], shape, dtype_named(data["dtype"]), data["kind"], tuple(data["names"]))


class Archive:
    """The file, its manifest read and checked; GlowError where it is not sealed by this user or `trusted`."""

    def __init__(self, path: Path, trusted: bool = False) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
            self._infos = {info.filename: info for info in self._zip.infolist()}
            text = self._zip.read(MANIFEST)
            self.manifest: dict[str, Any] = json.loads(text)
            form = self.manifest["format"]
            self._links: dict[str, str] = self.manifest["links"]
            self._digests: dict[str, str] = self.manifest["digests"] if form == FORMAT else {}
            sealed = self._zip.read(SEAL).decode("ascii") if form == FORMAT else ""
        except OSError as error:
            raise unreadable(path, error) from None
        except (zipfile.BadZipFile, KeyError, ValueError, TypeError, NotImplementedError, RuntimeError):
            raise GlowError(f"{path} is not a file of Executable.save, or damaged") from None
        if form != FORMAT:
            raise GlowError(f"{path} has format {form}, this version of Glow reads {FORMAT}: save it again")
        if not trusted and not is_sealed(text, sealed):
            raise GlowError(
                f"{path} contains machine code and was not saved with this user's key, or is damaged: "
                "compile the model here or, if you trust its author, use glow.load_program(path, "
                f"trust=True); the key is {key_file() or 'nowhere, without a home'}"
            )
        self._unchanged = is_unchanged(path)
        self._blocks: dict[str, Array] = {}

    @cached_property
    def _bytes(self) -> Array:
        return file_bytes(self.path)

    def folder(self, name: str) -> ProgramFiles:
        """The files of one program."""
        return _ArchiveFolder(self, name)

    def read(self, name: str) -> bytes:
        """The contents of a file of the archive, checked."""
        name = self._links.get(name, name)
        try:
            data = self._zip.read(name)
            if _digest(data) != self._digests[name]:
                raise ValueError("its content has changed")
            return data
        except (KeyError, zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError) as error:
            raise OSError(f"{name} is damaged: {error}") from None

    def block(self, name: str) -> Array:
        """The same, mapped; one that was read before is the same array."""
        name = self._links.get(name, name)
        if name not in self._blocks:
            info = self._infos.get(name)
            if info is None or info.compress_type != zipfile.ZIP_STORED:
                raise OSError(f"{name} is missing")
            header = bytes(self._bytes[info.header_offset : info.header_offset + _HEADER])
            lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
            start = info.header_offset + _HEADER + lengths
            block = self._bytes[start : start + info.file_size].view(np.ndarray)
            if start % PAGE or block.size != info.file_size or not self._is_whole(name, block):
                raise OSError(f"{name} is damaged")
            self._blocks[name] = block
        return self._blocks[name]

    def _is_whole(self, name: str, block: Array) -> bool:
        """Whether a block is what was saved: by its digest, or its checksum where nobody changed the file."""
        if self._unchanged:
            return zlib.crc32(block.data) == self._infos[name].CRC
        return _digest(block) == self._digests.get(name)

    def checked(self) -> None:
        """Note that all blocks are what was saved."""
        if not self._unchanged:
            keep_unchanged(self.path)


class _ArchiveFolder(ProgramFiles):
    def __init__(self, archive: Archive, name: str) -> None:
        self._archive, self._name = archive, name

    def read(self, name: str) -> bytes:
        return self._archive.read(f"{self._name}/{name}")

    def block(self, name: str, stamp: Mapping[str, Any]) -> Array:
        block = self._archive.block(f"{self._name}/{name}")
        if block.nbytes != stamp["bytes"]:
            raise OSError(f"{name} is {block.nbytes} bytes, {stamp['bytes']} expected")
        return block
