"""Programs in Model Explorer: `model-explorer net.mlir --extensions=glow_tools.model_explorer_adapter`.

It needs the extra `explorer`.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedBaseClass=false, reportUnknownParameterType=false
from __future__ import annotations

from typing import Any, ClassVar

from model_explorer import Adapter, AdapterMetadata, ModelExplorerGraphs, graph_builder

from glow_dialects.core.verify import verify
from glow_passes.listing import Listing
from glow_runtime.page.nodes import Node, Numbers, nodes
from glow_tools.common import describe, read_module
from glow_tools.context import tool_context


class GlowAdapter(Adapter):
    """Every level of a program, its functions as namespaces and the scopes of the model's nodes in them."""

    metadata: ClassVar[AdapterMetadata] = AdapterMetadata(
        id="glow",
        name="Glow on xDSL",
        description="Programs of glow-opt at any level: graphs, target graphs, instructions",
        fileExts=["mlir", "onnx"],
    )

    def __init__(self) -> None:
        super().__init__()

    def convert(self, model_path: str, settings: dict[str, Any]) -> ModelExplorerGraphs:
        """The graph of a file; ValueError with the message of the parser or verifier where it is none."""

        try:
            module = read_module(model_path, {}, tool_context())
            verify(module)
        except Exception as error:
            raise ValueError(describe(error)) from error
        found = nodes(module, Numbers(), Listing())
        return {"graphs": [graph_builder.Graph(id="program", nodes=[_node(node) for node in found])]}


def _node(node: Node) -> graph_builder.GraphNode:
    number, operator, name, scope, text, reads = node
    attributes = {"node": name, "text": text}
    return graph_builder.GraphNode(
        id=str(number),
        label=operator,
        namespace=scope,
        attrs=[graph_builder.KeyValue(key=key, value=value) for key, value in attributes.items() if value],
        incomingEdges=[graph_builder.IncomingEdge(sourceNodeId=str(source)) for source in reads],
    )
