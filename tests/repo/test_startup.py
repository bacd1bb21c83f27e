"""Tools start fast because they import what a program needs and no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from glow_dialects.core.graph_op import PureOp, graph_op

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


@pytest.mark.slow
def test_a_pipeline_imports_what_a_program_needs() -> None:
    """Of passes those that run, of kernels those of the program's operators; no functions, no packages."""
    found = modules(["-", "-p", "cpu"], PROGRAM)
    assert "glow_passes.graph.simplify" in found
    kernels = {m for m in found if m.startswith("glow_backends.cpu.kernels.")}
    assert kernels.isdisjoint(
        f"glow_backends.cpu.kernels.{name}" for name in ("data.trees", "norm.normalize", "pool.pool_argmax")
    )
    unneeded = ("glow_dialects.fn", "glow_passes.fn", "glow_passes.partition", "importlib.metadata")
    assert not [m for m in found if m.startswith(unneeded)]


def test_the_body_of_a_kernel_imports_only_the_cards_of_its_steps() -> None:
    """A body's operators are found by their names, whatever other cards there are."""
    code = f"""
import sys
from glow_backends.cpu.emit.pointwise import Pointwise, Step
from glow_backends.cpu.fused_body import body_of
body_of(Pointwise(1, (Step("mish", (0,)),), (1,)))
{REPORT}"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = set(done.stderr.splitlines())
    assert "glow_dialects.ops.activation" in found
    assert found.isdisjoint(f"glow_dialects.ops.{name}" for name in ("dft", "optimizer", "top_k"))


def test_instructions_are_defined_when_they_are_asked_for() -> None:
    """The class of an operator's instruction is made once, whoever asks first."""
    kind = type("LazyOp", (PureOp,), {"name": "glow.lazy", "reference": lambda self, y, x: None})
    kind.__annotations__ = {}
    lazy = graph_op(kind)
    assert not isinstance(vars(lazy)["INSTR"], type)
    made = lazy.INSTR
    assert made is not None and made is lazy.INSTR is vars(lazy)["INSTR"]
    assert made.name == "glow_instr.lazy" and made.GRAPH_OP is lazy


LOAD = """
import json, sys
import numpy as np
import glow_compiler as glow
net = glow.compile(sys.argv[1])
print(float(net.run({"x": np.full((2, 8), 3, np.float32)})["y"].sum()))
sys.stderr.write("\\n".join(sys.modules))
"""


def save_model(path: Path, factor: float) -> None:
    """A file with y = x * factor, of any number of rows; two seconds old, so that its time tells it."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows", 8]) for n in "xy")
    weights = onnx.numpy_helper.from_array(np.full(8, factor, np.float32), "w")
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", [x], [y], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
    os.utime(path, (path.stat().st_mtime - 10 * factor,) * 2)


@pytest.mark.slow
def test_a_known_model_runs_without_the_compiler(tmp_path: Path) -> None:
    """Neither xDSL nor onnx is imported for a program that an earlier process compiled; changes are seen.

    The first process imports the rules of the operators that the model has, and few others.
    """
    path = tmp_path / "model.onnx"
    environment = {**os.environ, "GLOW_CACHE_DIR": str(tmp_path / "cache")}

    def load() -> tuple[float, set[str]]:
        command = [sys.executable, "-c", LOAD, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        return float(done.stdout), set(done.stderr.splitlines())

    save_model(path, 2)
    first, compiling = load()
    assert "glow_frontends.onnx.rules.elementwise" in compiling
    unneeded = ("signal", "sampling", "sequence", "legacy", "recurrent", "quantization")
    assert compiling.isdisjoint(f"glow_frontends.onnx.rules.{name}" for name in unneeded)
    again, modules = load()
    assert first == again == 2 * 8 * 6
    assert modules.isdisjoint({"xdsl", "onnx", "glow_passes", "glow_frontends", "glow_dialects.ops"})
    save_model(path, 5)
    assert load()[0] == 2 * 8 * 15
