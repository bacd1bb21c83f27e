"""glow-compile: what it writes compiles with a C compiler, links, runs, and gives the same results."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bundles import build, needs_cc, network, outputs
from commands import refused, run

import glow_compiler as glow
from glow_backends.cpu.target import CpuTarget, named
from glow_tools import compile as compile_command

ARM_CC, ARM = "aarch64-linux-gnu-gcc", "qemu-aarch64"
needs_arm = pytest.mark.skipif(
    not (shutil.which(ARM_CC) and shutil.which(ARM)), reason=f"no {ARM_CC} or no {ARM}"
)


@needs_cc
def test_example_runs(tmp_path: Path) -> None:
    """The example program computes what glow.compile computes."""
    path = network(tmp_path)
    done = run(compile_command.main, path, "-o", tmp_path / "out")
    assert done.status == 0, done
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "net.o",
        "net.h",
        "net.weights",
        "net_example.c",
    }
    program = build(tmp_path / "out", "net_example.c", "net.o")
    got, expected = outputs(tmp_path / "out", program)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    done = subprocess.run([str(program), "net.weights"], cwd=tmp_path / "out", capture_output=True, text=True)
    name, _, numbers = done.stdout.partition("] ")
    dims = ", ".join(map(str, expected.shape))
    assert name.endswith(f": float32 [{dims}") and done.stdout.count("\n") == 1
    written = np.fromfile(next((tmp_path / "out").glob("*.out")), np.float32)[:5]
    np.testing.assert_allclose(np.array(numbers.split()[:5], float), written, rtol=1e-4)


@needs_cc
def test_example_reports_bad_files(tmp_path: Path) -> None:
    """The example refuses files of another size."""
    path = network(tmp_path)
    assert run(compile_command.main, path, "-o", tmp_path).status == 0
    program = build(tmp_path, "net_example.c", "net.o")
    (tmp_path / "short").write_bytes(b"1")
    done = subprocess.run([str(program), "short"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "bytes expected" in done.stderr


@pytest.mark.slow
@needs_cc
def test_check(tmp_path: Path) -> None:
    """The bundle as it was written, run on its machine, beside the interpreter; each way to have weights."""
    path, out = network(tmp_path), tmp_path / "out"
    for options in (("--weights", "c"), ("--weights", "embed", "--emit", "library"), ("--threads", "2")):
        done = run(compile_command.main, path, "-o", out / options[1], "--check", "interpreter", *options)
        assert done.status == 0, done
        assert "net, run by this machine: agrees with interpreter: max abs error" in done.output
        assert re.search(r"^net: \d+ bytes of tensors, \d+ to work in$", done.output, re.MULTILINE), done
    found = re.search(r"(\d+) bytes of code and its constants, (\d+) of weights", done.output)
    assert found and 100 < int(found[1]) < 100_000
    assert int(found[2]) == (out / "2/net.weights").stat().st_size


def test_check_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is told before the model is read."""
    none, out = tmp_path / "none.onnx", tmp_path / "o"
    apple = ("--target", "apple-m1")
    refused(run(compile_command.main, none, "-o", out, "--check", "interpreter", *apple), "no emulator")
    sizes = ("--size", "n=1..4")
    refused(run(compile_command.main, none, "-o", out, "--check", "interpreter", *sizes), "use --shape")
    monkeypatch.setenv("PATH", "")
    arm = ("--target", "cortex-m4")
    done = run(compile_command.main, none, "-o", out, "--check", "interpreter", *arm)
    refused(done, "--check needs arm-none-eabi-gcc, qemu-system-arm, which is not installed")


@needs_cc
def test_two_programs_in_one(tmp_path: Path) -> None:
    """Programs share no symbol but their own functions, so that they link together."""
    for name, channels in (("one", 8), ("two", 16)):
        path = network(tmp_path, name, channels)
        assert run(compile_command.main, path, "-o", tmp_path).status == 0
    (tmp_path / "both.c").write_text(
        '#include "one.h"\n#include "two.h"\n'
        "int main(void) { return one == two || ONE_TENSORS != TWO_TENSORS; }\n"
    )
    program = build(tmp_path, "both.c", "one.o", "two.o")
    subprocess.run([str(program)], check=True)


def test_another_processor(tmp_path: Path) -> None:
    """An object for AArch64, made here."""
    path = network(tmp_path)
    assert run(compile_command.main, path, "-o", tmp_path, "--mcpu", "cortex-a72").status == 0
    data = (tmp_path / "net.o").read_bytes()
    assert data[:4] == b"\x7fELF"
    assert int.from_bytes(data[18:20], "little") == 183  # EM_AARCH64


