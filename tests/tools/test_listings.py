"""`glow-opt -t llvm-ir` and `-t asm` print what LLVM and the assembler read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from glow_backends.cpu.target import initialize_llvm
from glow_tools import opt

BODY = """
  %x = glow.get @x : tensor<4x8xf32>
  %s = glow.softmax %x {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
"""
HEAD = """glow.placeholder @x input : tensor<4x8xf32>
glow.placeholder @y output : tensor<4x8xf32>
"""
MAIN = f"glow.func @main {{{BODY}  glow.save %s to @y : tensor<4x8xf32>\n}}\n"
OTHER = f"""glow.func @other {{{BODY}  %t = glow.tanh %s : (tensor<4x8xf32>) -> tensor<4x8xf32>
  glow.save %t to @y : tensor<4x8xf32>
}}
"""
PROGRAMS = {HEAD + MAIN: {"glow_main"}, HEAD + MAIN + OTHER: {"glow_main_main", "glow_main_other"}}


def listed(program: str, target: str, folder: Path) -> Path:
    """The file of a listing."""
    source, out = folder / "net.mlir", folder / f"net.{target}"
    source.write_text(program)
    assert opt.main([str(source), "-p", "cpu", "-t", target, "-o", str(out)]) == 0
    return out


@pytest.mark.parametrize("program", PROGRAMS)
def test_llvm_reads_the_listing(program: str, tmp_path: Path) -> None:
    """One module, which holds each kernel and each function once."""
    initialize_llvm()
    parsed = llvm.parse_assembly(listed(program, "llvm-ir", tmp_path).read_text())
    parsed.verify()
    names = [f.name for f in parsed.functions if not f.is_declaration]
    assert {n for n in names if n.startswith("glow_main")} == PROGRAMS[program]
    assert len([n for n in names if n.startswith("glow_softmax")]) == 1


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_assembler_reads_the_listing(program: str, tmp_path: Path) -> None:
    """One file for the host."""
    source = listed(program, "asm", tmp_path).rename(tmp_path / "net.s")
    subprocess.run(["cc", "-c", str(source), "-o", str(tmp_path / "net.o")], check=True, capture_output=True)
