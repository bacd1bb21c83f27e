"""How far two values of one tensor are apart, and whether that is more than rounding explains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glow_dialects.core.types import Array

#: What `Tolerance.rtol` is multiplied with for element types that are coarser than f32.
COARSER = {
    "float16": 10.0,
    "bfloat16": 50.0,
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz"), 150.0),
    **dict.fromkeys(("float8_e5m2", "float8_e5m2fnuz"), 300.0),
}
#: Integers of quantised values: what lies between two of them may be rounded to either.
ONE_STEP = ("int8", "uint8")


@dataclass(frozen=True)
class Tolerance:
    """What rounding explains: `atol`, and `rtol` of an element or, if more, of a large one of its tensor.

    An element that cancelled to nearly nothing is not held to digits that its terms did not have. The large
    one is the upper quartile: activations make half of a tensor nearly nothing, masks a few elements huge.
    `rtol` is that of f32. Integers are exact, those of 8 bits to one step.
    """

    rtol: float = 1e-3
    atol: float = 1e-5

    def allowed(self, want: Array, exact: Array) -> Array:
        """The error that each element of `want` may have; `exact` holds its values as float64."""
        name = want.dtype.name
        if name in ONE_STEP:
            return np.ones_like(exact)
        if want.dtype.kind in "biu" or "int" in name:
            return np.zeros_like(exact)
        size = np.abs(np.where(np.isfinite(exact), exact, 0))
        return self.atol + self.rtol * COARSER.get(name, 1.0) * np.maximum(size, _large(size))


@dataclass(frozen=True)
class Difference:
    """How a value differs from the expected one. `ratio` is the largest error over the allowed one."""

    wrong: int
    size: int
    largest: float = 0.0
    relative: float = 0.0
    ratio: float = 0.0
    #: What is wrong with a value of another form.
    form: str = ""

    @property
    def bad(self) -> bool:
        """Whether rounding does not explain it."""
        return bool(self.wrong or self.form)

    def __str__(self) -> str:
        if self.form:
            return self.form
        return f"max abs error {self.largest:.3g}, {self.wrong} of {self.size} elements beyond the tolerance"


def difference(got: Array, want: Array, tolerance: Tolerance) -> Difference:
    """Compare a value with the expected one; equal infinities and NaN on both sides are no difference."""
    if got.shape != want.shape or got.dtype != want.dtype:
        form = f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
        return Difference(0, want.size, ratio=np.inf, form=form)
    if want.dtype.kind in "OUS":
        wrong = int(np.sum(got != want))
        return Difference(wrong, want.size, ratio=np.inf if wrong else 0.0)
    if not want.size:
        return Difference(0, 0)
    if want.dtype.kind == "c":
        got, want = (np.stack([np.real(a), np.imag(a)]) for a in (got, want))
    one, other = got.astype(np.float64), want.astype(np.float64)
    allowed = tolerance.allowed(want, other)
    with np.errstate(all="ignore"):
        equal = (got == want) | (np.isnan(one) & np.isnan(other))
        error = np.where(equal, 0.0, np.abs(one - other))
        error = np.where(np.isnan(error), np.inf, error)
        wrong = ~equal & ~(error <= allowed)
        scale = np.maximum(np.abs(other), _large(np.abs(other)))
        relative = np.where(error == 0, 0.0, error / scale)
        ratio = np.where(error == 0, 0.0, error / allowed)
    return Difference(
        int(wrong.sum()), want.size, float(error.max()), float(relative.max()), float(ratio.max())
    )


def _large(sizes: Array) -> float:
    """The upper quartile of sizes, 0 without any."""
    return float(np.quantile(sizes, 0.75)) if sizes.size else 0.0


def statistics(value: Array) -> str:
    """The range of an array in one line."""
    if value.dtype.kind in "OUSc" or not value.size:
        return ""
    numbers: Any = value.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    odd = "".join(
        f", {count} {name}"
        for name, count in (("NaN", int(np.isnan(numbers).sum())), ("inf", int(np.isinf(numbers).sum())))
        if count
    )
    if not finite.size:
        return f"no finite number{odd}"
    return f"min {finite.min():.6g} mean {finite.mean():.6g} max {finite.max():.6g}{odd}"
