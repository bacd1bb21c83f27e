"""CpuTarget: a CPU, its vector length, its registers and its caches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from glow_backends.cpu.permission import tiles_allowed
from glow_backends.cpu.presets import preset_of, registers_of, vectors_of
from glow_dialects.core.errors import UnsupportedError

_SELECTED = (
    "sse",
    "avx",
    "fma",
    "bmi",
    "f16c",
    "lzcnt",
    "popcnt",
    "movbe",
    "tbm",
    "xop",
    "gfni",
    "neon",
    "sve",
)
"""Beginnings of the names of features whose instructions LLVM selects for plain code."""
_LEVELS = {32: ("avx", "avx2", "fma", "bmi", "bmi2"), 64: ("avx", "avx2", "fma", "avx512f", "avx512vl")}
"""What processors named by hand have, by the bytes of a vector."""
MOST_THREADS = 256
"""No machine that this is for has more cores."""


PRECISIONS = ("float32", "fast", "bf16")
"""How products of float32 may be computed: as they are; by three products of bfloat16, of whose sums of two
the factors are; or with factors rounded to bfloat16. Sums are float32."""


@dataclass(frozen=True)
class Costs:
    """The costs of one core for the parts of a program; cycles unless said otherwise.

    Measured on one x86-64 core when the estimates were written; every target has these numbers until
    it is measured itself.
    """

    #: Bytes of weights that stream from the last cache or from memory: long sums over many weights.
    bytes_a_cycle: float = 5.5
    #: The part of streaming that longer computing does not hide, from the same sums.
    shown_streaming: float = 0.35
    #: The part of computing that longer streaming does not hide.
    shown_computing: float = 0.9
    #: (side of the window, in, out): transforms of a Winograd tile of a vector of channels, timed alone.
    tile_transforms: tuple[tuple[int, float, float], ...] = (
        (4, 90.0, 50.0),
        (6, 220.0, 130.0),
        (9, 650.0, 280.0),
    )
    #: The same for tiles of a line.
    line_transforms: tuple[tuple[int, float, float], ...] = (
        (4, 25.0, 20.0),
        (6, 35.0, 35.0),
        (8, 50.0, 45.0),
    )
    #: To read a square of a filter, as many output channels and taps as lanes, and to turn it.
    filter_square: float = 90.0
    #: Until the other workers of a program have begun.
    worker_start: float = 8_000
    #: Until all workers have seen that a step is done.
    barrier: float = 1_000
    #: Bytes that a step reads and writes, from whatever cache: a rough mean.
    moved_bytes_a_cycle: float = 8

    def transform(self, side: int, line: bool) -> tuple[float, float]:
        """Cycles of the transforms in and out of a window of a side."""
        table = self.line_transforms if line else self.tile_transforms
        return next((into, out) for length, into, out in table if length == side)


@dataclass(frozen=True)
class CpuTarget:
    """A CPU as the kernel emitters see it; every size is in bytes, `vector_bytes` is one register.

    `has_fp16`: products and sums of float16 at twice the rate of float32; `has_bf16`: pairs of bfloat16
    products added to float32, at a rate that pays. `has_amx`: products of tiles of bytes and of bfloat16,
    which the system lets this process use. `has_fma`: multiply-add in one rounding is an instruction, not a
    function of a library.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    l1: int = 32 * 1024
    l2: int = 1024 * 1024
    has_vnni: bool = False
    has_fp16: bool = False
    has_bf16: bool = False
    has_amx: bool = False
    has_fma: bool = True
    #: How factors of float32 products may be rounded: see `PRECISIONS`.
    precision: str = "float32"
    threads: int = 1
    costs: Costs = Costs()

    @property
    def lanes(self) -> int:
        """Number of f32 lanes of one vector register."""
        return self.vector_bytes // 4

    @property
    def freely(self) -> CpuTarget:
        """The same without units that a process must be allowed to use: code for others cannot ask."""
        return replace(self, has_amx=False)

    def computes(self, dtype: str) -> bool:
        """Whether layers on 16-bit floats gain by arithmetic of their own that adds in float32.

        Sums in float16 (AVX512-FP16) would overflow, or lose what cancels, where results are finite.
        """
        return dtype == "bf16" and self.has_bf16

    @property
    def needs(self) -> list[str]:
        """What a processor must have to run code for this one: the architecture, instructions LLVM uses."""
        on = {f[1:] for f in self.features.split(",") if f.startswith("+")}
        if not on:
            on = set(_LEVELS.get(self.vector_bytes, ())) if "x86" in self.triple else set[str]()
        chosen = {name for has, name in self._chosen() if has}
        return [self.triple.partition("-")[0], *sorted({f for f in on if f.startswith(_SELECTED)} | chosen)]

    @property
    def lacks(self) -> list[str]:
        """Those of `needs` that this machine has not: the architecture alone where that differs."""
        lacking = [n for n in self.needs if n not in host().needs]
        return lacking[:1] if self.needs[0] in lacking else lacking

    def _chosen(self) -> list[tuple[bool, str]]:
        """Arithmetic that kernels ask for by name."""
        x86 = "x86" in self.triple
        return [
            (x86 and self.has_vnni, "avx512vnni"),
            (x86 and self.has_fp16, "avx512fp16"),
            (x86 and self.has_bf16, "avx512bf16"),
            (x86 and self.has_amx, "amx-int8"),
            (x86 and self.has_amx, "amx-bf16"),
        ]

    def machine(self, level: int = 3) -> llvm.TargetMachine:
        """LLVM's target machine; its code generator works at a level from 0 to 3."""
        target = llvm.Target.from_triple(self.triple)
        hosted = "linux" in self.triple or "apple" in self.triple
        shared = ",+atomics,+mutable-globals" if self.triple.startswith("wasm") and self.threads > 1 else ""
        doubles = [f for f in self.features.split(",") if f[1:] == "d"][-1:] == ["+d"]  # the last is heard
        return target.create_target_machine(
            cpu=self.cpu,
            features=self.features + shared,
            opt=level,
            reloc="pic" if hosted else "static",
            codemodel="default",
            jit=False,
            abiname="lp64d" if self.triple.startswith("riscv64") and doubles else "",
        )


