"""Operators of ai.onnx.ml against onnxruntime, on models written here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import glow_compiler as glow
from glow_dialects.core.types import Array

RNG = np.random.default_rng(0)
X = RNG.standard_normal((9, 4)).astype(np.float32)


def model(op: str, outputs: int, version: int = 3, x: Array = X, **attributes: Any) -> onnx.ModelProto:
    """One ai.onnx.ml node on an input x."""
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, ["x"], names, domain="ai.onnx.ml", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype) if x.dtype != object else TensorProto.STRING
    source = helper.make_tensor_value_info("x", kind, list(x.shape))
    infos = [onnx.ValueInfoProto(name=n) for n in names]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(
        helper.make_graph([node], "test", [source], infos), opset_imports=opsets, ir_version=8
    )


def check(m: onnx.ModelProto, x: Array = X) -> dict[str, Any]:
    """The model gives on the interpreter what it gives in onnxruntime."""
    session = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    want = session.run(None, {"x": x})
    got = glow.compile(m, backend="interpreter").run({"x": x})
    for name, value in zip((o.name for o in m.graph.output), want, strict=True):
        if isinstance(value, list):
            for ours, theirs in zip(got[name], value, strict=True):
                assert list(ours) == list(theirs)
                np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-5, atol=1e-6)
        elif np.asarray(value).dtype.kind in "OUS":
            assert list(np.asarray(value).reshape(-1)) == list(got[name].reshape(-1))
        else:
            np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)
    return got


def forest(trees: int, depth: int, targets: int, prefix: str, modes: Sequence[str]) -> dict[str, Any]:
    """Full random trees in the attributes of TreeEnsembleRegressor or Classifier."""
    out: dict[str, list[Any]] = {
        f"nodes_{n}": []
        for n in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    } | {f"{prefix}_{n}": [] for n in ("treeids", "nodeids", "ids", "weights")}
    inner = 2**depth - 1
    for tree in range(trees):
        for node in range(2 * inner + 1):
            leaf = node >= inner
            row = {
                "treeids": tree,
                "nodeids": node,
                "featureids": 0 if leaf else int(RNG.integers(0, 4)),
                "values": 0.0 if leaf else float(RNG.standard_normal()),
                "modes": "LEAF" if leaf else str(RNG.choice(modes)),
                "truenodeids": 0 if leaf else 2 * node + 1,
                "falsenodeids": 0 if leaf else 2 * node + 2,
            }
            for name, value in row.items():
                out[f"nodes_{name}"].append(value)
            if leaf:
                for target in range(targets):
                    weight = {"treeids": tree, "nodeids": node, "ids": target}
                    for name, value in weight.items():
                        out[f"{prefix}_{name}"].append(value)
                    out[f"{prefix}_weights"].append(float(RNG.random()))
    return out


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("modes", [("BRANCH_LEQ",), ("BRANCH_LT", "BRANCH_GTE"), ("BRANCH_GT", "BRANCH_EQ")])
def test_tree_regressor(aggregate: str, modes: Sequence[str]) -> None:
    attributes = forest(5, 3, 2, "target", modes)
    check(model("TreeEnsembleRegressor", 1, n_targets=2, aggregate_function=aggregate, **attributes))


@pytest.mark.parametrize("post", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_tree_classifier(post: str) -> None:
    attributes = forest(5, 3, 3, "class", ("BRANCH_LEQ",))
    m = model("TreeEnsembleClassifier", 2, post_transform=post, classlabels_int64s=[7, 8, 9], **attributes)
    check(m)


def test_classifier_with_string_labels() -> None:
    attributes = forest(3, 2, 3, "class", ("BRANCH_LEQ",))
    check(model("TreeEnsembleClassifier", 2, classlabels_strings=["a", "b", "c"], **attributes))


@pytest.mark.parametrize("post", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_linear_classifier(post: str) -> None:
    m = model(
        "LinearClassifier",
        2,
        1,
        coefficients=RNG.standard_normal(12).tolist(),
        intercepts=[0.1, -0.2, 0.3],
        classlabels_ints=[3, 4, 5],
        post_transform=post,
    )
    check(m)


def test_linear_regressor() -> None:
    m = model(
        "LinearRegressor",
        1,
        1,
        coefficients=RNG.standard_normal(8).tolist(),
        intercepts=[1.0, 2.0],
        targets=2,
    )
    check(m)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str) -> None:
    positive = np.abs(X)  # onnxruntime takes the maximum of magnitudes
    check(model("Normalizer", 1, 1, positive, norm=norm), positive)


def test_scaler_and_binarizer() -> None:
    check(model("Scaler", 1, 1, offset=[0.5, 1, 2, 3], scale=[1, 2, 3, 4.0]))
    check(model("Binarizer", 1, 1, threshold=0.2))


def test_imputer() -> None:
    x = X.copy()
    x[1, 2] = np.nan
    check(
        model("Imputer", 1, 1, x, imputed_value_floats=[1, 2, 3, 4.0], replaced_value_float=float("nan")), x
    )


def test_encoders() -> None:
    words = np.array([["b"], ["a"], ["c"], ["z"]], dtype=object)
    check(
        model(
            "LabelEncoder",
            1,
            2,
            words,
            keys_strings=["a", "b", "c"],
            values_int64s=[1, 2, 3],
            default_int64=-5,
        ),
        words,
    )
    numbers = np.array([[1], [3], [2]], np.int64)
    check(model("OneHotEncoder", 1, 1, numbers, cats_int64s=[1, 2, 3]), numbers)
    check(model("CategoryMapper", 1, 1, words, cats_strings=["a", "b", "c"], cats_int64s=[1, 2, 3]), words)


@pytest.mark.parametrize("kernel", ["LINEAR", "RBF", "POLY", "SIGMOID"])
def test_svm_regressor(kernel: str) -> None:
    m = model(
        "SVMRegressor",
        1,
        1,
        coefficients=RNG.standard_normal(6).tolist(),
        support_vectors=RNG.standard_normal(24).tolist(),
        n_supports=6,
        rho=[0.3],
        kernel_type=kernel,
        kernel_params=[0.2, 0.5, 3.0],
    )
    check(m)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_svm_classifier(classes: int) -> None:
    pairs = classes * (classes - 1) // 2
    m = model(
        "SVMClassifier",
        2,
        1,
        coefficients=RNG.standard_normal((classes - 1) * 3 * classes).tolist(),
        support_vectors=RNG.standard_normal(12 * classes).tolist(),
        vectors_per_class=[3] * classes,
        rho=RNG.standard_normal(pairs).tolist(),
        kernel_type="RBF",
        kernel_params=[0.3, 0.0, 0.0],
        classlabels_ints=list(range(10, 10 + classes)),
    )
    check(m)


def test_zip_map() -> None:
    got = check(model("ZipMap", 1, 1, classlabels_strings=["a", "b", "c", "d"]))
    assert set(got["y0"][0]) == {"a", "b", "c", "d"}


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_of_pairs(classes: int) -> None:
    """Platt's sigmoids of pairs, coupled: labels and probabilities as onnxruntime gives them."""
    pairs = classes * (classes - 1) // 2
    count = 2 * classes
    m = model(
        "SVMClassifier",
        2,
        classlabels_ints=list(range(classes)),
        coefficients=RNG.standard_normal((classes - 1) * count).tolist(),
        kernel_params=[0.3, 0.0, 3.0],
        kernel_type="RBF",
        prob_a=(-1 - RNG.random(pairs)).tolist(),
        prob_b=RNG.standard_normal(pairs).tolist(),
        rho=RNG.standard_normal(pairs).tolist(),
        support_vectors=RNG.standard_normal(count * 4).tolist(),
        vectors_per_class=[2] * classes,
    )
    check(m)


