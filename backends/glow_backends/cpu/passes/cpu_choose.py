"""glow-cpu-choose: the algorithm of each blocked convolution, by estimated time."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr

from glow_backends.cpu.emit.memory import ceil_div
from glow_backends.cpu.kernels.conv.conv_direct import DirectConv
from glow_backends.cpu.kernels.conv.conv_half import HalfConv, supports_half
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp
from glow_backends.cpu.kernels.conv.conv_plan import plan_conv
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec, conv_spec
from glow_backends.cpu.kernels.conv.conv_weights import ConvWeightsSpec, conv_weights_spec
from glow_backends.cpu.kernels.conv.training_ops import ConvWeightsOp, PackFilterOp
from glow_backends.cpu.kernels.conv.winograd import WinogradConv, tile_of
from glow_backends.cpu.kernels.conv.winograd_changing import supports_changing
from glow_backends.cpu.kernels.conv.winograd_plan import WinogradSpec, plan_winograd, winograd_tiles
from glow_backends.cpu.kernels.conv.winograd_weights import WinogradWeights, supports_winograd_weights
from glow_backends.cpu.passes.cpu_fuse import rebuilt
from glow_backends.cpu.search import fastest
from glow_backends.cpu.target import CpuTarget, named
from glow_dialects.core.builder import Builder
from glow_dialects.core.estimates import estimate
from glow_dialects.ops.module import ConstantOp, GetOp, functions
from glow_passes.contract import GraphPass

DIRECT, DIRECT_HALVES, WINOGRAD = DirectConv(), HalfConv(), WinogradConv()


def packing_cycles(spec: DirectConvSpec, tile: int, target: CpuTarget) -> float:
    """Estimated cycles to bring a filter that changes into an algorithm's order, on one core."""
    lanes = target.lanes
    filters = ceil_div(spec.out_channels, lanes) * spec.in_channels
    written = (tile + 2) ** 2 if tile else prod(spec.kernel)
    squares = ceil_div(prod(spec.kernel), lanes)
    stored = filters * lanes * 4 * (written + prod(spec.kernel))
    if tile and supports_changing(WinogradSpec(spec, tile), target):  # made in the cache
        stored = filters * lanes * 4 * prod(spec.kernel)
    return filters * (squares * target.costs.filter_square + written) + stored / target.costs.bytes_a_cycle


def algorithm_cycles(spec: DirectConvSpec, target: CpuTarget, winograd: bool = True) -> dict[str, float]:
    """Estimated cycles of each algorithm for a convolution, of usual sizes."""
    spec = estimate(spec)
    direct = DIRECT_HALVES if supports_half(spec, target) else DIRECT
    costs = {"direct": direct.cycles(spec, target)}
    for tile in winograd_tiles(spec) if winograd else ():
        costs[f"winograd{tile}"] = WINOGRAD.cycles(WinogradSpec(spec, tile), target)
    return costs


def choose(spec: DirectConvSpec, target: CpuTarget, search: bool = False, changing: bool = False) -> str:
    """The algorithm with the least estimated time, or with `search` the least measured one.

    With `changing` the filter is packed at every run, which counts too.
    """
    spec = estimate(spec)
    packable = spec.kernel == (3, 3) and spec.strides == spec.dilations == (1, 1)
    costs = algorithm_cycles(spec, target, winograd=packable or not changing)
    if changing:
        for name in costs:
            costs[name] += packing_cycles(spec, tile_of(name), target)
    elif search and len(costs) > 1 and spec.stored == "f32":
        return fastest(spec, list(costs), target)
    return min(costs, key=lambda name: costs[name])


def choose_weights(spec: ConvWeightsSpec, target: CpuTarget) -> str:
    """The algorithm with the least estimated time for the gradient of a filter."""
    spec = estimate(spec)
    tiles = supports_winograd_weights(spec) and WinogradWeights().faster(spec, target)
    return "winograd4" if tiles else "direct"


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
