"""Graph passes: target-independent rewrites of the nodes of a function."""

from __future__ import annotations

from xdsl.passes import ModulePass

from glow_passes.graph.cse import CsePass
from glow_passes.graph.dce import DcePass
from glow_passes.graph.fold_constants import FoldConstantsPass

#: Every graph pass. A test compares this tuple with the folder.
GRAPH_PASSES: tuple[type[ModulePass], ...] = (
    CsePass,
    DcePass,
    FoldConstantsPass,
)

#: Target-independent optimisation, in order.
OPTIMIZE: tuple[ModulePass, ...] = (
    FoldConstantsPass(),  # what is known now is not computed again
    CsePass(),  # equal constants and equal nodes become one
    DcePass(),  # what nobody reads
)
