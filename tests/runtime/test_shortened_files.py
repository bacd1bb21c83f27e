"""Files that are cut short in place while programs use them: an answer or a message, no crash."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.mapped_files import READ, check_whole, file_bytes, mapping_of

X = {"x": np.linspace(-1, 1, 1024, dtype=np.float32).reshape(1, 1024)}
SIZES = pytest.mark.parametrize("large", [pytest.param(True, marks=pytest.mark.slow), False])
"""Files that are mapped, and those that are read."""
MESSAGE = "was truncated while in use"


def model(path: Path, large: bool, external: bool = False) -> np.ndarray:
    """A product by a matrix, written to a file; returns its result for X."""
    columns = READ // 4096 + 64 if large else 256
    w = np.random.default_rng(0).standard_normal((1024, columns), dtype=np.float32)
    ends = ("x", 1024), ("y", columns)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name, size in ends)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [numpy_helper.from_array(w, "w")]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, path, save_as_external_data=external, location="data.bin", size_threshold=0)
    return X["x"] @ w


def cut(path: Path) -> None:
    """Leave one page of a file."""
    os.truncate(path, 4096)


@SIZES
@pytest.mark.parametrize("external", [True, False])
def test_model_of_the_interpreter(tmp_path: Path, large: bool, external: bool) -> None:
    """Weights in the model's file and beside it."""
    want = model(tmp_path / "m.onnx", large, external)
    net = glow.compile(tmp_path / "m.onnx", backend="interpreter")
    np.testing.assert_allclose(net.run(X)["y"], want, rtol=1e-3, atol=1e-3)
    cut(tmp_path / ("data.bin" if external else "m.onnx"))
    if large:
        with pytest.raises(glow.GlowError, match=MESSAGE):
            net.run(X)
    else:
        np.testing.assert_allclose(net.run(X)["y"], want, rtol=1e-3, atol=1e-3)


@SIZES
@pytest.mark.parametrize("threads", [1, 2])
def test_saved_program(tmp_path: Path, large: bool, threads: int) -> None:
    """A file of programs whose weights are where they lie in it: runs, and runs on bound arrays."""
    want = model(tmp_path / "m.onnx", large)
    glow.compile(tmp_path / "m.onnx", threads=threads).save(tmp_path / "m.glow")
    net = glow.load_program(tmp_path / "m.glow")
    bound = net.bind(X)
    np.testing.assert_allclose(bound()["y"], want, rtol=1e-3, atol=1e-3)
    cut(tmp_path / "m.glow")
    for run in (bound, lambda: net.run(X)):
        if large:
            with pytest.raises(glow.GlowError, match=MESSAGE):
                run()
        else:
            np.testing.assert_allclose(run()["y"], want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("large", [True, False])
def test_remembered_program(tmp_path: Path, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that the cache keeps, whose weights are cut short while it is used."""
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path / "cache"))
    want = model(tmp_path / "m.onnx", large)
    glow.compile(tmp_path / "m.onnx").run(X)
    glow.clear_caches()
    net = glow.compile(tmp_path / "m.onnx")
    np.testing.assert_allclose(net.run(X)["y"], want, rtol=1e-3, atol=1e-3)
    (weights,) = (tmp_path / "cache").rglob("weights.bin")
    cut(weights)
    if large:
        with pytest.raises(glow.GlowError, match=MESSAGE):
            net.run(X)
    else:
        np.testing.assert_allclose(net.run(X)["y"], want, rtol=1e-3, atol=1e-3)


def test_a_file_that_is_replaced_is_whole(tmp_path: Path) -> None:
    """What was renamed over the file does not change what was mapped, nor does a file that grows."""
    path = tmp_path / "f"
    path.write_bytes(bytes(READ + 4096))
    held = file_bytes(path, 4096, READ)
    path.open("ab").write(b"more")
    check_whole(mapping_of(held))
    (tmp_path / "new").write_bytes(b"short")
    (tmp_path / "new").rename(path)
    check_whole(mapping_of(held[10:]))
    assert not held.any() and mapping_of(held) is not None
    assert file_bytes(path, 1, 3).tobytes() == b"hor" and mapping_of(file_bytes(path)) is None
    with pytest.raises(ValueError, match="it has no 9 bytes at 1"):
        file_bytes(path, 1, 9)
