"""Graph passes: target-independent rewrites of the nodes of a function."""

from __future__ import annotations

from xdsl.passes import ModulePass

from glow_passes.graph.branches import BranchesPass
from glow_passes.graph.cse import CsePass
from glow_passes.graph.dce import DcePass
from glow_passes.graph.place_constants import PlaceConstantsPass
from glow_passes.graph.simplify import SimplifyPass

#: Target-independent optimisation, in order.
OPTIMIZE: tuple[ModulePass, ...] = (
    DcePass(),  # unread nodes need no rewriting
    CsePass(),  # equal constants and equal nodes become one
    SimplifyPass(recognize=True),  # local rewrites to a fixpoint, idioms recognised
    CsePass(),  # nodes that have become equal
    PlaceConstantsPass(),  # literals that would be written to memory in every run
)

#: The same for a graph that has been lowered for a backend: nothing is recognised again.
OPTIMIZE_LOWERED: tuple[ModulePass, ...] = (
    SimplifyPass(),  # folds and merges after decomposition
    BranchesPass(),  # RepVGG's parallel convolutions; float weights are final now: quantisation came before
    PlaceConstantsPass(),  # literals of decompositions
    CsePass(),  # equal nodes and constants of decompositions and gradients
)
