"""Maps and strings at the end of a model: one compiled program, and functions of the host behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_compiler as glow
from glow_dialects.core.errors import BindingError, GlowError

ML = "ai.onnx.ml"
LABELS = ["ant", "bee", "cat"]
BACKENDS = pytest.mark.parametrize("backend", ["interpreter", "cpu"])


def _classifier(texts: bool, *more: onnx.NodeProto, outputs: tuple[str, ...] = ("label", "maps")) -> Any:
    """A linear classifier of three labels whose scores become maps."""
    rng = np.random.default_rng(0)
    names: dict[str, Any] = {"classlabels_strings": LABELS} if texts else {"classlabels_ints": [3, 5, 9]}
    maps: dict[str, Any] = {"classlabels_strings": LABELS} if texts else {"classlabels_int64s": [3, 5, 9]}
    weights = {"coefficients": rng.standard_normal(12).tolist(), "intercepts": [0.1, 0.2, -0.1]}
    nodes = [
        helper.make_node(
            "LinearClassifier", ["x"], ["label", "p"], domain=ML, multi_class=1, **weights, **names
        ),
        helper.make_node("ZipMap", ["p"], ["maps"], domain=ML, **maps),
        *more,
    ]
    key = TensorProto.STRING if texts else TensorProto.INT64
    entry = helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    kinds = {
        "label": helper.make_tensor_type_proto(key, [None]),
        "maps": helper.make_sequence_type_proto(entry),
        "p": helper.make_tensor_type_proto(TensorProto.FLOAT, [None, 3]),
        "word": helper.make_tensor_type_proto(TensorProto.STRING, [None]),
        "code": helper.make_tensor_type_proto(TensorProto.INT64, [None]),
    }
    infos = [helper.make_value_info(n, kinds[n]) for n in outputs]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 4])
    graph = helper.make_graph(nodes, "g", [x], infos)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


def _word(taken: str) -> onnx.NodeProto:
    """Words for two of the three numeric labels."""
    table: dict[str, Any] = {
        "keys_int64s": [3, 9],
        "values_strings": ["three", "nine"],
        "default_string": "other",
    }
    return helper.make_node("LabelEncoder", [taken], ["word"], domain=ML, **table)


def _code() -> onnx.NodeProto:
    """Numbers for the labels that are texts: the label is read again, by a node of the host."""
    table: dict[str, Any] = {"keys_strings": LABELS, "values_int64s": [7, 8, 9]}
    return helper.make_node("LabelEncoder", ["label"], ["code"], domain=ML, **table)


MODELS = {
    "numbers": _classifier(False),
    "texts": _classifier(True),
    "scores too": _classifier(True, outputs=("maps", "p", "label")),
    "words": _classifier(False, _word("label"), outputs=("label", "maps", "word")),
    "words alone": _classifier(False, _word("label"), outputs=("word",)),
    "codes of texts": _classifier(True, _code(), outputs=("maps", "code")),
}


@BACKENDS
@pytest.mark.parametrize("name", MODELS)
def test_as_onnxruntime_does(name: str, backend: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model = MODELS[name]
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    net = glow.compile(model, backend=backend)
    for rows in (1, 4, 1):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        found = net.run({"x": x})
        assert list(found) == [o.name for o in model.graph.output]
        for info, wanted in zip(model.graph.output, peer.run(None, {"x": x}), strict=True):
            if info.name == "maps":
                assert [list(entries) for entries in found["maps"]] == [list(entries) for entries in wanted]
                for mine, theirs in zip(found["maps"], wanted, strict=True):
                    np.testing.assert_allclose(
                        list(mine.values()), list(theirs.values()), rtol=1e-5, atol=1e-6
                    )
            elif info.name == "p":
                np.testing.assert_allclose(found["p"], wanted, rtol=1e-5, atol=1e-6)
            else:
                assert found[info.name].tolist() == wanted.tolist()


def test_one_program_and_the_steps_behind_it() -> None:
    net = glow.compile(MODELS["texts"])
    x = np.ones((1, 4), np.float32)
    net.run({"x": x})
    assert net.report().notes["host"] == {"LabelEncoder", "ZipMap"}
    assert net.report().kernels > 0
    with pytest.raises(BindingError, match="strings or maps"):
        net.bind({"x": x})


def test_a_kept_program_is_finished_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path / "cache"))
    onnx.save(MODELS["texts"], str(tmp_path / "m.onnx"))
    x = np.ones((2, 4), np.float32)
    first, again = (glow.compile(str(tmp_path / "m.onnx")).run({"x": x}) for _ in range(2))
    assert first["maps"] == again["maps"]
    assert first["label"].tolist() == again["label"].tolist()


def test_labels_that_do_not_fit_are_an_error() -> None:
    model = onnx.ModelProto()
    model.CopyFrom(MODELS["texts"])
    del model.graph.node[1].attribute[0].strings[2:]
    with pytest.raises(GlowError, match=r"2 labels in attribute .* for 3 scores"):
        glow.compile(model, backend="interpreter").run({"x": np.ones((1, 4), np.float32)})
