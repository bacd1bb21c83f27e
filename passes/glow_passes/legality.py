"""Which nodes there may be after a graph was lowered for a backend: passes that simplify it further ask.

`glow-legalize` says so to whoever runs the passes (`PassRunner`), for the passes that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from glow_dialects.core.graph_op import GraphOp

Legal = Callable[[GraphOp], bool]


@dataclass
class Legality:
    """The nodes that may be made in a compilation: any, until a pass says which."""

    legal: Legal | None = None


_scope: ContextVar[Legality | None] = ContextVar("legality", default=None)


@contextmanager
def legality(scope: Legality) -> Generator[None]:
    """The passes that run in the block are of one compilation."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


def allow_only(legal: Legal) -> None:
    """From now on passes of this compilation make only nodes for which `legal` holds."""
    scope = _scope.get()
    if scope is not None:
        scope.legal = legal


def legal_nodes() -> Legal | None:
    """What holds of nodes that may be made; None: any may."""
    scope = _scope.get()
    return None if scope is None else scope.legal
