"""glow-draw: draw the graph at this point of the pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.files import whole
from glow_passes.contract import GraphPass
from glow_passes.watch.dot import to_dot, to_svg


@dataclass(frozen=True)
class DrawPass(GraphPass):
    """Write the graph to `file`: NAME.dot for Graphviz, or NAME.svg, drawn by it."""

    name = "glow-draw"
    file: str

    def __post_init__(self) -> None:
        if Path(self.file).suffix not in (".dot", ".svg"):
            raise UnsupportedError(f"file={self.file}: pictures are called NAME.dot or NAME.svg")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        text = to_dot(op) if self.file.endswith(".dot") else to_svg(op)
        with whole(Path(self.file)) as temporary:
            temporary.write_text(text, encoding="utf-8")
