"""glow-layout: a backend's own blocked layout through whole regions of the graph."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Backend
from glow_backends.named import BackendSpec
from glow_dialects.core.errors import UnsupportedError
from glow_passes.contract import GraphPass
from glow_passes.graph.layout import propagate


@dataclass(frozen=True)
class LayoutPass(BackendSpec, GraphPass):
    """Carry what `backend` has a blocked form of over to blocks of channels, and what passes them on.

    UnsupportedError where the backend has no blocked layout.
    """

    name = "glow-layout"
    backend: Backend

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        layout = self.backend.blocked_layout()
        if layout is None:
            raise UnsupportedError(f"backend {self.backend.name} has no blocked_layout()")
        propagate(op, layout)