def test_classifier_of_strings_is_compiled() -> None:
    """Only the table of labels runs on the host, and what hands strings on."""
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["x"],
            ["label", "scores"],
            domain="ai.onnx.ml",
            classlabels_strings=["cat", "dog", "owl"],
            coefficients=RNG.standard_normal(12).tolist(),
            intercepts=[0.1, 0.2, 0.3],
            post_transform="SOFTMAX",
        ),
        helper.make_node("Identity", ["label"], ["y0"]),
        helper.make_node("Identity", ["scores"], ["y1"]),
    ]
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, [9, 4])
    infos = [onnx.ValueInfoProto(name=n) for n in ("y0", "y1")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    graph = helper.make_graph(nodes, "test", [source], infos)
    m = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    check(m)
    net = glow.compile(m, backend="interpreter")
    net.run({"x": X})
    assert net.report().notes["host"] == {"Identity", "LabelEncoder"}


@pytest.mark.parametrize(
    "keys",
    [
        np.arange(-50, 150, 2, np.int64),
        np.arange(100, dtype=np.int64) ** 5,
        np.append(np.linspace(-3, 3, 129, dtype=np.float32), np.float32("nan")),
    ],
    ids=["dense", "far apart", "floats"],
)
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_many_numeric_labels(keys: Array, backend: str) -> None:
    """More numeric keys than are compared one by one: nothing of that runs on the host."""
    kind = "int64s" if keys.dtype == np.int64 else "floats"
    values = np.random.default_rng(0).permutation(keys.size).astype(np.float32)
    others = np.array([keys[0] - 1, keys[0] + 1, np.iinfo(np.int64).max if kind == "int64s" else np.inf])
    x = np.concatenate([keys[::-1], others.astype(keys.dtype)])
    table: dict[str, Any] = {f"keys_{kind}": keys.tolist(), "values_floats": values.tolist()}
    m = model("LabelEncoder", 1, 4, x, default_float=-2.5, **table)
    session = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    net = glow.compile(m, backend=backend)
    np.testing.assert_array_equal(net.run({"x": x})["y0"], np.asarray(session.run(None, {"x": x})[0]))
    assert not net.report().notes.get("host")


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("seed", [0, 42])
def test_murmur_hash(positive: int, seed: int) -> None:
    """Hashes of texts of all lengths, other letters among them, and of numbers."""
    texts = np.array(["", "a", "ab", "abc", "abcd", "more than four", "größer"], dtype=object)
    numbers = np.array([0, -1, 1 << 20], np.int32)
    for x in (texts, numbers):
        m = model("MurmurHash3", 1, 1, x, seed=seed, positive=positive)
        m.graph.node[0].domain = "com.microsoft"
        m.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        kind = TensorProto.UINT32 if positive else TensorProto.INT32
        m.graph.output[0].CopyFrom(helper.make_tensor_value_info("y0", kind, [None]))
        check(m, x)
