"""glow-run --layers names the first layer that is wrong, on faults put in on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import commands
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_backends.cpu.emit import pointwise_rules
from glow_frontends.onnx.rules import families, find_rule
from glow_passes.graph import driver
from glow_tools.closeness import Tolerance, difference
from glow_tools.run import main


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that faults were put in are not remembered."""
    monkeypatch.setenv("GLOW_CACHE_DIR", "")


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Conv, Relu, Tanh, a product, Sigmoid: one layer a line, nodes with names of their own."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.uniform(-0.5, 0.5, (4, 3, 3, 3)),
        "m": rng.uniform(-0.5, 0.5, (6, 5)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "first/conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "first/relu"),
        helper.make_node("Tanh", ["r"], ["t"], "second/tanh"),
        helper.make_node("MatMul", ["t", "m"], ["p"], "third/product"),
        helper.make_node("Sigmoid", ["p"], ["y"], "third/sigmoid"),
    ]
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 6, 5])],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def layers(model: object, other: object = "onnxruntime", *more: object) -> commands.Done:
    """glow-run --layers on random inputs."""
    return commands.run(main, model, "--random", 0, "--compare", other, "--layers", *more)


@pytest.mark.parametrize("other", ["onnxruntime", "interpreter"])
def test_nothing_is_wrong(model: str, other: str) -> None:
    """Every layer is compared, the interpreter's with itself to the last bit."""
    done = layers(model, other)
    assert done.status == 0 and f"compared 5 layers with {other}: 0 differ" in done.output, done
    same = layers(model, other, "--backend", other) if other == "interpreter" else done
    assert "first difference" not in same.output


def wrong_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """tanh of the CPU is 1 % too large."""
    right = pointwise_rules.FLOAT["tanh"]
    monkeypatch.setitem(pointwise_rules.FLOAT, "tanh", lambda x, p: right(x, p) * 1.01)


def test_wrong_kernel(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node is named, wrong by itself, and what is written repeats it."""
    wrong_kernel(monkeypatch)
    file = tmp_path / "node.onnx"
    done = layers(model, "interpreter", "--node", file)
    assert done.status == 1
    assert "3 differ" in done.output
    assert "first difference: Tanh 'second/tanh', value 't': float32 [1, 4, 6, 6]" in done.output
    assert "the node differs, too" in done.output
    again = next(line for line in done.output.splitlines() if line.startswith("  again: glow-run "))
    assert [n.op_type for n in onnx.load(file).graph.node] == ["Tanh"]
    assert commands.run(main, *again.split()[2:]).status == 1
    monkeypatch.undo()
    assert commands.run(main, *again.split()[2:]).status == 0


def test_wrong_kernel_of_open_sizes(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What --shape says of the model is not asked of the node by itself."""
    wrong_kernel(monkeypatch)
    opened = onnx.load(model)
    opened.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(opened, model)
    done = layers(model, "onnxruntime", "--shape", "x=2x3x6x6")
    assert done.status == 1 and "the node differs, too" in done.output, done


def test_wrong_kernel_of_a_module(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of our own have layers, too, also beside the model that they were made of."""
    module = tmp_path / "net.mlir"
    glow.save(glow.load(model), module)
    assert layers(module).status == 0
    assert "compared 5 layers" in layers(model, module).output
    wrong_kernel(monkeypatch)
    for other in ("interpreter", "onnxruntime"):
        done = layers(module, other)
        assert done.status == 1 and "first difference: tanh 't'" in done.output, done


def test_wrong_rule(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is imported wrongly is wrong on every backend: onnxruntime tells."""
    monkeypatch.setitem(families("")[0], "Sigmoid", find_rule("", "Tanh", 17))
    assert layers(model, "interpreter").status == 0
    done = layers(model)
    assert done.status == 1 and "first difference: Sigmoid 'third/sigmoid'" in done.output, done


def test_wrong_where_nobody_looks(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewrite that only merges layers without other readers is wrong: values are looked at alone."""
    apply = driver._Run.apply

    def wrong(run: Any, op: Any, rule: Any, *more: Any) -> bool:
        step = next((u.operation for r in op.results for u in r.uses), None)
        if op.name == "glow.relu" and step is not None and step.name == "glow.tanh" and run.changes == 0:
            op.results[0].replace_all_uses_with(op.operands[0])
            run.changes += 1
        return apply(run, op, rule, *more)

    monkeypatch.setattr(driver._Run, "apply", wrong)
    done = layers(model)
    assert done.status == 1 and "first difference: Tanh 'second/tanh'" in done.output, done
    assert "only where no later value is looked at" in done.output


@pytest.mark.slow
def test_quantised(model: str, tmp_path: Path) -> None:
    """The quantised network beside the float one: every layer is a little off, none is at 20 %."""
    rng = np.random.default_rng(0)
    data = [{"x": rng.standard_normal((1, 3, 6, 6)).astype(np.float32)} for _ in range(3)]
    path = tmp_path / "small.mlir"
    glow.save(glow.quantize(model, data, everything=True), path)
    assert layers(path, model).status == 1
    assert layers(path, model, "--rtol", "0.3").status == 0


def test_wrong_uses(model: str, tmp_path: Path) -> None:
    """One message each."""
    commands.refused(commands.run(main, model, "--random", 0, "--layers"), "--compare", status=2)
    commands.refused(commands.run(main, model, "--compare", "numpy"), "onnxruntime, interpreter", status=2)
    compared = ("--compare", "onnxruntime", "--random", 0)
    commands.refused(commands.run(main, model, *compared, "--node", "n.onnx"), "--layers", status=2)
    commands.refused(layers(model, "onnxruntime", "--node", "n.mlir"), ".onnx", status=2)
    commands.refused(layers(model, "onnxruntime", "--device", "cpu:0"), "--device", status=2)
    commands.refused(layers("net.glow"), ".glow", status=2)
    commands.refused(commands.run(main, "net.glow", "--random", 0, "--exact"), "--exact", status=2)
    done = layers(model, tmp_path / "none.onnx")
    assert done.status == 1 and "none.onnx" in done.messages and "Traceback" not in done.messages


def test_tolerances() -> None:
    """Floats by element or upper quartile, coarse types coarsely, integers exactly, bytes to one step."""
    few = Tolerance(1e-3, 1e-5)

    def off(want: np.ndarray, by: float) -> bool:
        return difference((want + by).astype(want.dtype), want, few).bad

    cancelled = np.array([100, 100, 1e-9], np.float32)
    assert not off(cancelled, 0.05) and off(cancelled, 0.5)
    activated = np.array([0, 0, 0, 1e-3, 40, 50, 60], np.float32)
    assert not off(activated, 0.03) and off(activated, 0.1)
    masked = np.array([1, 2, 1, 2, 1, 2, 3e38], np.float32)
    assert off(masked, 0.1)
    assert not off(np.float16([1, 2]), 5e-3) and off(np.float32([1, 2]), 5e-3)
    assert off(np.array([5, 6]), 1) and off(np.array([5], np.int16), 1)
    assert not off(np.array([5], np.int8), 1) and off(np.array([5], np.uint8), 2)
    odd = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    assert not difference(odd, odd, few).bad
    assert difference(np.nan_to_num(odd), odd, few).wrong == 3
    assert difference(np.zeros(3), np.zeros(4), few).form == "float64[3] instead of float64[4]"
