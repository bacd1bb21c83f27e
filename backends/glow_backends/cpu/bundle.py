"""A program as data: machine code, weights and the memory it needs; built, written and read back."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np
from xdsl.backend.llvm.convert import convert_module
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Port, Report, public_name
from glow_backends.cpu import cache
from glow_backends.cpu.calls import KernelCode
from glow_backends.cpu.jit import emit_object
from glow_backends.cpu.select import Selection, select
from glow_backends.cpu.support import support_text
from glow_backends.cpu.target import CpuTarget
from glow_backends.cpu.to_llvm import convert
from glow_dialects.core.attributes import array_of
from glow_dialects.core.types import Array, dtype_of, shape_of, typed
from glow_dialects.instr.memory import InstrFuncOp
from glow_dialects.ops.module import placeholders

FORMAT = 1
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
        return Port(self.name, self.shape, _dtype(self.dtype))


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
    report: Report = field(default_factory=Report)


def build(module: ModuleOp, function: InstrFuncOp, target: CpuTarget) -> tuple[Bundle, Selection]:
    """Select kernels, convert the program function, generate code and pack weights."""
    report = Report()
    start = time.perf_counter()

    def stage(name: str) -> None:
        nonlocal start
        now = time.perf_counter()
        report.stages[name] = now - start
        start = now

    selection = select(function, target)
    stage("select kernels")
    kernels = selection.kernels
    stage("emit kernels")
    code = convert(module, function, selection, target)
    stage("convert to llvm")
    objects = objects_of(code.module, kernels, target, report)
    stage("generate code")
    weights = code.weights.build()
    stage("pack weights")
    slots: list[Slot] = []
    states: dict[str, Array] = {}
    for name, op in placeholders(module).items():
        kind, dtype = op.kind.data, dtype_of(op.type)
        slots.append(Slot(name, public_name(op), kind, shape_of(op.type), dtype.name))
        if kind not in ("input", "output"):
            first = array_of(op.init, typed(op.type)) if op.init is not None else None
            states[name] = np.zeros(shape_of(op.type), dtype) if first is None else first
    report.weight_bytes = weights.nbytes
    report.arena_bytes = selection.arena_bytes
    report.notes["host instructions"] = len(selection.host_steps)
    made = Bundle(
        slots,
        objects,
        weights,
        selection.arena_bytes,
        selection.scratch_bytes,
        states,
        len(selection.host_steps),
        report,
    )
    return made, selection


def objects_of(
    program: ModuleOp, kernels: Mapping[str, KernelCode], target: CpuTarget, report: Report
) -> list[bytes]:
    """Machine code of every kernel once, of the program functions and of the support functions."""
    fresh = 0
    objects: list[bytes] = []
    for name, code in kernels.items():
        made = cache.get(name)
        if made is None:
            made = emit_object(code.text, target)
            cache.put(name, made)
            fresh += 1
        objects.append(made)
    for text in (program_text(program, target), support_text(target)):
        key = f"text_{cache.key(text, repr(target))}"
        made = cache.get(key)
        if made is None:
            made = emit_object(text, target)
            cache.put(key, made)
        objects.append(made)
    report.kernels = len(kernels)
    report.notes["kernels compiled"] = fresh
    return objects


def program_text(program: ModuleOp, target: CpuTarget) -> str:
    """LLVM IR of a converted program function."""
    return str(convert_module(program, fallback_target_triple=target.triple))


# --- on disk ------------------------------------------------------------------------------------


def write(bundle: Bundle, folder: Path) -> None:
    """Write a bundle as a folder, whole or not at all.

    `program.json` describes it, `code.N.o` are objects, `weights.bin` is the block as it lies in
    memory (it is mapped when read), `state.N.npy` are first values.
    """
    assert not bundle.host_steps, "host steps live in the IR"
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        for number, data in enumerate(bundle.objects):
            (aside / f"code.{number}.o").write_bytes(data)
        bundle.weights.tofile(aside / "weights.bin")
        for number, array in enumerate(bundle.states.values()):
            np.save(aside / f"state.{number}.npy", array.view(np.uint8) if array.ndim else array)
        text = {
            "format": FORMAT,
            "slots": [asdict(s) for s in bundle.slots],
            "objects": len(bundle.objects),
            "weight_bytes": bundle.weights.nbytes,
            "arena_bytes": bundle.arena_bytes,
            "scratch_bytes": bundle.scratch_bytes,
            "states": list(bundle.states),
            "kernels": bundle.report.kernels,
        }
        (aside / "program.json").write_text(json.dumps(text, indent=1))
        if folder.exists():
            shutil.rmtree(folder)
        aside.replace(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def read(folder: Path) -> Bundle | None:
    """The bundle in a folder, its weights mapped; None where there is none of this version."""
    try:
        text = json.loads((folder / "program.json").read_text())
        if text["format"] != FORMAT:
            return None
        slots = [Slot(**s | {"shape": tuple(s["shape"])}) for s in text["slots"]]
        weights = _mapped(folder / "weights.bin", text["weight_bytes"])
        by_symbol = {s.symbol: s for s in slots}
        states: dict[str, Array] = {}
        for number, symbol in enumerate(text["states"]):
            slot = by_symbol[symbol]
            raw = np.load(folder / f"state.{number}.npy")
            states[symbol] = raw.view(_dtype(slot.dtype)).reshape(slot.shape)
        report = Report(
            kernels=text["kernels"],
            arena_bytes=text["arena_bytes"],
            weight_bytes=text["weight_bytes"],
            notes={"host instructions": 0, "kernels compiled": 0},
        )
        return Bundle(
            slots,
            [(folder / f"code.{i}.o").read_bytes() for i in range(text["objects"])],
            weights,
            text["arena_bytes"],
            text["scratch_bytes"],
            states,
            0,
            report,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _mapped(path: Path, size: int) -> Array:
    if not size:
        return np.empty(0, np.uint8)
    made = np.memmap(path, np.uint8, "r")
    if made.nbytes != size:
        raise ValueError(f"{path} is {made.nbytes} bytes, {size} expected")
    return made


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def slots_of(bundle: Bundle, kinds: Sequence[str]) -> list[tuple[int, Slot]]:
    """(place in the pointer table, slot) of the slots of some kinds."""
    return [(i, s) for i, s in enumerate(bundle.slots) if s.kind in kinds]
