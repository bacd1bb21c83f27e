"""Passes of the functional dialect."""

from __future__ import annotations

from xdsl.passes import ModulePass

from glow_passes.fn.drop_parameters import DropParametersPass
from glow_passes.fn.expand_grad import ExpandGradPass
from glow_passes.fn.lift_closures import LiftClosuresPass
from glow_passes.fn.outline_control import OutlineControlPass
from glow_passes.fn.simplify_functions import SimplifyFunctionsPass
from glow_passes.fn.specialize_known import SpecializeKnownPass
from glow_passes.fn.tail_calls import TailCallsPass
from glow_passes.fn.unroll_functions import UnrollFunctionsPass

#: Every pass on functions. A test compares this tuple with the folder.
FN_PASSES: tuple[type[ModulePass], ...] = (
    DropParametersPass,
    ExpandGradPass,
    LiftClosuresPass,
    OutlineControlPass,
    SimplifyFunctionsPass,
    SpecializeKnownPass,
    TailCallsPass,
    UnrollFunctionsPass,
)
