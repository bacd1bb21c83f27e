"""Rules of interpolation and of sampling at computed positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glow_dialects.core.extent import Extent
from glow_frontends.graph import Emitter, Value, shape
from glow_frontends.graph.resample import Ratio, ratio_of, sized
from glow_frontends.graph.sampling import grid_sampled
from glow_frontends.torch.node import Node

Rule = Callable[..., Any]


def _resized(
    g: Emitter, n: Node, x: Value, size: Any, factors: Sequence[Any], coordinates: str, **options: Any
) -> Value:
    """The last axes resampled to the size that the export has; by factors where they are given."""
    count = len(factors)
    before = shape(x)[-count:]
    wanted = list(size) if size else [_scaled(b, f) for b, f in zip(before, factors, strict=True)]
    scales: list[Ratio] = [1.0] * (len(shape(x)) - count)
    for index in range(count):
        factor = factors[index]
        scales.append(ratio_of(wanted[index], before[index]) if not factor else float(factor))
    target = (*shape(x)[:-count], *wanted)
    return sized(g, x, target, scales, coordinate_transformation_mode=coordinates, **options)


def _scaled(before: int, factor: float) -> int:
    if isinstance(before, Extent):
        from fractions import Fraction

        exact = Fraction(factor)
        return before * exact.numerator // exact.denominator
    return int(before * factor)


def nearest(count: int, exact: bool) -> Rule:
    """The nearest element; `exact` rounds from the centres of elements."""
    coordinates = "half_pixel" if exact else "asymmetric"
    rounding = "round_prefer_ceil" if exact else "floor"

    def rule(g: Emitter, n: Node, x: Value, size: Any, *factors: Any) -> Value:
        factors = _factors(factors, count)
        return _resized(g, n, x, size, factors, coordinates, mode="nearest", nearest_mode=rounding)

    return rule


def smooth(count: int, mode: str) -> Rule:
    """Linear or cubic interpolation over so many axes."""

    def rule(g: Emitter, n: Node, x: Value, size: Any, align_corners: bool, *factors: Any) -> Value:
        factors = _factors(factors, count)
        coordinates = "align_corners" if align_corners else "half_pixel"
        options: dict[str, Any] = {"mode": mode}
        if mode == "cubic":
            options["cubic_coeff_a"] = -0.75
        if align_corners:
            factors = (None,) * count
        return _resized(g, n, x, size, factors, coordinates, **options)

    return rule


def _factors(factors: Sequence[Any], count: int) -> tuple[Any, ...]:
    """One factor for each axis, None where it follows from the sizes."""
    if len(factors) == 1 and isinstance(factors[0], list):
        factors = factors[0]
    return tuple(factors) if len(factors) == count else (None,) * count


MODES, PADDINGS = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")


def grid_sample(
    g: Emitter, n: Node, x: Value, grid: Value, mode: int, padding: int, align_corners: bool
) -> Value:
    """Elements at the places of a grid."""
    return grid_sampled(g, x, grid, MODES[mode], PADDINGS[padding], bool(align_corners))


RULES: dict[str, Rule] = {
    **{f"upsample_nearest{d}d": nearest(d, False) for d in (1, 2, 3)},
    **{f"_upsample_nearest_exact{d}d": nearest(d, True) for d in (1, 2, 3)},
    "upsample_linear1d": smooth(1, "linear"),
    "upsample_bilinear2d": smooth(2, "linear"),
    "upsample_trilinear3d": smooth(3, "linear"),
    "upsample_bicubic2d": smooth(2, "cubic"),
    "grid_sampler_2d": grid_sample,
    "grid_sampler_3d": grid_sample,
}