def _cache_size(level: int, default: int) -> int:
    base = Path("/sys/devices/system/cpu/cpu0/cache")
    for index in sorted(base.glob("index*")) if base.is_dir() else ():
        try:
            if (index / "type").read_text().strip() == "Instruction":
                continue
            if int((index / "level").read_text()) == level:
                text = (index / "size").read_text().strip()
                return int(text[:-1]) * {"K": 1024, "M": 1024**2}[text[-1]]
        except (OSError, ValueError, KeyError):
            continue
    return default


@cache
def initialize_llvm() -> None:
    """Register every LLVM target once a process."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@cache
def host(threads: int = 1) -> CpuTarget:
    """The machine this process runs on."""
    initialize_llvm()
    names = dict(llvm.get_host_cpu_features())
    if names.get("avx512f"):
        vector, registers = 64, 32
    elif names.get("avx2"):
        vector, registers = 32, 16
    else:
        vector, registers = 16, 32 if "aarch64" in llvm.get_process_triple() else 16
    # LLVM prefers 256-bit vectors on some AVX-512 parts; our kernels ask for full registers.
    features = ",".join(f"{'+' if on else '-'}{n}" for n, on in sorted(names.items()))
    if vector == 64:
        features += ",-prefer-256-bit"
    return CpuTarget(
        triple=llvm.get_process_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=features,
        vector_bytes=vector,
        registers=registers,
        l1=_cache_size(1, 32 * 1024),
        l2=_cache_size(2, 1024 * 1024),
        has_vnni=bool(names.get("avx512vnni")),
        has_fp16=bool(names.get("avx512fp16")),
        # The cores that have both take several cycles for one vdpbf16ps: float32 is faster there.
        has_bf16=bool(names.get("avx512bf16")) and not names.get("avx512fp16"),
        has_amx=bool(names.get("amx-int8") and names.get("amx-bf16")) and tiles_allowed(),
        has_fma=bool(names.get("fma", "x86" not in llvm.get_process_triple())),
        threads=threads,
    )


@cache
def named(cpu: str, threads: int = 1) -> CpuTarget:
    """The target called `cpu`: "host", a preset's name, or TRIPLE[/CPU[/FEATURES]].

    UnsupportedError lists the names there are, what LLVM does not know, and the counts of threads.
    """
    if not 1 <= threads <= MOST_THREADS:
        raise UnsupportedError(f"threads={threads}: a program is shared by 1 to {MOST_THREADS} threads")
    if cpu == "host":
        return host(threads)
    initialize_llvm()
    preset = preset_of(cpu)
    target = CpuTarget(preset.triple, preset.cpu, preset.features, 16, 16, preset.l1, preset.l2)
    size, fused = vectors_of(target.machine(), preset.triple)
    known: dict[str, Any] = {f"has_{name}": True for name in preset.has}
    registers = registers_of(preset.triple, size)
    return replace(target, vector_bytes=size, registers=registers, has_fma=fused, threads=threads, **known)
