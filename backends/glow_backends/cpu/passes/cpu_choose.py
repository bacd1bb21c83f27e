"""glow-cpu-choose: the algorithm of each blocked convolution, by estimated time."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr

from glow_backends.cpu.kernels.conv.choice import choose, choose_weights
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp
from glow_backends.cpu.kernels.conv.conv_plan import plan_conv
from glow_backends.cpu.kernels.conv.conv_spec import conv_spec
from glow_backends.cpu.kernels.conv.conv_weights import conv_weights_spec
from glow_backends.cpu.kernels.conv.training_ops import ConvWeightsOp, PackFilterOp
from glow_backends.cpu.kernels.conv.winograd import tile_of
from glow_backends.cpu.kernels.conv.winograd_changing import supports_changing
from glow_backends.cpu.kernels.conv.winograd_plan import WinogradSpec, plan_winograd
from glow_backends.cpu.passes.cpu_fuse import rebuilt
from glow_backends.cpu.target import CpuTarget, named
from glow_dialects.core.builder import Builder
from glow_dialects.ops.module import ConstantOp, GetOp, functions
from glow_passes.contract import GraphPass


def packed(conv: ConvOp, target: CpuTarget) -> None:
    """Pack the filter of a convolution in front of it, unless the kernel itself does so."""
    spec, tile = conv_spec(conv), tile_of(conv.algorithm)
    if tile and supports_changing(WinogradSpec(spec, tile), target):
        return
    plan = plan_winograd(WinogradSpec(spec, tile), target) if tile else plan_conv(spec, target)
    width, lanes = plan.block.vectors * target.lanes, 1 if spec.plain_input else target.lanes
    b = Builder.before(conv)
    pack = b(PackFilterOp(conv.filter, form=conv.form, lanes=lanes, width=width, tile=tile))
    new = rebuilt(conv, packed=[pack])
    b.insert(new)
    new.results[0].name_hint = conv.result.name_hint
    conv.result.replace_all_uses_with(new.results[0])
    conv.detach()
    conv.erase()


@dataclass(frozen=True)
class CpuChoosePass(GraphPass):
    """Direct convolutions become Winograd ones where that is estimated to be faster.

    Filters that change at run time are packed for the algorithm in front of their convolution.
    `winograd=false` keeps every sum a plain one (results as exact as a direct convolution's).
    `search=true` measures the algorithms on this machine in place of estimating; what it finds is
    kept in the object cache. `cpu` and `threads` describe the target.
    """

    name = "glow-cpu-choose"
    cpu: str = "host"
    threads: int = 1
    winograd: bool = True
    search: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = named(self.cpu, self.threads)
        for function in functions(op):
            for conv in list(function.body.block.ops):
                if isinstance(conv, ConvWeightsOp) and self.winograd:
                    chosen = choose_weights(conv_weights_spec(conv), target)
                    conv.properties["algorithm"] = StringAttr(chosen)
                if not isinstance(conv, ConvOp):
                    continue
                owner = conv.filter.owner
                constant = isinstance(owner, GetOp) and isinstance(owner.target(), ConstantOp)
                if self.winograd and conv.algorithm == "direct":
                    chosen = choose(conv_spec(conv), target, self.search, not constant)
                    conv.properties["algorithm"] = StringAttr(chosen)
                if not constant and conv.packed is None:
                    packed(conv, target)
