"""Kernels of which other shapes need no others: a program for another shape finds them compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from epilogues import chain
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_backends.cpu.calls import Emitter, KernelCall, KernelCodes
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.jit import emit_object
from glow_backends.cpu.kernels.conv.conv_direct import emit_conv_direct
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.depthwise import emit_depthwise
from glow_backends.cpu.kernels.conv.winograd import emit_winograd
from glow_backends.cpu.kernels.conv.winograd_plan import WinogradSpec, plan_winograd
from glow_backends.cpu.kernels.gemm.gemm import GemmSpec, emit_gemm
from glow_backends.cpu.target import named


def depthwise(width: int) -> tuple[Emitter, Any]:
    """A depthwise convolution of 3x3."""
    return emit_depthwise, DirectConvSpec(1, 16, 16, (9, width), (3, 3), pads=(1,) * 4, group=16)


def pointwise(batch: int, pixels: int) -> tuple[Emitter, Any]:
    """A convolution of 1x1 with many weights and small images."""
    return emit_conv_direct, DirectConvSpec(batch, 1024, 256, (1, pixels), (1, 1))


def product(rows: int) -> tuple[Emitter, Any]:
    """A product with weights."""
    return emit_gemm, GemmSpec(rows, 120, 240, packed_b=True, epilogue=Epilogue(bias=True))


SHARED: dict[str, tuple[Callable[..., tuple[Emitter, Any]], Iterable[tuple[int, ...]]]] = {
    "depthwise, any width": (depthwise, [(56,), (61,), (80,), (100,), (113,), (160,)]),
    "products of most numbers of rows": (product, [(32,), (40,), (50,), (66,), (77,)]),
    "1x1, any batch and size": (pointwise, [(1, 49), (2, 49), (1, 50), (3, 49)]),
}


@pytest.mark.parametrize("name", SHARED)
def test_shared(name: str) -> None:
    """All shapes are the same code."""
    made, shapes = SHARED[name]
    codes = KernelCodes(named("skylake-avx512"))
    assert len({codes.of(KernelCall(*made(*shape), ())).name for shape in shapes}) == 1


SWISH = Epilogue(bias=True, program=chain(("swish", (1.0,)), ("mul", (0.3,))))
WIDE = DirectConvSpec(1, 64, 64, (56, 56), (1, 1), epilogue=SWISH)
PADDED = DirectConvSpec(1, 32, 64, (28, 56), (3, 3), pads=(1,) * 4)
DEEP = DirectConvSpec(1, 64, 64, (56, 56), (3, 3), pads=(1,) * 4)
LINE = replace(DEEP, kernel=(1, 5), pads=(0, 2, 0, 2))


def test_sizes_share_code() -> None:
    """Batch, image, channels and factors are arguments: near sizes are one kernel with other tables."""
    codes = KernelCodes(replace(named("skylake-avx512"), l1=48 << 10, l2=2 << 20))
    other = Epilogue(bias=True, program=chain(("swish", (1.0,)), ("mul", (0.7,))))
    alike: list[tuple[Any, Any, Any]] = [
        (emit_conv_direct, WIDE, DirectConvSpec(3, 128, 192, (48, 96), (1, 1), epilogue=other)),
        (emit_conv_direct, PADDED, replace(PADDED, batch=2, in_channels=64, size=(70, 70))),
        (emit_winograd, WinogradSpec(DEEP, 4), WinogradSpec(replace(DEEP, batch=2), 4)),
        (emit_winograd, WinogradSpec(LINE, 4), WinogradSpec(replace(LINE, batch=2), 4)),
    ]
    for emit, spec, same in alike:
        made, again = (codes.of(KernelCall(emit, s, [])) for s in (spec, same))
        assert made.name == again.name and made.text == again.text
        assert made.sizes != again.sizes


@pytest.mark.parametrize("known", [True, False])
def test_zero_points_share_code(known: bool) -> None:
    """A product of bytes with another zero point, scale and bounds finds its kernel compiled."""
    rng = np.random.default_rng(0)
    x, w = (rng.integers(0, 256, (24, 24)).astype(np.uint8) for _ in range(2))
    weights, zero = ((w % 255).astype(np.int8), np.int8(0)) if known else (w, np.uint8(120))
    compiled: list[int] = []
    for point, scale, relu in (
        (np.uint8(3), 0.0731, True),
        (np.uint8(131), 0.0517, False),
        (np.uint8(0), 0.0313, True),
    ):
        held = {"f": np.float32(0.01), "xz": np.uint8(128), "wz": zero, "s": np.float32(scale), "z": point}
        g = helper.make_graph(
            [
                helper.make_node("DequantizeLinear", ["x", "f", "xz"], ["a"]),
                helper.make_node("DequantizeLinear", ["w", "f", "wz"], ["b"]),
                helper.make_node("MatMul", ["a", "b"], ["m"]),
                helper.make_node("Relu" if relu else "Identity", ["m"], ["r"]),
                helper.make_node("QuantizeLinear", ["r", "s", "z"], ["y"]),
            ],
            "g",
            [helper.make_tensor_value_info(n, TensorProto.UINT8, [24, 24]) for n in "xw"[: 2 - known]],
            [helper.make_tensor_value_info("y", TensorProto.UINT8, [24, 24])],
            [numpy_helper.from_array(np.asarray(a), n) for n, a in held.items()]
            + [numpy_helper.from_array(weights, "w")] * known,
        )
        net = glow.compile(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)]))
        sums = (x - np.int64(128)) @ (weights - np.int64(zero))
        real = sums.astype(np.float32) * np.float32(0.01**2 / scale)
        want = np.clip(np.rint(real) + point, point if relu else 0, 255).astype(np.uint8)
        have = net.run({"x": x} | ({} if known else {"w": weights}))["y"]
        np.testing.assert_array_equal(have, want)
        compiled.append(int(net.report().notes["kernels compiled"]))
    assert compiled[0] > 0 and compiled[1:] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("caches", [(32 << 10, 256 << 10), (48 << 10, 1 << 20), (48 << 10, 2 << 20)])
@pytest.mark.parametrize("cpu", ["skylake-avx512", "haswell", "neoverse-n1"])
def test_near_sizes_share_code_on_every_target(cpu: str, caches: tuple[int, int]) -> None:
    """Nine sizes of images need fewer kernels whatever the vectors and caches, 1 x 1 filters one."""
    codes = KernelCodes(replace(named(cpu), l1=caches[0], l2=caches[1]))

    def kernels(emit: Any, conv: DirectConvSpec, winograd: bool) -> int:
        specs = [replace(conv, size=(n, n)) for n in range(48, 66, 2)]
        wanted = [KernelCall(emit, WinogradSpec(s, 4) if winograd else s, []) for s in specs]
        return len({codes.of(call).name for call in wanted})

    assert kernels(emit_conv_direct, WIDE, winograd=False) == 1
    assert kernels(emit_conv_direct, PADDED, winograd=False) <= 7
    assert kernels(emit_winograd, DEEP, winograd=True) <= 6
    assert kernels(emit_winograd, LINE, winograd=True) <= 5


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("threads", [1, 2])
def test_register_blocks_share_transforms(stride: int, threads: int) -> None:
    """Winograd kernels of other register blocks differ in their products; each piece stands by itself."""
    target = named("skylake-avx512", threads)
    codes = KernelCodes(target)
    swish = Epilogue(bias=True, program=chain(("swish", (1.0,))))
    conv = DirectConvSpec(1, 64, 64, (20 * stride,) * 2, (3, 3), (stride,) * 2, (1,) * 4, epilogue=swish)
    wide = replace(conv, batch=2, size=(16 * stride, 26 * stride))
    plans = [plan_winograd(WinogradSpec(c, 4), target) for c in (conv, wide)]
    assert plans[0].block != plans[1].block
    made, other = (codes.of(KernelCall(emit_winograd, WinogradSpec(c, 4), [])) for c in (conv, wide))
    assert made.name != other.name
    assert made.parts == tuple(
        replace(p, sizes=m.sizes) for p, m in zip(other.parts, made.parts, strict=True)
    )
    for piece in (made, *made.parts):
        assert len(emit_object(piece.text, target, kernel=True)) > 500
    plain = replace(wide, epilogue=Epilogue())
    assert codes.of(KernelCall(emit_winograd, WinogradSpec(plain, 4), [])).parts[1] != made.parts[1]
