"""Channels of blocked tensors in another order."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import KernelBuilder, shuffle_mask
from glow_backends.cpu.kernel import Kernel, known
from glow_backends.cpu.kernels.data.channels_op import PermuteChannelsOp
from glow_backends.cpu.target import CpuTarget


@dataclass(frozen=True)
class PermuteChannelsSpec:
    """result channel i = input channel order[i], both [batch, C / lanes, plane, lanes] of `width` bytes.

    Lanes behind the last channel hold anything. The input has `channels` (0: as many as the result).
    Operands: result, input.
    """

    batch: int
    plane: int
    order: tuple[int, ...]
    lanes: int
    width: int = 4
    channels: int = 0


def emit_permute_channels(
    module: ir.Module, name: str, spec: PermuteChannelsSpec, target: CpuTarget
) -> ir.Function:
    """Emit a loop over pixels for each block of the result: its few source blocks are merged by shuffles."""
    k = KernelBuilder(module, name, 2, target)
    result, source = k.operands
    lanes, dtype = spec.lanes, f"u{8 * spec.width}"
    blocks = -(-len(spec.order) // lanes)
    sources = -(-spec.channels // lanes) or blocks
    size = 2 * spec.batch * blocks * spec.plane * lanes * spec.width
    if not size:
        return k.finish()
    with common.nest(k, [spec.batch, spec.plane], size) as (n, pixel):
        to = k.add(k.mul(n, blocks * spec.plane * lanes), k.mul(pixel, lanes))
        base = k.add(k.mul(n, sources * spec.plane * lanes), k.mul(pixel, lanes))
        loaded: dict[int, ir.Value] = {}
        for block in range(blocks):
            wanted = spec.order[block * lanes : (block + 1) * lanes]
            for number in sorted({c // lanes for c in wanted} - loaded.keys()):
                at = k.add(base, number * spec.plane * lanes)
                loaded[number] = values.load(k, source, at, dtype, lanes)
            merged = _merge(k, wanted, loaded, lanes)
            values.store(k, merged, result, k.add(to, block * spec.plane * lanes), dtype)
    return k.finish()


def _merge(k: KernelBuilder, wanted: tuple[int, ...], loaded: dict[int, ir.Value], lanes: int) -> ir.Value:
    """The vector of the wanted channels, from the blocks that they lie in."""
    needed = sorted({c // lanes for c in wanted})
    merged: ir.Value | None = None
    for number in needed:
        if merged is None:
            order = [c % lanes if c // lanes == number else 0 for c in wanted]
            merged = values.shuffle(k, loaded[number], [*order, *[0] * (lanes - len(order))])
            continue
        order = [lanes + c % lanes if c // lanes == number else i for i, c in enumerate(wanted)]
        order += range(len(order), lanes)
        mask = shuffle_mask(tuple(order))
        merged = k.b.shuffle_vector(merged, loaded[number], mask)
    assert merged is not None
    return merged


class PermuteChannels(Kernel[PermuteChannelsOp, PermuteChannelsSpec]):
    """Another order of channels."""

    OPS = (PermuteChannelsOp,)
    emit = staticmethod(emit_permute_channels)

    def match(self, op: PermuteChannelsOp, context: CallContext) -> PermuteChannelsSpec | None:
        if not known(op):
            return None
        batch, blocks, height, width, lanes = shape(op.input)
        size = values.size(dtype_name(op.input))
        return PermuteChannelsSpec(batch, height * width, op.order, lanes, size, blocks * lanes)
