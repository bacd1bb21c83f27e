"""`glow_kernel`: kernels as nests of loops on views, before it is said how a processor runs them."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, region_def, traits_def
from xdsl.traits import NoTerminator

from glow_backends.nests.bounds import check_bounds
from glow_backends.nests.operations import LocalOp, LoopsAttr, MemoryAttr, NestOp, NumberOp, PackOp, YieldOp
from glow_backends.nests.schedule import ScheduleAttr


@irdl_op_definition
class KernelOp(IRDLOperation):
    """A kernel: its block's arguments are the views of a call, the first one written, and the numbers that
    only the call tells (index). The schedule says how it runs."""

    name = "glow_kernel.kernel"
    sym_name = prop_def(StringAttr)
    schedule = opt_prop_def(ScheduleAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    assembly_format = "$sym_name (`schedule` $schedule^)? $body attr-dict"

    def verify_(self) -> None:
        check_bounds(self.body.block.ops, self.schedule.data if self.schedule is not None else None)


def get_glow_kernel() -> Dialect:
    """The dialect of kernels."""
    return Dialect(
        "glow_kernel",
        [KernelOp, NestOp, PackOp, LocalOp, NumberOp, YieldOp],
        [LoopsAttr, MemoryAttr, ScheduleAttr],
    )
