"""A limit to the time of compiling: what is optional is left out, and results are right without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import glow_compiler as glow
from benchmarks import compile_time
from benchmarks.compile_time import Model
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.time_limit import NOTE, TimeLimit
from glow_dialects.core.types import Array
from glow_passes.contract import is_optional
from glow_runtime.pipelines import Pipeline
from glow_tools import compile as compile_command
from glow_tools import run

OPTIONAL = tuple(dict.fromkeys(p.name for p in Pipeline.default("cpu").passes if is_optional(p)))


def convolutions() -> onnx.ModelProto:
    """Groups with a shuffle between them, a residual, a normalisation, and images that are joined."""
    m = Model(2, 8, 6, 6)
    left = m.node("Relu", m.node("Conv", "x", m.constant(8, 4, 3, 3), pads=[1] * 4, group=2))
    left = m.node("Reshape", left, m.array(np.array([2, 2, 4, 6, 6])))
    left = m.node("Reshape", m.node("Transpose", left, perm=[0, 2, 1, 3, 4]), m.array(np.array([2, 8, 6, 6])))
    scale, shift, mean = m.constant(8), m.constant(8), m.constant(8)
    left = m.node("BatchNormalization", left, scale, shift, mean, m.array(np.ones(8, np.float32)))
    right = m.node("Conv", "x", m.constant(8, 8, 1, 1))
    joined = m.node("Concat", m.node("Add", left, right), m.node("Identity", right), axis=1)
    return m.done(m.node("GlobalAveragePool", joined))


def attention() -> onnx.ModelProto:
    """Two products around a softmax, and the same node twice."""
    m = Model(2, 6, 16)
    query, key, value = (m.node("MatMul", "x", m.constant(16, 16)) for _ in range(3))
    scores = m.node("MatMul", query, m.node("Transpose", key, perm=[0, 2, 1]))
    scores = m.node("Mul", scores, m.array(np.float32(0.25)))
    twice = [m.node("MatMul", m.node("Softmax", scores, axis=-1), value) for _ in range(2)]
    return m.done(m.node("Gelu", m.node("Add", *twice)))


def recurrent() -> onnx.ModelProto:
    """A network with steps, whose results are cut."""
    m = Model(5, 2, 8)
    weights = m.constant(1, 24, 8), m.constant(1, 24, 6)
    m.nodes.append(helper.make_node("LSTM", ["x", *weights], ["steps"], hidden_size=6))
    cut = m.node("Slice", "steps", m.array(np.array([1])), m.array(np.array([4])))
    return m.done(m.node("Tanh", cut))


def quantized() -> onnx.ModelProto:
    """Convolutions on integers, with a residual, of weights that are no signed bytes."""
    m = Model(1, 8, 6, 6)
    scale, zero = m.array(np.float32(0.02)), m.array(np.uint8(117))

    def rounded(value: str) -> str:
        return m.node("DequantizeLinear", m.node("QuantizeLinear", value, scale, zero), scale, zero)

    def layer(value: str) -> str:
        stored = m.array(m.random.integers(0, 256, (8, 8, 3, 3)).astype(np.uint8))
        weights = m.node("DequantizeLinear", stored, m.array(np.float32(0.002)), zero)
        return rounded(m.node("Conv", value, weights, pads=[1] * 4))

    first = layer(rounded("x"))
    return m.done(rounded(m.node("Add", layer(first), first)))


def scattered() -> onnx.ModelProto:
    """Rows that are written, sums of factors, and clips."""
    m = Model(4, 8)
    rows = m.node("Expand", m.array(np.array([[2], [0]])), m.array(np.array([2, 8])))
    written = m.node("ScatterElements", "x", rows, m.constant(2, 8), axis=0)
    scaled = [m.node("Mul", written, m.array(np.float32(i))) for i in range(3)]
    return m.done(
        m.node("Relu", m.node("Sum", *scaled)), m.node("Gather", written, m.array(np.array([1, 3])))
    )


MODELS: tuple[Callable[[], onnx.ModelProto], ...] = (
    convolutions,
    attention,
    recurrent,
    quantized,
    scattered,
    lambda: compile_time.slices(12),
    lambda: compile_time.aligned_slices(8),
    lambda: compile_time.dense(40),
    lambda: compile_time.shuffles(16),
)
ids: Any = lambda v: getattr(v, "__name__", str(v))  # noqa: E731


@pytest.fixture(autouse=True)
def uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOW_CACHE_DIR", "")


def expected(model: onnx.ModelProto) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs, and outputs as the interpreter has them."""
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    feed = {"x": np.random.default_rng(1).normal(size=shape).astype(np.float32)}
    return feed, glow.compile(model, backend="interpreter").run(feed)


