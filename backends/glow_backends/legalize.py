"""glow-legalize: nodes that a backend does not run become the smaller nodes that their cards give."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Backend
from glow_backends.named import BackendSpec
from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.packages import package_of
from glow_dialects.ops.module import functions
from glow_passes.contract import GraphPass
from glow_passes.lower.decompose import decompose


def runs(backend: Backend, node: GraphOp) -> bool:
    """Whether a backend says that it runs a node; UnsupportedError where it says something else."""
    try:
        answer = backend.supports(node)
    except GlowError:
        raise
    except Exception as error:  # whatever the code of a package does
        told = f"raises {type(error).__name__}: {error}"
    else:
        if isinstance(answer, bool | np.bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            return bool(answer)
        told = f"returns {answer!r}"
    who = f"backend {backend.name}{package_of(type(backend))}"
    raise UnsupportedError(
        f"{who}: supports() {told} for {node.name}; it has to return True or False for every operator"
    )


@dataclass(frozen=True)
class LegalizePass(BackendSpec, GraphPass):
    """Decompose every node that `backend` does not support; written by the backend's name."""

    name = "glow-legalize"
    backend: Backend

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            decompose(function, partial(runs, self.backend))
            for node in function.walk():
                if isinstance(node, GraphOp) and node.results and not self.can_take(node):
                    self.refuse(node)

    def can_take(self, node: GraphOp) -> bool:
        """Whether there is a way from the node to the backend's code."""
        if self.backend.compiles_graphs():
            return runs(self.backend, node)
        return node.INSTR is not None or node.VIEW

    def refuse(self, node: GraphOp) -> None:
        """UnsupportedError for a node that has no instruction, or that no backend of graphs runs."""
        who = f"backend {self.backend.name}{package_of(type(self.backend))}"
        if self.backend.compiles_graphs():
            raise UnsupportedError(f"{who} does not run {node.name}, nor what it is made of")
        if not node.can_decompose():
            raise UnsupportedError(f"{who}: {node.name} has neither an instruction nor a decomposition")
        raise UnsupportedError(
            f"{who} says that it supports {node.name}, which has no instruction: its supports() must be "
            "false for it, so that it is decomposed, or the operator's card needs a reference"
        )
