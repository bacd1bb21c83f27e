"""Graph passes: target-independent rewrites of the nodes of a function."""

from __future__ import annotations

from xdsl.passes import ModulePass

from glow_passes.graph.activations import ActivationsPass
from glow_passes.graph.algebra import AlgebraPass
from glow_passes.graph.branches import BranchesPass
from glow_passes.graph.casts import CastsPass
from glow_passes.graph.clips import ClipsPass
from glow_passes.graph.concats import ConcatsPass
from glow_passes.graph.cse import CsePass
from glow_passes.graph.dce import DcePass
from glow_passes.graph.expansions import ExpansionsPass
from glow_passes.graph.fold_batch_norm import FoldBatchNormPass
from glow_passes.graph.fold_constants import FoldConstantsPass
from glow_passes.graph.fold_pads import FoldPadsPass
from glow_passes.graph.gathers import GathersPass
from glow_passes.graph.noops import NoopsPass
from glow_passes.graph.normalizations import NormalizationsPass
from glow_passes.graph.place_constants import PlaceConstantsPass
from glow_passes.graph.products import ProductsPass
from glow_passes.graph.rebatch import RebatchPass
from glow_passes.graph.reductions import ReductionsPass
from glow_passes.graph.reshapes import ReshapesPass
from glow_passes.graph.selects import SelectsPass
from glow_passes.graph.simplify import SimplifyPass
from glow_passes.graph.slices import SlicesPass
from glow_passes.graph.softmaxes import SoftmaxesPass
from glow_passes.graph.splats import SplatsPass
from glow_passes.graph.sums import SumsPass
from glow_passes.graph.transposes import TransposesPass

#: Every graph pass. A test compares this tuple with the folder.
GRAPH_PASSES: tuple[type[ModulePass], ...] = (
    ActivationsPass,
    AlgebraPass,
    BranchesPass,
    CastsPass,
    ClipsPass,
    ConcatsPass,
    CsePass,
    DcePass,
    ExpansionsPass,
    FoldBatchNormPass,
    FoldConstantsPass,
    FoldPadsPass,
    GathersPass,
    NoopsPass,
    NormalizationsPass,
    PlaceConstantsPass,
    ProductsPass,
    RebatchPass,
    ReductionsPass,
    ReshapesPass,
    SelectsPass,
    SimplifyPass,
    SlicesPass,
    SoftmaxesPass,
    SplatsPass,
    SumsPass,
    TransposesPass,
)

#: Target-independent optimisation, in order.
OPTIMIZE: tuple[ModulePass, ...] = (
    DcePass(),  # what nobody reads is not worth a look
    CsePass(),  # equal constants and equal nodes become one
    SimplifyPass(recognize=True),  # local rewrites to a fixpoint, idioms recognised
    CsePass(),  # what has become equal
    SimplifyPass(recognize=True),  # values that are now used once
    PlaceConstantsPass(),  # what would be written to memory in every run
)

#: The same for a graph that has been lowered for a backend: nothing is recognised again.
OPTIMIZE_LOWERED: tuple[ModulePass, ...] = (
    SimplifyPass(),  # what decomposition left to fold and merge
    BranchesPass(),  # float weights are final now: what is quantised is so already
    CsePass(),
    SimplifyPass(),
    PlaceConstantsPass(),
    CsePass(),  # equal constants that the passes made
)
