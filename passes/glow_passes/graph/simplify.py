"""glow-simplify: all local patterns together, so that each sees at once what another one made.

Every rule goes from more work to less, or towards the form that other rules look for; none makes an
operator that lowering has taken apart, so the pass may run on lowered graphs. `recognize` adds
those that do: chains of small operators become the operator that they stand for.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

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

PATTERNS: tuple[Pattern, ...] = (
    *noops.PATTERNS,
    *splats.PATTERNS,
    *fold_constants.PATTERNS,
    *casts.PATTERNS,
    *fold_batch_norm.PATTERNS,
    *fold_pads.PATTERNS,
    *expansions.PATTERNS,
    *reshapes.PATTERNS,
    *transposes.PATTERNS,
    *concats.PATTERNS,
    *slices.PATTERNS,
    *gathers.PATTERNS,
    *reductions.PATTERNS,
    *products.PATTERNS,
    *algebra.PATTERNS,
    *clips.PATTERNS,
    *selects.PATTERNS,
    *sums.PATTERNS,
)
RECOGNIZE: tuple[Pattern, ...] = (
    *clips.RECOGNIZE,
    *products.RECOGNIZE,
    *normalizations.RECOGNIZE,
    *softmaxes.RECOGNIZE,
    *activations.RECOGNIZE,
    *reductions.RECOGNIZE,
)


@dataclass(frozen=True)
class SimplifyPass(ModulePass):
    """Every simplification to a common fixpoint, with or without the recognition of idioms."""

    name = "glow-simplify"
    recognize: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, _ALL if self.recognize else PATTERNS)


_ALL = (*PATTERNS, *RECOGNIZE)
#: For graphs that will be differentiated: dropout, which only inference does without, stays.
BEFORE_TRAINING = (noops.IDENTITY, *(p for p in _ALL if p not in noops.PATTERNS))
