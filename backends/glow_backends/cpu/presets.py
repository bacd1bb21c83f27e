"""Processors that code is made for by name, and what LLVM says of any other."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

from glow_backends.cpu.guarded import llvm_message
from glow_dialects.core.errors import UnsupportedError

_LINUX = "unknown-linux-gnu"
_WASM, _RISCV = "wasm32-unknown-unknown", f"riscv64-{_LINUX}"


@dataclass(frozen=True)
class Preset:
    """A processor: what LLVM calls it, its caches in bytes, and arithmetic that pays there."""

    triple: str
    cpu: str
    features: str = ""
    l1: int = 32 * 1024
    l2: int = 1024 * 1024
    has: tuple[str, ...] = ()


def _x86(cpu: str, *has: str, full: bool = False) -> Preset:
    """LLVM prefers 256-bit vectors on some AVX-512 parts; our kernels ask for `full` registers."""
    return Preset(f"x86_64-{_LINUX}", cpu, "-prefer-256-bit" if full else "", has=has)


def _arm(cpu: str, l2: int = 1024 * 1024) -> Preset:
    return Preset(f"aarch64-{_LINUX}", cpu, l2=l2)


def _riscv(features: str = "") -> Preset:
    return Preset(_RISCV, "generic-rv64", f"+m,+a,+f,+d,+c{features}", l2=512 * 1024)


def _wasm(features: str) -> Preset:
    return Preset(_WASM, "generic", f"+bulk-memory,+sign-ext,+nontrapping-fptoint{features}")


def _cortex_m(triple: str, cpu: str) -> Preset:
    """The caches, where there are any, stand for the memory beside the core."""
    return Preset(f"{triple}-none-eabi", cpu, l1=16 * 1024, l2=64 * 1024)


PRESETS: dict[str, Preset] = {
    "x86-64": _x86("x86-64"),
    "x86-64-v2": _x86("x86-64-v2"),
    "x86-64-v3": _x86("x86-64-v3"),
    "x86-64-v4": _x86("x86-64-v4", full=True),
    "haswell": _x86("haswell"),
    "skylake-avx512": _x86("skylake-avx512", full=True),
    "znver4": _x86("znver4", "vnni", "bf16", full=True),
    "znver5": _x86("znver5", "vnni", "bf16", full=True),
    "sapphirerapids": _x86("sapphirerapids", "vnni", "fp16", full=True),
    "cortex-a53": _arm("cortex-a53", l2=512 * 1024),
    "cortex-a72": _arm("cortex-a72"),
    "cortex-a76": _arm("cortex-a76", l2=512 * 1024),
    "neoverse-n1": _arm("neoverse-n1"),
    "neoverse-v1": _arm("neoverse-v1"),
    "apple-m1": Preset("arm64-apple-macosx11.0.0", "apple-m1", l1=64 * 1024, l2=4 * 1024 * 1024),
    "armv7": Preset("armv7-unknown-linux-gnueabihf", "cortex-a7", l2=512 * 1024),
    "riscv64": _riscv(),
    "riscv64-v": _riscv(",+v"),
    "wasm32": _wasm(",+simd128"),
    "wasm32-relaxed": _wasm(",+simd128,+relaxed-simd"),
    "wasm32-scalar": _wasm(""),
    "cortex-m0plus": _cortex_m("thumbv6m-unknown", "cortex-m0plus"),
    "cortex-m3": _cortex_m("thumbv7m", "cortex-m3"),
    "cortex-m4": _cortex_m("thumbv7em", "cortex-m4"),
    "cortex-m7": _cortex_m("thumbv7em", "cortex-m7"),
    "cortex-m33": _cortex_m("thumbv8m.main", "cortex-m33"),
    "cortex-m55": _cortex_m("thumbv8.1m.main", "cortex-m55"),
    "cortex-m85": _cortex_m("thumbv8.1m.main", "cortex-m85"),
}

_DEFAULTS = {
    "x86_64": "x86-64",
    "aarch64": "cortex-a72",
    "arm64": "apple-m1",
    "armv7": "armv7",
    "riscv64": "riscv64",
    "wasm32": "wasm32",
}
"""The preset whose CPU and features a triple has where none are said, by its architecture."""


def preset_of(text: str) -> Preset:
    """A preset by name, or TRIPLE[/CPU[/FEATURES]]: `aarch64-unknown-linux-gnu/cortex-a55/+fullfp16`.

    A name that is no triple is the CPU of an x86-64 machine, if there is one. UnsupportedError names what
    LLVM does not know.
    """
    if text in PRESETS:
        return PRESETS[text]
    triple, _, rest = text.partition("/")
    cpu, _, features = rest.partition("/")
    if "-" not in triple:
        raise UnsupportedError(
            f"target '{text}' is unknown; there are: host, {', '.join(PRESETS)}, and any triple of LLVM's"
        )
    base = PRESETS.get(_DEFAULTS.get(triple.partition("-")[0], ""), Preset(triple, "generic"))
    if cpu in ("", base.cpu):
        both = f"{base.features},{features}".split(",")
        cpu, features = base.cpu, ",".join(dict.fromkeys(f for f in both if f))
    elif triple.startswith("riscv64") and not features:
        features = base.features
    _check(triple, cpu, features)
    return Preset(triple, cpu, features, base.l1, base.l2)


_PROBE = """
target triple = "{triple}"
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
define void @probe(ptr %p) {{
  %x = load <16 x float>, ptr %p
  %y = call <16 x float> @llvm.fma.v16f32(<16 x float> %x, <16 x float> %x, <16 x float> %x)
  %z = fadd <16 x float> %x, %y
  store <16 x float> %z, ptr %p
  ret void
}}
"""
_CHECK = """
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
try:
    target = llvm.Target.from_triple(sys.argv[1])
