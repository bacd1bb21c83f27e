"""Operators on strings: those that move elements against NumPy, Tokenizer against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow

WORDS = np.array([["a", "b", "c"], ["d", "e", "a"]], dtype=object)
NEW = np.array([["q", "r", "s"]], dtype=object)


def ints(*values: int) -> np.ndarray:
    """A vector of i64."""
    return np.array(values, np.int64)


MOVES: dict[str, tuple[str, list[np.ndarray], dict[str, Any], np.ndarray]] = {
    "reshape": ("Reshape", [WORDS, ints(3, 2)], {}, WORDS.reshape(3, 2)),
    "scalar": ("Gather", [WORDS[0], np.array(1)], {}, np.array("b", dtype=object)),
    "transpose": ("Transpose", [WORDS], {}, WORDS.T),
    "tile": ("Tile", [WORDS, ints(2, 1)], {}, np.tile(WORDS, (2, 1))),
    "where": ("Where", [np.array([[True], [False]]), WORDS, NEW], {}, np.array([WORDS[0], NEW[0]])),
    "unsqueeze": ("Unsqueeze", [WORDS, ints(0)], {}, WORDS[None]),
    "elements": ("GatherElements", [WORDS, ints(0, 1, 1)[None]], {}, np.array([["a", "e", "a"]], object)),
    "scatter": ("ScatterND", [WORDS, ints(1)[None], NEW], {}, np.array([WORDS[0], NEW[0]])),
    "pad": ("Pad", [WORDS[0], ints(1, 1)], {}, np.array(["", "a", "b", "c", ""], object)),
    "one_hot": ("OneHot", [ints(1, 0), ints(2), NEW[0, :2]], {}, np.array([["q", "r"], ["r", "q"]], object)),
}


def compiled(op: str, inputs: list[np.ndarray], domain: str = "", **attributes: Any) -> onnx.ModelProto:
    """A model of one node; strings are inputs, everything else constants."""
    names = [f"i{k}" for k in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], domain=domain, **attributes)
    pairs = list(zip(names, inputs, strict=True))
    weights = [numpy_helper.from_array(v, n) for n, v in pairs if v.dtype != object]
    infos = [
        helper.make_tensor_value_info(n, TensorProto.STRING, [None] * v.ndim)
        for n, v in pairs
        if v.dtype == object
    ]
    result = helper.make_tensor_value_info("y", TensorProto.STRING, None)
    graph = helper.make_graph([node], op, infos, [result], weights)
    versions = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    """Strings go where numbers would."""
    op, inputs, attributes, want = MOVES[name]
    feeds = {f"i{k}": v for k, v in enumerate(inputs) if v.dtype == object}
    got = glow.compile(compiled(op, inputs, **attributes), backend="interpreter").run(feeds)["y"]
    assert got.dtype == object and got.shape == want.shape and got.tolist() == want.tolist()


@pytest.mark.parametrize(
    "form",
    [
        {"separators": [" "], "mincharnum": 1},
        {"separators": [""], "mincharnum": 1},
        {"separators": [",", " +"], "mincharnum": 2, "mark": 1},
        {"tokenexp": r"\b\w\w+\b", "mincharnum": 1},
        {"tokenexp": "[a-z]+", "mincharnum": 3, "mark": 1},
    ],
)
@pytest.mark.parametrize("texts", [["the cat, sat", "Fast!  now", ""], ["", ""]])
def test_tokenizer(form: dict[str, Any], texts: list[str]) -> None:
    """Words and characters, marks and filling, rows and vectors."""
    x = np.array(texts, dtype=object)
    for value in (x, x[None]):
        model = compiled("Tokenizer", [value], "com.microsoft", **{"mark": 0, "pad_value": "#", **form})
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        want = np.asarray(session.run(None, {"i0": value})[0])
        got = glow.compile(model, backend="interpreter").run({"i0": value})["y"]
        assert got.shape == want.shape and got.tolist() == want.tolist()
