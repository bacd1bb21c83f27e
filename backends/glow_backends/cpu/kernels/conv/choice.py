"""The algorithm of a convolution, by estimated or measured time."""

from __future__ import annotations

from math import prod

from glow_backends.cpu.emit.memory import ceil_div
from glow_backends.cpu.kernels.conv.conv_direct import DirectConv
from glow_backends.cpu.kernels.conv.conv_half import HalfConv, supports_half
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.conv_weights import ConvWeightsSpec
from glow_backends.cpu.kernels.conv.search import fastest
from glow_backends.cpu.kernels.conv.winograd import WinogradConv, tile_of
from glow_backends.cpu.kernels.conv.winograd_changing import supports_changing
from glow_backends.cpu.kernels.conv.winograd_plan import WinogradSpec, winograd_tiles
from glow_backends.cpu.kernels.conv.winograd_weights import WinogradWeights, supports_winograd_weights
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.estimates import estimate

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
