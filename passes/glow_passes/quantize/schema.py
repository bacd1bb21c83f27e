"""Schemas: from a range of real numbers to a scale and a zero point (value = (q - zero) * scale)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array, UniformQuantizedType

SchemaName = Literal["asymmetric", "symmetric", "symmetric_uint8", "symmetric_power2"]
SCHEMAS: tuple[str, ...] = get_args(SchemaName)
Precision = Literal["int8", "int16"]
PRECISIONS: tuple[str, ...] = get_args(Precision)

#: The scale of a tensor that is zero everywhere.
ZERO_SCALE = float(np.float32(0.1))
#: Ranges are cut so that scales are normal float32 numbers.
LARGEST = 1e30


class QuantizationError(GlowError):
    """A profile, a range or an option that cannot be used for quantisation."""


@dataclass(frozen=True)
class Schema:
    """How ranges become integers: `name` is one of SCHEMAS, `width` is 8 or 16 bits.

    asymmetric: the range, extended to contain 0, covers all integers. symmetric: zero point 0, the
    larger side decides. symmetric_uint8: a range without negative numbers uses all integers, zero
    at the smallest. symmetric_power2: symmetric with the scale rounded up to a power of 2.
    """

    name: str = "asymmetric"
    width: int = 8

    def __post_init__(self) -> None:
        if self.name not in SCHEMAS:
            raise QuantizationError(f"unknown schema '{self.name}'; there are: {', '.join(SCHEMAS)}")
        if self.width not in (8, 16):
            raise QuantizationError(f"integers of {self.width} bits; there are 8 and 16")

    @staticmethod
    def of(name: str, precision: str) -> Schema:
        """The schema of a name and one of PRECISIONS."""
        if precision not in PRECISIONS:
            known = ", ".join((*PRECISIONS, "f16", "bf16"))
            raise QuantizationError(f"unknown precision '{precision}'; there are: {known}")
        return Schema(name, int(precision.removeprefix("int")))

    def parameters(self, low: float, high: float) -> tuple[float, int]:
        """(scale, zero point) for values between `low` and `high`; the scale is a float32 number."""
        if not (math.isfinite(low) and math.isfinite(high)):
            raise QuantizationError(f"the range {low} .. {high} is not finite")
        low, high = max(min(low, 0.0), -LARGEST), min(max(high, 0.0), LARGEST)
        smallest, largest = -(1 << (self.width - 1)), (1 << (self.width - 1)) - 1
        one_sided = self.name == "symmetric_uint8" and low >= 0
        if self.name == "asymmetric" or one_sided:
            scale = _float32((high - low) / (largest - smallest))
            if one_sided:
                return scale, smallest
            zero = smallest - low / scale
            return scale, int(np.clip(np.rint(zero), smallest, largest))
        # The negative side has one integer more; the larger need decides.
        scale = _float32(max(-low / -smallest, high / largest))
        if self.name == "symmetric_power2":
            scale = float(2.0 ** math.ceil(math.log2(scale)))
        return scale, 0

    def type_of(self, low: float, high: float) -> UniformQuantizedType:
        """The quantised element type for values between `low` and `high`."""
        scale, zero = self.parameters(low, high)
        return UniformQuantizedType.of(self.width, scale, zero)


def _float32(scale: float) -> float:
    """The scale as a float32 number, never 0."""
    rounded = float(np.float32(scale))
    return rounded if rounded >= float(np.finfo(np.float32).tiny) else ZERO_SCALE


def symmetric_type(
    array: Array, axis: int = -1, width: int = 8, least: Array | float = 0.0
) -> UniformQuantizedType:
    """The type for weights: zero point 0, one scale for the tensor or for each index of `axis`.

    The smallest integer is left out, so that products of two such numbers never overflow in pairs.
    Scales are at least `least` (one number, or one an index).
    """
    largest = (1 << (width - 1)) - 1
    size = np.abs(array.astype(np.float64))
    if axis < 0:
        scale = max(float(size.max(initial=0)) / largest, float(np.max(least)))
        return UniformQuantizedType.of(width, _float32(scale))
    others = tuple(i for i in range(array.ndim) if i != axis)
    wanted = np.maximum(size.max(axis=others, initial=0) / largest, least)
    scales = [_float32(float(s)) for s in wanted]
    return UniformQuantizedType.of(width, scales, axis=axis)


def covered(kind: UniformQuantizedType) -> tuple[float, float]:
    """The smallest and largest real number that a per-tensor type represents."""
    from glow_dialects.ops.quantize import limits_of

    low, high = limits_of(kind)
    scale, zero = float(kind.scale_array[0]), int(kind.zero_point_array[0])
    return (low - zero) * scale, (high - zero) * scale


def check_choice(what: str, value: str, choices: Sequence[str]) -> None:
    """Raise QuantizationError unless `value` is one of `choices`."""
    if value not in choices:
        raise QuantizationError(f"unknown {what} '{value}'; there are: {', '.join(choices)}")
