"""Conversions around operators: what becomes operators on integers, and what it gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_runner import Net
from qdq_formulas import FOLDED, LAYER, MATCHED, OUTPUTS, Formula, W, again, linear, of, real, row, x

from glow_dialects.core.types import Array, QuantizedArray, UniformQuantizedType
from glow_dialects.dialects import context
from glow_dialects.ops.module import ConstantOp
from glow_dialects.ops.requantize import NO_HIGH, NO_LOW, RequantizingOp
from glow_passes.graph.cse import CsePass
from glow_passes.graph.dce import DcePass
from glow_passes.quantize.fold_conversions import FoldConversionsPass
from glow_passes.quantize.match_qdq import MatchQdqPass


def checked(build: Formula, left: str | None, item: Any, tolerance: float) -> list[Array]:
    """The nodes that are left, and the values of before; the stored constants."""
    n = Net()
    n.g.save(build(n))
    want = n.g.run()
    for each in (item, CsePass(), DcePass()):
        each.apply(context(), n.g.module)
    n.g.module.verify()
    assert left is None or " ".join(n.g.ops()) == left
    for have, value in zip(n.g.run(), want, strict=True):
        np.testing.assert_allclose(
            have.astype(np.float64), value.astype(np.float64), rtol=1e-3, atol=tolerance
        )
    arrays = (op.array() for op in n.g.module.ops if isinstance(op, ConstantOp))
    return [a for a in arrays if a is not None]


@pytest.mark.parametrize("case", MATCHED)
def test_conversions_of_a_model(case: str) -> None:
    """The integers are those of the model, but for sums that end between two of them."""
    checked(*MATCHED[case], MatchQdqPass(), 1.0 if "store" in case or "sum" in case else 0.05)


@pytest.mark.parametrize(
    ("zero", "numbers", "dtype"),
    [(128, (0, 255), "int8"), (127, (0, 255), "int16"), (129, (0, 255), "int16"), (0, (3, 127), "int8")],
)
def test_weights_less_their_zero_point(zero: int, numbers: tuple[int, int], dtype: str) -> None:
    """They are signed bytes where they fit."""
    held = QuantizedArray.of(np.array([numbers] * 3), of(8, 0.25, zero, signed=False))
    constants = checked(lambda n: n.matmul(x(n, 4, 3), real(n, held)), LAYER, MatchQdqPass(), 0.05)
    (weights,) = [c for c in constants if c.dtype == dtype]
    np.testing.assert_array_equal(weights, [np.array(numbers) - zero] * 3)


@pytest.mark.parametrize("case", FOLDED)
def test_conversions_that_meet(case: str) -> None:
    """What rounded twice rounds once: a step of the result more or less."""
    checked(*FOLDED[case], FoldConversionsPass(), 2.0)


@pytest.mark.parametrize("case", FOLDED)
def test_conversions_that_saturate(case: str) -> None:
    """Nothing changes where each conversion keeps its meaning."""
    build, _ = FOLDED[case]
    checked(build, None, FoldConversionsPass(saturate=True), 0.0)


@pytest.mark.parametrize("kind", [W, OUTPUTS], ids=["one scale", "scales"])
@pytest.mark.parametrize(
    ("bias", "most", "by"), [((2.01, -3.03), 15, 8), ((2.01, 0), 16, 4), ((2, -3), 15, 1), ((2.01, 0), 64, 1)]
)
def test_biases_between_units(
    bias: tuple[float, ...], most: int, by: int, kind: UniformQuantizedType
) -> None:
    """Weights are multiplied as far as bytes go, where a bias is no whole number of their units."""
    weights = np.array([[most, -1], [0, 1], [2, 3]])
    held = QuantizedArray.of(weights, kind)
    constants = checked(
        lambda n: n.fully_connected(x(n, 4, 3), real(n, held), row(*bias)), LAYER, MatchQdqPass(), 1 / 16
    )
    np.testing.assert_array_equal(next(c for c in constants if c.shape == (3, 2)), by * weights)


@pytest.mark.parametrize(
    ("limits", "scale", "expected"),
    [
        ({}, 2.0, (-64, 64)),  # the range of the first type ends within that of the second
        ({}, 0.5, (NO_LOW, NO_HIGH)),
        ({"low": -10}, 0.5, (-20, NO_HIGH)),
        ({"high": 10}, 0.5, (NO_LOW, 20)),
        ({"low": -100, "high": 100}, 0.5, (-128, 127)),  # limits stay limits where they end the range
    ],
)
def test_limits_of_another_type(limits: dict[str, int], scale: float, expected: tuple[int, int]) -> None:
    """A layer keeps the limits of the type that it had, as integers of the one that it gets."""
    n = Net()
    n.g.save(again(n, linear(n, of(8, 1.0), **limits), of(8, scale)))
    FoldConversionsPass().apply(context(), n.g.module)
    (layer,) = [op for op in n.g.module.walk() if isinstance(op, RequantizingOp)]
    assert layer.limits() == expected


def test_limits_of_a_relu_meet_those_there_are() -> None:
    """The narrower ones stay."""
    for low, high, expected in ((-9, 9, (-3, 4)), (-1, 1, (-1, 1))):
        n = Net()
        n.g.save(n.clip(real(n, linear(n, of(8, 1.0), low=-3, high=4)), low, high))
        FoldConversionsPass().apply(context(), n.g.module)
        (layer,) = [op for op in n.g.module.walk() if isinstance(op, RequantizingOp)]
        assert layer.limits() == expected
