"""Weights that stay in the model's file: equal results, and the same errors as for a plain read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_frontends.onnx import load, load_mapped
from glow_frontends.onnx.tensors import to_array


def _model(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((160, 200)).astype(np.float32), "b": np.ones(200, np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Add", ["y", "b"], ["z"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 160])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 200])],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
    return path


def test_large_weights_stay_in_the_file(tmp_path: Path) -> None:
    path = _model(tmp_path)
    plain, mapped = load(path), load_mapped(path)
    assert mapped.ByteSize() < 4096 < plain.ByteSize()
    for one, other in zip(plain.graph.initializer, mapped.graph.initializer, strict=True):
        assert one.name == other.name
        np.testing.assert_array_equal(to_array(one), to_array(other, tmp_path))
    assert mapped.graph.node == plain.graph.node and mapped.opset_import == plain.opset_import


def test_results(tmp_path: Path) -> None:
    path = _model(tmp_path)
    w, b = (to_array(t) for t in load(path).graph.initializer)
    x = np.random.default_rng(1).standard_normal((3, 160)).astype(np.float32)
    np.testing.assert_allclose(glow.compile(path).run({"x": x})["z"], x @ w + b, rtol=1e-4, atol=1e-4)


def test_a_link_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    link = tmp_path / "link.onnx"
    link.symlink_to(_model(tmp_path / "store"))
    assert load_mapped(link) == load(link)


@pytest.mark.parametrize("cut", [1, 100, 60_000, 127_000])
def test_a_file_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    path = _model(tmp_path)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(glow.GlowError) as plain:
        load(path)
    with pytest.raises(glow.GlowError) as mapped:
        load_mapped(path)
    assert str(mapped.value) == str(plain.value)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.touch()
    with pytest.raises(glow.GlowError, match="no graph|not an ONNX model"):
        load_mapped(path)


def test_a_file_that_changes_is_refused_for_new_shapes(tmp_path: Path) -> None:
    path = _model(tmp_path)
    net = glow.compile(path)
    net.run({"x": np.ones((3, 160), np.float32)})
    model = load(path)
    del model.graph.node[1]
    model.graph.node[0].output[0] = "z"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(glow.GlowError, match="has changed"):
        net.run({"x": np.ones((4, 160), np.float32)})
