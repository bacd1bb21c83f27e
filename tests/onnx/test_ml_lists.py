"""Lists of attributes of ai.onnx.ml and TfIdfVectorizer that do not fit together: a clear message."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import glow_compiler as glow

TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}
LEAVES = {"treeids": [0, 0], "nodeids": [1, 2], "ids": [0, 1], "weights": [1.0, 2.0]}
CLASSES = {"classlabels_ints": [0, 1, 2]}
REAL = [[0.5, -1.0, 2.0], [1.0, 3.0, -2.0]]
#: Operator, what goes in, attributes that fit.
NODES: dict[str, tuple[Any, dict[str, Any]]] = {
    "TfIdfVectorizer": (
        [1, 2, 3, 2],
        {
            "mode": "TFIDF",
            "min_gram_length": 1,
            "max_gram_length": 2,
            "max_skip_count": 0,
            "ngram_counts": [0, 2],
            "ngram_indexes": [0, 1, 2, 3],
            "weights": [1.0, 2.0, 3.0, 4.0],
            "pool_int64s": [1, 2, 1, 2, 2, 3],
        },
    ),
    "Scaler": (REAL, {"offset": [1.0, 2.0, 3.0], "scale": [1.0, 2.0, 3.0]}),
    "Imputer": (REAL, {"imputed_value_floats": [1.0, 2.0, 3.0]}),
    "CategoryMapper": ([0, 1], {"cats_strings": ["a", "b"], "cats_int64s": [0, 1]}),
    "LabelEncoder": ([0, 1], {"keys_int64s": [0, 1], "values_floats": [1.0, 2.0]}),
    "LinearRegressor": (REAL, {"coefficients": [1.0] * 6, "intercepts": [1.0, 2.0], "targets": 2}),
    "LinearClassifier": (REAL, {"coefficients": [1.0] * 9, "intercepts": [1.0, 2.0, 3.0], **CLASSES}),
    "SVMRegressor": (
        REAL,
        {"coefficients": [1.0, 2.0], "support_vectors": [1.0] * 6, "n_supports": 2, "kernel_type": "RBF"},
    ),
    "SVMClassifier": (
        REAL,
        {
            "coefficients": [1.0] * 6,
            "support_vectors": [1.0] * 9,
            "vectors_per_class": [1, 1, 1],
            "rho": [1.0, 2.0, 3.0],
            **CLASSES,
        },
    ),
    "TreeEnsembleRegressor": (
        REAL,
        {**TREE, "n_targets": 2, **{f"target_{k}": v for k, v in LEAVES.items()}},
    ),
    "TreeEnsembleClassifier": (
        REAL,
        {**TREE, "classlabels_int64s": [0, 1], **{f"class_{k}": v for k, v in LEAVES.items()}},
    ),
    "ZipMap": (REAL, {"classlabels_int64s": [0, 1, 2]}),
}


def run(op: str, attributes: dict[str, Any]) -> None:
    """Compile and run a node."""
    given = NODES[op][0]
    x = np.array(given, np.int64 if isinstance(given[0], int) else np.float32)
    domain = "" if op == "TfIdfVectorizer" else "ai.onnx.ml"
    outputs = ["y", "scores"] if op.endswith("Classifier") else ["y"]
    node = helper.make_node(op, ["x"], outputs, name="it", domain=domain)
    for name, value in attributes.items():
        kind = {int: onnx.AttributeProto.INTS, float: onnx.AttributeProto.FLOATS}
        listed = (
            kind.get(type(NODES[op][1][name][0]), onnx.AttributeProto.STRINGS)
            if isinstance(value, list)
            else None
        )
        node.attribute.append(helper.make_attribute(name, value, attr_type=listed))
    ports = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    graph = helper.make_graph([node], "g", [ports], [onnx.ValueInfoProto(name=o) for o in outputs])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 2)]
    glow.compile(helper.make_model(graph, opset_imports=opsets), backend="interpreter").run({"x": x})


def others(values: list[Any]) -> list[list[Any]]:
    """Lists of other lengths, and with numbers out of range."""
    far = [[-3, *values[1:]], [*values[:-1], 99], [*values[:-1], 2**40]] if isinstance(values[0], int) else []
    return [values[:-1], [*values, values[-1]], [], *far]


@pytest.mark.parametrize("op", NODES)
def test_lists(op: str) -> None:
    """What fits runs; of what does not the message names the node and an attribute."""
    attributes = NODES[op][1]
    run(op, attributes)
    refused = 0
    for name, values in attributes.items():
        for other in others(values) if isinstance(values, list) else ():
            try:
                run(op, {**attributes, name: other})
            except glow.GlowError as error:
                refused += 1
                assert "internal error" not in str(error)
                assert "'it'" in str(error)
                assert "attribute" in str(error)
    assert refused


def test_tf_idf_with_few_indexes() -> None:
    """Which attribute, how many entries, and how many are expected."""
    attributes = {**NODES["TfIdfVectorizer"][1], "ngram_indexes": [0, 1]}
    with pytest.raises(glow.GlowError, match="'ngram_indexes' has 2 entries, expected 4"):
        run("TfIdfVectorizer", attributes)
