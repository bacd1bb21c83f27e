"""The functional passes that run before a program is differentiated and specialised."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects.builtin import ModuleOp

from glow_passes.fn.calls import remove_unreached
from glow_passes.fn.drop_parameters import drop_parameters
from glow_passes.fn.lift_closures import lift_closures
from glow_passes.fn.simplify_functions import simplify_functions
from glow_passes.fn.specialize_known import specialize_known
from glow_passes.fn.tail_calls import join_tail_calls
from glow_passes.fn.unroll_functions import unroll_functions

#: Functions of at most so many operations are put in place of all their calls, larger ones of a single one.
SMALL = 16
#: Operations that a function grows to.
LARGEST = 1000


def pipeline(root: str, unroll: int) -> Iterator[tuple[str, Callable[[ModuleOp], None]]]:
    """The passes in their order, by name; loops of at most `unroll` turns are written out."""
    yield "lift-closures", lift_closures
    if unroll:
        yield "unroll-functions", lambda m: unroll_functions(m, unroll)
    yield "specialize-known", specialize_known
    yield "simplify-functions", lambda m: simplify_functions(m, LARGEST, SMALL)
    yield "tail-calls", join_tail_calls
    yield "drop-parameters", lambda m: drop_parameters(m, [root])
    yield "remove-unreached", lambda m: remove_unreached(m, [root])


def optimize_functions(module: ModuleOp, root: str, unroll: int) -> None:
    """Run the passes on a module of which one function is called from outside."""
    for _, run in pipeline(root, unroll):
        run(module)
