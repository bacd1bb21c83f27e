"""Tools start fast because they import what a program needs and no more."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %y = glow.transpose %x {permutation = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  glow.save %y to @y : tensor<4xf32>
}
"""
REPORT = "import sys; sys.stderr.write('\\n'.join(sys.modules))"


def modules(arguments: list[str], text: str = "") -> set[str]:
    """The modules that glow-opt has imported when it ends."""
    code = f"""
import sys
from glow_tools.opt import main
try:
    main({arguments!r})
finally:
    {REPORT}
"""
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True)
    return set(done.stderr.splitlines())


def test_help_imports_nothing_heavy() -> None:
    """`--help` needs neither xDSL nor NumPy."""
    found = modules(["--help"])
    assert "glow_tools.opt" in found
    assert found.isdisjoint({"xdsl", "numpy", "glow_dialects", "rich", "onnx", "llvmlite"})


def test_reading_imports_only_the_cards_that_are_met() -> None:
    """Printing a program needs no backend, no pass, no ONNX, and few cards."""
    found = modules(["-"], PROGRAM)
    assert "glow_dialects.ops.transpose" in found
    assert found.isdisjoint({"onnx", "llvmlite", "rich", "safetensors"})
    packages = {m.partition(".")[0] for m in found}
    assert packages.isdisjoint({"glow_backends", "glow_passes", "glow_frontends", "glow_compiler"})
    cards = {m for m in found if m.startswith("glow_dialects.ops.")}
    assert len(cards) < 25, sorted(cards)
