"""The adapter for Model Explorer: nodes, edges, namespaces of a program and of a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_page import SMALL, transformer

pytest.importorskip("model_explorer", reason="the extra `explorer` is not installed")


def test_graph_of_a_program(tmp_path: Path) -> None:
    """Operators are nodes, operands edges."""
    from glow_tools.model_explorer_adapter import GlowAdapter

    file = tmp_path / "net.mlir"
    file.write_text(SMALL)
    (graph,) = GlowAdapter().convert(str(file), {})["graphs"]
    labels = {node.id: node.label for node in graph.nodes}
    edges = sorted((labels[e.sourceNodeId], node.label) for node in graph.nodes for e in node.incomingEdges)
    assert edges == [
        ("glow.add", "glow.save"),
        ("glow.get", "glow.neg"),
        ("glow.get", "glow.neg"),
        ("glow.neg", "glow.add"),
        ("glow.neg", "glow.add"),
    ]
    file.write_text("glow.func @main {\n")
    with pytest.raises(ValueError, match="net.mlir:1:1"):
        GlowAdapter().convert(str(file), {})


def test_scopes_of_a_model(tmp_path: Path) -> None:
    """The names of ONNX nodes are namespaces."""
    from glow_tools.model_explorer_adapter import GlowAdapter

    file = tmp_path / "encoder.onnx"
    transformer(1, file)
    (graph,) = GlowAdapter().convert(str(file), {})["graphs"]
    found = {node.namespace for node in graph.nodes if node.label == "glow.softmax"}
    assert found == {"encoder/layer.0/attention/self"}
