"""Histograms of batches, and which of their numbers are absurd: beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from glow_dialects.core.types import Array
from glow_passes.quantize.histogram import Histogram, plausible

MIDDLES = np.arange(8) + 0.5


def of(*batches: Array, bins: int = 8) -> Histogram:
    """The histogram of some batches."""
    histogram = Histogram(bins)
    for batch in batches:
        histogram.add(batch)
    return histogram


def test_one_batch() -> None:
    """As NumPy counts it; borders and middles too."""
    values = np.concatenate([[0.0, 8.0], np.repeat(MIDDLES, np.arange(8))])
    counts, edges = np.histogram(values, 8)
    histogram = of(values)
    np.testing.assert_array_equal(histogram.counts, counts)
    np.testing.assert_array_equal(histogram.edges(), edges)
    np.testing.assert_array_equal(histogram.centres(), MIDDLES)
    assert histogram.not_numbers == 0 and Histogram().bins == 2048


@pytest.mark.parametrize("side", [-1, 1])
def test_range_that_doubles(side: int) -> None:
    """Two bins become one on either side, where the borders meet; the rest of the batch is counted beside."""
    small = np.concatenate([[0.0, 8.0], np.repeat(MIDDLES, np.arange(8))])
    large = np.array([0.5, 16.0, 9.0, 9.5])
    want, _ = np.histogram(side * np.concatenate([small, large]), 8)
    # A number on a border may be counted on either side of it.
    have = of(side * small, side * large).counts
    assert have.sum() == want.sum() and np.abs(have - want).max() <= 1


def test_constant_that_is_one_no_more() -> None:
    """All of what was one number lies in its bin."""
    histogram = of(np.full(3, 2.5), np.full(2, 2.5))
    assert (histogram.low, histogram.high, histogram.total) == (2.5, 2.5, 5)
    histogram.add(np.array([0.0, 8.0, 4.5]))
    np.testing.assert_array_equal(histogram.counts, [1, 0, 5, 0, 1, 0, 0, 1])


def test_what_is_no_number() -> None:
    """NaN is counted apart, whole batches of it too; batches without an element count nothing."""
    nothing = of(np.full(3, np.nan), np.zeros(0))
    assert (nothing.not_numbers, nothing.total, nothing.counts.size) == (3, 0, 0)
    histogram = of(np.zeros(0), np.array([-np.inf, 1.0, np.nan]))
    largest = np.finfo(np.float32).max
    assert (histogram.low, histogram.high) == (-largest, 1.0)
    assert (histogram.not_numbers, histogram.total) == (1, 2)
    for infinite in (np.inf, -np.inf):
        assert sorted(np.abs([(h := of(np.array([1.0, infinite]))).low, h.high])) == [1, largest]


USUAL = np.tile(np.float32([1.0, -1.5, 1.25, 0.0]), 20)


@pytest.mark.parametrize(
    ("odd", "count"),
    [
        ([65536.0], 0),  # not more than 2 ** 16 times the power of 2 below the others
        ([65540.0], 1),
        ([-65540.0, 1e30, np.inf], 3),
        ([65540.0] * 3, 3),  # 3 of 63 that are not 0
        ([65540.0] * 4, 0),  # 4 of 64 are more than one in twenty
        ([np.inf] * 9, 9),
        ([np.nan, 1.0], 0),
        ([np.nan, -np.inf], 1),
        ([2.0**-149, 2.0**-126], 0),
    ],
)
def test_absurd_numbers(odd: list[float], count: int) -> None:
    """They become the largest other magnitude, with their sign."""
    values = np.concatenate([USUAL, np.float32(odd)])[:, None]
    made, found = plausible(values)
    assert found == count and made.shape == values.shape
    absurd = np.abs(values) > 65536 if count else np.zeros(values.shape, bool)
    np.testing.assert_array_equal(made[~absurd], values[~absurd])
    np.testing.assert_array_equal(made[absurd], np.copysign(1.5, values[absurd]))


@pytest.mark.parametrize("value", [0.0, np.inf, 2.0**-149])
def test_only_what_has_no_power_of_2(value: float) -> None:
    """Nothing is usual then: nothing is absurd."""
    values = np.full(5, value, np.float32)
    made, found = plausible(values)
    assert found == 0
    np.testing.assert_array_equal(made, values)
    assert plausible(values[:0])[1] == 0


@pytest.mark.parametrize("power", [-126, -125, 0, 110])
def test_powers_of_2(power: int) -> None:
    """What is absurd beside numbers of one power of 2: from 2 ** 16 times on, whatever the power."""
    values = np.ldexp(np.float32(1), np.full(40, power)).astype(np.float32)
    values[3] *= 65536
    assert plausible(values)[1] == 0
    values[3] *= 2
    made, found = plausible(values)
    assert found == 1 and (made == values[0]).all()
    values[3] = -np.inf
    made, found = plausible(values)
    assert found == 1 and (np.abs(made) == values[0]).all()
