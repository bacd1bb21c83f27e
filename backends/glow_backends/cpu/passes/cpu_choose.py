"""glow-cpu-choose: the algorithm of each blocked convolution, by estimated time."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from glow_backends.cpu.emit.memory import ceil_div
from glow_backends.cpu.kernels.conv.conv_half import supports_half
from glow_backends.cpu.kernels.conv.conv_plan import plan_conv
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.conv_weights import ConvWeightsSpec
from glow_backends.cpu.kernels.conv.winograd_changing import supports_changing
from glow_backends.cpu.kernels.conv.winograd_plan import WinogradSpec, plan_winograd, winograd_tiles
from glow_backends.cpu.kernels.conv.winograd_tiles import window_side
from glow_backends.cpu.kernels.conv.winograd_weights import plan_weights, supports_winograd_weights
from glow_backends.cpu.ops.layers import ConvOp
from glow_backends.cpu.ops.training import ConvWeightsOp, PackFilterOp
from glow_backends.cpu.passes.cpu_fuse import rebuilt
from glow_backends.cpu.rules.blocked import conv_spec
from glow_backends.cpu.rules.training import conv_weights_spec
from glow_backends.cpu.search import fastest
from glow_backends.cpu.target import CpuTarget, named
from glow_dialects.core.builder import Builder
from glow_dialects.ops.module import ConstantOp, GetOp, functions

BYTES_A_CYCLE = 5.5
"""Rate at which one core streams weights from the last cache or from memory."""
SHOWN, SHOWN_COMPUTING = 0.35, 0.9
"""The part of streaming that longer computing does not hide, and of computing that streaming does not."""
TRANSFORM_CYCLES = {4: (90.0, 50.0), 6: (220.0, 130.0), 9: (650.0, 280.0)}
"""Measured cycles to transform one tile of one vector of channels, in and out, by the side of its window."""
LINE_CYCLES = {4: (25.0, 20.0), 6: (35.0, 35.0), 8: (50.0, 45.0)}
"""The same for tiles of a line."""
PACK_CYCLES = 90.0
"""Cycles to read a square of a filter, as many output channels and taps as lanes, and to turn it."""


def direct_cycles(spec: DirectConvSpec, target: CpuTarget) -> float:
    """Estimated cycles of the direct kernel on one core."""
    lanes = target.lanes
    outputs = ceil_div(spec.out_channels, lanes) * lanes
    taps = prod(spec.kernel) * spec.in_channels // spec.group
    sums = prod((spec.batch, *spec.out_size)) * outputs * taps * _share_inside(spec)
    pairs = 2 if supports_half(spec, target) else 1
    return _together(sums / (2 * lanes * pairs) / 0.95, 4 * outputs * taps / pairs)


def _share_inside(spec: DirectConvSpec) -> float:
    """The part of the products that meet the image: the direct kernel passes over taps of dilated filters."""
    if spec.dilations == (1, 1):
        return 1.0
    share = 1.0
    for axis, taps in enumerate(spec.kernel):
        size, out, stride = spec.size[axis], spec.out_size[axis], spec.strides[axis]
        firsts = [tap * spec.dilations[axis] - spec.pads[axis] for tap in range(taps)]
        meets = [min(out, ceil_div(size - f, stride)) - max(0, ceil_div(-f, stride)) for f in firsts]
        share *= sum(max(0, count) for count in meets) / (taps * out)
    return share


def _together(cycles: float, weight_bytes: float) -> float:
    """Cycles of sums whose weights are fetched meanwhile."""
    stream = weight_bytes / BYTES_A_CYCLE
    return cycles + SHOWN * stream if cycles > stream else stream + SHOWN_COMPUTING * cycles


def winograd_cycles(spec: WinogradSpec, target: CpuTarget) -> float:
    """Estimated cycles of the Winograd kernel on one core."""
    plan, lanes = plan_winograd(spec, target), target.lanes
    pairs = plan.in_blocks * plan.out_blocks * lanes**2
    products = pairs * plan.rows / (2 * lanes) / 0.88
    into, out = (LINE_CYCLES if spec.conv.line else TRANSFORM_CYCLES)[window_side(spec.conv, spec.tile)]
    transforms = plan.order.total * (plan.in_blocks * into + plan.out_blocks * out)
    moved = SHOWN * plan.spilled(target) / BYTES_A_CYCLE
    sums = (_together(n * each * products, 4 * n * pairs) for n, each in spec.matrices)
    return transforms + moved + sum(sums)


def packing_cycles(spec: DirectConvSpec, tile: int, target: CpuTarget) -> float:
    """Estimated cycles to bring a filter that changes into an algorithm's order, on one core."""
    lanes = target.lanes
    filters = ceil_div(spec.out_channels, lanes) * spec.in_channels
    written = (tile + 2) ** 2 if tile else prod(spec.kernel)
    squares = ceil_div(prod(spec.kernel), lanes)
    stored = filters * lanes * 4 * (written + prod(spec.kernel))
    if tile and supports_changing(WinogradSpec(spec, tile), target):  # made in the cache
        stored = filters * lanes * 4 * prod(spec.kernel)
    return filters * (squares * PACK_CYCLES + written) + stored / BYTES_A_CYCLE


