"""Passes that show a program in the middle of a pipeline, and change nothing."""

from __future__ import annotations

from xdsl.passes import ModulePass

from glow_passes.watch.draw import DrawPass
from glow_passes.watch.print_ir import PrintIrPass

WATCH_PASSES: tuple[type[ModulePass], ...] = (DrawPass, PrintIrPass)
