"""Functions of numbers at zeros of both signs, infinities and NaN, beside PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

import glow_compiler as glow  # noqa: E402
from glow_dialects.core.sample import special_pairs  # noqa: E402


class Functions(torch.nn.Module):
    """What cards name for PyTorch."""

    def forward(self, x: Any, y: Any) -> Any:
        """Functions of one number, then of two."""
        one = (
            torch.erfc,
            torch.exp2,
            torch.log2,
            torch.log10,
            torch.sinc,
            torch.deg2rad,
            torch.signbit,
            torch.sign,
        )
        two = (
            torch.atan2, torch.hypot, torch.copysign, torch.logaddexp, torch.logaddexp2, torch.fmax,
            torch.fmin, torch.xlogy, torch.heaviside, torch.nextafter, torch.pow,
        )  # fmt: skip
        roots = (x**0.5, x**-0.5, torch.nan_to_num(x))
        return *(f(x) for f in one), *(f(x, y) for f in two), *roots


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(dtype: str) -> None:
    """PyTorch's values, signs of zeros included."""
    pair = [torch.from_numpy(np.ascontiguousarray(v)) for v in np.broadcast_arrays(*special_pairs(dtype))]
    wanted = Functions()(*pair)
    net = glow.compile(Functions(), tuple(pair))
    for got, want in zip(net(*(p.numpy() for p in pair)), wanted, strict=True):
        got, want = np.asarray(got), want.numpy()
        assert got.dtype == want.dtype
        if want.dtype.kind != "f":
            np.testing.assert_array_equal(got, want)
            continue
        np.testing.assert_allclose(got, want, rtol=4 * np.finfo(want.dtype).eps, atol=0)
        there = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[there], np.signbit(want)[there])
