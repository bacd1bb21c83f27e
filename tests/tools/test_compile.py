"""glow-compile: what it writes compiles with a C compiler, links, runs, and gives the same results."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from commands import refused, run

import glow_compiler as glow
from glow_tools import compile as compile_command

ARM_CC, ARM = "aarch64-linux-gnu-gcc", "qemu-aarch64"
needs_arm = pytest.mark.skipif(
    not (shutil.which(ARM_CC) and shutil.which(ARM)), reason=f"no {ARM_CC} or no {ARM}"
)
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def network(folder: Path, name: str = "net", channels: int = 8) -> Path:
    """A small convolutional network in a file."""
    rng = np.random.default_rng(channels)
    g = glow.GraphBuilder()
    x = g.placeholder("x", (1, 3, 9, 9))
    w = g.constant(rng.standard_normal((channels, 3, 3, 3)).astype(np.float32), "w")
    m = g.constant(rng.standard_normal((channels * 16, 5)).astype(np.float32), "m")
    y = g.max_pool(g.relu(g.conv(x, w, pads=(1, 1, 1, 1))), kernel=(2, 2), strides=(2, 2))
    g.save(g.softmax(g.matmul(g.flatten(y), m)), "probabilities")
    path = folder / f"{name}.mlir"
    glow.save(g, path)
    return path


def build(folder: Path, source: str, *objects: str, cc: str = "cc") -> Path:
    """Compile and link a C program with all warnings as errors; a static one for another processor."""
    target = folder / "program"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-std=c11"] + ["-static"] * (cc != "cc")
    subprocess.run([cc, *flags, source, *objects, "-lm", "-o", str(target)], cwd=folder, check=True)
    return target


def outputs(folder: Path, program: Path, *emulator: str) -> tuple[np.ndarray, np.ndarray]:
    """What the example of `network` computes for random data, and what the interpreter computes."""
    x = np.random.default_rng(1).standard_normal((1, 3, 9, 9)).astype(np.float32)
    x.tofile(folder / "x.bin")
    subprocess.run([*emulator, str(program), "net.weights", "x.bin"], cwd=folder, check=True)
    got = np.fromfile(folder / "probabilities.out", np.float32).reshape(1, 5)
    net = glow.compile(network(folder), backend="interpreter")
    return got, net.run({"x": x})["probabilities"]


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
