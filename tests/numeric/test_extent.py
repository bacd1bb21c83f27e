"""Extents against integers: arithmetic for all sizes, decisions for those that meet the conditions."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_dialects.core.conditions import Conditions
from glow_dialects.core.errors import GlowError
from glow_dialects.core.estimates import estimate, has_extents
from glow_dialects.core.extent import Extent, computed, is_open, size
from glow_dialects.core.size_code import size_function
from glow_dialects.core.symbols import parse_size, symbol

OPERATORS = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
#: An expression: (operator, left, right), a number, or the place of a symbol.
EXPRESSIONS: Any = st.recursive(
    st.one_of(st.integers(1, 12), st.sampled_from(["n", "m"])),
    lambda inner: st.tuples(st.sampled_from(OPERATORS), inner, inner),
    max_leaves=8,
)


def value(expression: Any, sizes: dict[str, Any]) -> Any:
    """What an expression is for sizes; ZeroDivisionError and ValueError where a divisor is not positive."""
    if isinstance(expression, tuple):
        kind, left, right = expression
        x, y = value(left, sizes), value(right, sizes)
        divides = kind in (operator.floordiv, operator.mod)
        if divides and not isinstance(y, Extent) and y <= 0:
            raise ZeroDivisionError
        return kind(x, y)
    return sizes[expression] if isinstance(expression, str) else expression


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS, st.integers(2, 90), st.integers(2, 90))
def test_arithmetic(expression: Any, n: int, m: int) -> None:
    conditions = Conditions()
    names = {"n": symbol(conditions, "n", 61), "m": symbol(conditions, "m", 7)}
    try:
        extent, number = value(expression, names), value(expression, {"n": n, "m": m})
    except (ZeroDivisionError, ValueError):
        return
    sizes = dict(zip(conditions.symbols, (n, m), strict=True))
    if not all(c.holds(sizes) for c in conditions.met):
        return  # what was decided on the way is of other sizes
    try:
        found = extent.at(sizes) if isinstance(extent, Extent) else extent
    except ZeroDivisionError:
        return
    if isinstance(extent, Extent) and "floordiv" in str(extent) and _divisor_not_positive(expression, n, m):
        return
    assert found == number
    low, high = extent.range() if isinstance(extent, Extent) else (number, number)
    assert low <= number <= high


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS, st.integers(1, 30), st.integers(2, 90))
def test_the_text_of_a_size_reads_back(expression: Any, eighths: int, m: int) -> None:
    conditions = Conditions()
    names = {"n": symbol(conditions, "n", 64, divisor=8), "m": symbol(conditions, "m", 7)}
    try:
        extent = value(expression, names)
        again = parse_size(str(extent), names.__getitem__)
        sizes = dict(zip(conditions.symbols, (eighths, m), strict=True))
        pair = [v.at(sizes) if isinstance(v, Extent) else v for v in (extent, again)]
    except (ZeroDivisionError, ValueError, GlowError):  # of divisors that are not positive
        return
    assert pair[0] == pair[1], str(extent)


def _divisor_not_positive(expression: Any, n: int, m: int) -> bool:
    if not isinstance(expression, tuple):
        return False
    kind, left, right = expression
    if _divisor_not_positive(left, n, m) or _divisor_not_positive(right, n, m):
        return True
    return kind in (operator.floordiv, operator.mod) and value(right, {"n": n, "m": m}) <= 0


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS, st.sampled_from(COMPARISONS), st.integers(2, 90), st.integers(2, 90))
def test_decisions_hold_for_the_sizes_that_meet_the_conditions(
    left: Any, right: Any, compare: Any, n: int, m: int
) -> None:
    conditions = Conditions()
    names = {"n": symbol(conditions, "n", 61), "m": symbol(conditions, "m", 7)}
    try:
        decided = compare(value(left, names), value(right, names))
        truth = compare(value(left, {"n": n, "m": m}), value(right, {"n": n, "m": m}))
        sizes = dict(zip(conditions.symbols, (n, m), strict=True))
        meets = all(c.holds(sizes) for c in conditions.met)
    except (ZeroDivisionError, ValueError):
        return
    if _divisor_not_positive(left, n, m) or _divisor_not_positive(right, n, m):
        return
    if meets:
        assert decided == truth


def test_a_number_that_is_read_fixes_its_symbol() -> None:
    conditions = Conditions()
    n = symbol(conditions, "n", 61)
    assert list(range(n))[-1] == 60
    (condition,) = conditions.met
    assert str(condition) == "n-61 == 0"
    assert conditions.symbols[0].least == conditions.symbols[0].most == 61


def test_what_is_proven_is_no_condition() -> None:
    conditions = Conditions()
    n = symbol(conditions, "n", 61, least=2, most=100)
    assert n > 1 and n != 0 and n * 4 <= 400 and (n * 128) % 64 == 0 and (n * 12 + 5) // 4 == 3 * n + 1
    assert not conditions.met


def test_a_condition_narrows_what_follows() -> None:
    conditions = Conditions()
    n = symbol(conditions, "n", 61)
    assert n >= 32
    assert n >= 20 and not n < 30
    assert len(conditions.met) == 1


def test_numbers_that_a_function_gives() -> None:
    conditions = Conditions()
    n = symbol(conditions, "n", 61)
    (half, rest) = computed(_halves, n)
    sizes = {conditions.symbols[0]: 9}
    both: Any = rest + n
    assert isinstance(half, Extent) and (half.at(sizes), both.at(sizes)) == (4, 10)
    assert computed(_halves, 9) == [4, 1] and estimate(half) == 30


@dataclass(frozen=True)
class _Plan:
    sizes: tuple[Any, ...]
    part: Any = None


def test_sizes_are_found_wherever_they_are() -> None:
    """In numbers, sequences and dataclasses, one in the other; classes and other objects have none."""
    n = symbol(Conditions(), "n", 61)
    for known in (3, True, "n", None, 1.5, (), [1], {n}, np.int64(3), _Plan, _Plan((1, (2,)), _Plan(()))):
        assert not has_extents(known)
    for open_one in (n, (1, [n]), _Plan((n,)), _Plan((), _Plan((1,), [n]))):
        assert has_extents(open_one)
    assert estimate(_Plan((1, n), _Plan((n,)))) == _Plan((1, 61), _Plan((61,)))


def _halves(number: int) -> list[int]:
    return [number // 2, number % 2]


@given(st.lists(EXPRESSIONS, min_size=1, max_size=5), st.integers(2, 60), st.integers(2, 60))
@settings(max_examples=80, deadline=None)
def test_code_of_sizes_is_what_they_are(expressions: list[Any], n: int, m: int) -> None:
    """A function of all of them gives what each is by itself."""
    conditions = Conditions()
    x, y = symbol(conditions, "n", 7), symbol(conditions, "m", 11)
    try:
        sizes = [value(e, {"n": x, "m": y}) for e in expressions]
        sizes += computed(divmod, sizes[0] * sizes[0], x)
        known = dict(zip(conditions.symbols, (n, m), strict=True))
        wanted = [s.at(known) if isinstance(s, Extent) else s for s in sizes]
    except (ZeroDivisionError, ValueError, GlowError):
        return
    assert size_function(sizes, conditions.symbols)(n, m) == wanted


def test_sizes_are_numbers_or_extents() -> None:
    n = symbol(Conditions(), "n", 5)
    three: Any = np.int64(3)
    assert size(three) == 3 and type(size(three)) is int
    assert size(n) is n and is_open((1, n)) and not is_open((1, 2))
    with pytest.raises(ValueError, match="negative"):
        _ = n // (n * -3)
