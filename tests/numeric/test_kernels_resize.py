"""The kernel that samples axis by axis, beside PyTorch; linear sampling: `onnx/test_resize_rounding.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import run_kernel

from glow_backends.cpu.kernels.data.resize import AxisPass, ResizeSpec, emit_resize
from glow_dialects.core.sample import Sample
from glow_dialects.ops.resize import ResizeOp, taps

RNG = np.random.default_rng(2)


def run(x: np.ndarray, sizes: tuple[int, ...], threads: int, **properties: Any) -> np.ndarray:
    """Resize NCHW data by the kernel, the last axis first."""
    _, op = Sample(ResizeOp, (x,), {"sizes": sizes, **properties}).detached()
    size, passes, tables = list(x.shape), [], []
    weighted = properties["mode"] != "nearest"
    for tap in reversed(taps(op, x.shape)):
        behind = int(np.prod(size[tap.axis + 1 :]))
        made, count = tap.indices.shape
        repeat = 2 if not weighted and made == 2 * size[tap.axis] else 0
        passes.append(AxisPass(int(np.prod(size[2 : tap.axis])), size[tap.axis], made, behind, count, repeat))
        tables.append(tap.indices.astype(np.int32))
        if weighted:
            tables.append(tap.weights.astype(np.float32))
        size[tap.axis] = made
    spec = ResizeSpec(x.shape[0] * x.shape[1], tuple(passes), "f32", weighted)
    scratch = [np.zeros(spec.scratch * threads, np.uint8)] if spec.scratch else []
    (result,) = run_kernel(emit_resize, spec, [(sizes, np.float32)], [x, *tables, *scratch], threads)
    return result


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [(10, 46), (5, 60), (9, 11)], ids=str)
@pytest.mark.parametrize("mode,torch_mode", [("nearest", "nearest"), ("cubic", "bicubic")])
def test_resize(mode: str, torch_mode: str, size: tuple[int, int], threads: int) -> None:
    """Larger and smaller grids."""
    torch = pytest.importorskip("torch")
    x = RNG.normal(size=(2, 3, 5, 23)).astype(np.float32)
    kind = "asymmetric" if mode == "nearest" else "half_pixel"
    result = run(
        x, (2, 3, *size), threads, mode=mode, nearest_mode="floor", coordinate_transformation_mode=kind
    )
    extra = {} if mode == "nearest" else {"align_corners": False}
    expected = torch.nn.functional.interpolate(torch.from_numpy(x), size, mode=torch_mode, **extra)
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-5, atol=1e-5)
