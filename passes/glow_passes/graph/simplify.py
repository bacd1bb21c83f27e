"""glow-simplify: all local patterns together, so that each sees at once what another one made.

Every rule goes from more work to less, or towards the form that other rules look for; none makes an
operator that lowering has taken apart, so the pass may run on lowered graphs. `recognize` adds
those that do: chains of small operators become the operator that they stand for.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.errors import UnsupportedError
from glow_passes.contract import GraphPass
from glow_passes.graph import (
    activations,
    algebra,
    casts,
    clips,
    concats,
    expansions,
    fold_batch_norm,
    fold_constants,
    fold_pads,
    gathers,
    noops,
    normalizations,
    products,
    reductions,
    reshapes,
    selects,
    slices,
    softmaxes,
    splats,
    sums,
    transposes,
)
from glow_passes.graph.driver import Pattern, rewrite
from glow_passes.legality import legal_nodes

#: In the order in which their patterns are tried.
_MODULES = (
    *(noops, splats, fold_constants, casts, fold_batch_norm, fold_pads, expansions, reshapes, transposes),
    *(concats, slices, gathers, reductions, products, algebra, clips, selects, sums),
    *(normalizations, softmaxes, activations),
)


def _patterns(table: str) -> dict[str, tuple[Pattern, ...]]:
    """The patterns of a table by family, which is the module that holds them."""
    return {module.__name__.rpartition(".")[2]: getattr(module, table, ()) for module in _MODULES}


_PATTERNS, _RECOGNIZE = _patterns("PATTERNS"), _patterns("RECOGNIZE")
PATTERNS: tuple[Pattern, ...] = tuple(p for family in _PATTERNS.values() for p in family)
RECOGNIZE: tuple[Pattern, ...] = tuple(p for family in _RECOGNIZE.values() for p in family)
#: All patterns by family.
FAMILIES = {name: (*family, *_RECOGNIZE[name]) for name, family in _PATTERNS.items()}


@dataclass(frozen=True)
class SimplifyPass(GraphPass):
    """Every simplification to a common fixpoint, with or without the recognition of idioms.

    `only`: the families of patterns to apply instead, such as `algebra`.
    """

    name = "glow-simplify"
    OPTIONAL = True
    recognize: bool = False
    only: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, self._patterns(), legal_nodes())

    def _patterns(self) -> tuple[Pattern, ...]:
        if not self.only:
            return _ALL if self.recognize else PATTERNS
        if unknown := [name for name in self.only if name not in FAMILIES]:
            raise UnsupportedError(f"no patterns '{unknown[0]}'; there are: {', '.join(sorted(FAMILIES))}")
        return tuple(p for name in self.only for p in FAMILIES[name])


_ALL = (*PATTERNS, *RECOGNIZE)
#: For graphs that will be differentiated: dropout, which only inference does without, stays, and so do
#: max, min, clip and relu, whose gradients differ where an element is at the limit.
_CHANGES_GRADIENTS = (*noops.PATTERNS, *clips.PATTERNS, *clips.RECOGNIZE)
BEFORE_TRAINING = (noops.IDENTITY, *(p for p in _ALL if p not in _CHANGES_GRADIENTS))
