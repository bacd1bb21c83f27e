"""glow-legalize: decompose nodes that a backend does not support.

Literals and splats that it does not run become constants of the module. Passes of the same run make only
nodes that it runs from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Backend
from glow_backends.named import BackendSpec
from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.location import names, shortened
from glow_dialects.core.packages import package_of
from glow_dialects.ops.module import functions
from glow_passes.contract import GraphPass
from glow_passes.graph.place_constants import place_constants
from glow_passes.legality import allow_only
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
        f"{who}: supports() {told} for {node.name}; it must return True or False for every operator"
    )


@dataclass(frozen=True)
class LegalizePass(BackendSpec, GraphPass):
    """Decompose every node that `backend` does not support; written by the backend's name."""

    name = "glow-legalize"
    backend: Backend

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for node in self.left_over(op):
            self.refuse(node)
        allow_only(self.can_take)

    def left_over(self, module: ModuleOp) -> Iterator[GraphOp]:
        """Decompose, and give the nodes that the backend does not take all the same."""
        for function in functions(module):
            decompose(function, partial(runs, self.backend))
        place_constants(module, where=lambda leaf: not self.can_take(leaf))
        for function in functions(module):
            for node in function.walk():
                if isinstance(node, GraphOp) and node.results and not self.can_take(node):
                    yield node

    def can_take(self, node: GraphOp) -> bool:
        """Whether there is a way from the node to the backend's code."""
        if self.backend.compiles_graphs():
            return runs(self.backend, node)
        return node.VIEW or (node.INSTR is not None and runs(self.backend, node))

    def refuse(self, node: GraphOp) -> None:
        """UnsupportedError for a node that the backend does not run, or that has no instruction."""
        who = f"backend {self.backend.name}{package_of(type(self.backend))}"
        where = shortened(names(node.location), 3)
        what = f"{node.name} ('{where}')" if where else node.name
        if self.backend.compiles_graphs() or node.INSTR is not None:
            raise UnsupportedError(
                f"{who} supports neither {what} nor its decomposition; "
                f"'{self.backend.name}+cpu' runs the rest "
                "of a model on the host"
            )
        if not node.can_decompose():
            raise UnsupportedError(f"{who}: {what} has neither an instruction nor a decomposition")
        raise UnsupportedError(
            f"{who} claims to support {what}, which has no instruction: its supports() must be False "
            "for it, so that it is decomposed, or the operator needs a reference in NumPy"
        )
