"""glow-print-ir: print the program at this point of the pipeline."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.printer import Printer

from glow_passes.instrumentation import functions_of


@dataclass(frozen=True)
class PrintIrPass(ModulePass):
    """Print `functions` (a glob) to the standard error, under a `label`, with `locations`."""

    name = "glow-print-ir"
    functions: str = "*"
    label: str = ""
    locations: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        print(f"// ----- {self.label or 'glow-print-ir'}", file=sys.stderr)
        for function in functions_of(op, self.functions):
            Printer(sys.stderr, print_debuginfo=self.locations).print_op(function)
            print(file=sys.stderr)