@needs_arm
def test_another_processor_runs(tmp_path: Path) -> None:
    """NEON code, run by an emulator, computes what the interpreter computes."""
    path = network(tmp_path)
    assert run(compile_command.main, path, "-o", tmp_path, "--mcpu", "cortex-a72").status == 0
    got, expected = outputs(tmp_path, build(tmp_path, "net_example.c", "net.o", cc=ARM_CC), ARM)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_bad_input(tmp_path: Path) -> None:
    """Names that C does not know, missing files, unknown processors, and no file left behind."""
    path = network(tmp_path)
    refused(run(compile_command.main, path, "-o", tmp_path / "o", "--name", "2nd"), "2nd", "--name")
    refused(run(compile_command.main, tmp_path / "none.onnx", "-o", tmp_path / "o"), "none.onnx")
    refused(run(compile_command.main, path, "-o", tmp_path / "o", "--mcpu", "z80"), "z80")
    assert not (tmp_path / "o").exists()
    refused(run(compile_command.main, path), "usage", status=2)


def test_a_program_of_functions_only(tmp_path: Path) -> None:
    """There is no network to compile ahead of time."""
    file = tmp_path / "f.mlir"
    file.write_text("glow_fn.func @main(%x : f64) {\n  glow_fn.return %x\n}\n")
    refused(run(compile_command.main, file, "-o", tmp_path / "out"), "there is no glow.func in it")


@pytest.mark.parametrize(
    ("target", "features", "message"),
    [
        ("cortex-m4", "+mve.fp", "LLVM makes no code for these features together"),
        ("x86-64", "-64bit", "LLVM makes no code for it: 64-bit code requested"),
        ("wasm32", "+simd256", "'+simd256' is not a recognized feature"),
        ("s390x-unknown-linux-gnu", "", "weights are little-endian"),
        ("avr-unknown-unknown", "", "addresses have 16 bits"),
        ("wasm64-unknown-unknown", "", "take wasm32"),
    ],
)
def test_targets_without_code(tmp_path: Path, target: str, features: str, message: str) -> None:
    """What LLVM refuses, or ends the process for, is a message before the model is read."""
    options = ["--target", target, *(["--mattr", features] if features else [])]
    refused(run(compile_command.main, tmp_path / "none.onnx", "-o", tmp_path / "o", *options), message)


ABORT = """
import os
from glow_backends.cpu.guarded import apart
def work():
    os.write(2, b"LLVM ERROR: no such instruction\\n")
    os.abort()
assert apart(lambda: b"code", "t") == b"code"
try:
    apart(work, "strange")
except Exception as error:
    print(error)
try:
    apart(lambda: [][1], "t")
except IndexError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no copies of processes")
def test_an_abort_is_a_message() -> None:
    """An abort of LLVM's while it makes code for another machine ends a copy of the process."""
    done = subprocess.run([sys.executable, "-c", ABORT], capture_output=True, text=True, check=True)
    message = (
        "target 'strange': LLVM makes no code for it: no such instruction; check the CPU and its features"
    )
    assert done.stdout.splitlines() == [message, "list index out of range"]


def test_features_that_go(tmp_path: Path) -> None:
    """`--mattr` takes features to leave out; without doubles RISC-V passes floats otherwise, too."""
    path = network(tmp_path)
    done = run(compile_command.main, path, "-o", tmp_path, "--target", "riscv64", "--mattr", "-d")
    assert done.status == 0, done
    flags = int.from_bytes((tmp_path / "net.o").read_bytes()[48:52], "little")
    assert flags & 6 != 4  # EF_RISCV_FLOAT_ABI_DOUBLE


def test_code_for_other_machines_does_not_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process another architecture is refused at once, missing instructions by the run."""
    g = glow.GraphBuilder()
    g.save(g.relu(g.placeholder("x", (4,))), "y")
    other = "cortex-a72" if platform.machine() in ("x86_64", "AMD64") else "x86-64"
    with pytest.raises(
        glow.GlowError, match=f"cpu='{other}' is .*glow-compile makes code for other machines"
    ):
        glow.compile(g, cpu=other)
    assert "avx512fp16" in named("sapphirerapids").needs
    monkeypatch.setattr(CpuTarget, "lacks", ["avx1024"])
    net = glow.compile(g)
    with pytest.raises(glow.GlowError, match="processors with avx1024, which this one does not have"):
        net.run({"x": np.zeros(4, np.float32)})
