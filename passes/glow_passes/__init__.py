"""Passes, pipelines and their registry. Nothing is imported until it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from xdsl.passes import ModulePass


@cache
def all_passes() -> dict[str, type[ModulePass]]:
    """Every pass by name."""
    from glow_passes.autodiff.differentiate import DifferentiatePass
    from glow_passes.autodiff.freeze_placeholders import FreezePlaceholdersPass
    from glow_passes.autodiff.make_trainable import MakeTrainablePass
    from glow_passes.autodiff.rematerialize import RematerializePass
    from glow_passes.fn import FN_PASSES
    from glow_passes.graph import GRAPH_PASSES
    from glow_passes.instr.dead_stores import DeadStoresPass
    from glow_passes.instr.eliminate_copies import EliminateCopiesPass
    from glow_passes.instr.one_memory import OneMemoryPass
    from glow_passes.instr.plan_memory import PlanMemoryPass
    from glow_passes.instr.share_buffers import ShareBuffersPass
    from glow_passes.instr.shrink_lives import ShrinkLivesPass
    from glow_passes.instr.spill import SpillPass
    from glow_passes.instr.tile import TilePass
    from glow_passes.instr.unroll import UnrollPass
    from glow_passes.lower.decompose import DecomposePass
    from glow_passes.lower.drop_predicates import DropPredicatesPass
    from glow_passes.lower.irgen import IrgenPass
    from glow_passes.lower.schedule import SchedulePass
    from glow_passes.partition.partition import PartitionPass
    from glow_passes.quantize import QUANTIZE_PASSES
    from glow_passes.watch import WATCH_PASSES

    own: tuple[type[ModulePass], ...] = (
        MakeTrainablePass,
        DifferentiatePass,
        FreezePlaceholdersPass,
        RematerializePass,
        DropPredicatesPass,
        DecomposePass,
        SchedulePass,
        IrgenPass,
        DeadStoresPass,
        EliminateCopiesPass,
        ShareBuffersPass,
        ShrinkLivesPass,
        SpillPass,
        PlanMemoryPass,
        UnrollPass,
        TilePass,
        OneMemoryPass,
        PartitionPass,
    )
    return {p.name: p for p in (*FN_PASSES, *GRAPH_PASSES, *QUANTIZE_PASSES, *WATCH_PASSES, *own)}


def factories() -> dict[str, Callable[[], type[ModulePass]]]:
    """The registry in the form that xDSL's tools take."""
    return {name: (lambda p=p: p) for name, p in all_passes().items()}
