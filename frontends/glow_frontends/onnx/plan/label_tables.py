"""Classifiers of strings as classifiers of numbers and a table: only the table needs the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from onnx import NodeProto, helper

#: Operators of ai.onnx.ml whose first output is a label.
CLASSIFIERS = frozenset({"LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"})


def split_labels(nodes: Iterable[NodeProto], version: int) -> Iterator[NodeProto]:
    """The nodes, each classifier of strings followed by the LabelEncoder of its label's position.

    `version`: of the domain ai.onnx.ml.

    classifier(x) -> "cat"  becomes  classifier(x) -> 1; LabelEncoder(1) -> "cat"
    """
    for node in nodes:
        texts = next((a for a in node.attribute if a.name == "classlabels_strings" and a.strings), None)
        if node.domain != "ai.onnx.ml" or node.op_type not in CLASSIFIERS or texts is None:
            yield node
            continue
        classifier = NodeProto()
        classifier.CopyFrom(node)
        kept = [a for a in node.attribute if not a.name.startswith("classlabels_")]
        del classifier.attribute[:]
        positions = list(range(len(texts.strings)))
        numbers = "classlabels_int64s"
        if node.op_type in ("LinearClassifier", "SVMClassifier"):
            numbers = "classlabels_ints"
        classifier.attribute.extend([*kept, helper.make_attribute(numbers, positions)])
        label = node.output[0] if node.output else ""
        if not label:
            yield classifier
            continue
        classifier.output[0] = f"{label}.position"
        yield classifier
        words = list(texts.strings)
        table: dict[str, Any] = {"keys_int64s": positions, "values_strings": words}
        if version < 2:
            table = {"classes_strings": words}
        yield helper.make_node(
            "LabelEncoder",
            [f"{label}.position"],
            [label],
            f"{node.name or label}.labels",
            domain="ai.onnx.ml",
            **table,
        )