def algorithm_cycles(spec: DirectConvSpec, target: CpuTarget, winograd: bool = True) -> dict[str, float]:
    """Estimated cycles of each algorithm for a convolution."""
    costs = {"direct": direct_cycles(spec, target)}
    for tile in winograd_tiles(spec) if winograd else ():
        costs[f"winograd{tile}"] = winograd_cycles(WinogradSpec(spec, tile), target)
    return costs


def choose(spec: DirectConvSpec, target: CpuTarget, search: bool = False, changing: bool = False) -> str:
    """The algorithm with the least estimated time, or with `search` the least measured one.

    With `changing` the filter is packed at every run, which counts too.
    """
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
    if not supports_winograd_weights(spec):
        return "direct"
    conv, lanes = spec.conv, target.lanes
    plan = plan_weights(spec, target)
    pairs = plan.units * plan.panels * plan.vectors
    direct = prod((conv.batch, *conv.out_size)) * pairs * lanes * 9 / 2 / 0.8
    into, out = TRANSFORM_CYCLES[6]
    transforms = plan.total * into * (plan.units + plan.panels * plan.vectors)
    products = 36 * plan.total * pairs * lanes / 2 / 0.8
    sums = 36 * pairs * lanes**2 * 4 * plan.blocks / BYTES_A_CYCLE
    winograd = transforms + products + pairs * lanes * out + sums * SHOWN
    return "winograd4" if winograd < direct else "direct"


def tile_of(algorithm: str) -> int:
    """The Winograd tile of an algorithm; 0 for any other."""
    return int(algorithm[-1]) if algorithm.startswith("winograd") else 0


def packed(conv: ConvOp, target: CpuTarget) -> None:
    """Pack the filter of a convolution in front of it, unless the kernel itself does so."""
    spec, tile = conv_spec(conv), tile_of(conv.algorithm)
    if tile and supports_changing(WinogradSpec(spec, tile), target):
        return
    plan = plan_winograd(WinogradSpec(spec, tile), target) if tile else plan_conv(spec, target)
    width, lanes = plan.block.vectors * target.lanes, 1 if spec.plain_input else target.lanes
    b = Builder.before(conv)
    made = b(PackFilterOp(conv.filter, form=conv.form, lanes=lanes, width=width, tile=tile))
    new = rebuilt(conv, packed=[made])
    b.insert(new)
    new.results[0].name_hint = conv.result.name_hint
    conv.result.replace_all_uses_with(new.results[0])
    conv.detach()
    conv.erase()


@dataclass(frozen=True)
class CpuChoosePass(ModulePass):
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