except RuntimeError as error:
    sys.exit(str(error))
machine = target.create_target_machine(cpu=sys.argv[2], features=sys.argv[3])
layout = str(machine.target_data)
if layout.startswith("E"):
    sys.exit("the bytes of its numbers have the other order, and weights are little-endian")
if "p:16:" in layout:
    sys.exit("its addresses have 16 bits, too few for networks")
module = llvm.parse_assembly(sys.argv[4])
module.data_layout = layout
machine.emit_object(module)
machine.emit_assembly(module)
"""


@cache
def _check(triple: str, cpu: str, features: str) -> None:
    """Ask LLVM in a process of its own: it only warns of names that it does not know, or ends the process."""
    for feature in filter(None, features.split(",")):
        if feature[0] not in "+-":
            raise UnsupportedError(f"feature '{feature}': write +{feature} or -{feature}")
    probe = _PROBE.format(triple=triple)
    done = subprocess.run(
        [sys.executable, "-c", _CHECK, triple, cpu, features, probe],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or done.stderr.strip():
        raise UnsupportedError(
            f"target '{'/'.join(filter(None, (triple, cpu, features)))}': {llvm_message(done.stderr)}"
        )


_VECTORS = ((64, r"\bzmm\d"), (32, r"\bymm\d"), (16, r"\bxmm\d|\bq\d|\.4s\b|vfadd|f32x4"))


def vectors_of(machine: llvm.TargetMachine, triple: str) -> tuple[int, bool]:
    """Bytes of the vectors that LLVM adds floats in (8 where it has none: pairs), and whether it has
    multiply-add in one rounding."""
    module = llvm.parse_assembly(_PROBE.format(triple=triple))
    module.data_layout = str(machine.target_data)
    text = machine.emit_assembly(module)
    size = next((size for size, pattern in _VECTORS if re.search(pattern, text)), 8)
    return size, re.search(r"\bfmaf\b", text) is None


def registers_of(triple: str, vector_bytes: int) -> int:
    """Vector registers; where there are no vectors, what holds as many pairs."""
    architecture = triple.partition("-")[0]
    if architecture.startswith("thumb"):
        return 8
    if architecture.startswith("wasm"):
        return 12  # of 16: products need one before they are added; 11 and 12 are the fastest in Node
    if vector_bytes == 64 or architecture in ("aarch64", "arm64"):
        return 32
    return 32 if architecture.startswith("riscv") and vector_bytes > 8 else 16