def close(got: dict[str, Array], want: dict[str, Array], what: object, step: float) -> None:
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-5 + step, err_msg=str(what))


@pytest.mark.slow
@pytest.mark.parametrize("make", MODELS, ids=ids)
def test_without_what_is_optional(
    make: Callable[[], onnx.ModelProto], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All optional passes left out, each of them alone, and the rewriting stopped at some place."""
    model = make()
    step = 0.021 if make is quantized else 0  # of integers
    feed, want = expected(model)
    net = glow.compile(model, compile_budget=0)
    close(net.run(feed), want, "nothing", step)
    note = net.report().notes[NOTE]
    assert note.startswith("0 s used up; left out: ") and all(name in note for name in OPTIONAL)
    for name in OPTIONAL:
        close(glow.compile(model, pipeline=Pipeline.default().remove(name)).run(feed), want, name, step)
    for most in (7, 20, 45):
        asked = iter(range(most))
        monkeypatch.setattr(TimeLimit, "is_over", property(lambda _, a=asked: next(a, None) is None))
        close(glow.compile(model, compile_budget=1).run(feed), want, most, step)


def test_backends_and_open_sizes() -> None:
    """The interpreter's programs, and ones whose sizes only the run tells."""
    model = attention()
    feed, want = expected(model)
    net = glow.compile(model, backend="interpreter", compile_budget=0)
    close(net.run(feed), want, "interpreter", 0)
    assert "glow-simplify" in net.report().notes[NOTE]
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    net = glow.compile(model, compile_budget=0, specialize="never")
    close(net.run(feed), want, "open", 0)
    assert NOTE in net.report().notes


def test_enough_time() -> None:
    """A program within its time says nothing, and has all that there is."""
    model = attention()
    whole, limited = glow.compile(model), glow.compile(model, compile_budget=1e6)
    assert NOTE not in limited.report().notes
    assert limited.report().kernels == whole.report().kernels
    assert glow.compile(model, compile_budget=0).report().kernels > whole.report().kernels


def test_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass whose rewriting ends early is named."""
    asked = iter(range(6))
    monkeypatch.setattr(TimeLimit, "is_over", property(lambda _: next(asked, None) is None))
    note = glow.compile(attention(), compile_budget=2).report().notes[NOTE]
    assert note.startswith("2 s used up; left out: ") and "; cut short: glow-simplify" in note


@pytest.mark.parametrize("kind", ["onnx", "module"])
def test_cache(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lacks something is not remembered; what is remembered is taken."""
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path))
    model = attention() if kind == "onnx" else glow.load(attention())
    limited = glow.compile(model, compile_budget=0).report()
    whole = glow.compile(model).report()
    assert NOTE in limited.notes and NOTE not in whole.notes and limited.kernels > whole.kernels


@pytest.mark.parametrize("value", [-1, float("nan"), "5", True, [1]])
def test_what_is_no_time(value: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"compile_budget=.*: a number of seconds, 0 or more, or None"):
        glow.compile(attention(), compile_budget=value)


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--compile-budget of the commands."""
    path = tmp_path / "m.onnx"
    onnx.save(attention(), path)
    model, budget = str(path), ["--compile-budget", "0"]
    assert run.main([model, "--random", "0", "--compare", "interpreter", *budget]) == 0
    assert f"{NOTE}: 0 s used up; left out: " in capsys.readouterr().out
    assert compile_command.main([model, "-o", str(tmp_path / "out"), "--check", "interpreter", *budget]) == 0
    assert f"{NOTE}: 0 s used up; left out: " in capsys.readouterr().out
    for value in ("-1", "nan", "soon"):
        with pytest.raises(SystemExit, match="2"):
            run.main([model, f"--compile-budget={value}"])
        assert "is not a number of seconds, 0 or more" in capsys.readouterr().err
