"""Values of the element-wise cards: formulas of their own, element types, special numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from card_runner import apply

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.sample import Sample
from glow_dialects.core.types import tensor
from glow_dialects.ops import activation, arithmetic, compare, logic, relu, select, unary_math
from glow_dialects.ops.cast import CastOp

BF16 = np.dtype(ml_dtypes.bfloat16)


def op_of(name: str) -> type[GraphOp]:
    """The node class of an element-wise operator."""
    camel = "".join(p.capitalize() for p in name.split("_")) + "Op"
    for card in (activation, arithmetic, compare, logic, relu, select, unary_math):
        if hasattr(card, camel):
            return getattr(card, camel)
    raise KeyError(name)


def sigmoid(x: float) -> float:
    """The logistic function."""
    return 1 / (1 + math.exp(-x))


#: Scalar formulas; `low` and `high` bound the operand.
UNARY: dict[str, tuple[Callable[[float], float], float, float]] = {
    "neg": (lambda x: -x, -3, 3),
    "abs": (abs, -3, 3),
    "floor": (math.floor, -3, 3),
    "ceil": (math.ceil, -3, 3),
    "round": (round, -3, 3),
    "trunc": (math.trunc, -3, 3),
    "sign": (lambda x: (x > 0) - (x < 0), -3, 3),
    "sqrt": (math.sqrt, 0, 9),
    "rsqrt": (lambda x: x**-0.5, 0.1, 9),
    "reciprocal": (lambda x: 1 / x, 0.1, 9),
    "sin": (math.sin, -9, 9),
    "cos": (math.cos, -9, 9),
    "tan": (math.tan, -1.4, 1.4),
    "asin": (math.asin, -1, 1),
    "acos": (math.acos, -1, 1),
    "atan": (math.atan, -9, 9),
    "sinh": (math.sinh, -3, 3),
    "cosh": (math.cosh, -3, 3),
    "tanh": (math.tanh, -3, 3),
    "asinh": (math.asinh, -9, 9),
    "acosh": (math.acosh, 1, 9),
    "atanh": (math.atanh, -0.9, 0.9),
    "exp": (math.exp, -3, 3),
    "log": (math.log, 0.1, 9),
    "log1p": (math.log1p, -0.9, 9),
    "expm1": (math.expm1, -3, 3),
    "erf": (math.erf, -3, 3),
    "relu": (lambda x: max(x, 0), -3, 3),
    "leaky_relu": (lambda x: x if x > 0 else 0.01 * x, -3, 3),
    "elu": (lambda x: x if x > 0 else math.exp(x) - 1, -3, 3),
    "selu": (
        lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * (math.exp(x) - 1)),
        -3,
        3,
    ),
    "celu": (lambda x: max(0, x) + min(0, math.exp(x) - 1), -3, 3),
    "sigmoid": (sigmoid, -9, 9),
    "hard_sigmoid": (lambda x: max(0, min(1, 0.2 * x + 0.5)), -5, 5),
    "hard_swish": (lambda x: x * max(0, min(6, x + 3)) / 6, -5, 5),
    "gelu": (lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))), -5, 5),
    "swish": (lambda x: x * sigmoid(x), -5, 5),
    "softplus": (lambda x: math.log(1 + math.exp(x)), -9, 9),
    "softsign": (lambda x: x / (1 + abs(x)), -5, 5),
    "mish": (lambda x: x * math.tanh(math.log(1 + math.exp(x))), -5, 5),
    "thresholded_relu": (lambda x: x if x > 1 else 0, -5, 5),
    "logit": (lambda x: math.log(x / (1 - x)), 0.01, 0.99),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary(name: str, dtype: str) -> None:
    """Each function, rounded once to the element type."""
    formula, low, high = UNARY[name]
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = np.linspace(low, high, 41).astype(kind)
    expected = np.array([formula(float(v)) for v in x], np.float64)
    made = apply(op_of(name), x)
    assert made.dtype == kind
    tolerance = 4 * float(ml_dtypes.finfo(kind).eps)
    scale = 1 if dtype == "float64" else 16  # float32 arithmetic near cancellations
    np.testing.assert_allclose(
        made.astype(np.float64), expected, rtol=tolerance, atol=scale * float(np.finfo(np.float32).eps)
    )


PARAMETERS: list[tuple[str, dict[str, Any], Callable[[float], float]]] = [
    ("leaky_relu", {"alpha": 0.3}, lambda x: x if x > 0 else 0.3 * x),
    ("elu", {"alpha": 2.0}, lambda x: x if x > 0 else 2 * (math.exp(x) - 1)),
    ("selu", {"alpha": 2.0, "gamma": 3.0}, lambda x: 3 * (x if x > 0 else 2 * (math.exp(x) - 1))),
    ("celu", {"alpha": 2.0}, lambda x: max(0, x) + min(0, 2 * (math.exp(x / 2) - 1))),
    ("hard_sigmoid", {"alpha": 0.5, "beta": 0.6}, lambda x: max(0, min(1, 0.5 * x + 0.6))),
    ("swish", {"alpha": 2.0}, lambda x: x * sigmoid(2 * x)),
    ("thresholded_relu", {"alpha": 2.0}, lambda x: x if x > 2 else 0),
    ("clip", {"min": -1.0, "max": 2.0}, lambda x: min(2, max(-1, x))),
    ("clip", {"min": 2.0, "max": 1.0}, lambda x: 1),
    ("clip", {}, lambda x: x),
    (
        "gelu",
        {"approximate": "tanh"},
        lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
]


@pytest.mark.parametrize("index", range(len(PARAMETERS)))
def test_parameters(index: int) -> None:
    """Properties reach the formula."""
    name, properties, formula = PARAMETERS[index]
    x = np.linspace(-4, 4, 33)
    expected = [formula(float(v)) for v in x]
    np.testing.assert_allclose(apply(op_of(name), x, **properties), expected, rtol=1e-12, atol=1e-12)


def test_whole_numbers_serve_as_floats() -> None:
    """Properties of float type take Python ints."""
    _, op = Sample(op_of("clip"), (np.array([-1.0, 9.0]),), {"min": 0, "max": 6}).detached()
    op.verify()
    assert (op.min, op.max) == (0.0, 6.0)


def truncated(a: int, b: int) -> int:
    """Integer quotient towards zero; 0 for a zero divisor."""
    return int(math.copysign(abs(a) // abs(b), a * b)) if b else 0


INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": truncated,
    "floor_div": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "fmod": lambda a, b: a - b * truncated(a, b) if b else 0,
    "max": max,
    "min": min,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
}
KINDS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", sorted(INTEGERS))
def test_integer_arithmetic(name: str, dtype: str) -> None:
    """Every pair of small integers, wrapped to the width."""
    values = range(-7, 8) if dtype.startswith("i") else range(0, 15)
    a = np.array(values, dtype).reshape(-1, 1)
    b = np.array(values, dtype).reshape(1, -1)
    wrap = 1 << (8 * a.dtype.itemsize)
    expected = [[INTEGERS[name](x, y) % wrap for y in values] for x in values]
    made = apply(op_of(name), a, b)
    assert made.dtype == a.dtype
    assert [[int(v) % wrap for v in row] for row in made] == expected


def test_extreme_integer_quotient() -> None:
    """The one quotient that does not fit wraps."""
    low = np.array([-128, -128, 127], np.int8)
    assert apply(op_of("div"), low, np.array([-1, 1, -1], np.int8)).tolist() == [-128, -128, -127]


def test_uint8_wraps() -> None:
    """Sums and differences of bytes wrap."""
    a, b = np.array([250, 3], np.uint8), np.array([10, 5], np.uint8)
    assert apply(op_of("add"), a, b).tolist() == [4, 8]
    assert apply(op_of("sub"), a, b).tolist() == [240, 254]


@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_wins(name: str) -> None:
    """Maximum and minimum give NaN for a NaN on either side."""
    a, b = np.array([np.nan, 1, 3], np.float32), np.array([1, np.nan, 2], np.float32)
    expected = [np.nan, np.nan, 3 if name == "max" else 2]
    np.testing.assert_array_equal(apply(op_of(name), a, b), expected)


def test_signs_of_remainders() -> None:
    """mod takes the divisor's sign, fmod the dividend's, of floats too."""
    a = np.array([-4.3, 7.2, 5.0, 4.3, -7.2, 8.0], np.float64)
    b = np.array([2.1, -3.4, 8.0, -2.1, 3.4, 5.0], np.float64)
    expected = [x - y * math.floor(x / y) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(apply(op_of("mod"), a, b), expected, atol=1e-12)
    expected = [math.fmod(x, y) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(apply(op_of("fmod"), a, b), expected, atol=1e-12)


def test_powers() -> None:
    """The result has the base's type; exponents may be of another."""
    base = np.array([1, 2, 3, -2], np.int32)
    assert apply(op_of("pow"), base, np.array([4, 5, 6, 3], np.int64)).tolist() == [1, 32, 729, -8]
    assert apply(op_of("pow"), base, np.array([4, 0.5, 2, 3], np.float32)).tolist() == [1, 1, 9, -8]
    assert apply(op_of("pow"), np.array([1, -1, 2], np.int32), np.array(-1, np.int32)).tolist() == [1, -1, 0]
    made = apply(op_of("pow"), np.array([2, 4], np.float32), np.array([3, -2], np.int64))
    assert made.dtype == np.float32 and made.tolist() == [8, 0.0625]
    assert np.isnan(apply(op_of("pow"), np.array([-8.0]), np.array([1 / 3])))[0]


def test_ties_round_to_even() -> None:
    """round gives the even neighbour of a half."""
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997], np.float32)
    assert apply(op_of("round"), x).tolist() == [-2, -2, 0, 0, 2, 2, 0]


def test_functions_keep_infinities() -> None:
    """No overflow where the value exists."""
    x = np.array([-1000, 1000], np.float32)
    assert apply(op_of("sigmoid"), x).tolist() == [0, 1]
    assert apply(op_of("softplus"), x).tolist() == [0, 1000]
    assert apply(op_of("mish"), x).tolist() == [0, 1000]
    assert apply(op_of("elu"), x).tolist() == [-1, 1000]
    assert apply(op_of("tanh"), x).tolist() == [-1, 1]


def test_shifts() -> None:
    """Shifts of bytes; beyond the width nothing is left."""
    a, b = np.array([16, 4, 1, 255], np.uint8), np.array([1, 2, 8, 4], np.uint8)
    assert apply(op_of("shift_left"), a, b).tolist() == [32, 16, 0, 240]
    assert apply(op_of("shift_right"), a, b).tolist() == [8, 1, 0, 15]
    assert apply(op_of("shift_right"), np.array([-8], np.int8), np.array([1], np.int8)).tolist() == [-4]


LOGIC = {"and": lambda a, b: a and b, "or": lambda a, b: a or b, "xor": lambda a, b: a != b}


@pytest.mark.parametrize("name", sorted(LOGIC))
def test_logic(name: str) -> None:
    """The truth table."""
    table = [(a, b) for a in (False, True) for b in (False, True)]
    made = apply(op_of(name), np.array([a for a, _ in table]), np.array([b for _, b in table]))
    assert made.tolist() == [LOGIC[name](a, b) for a, b in table]


COMPARE: dict[str, Callable[[float, float], bool]] = {
    "cmp_eq": lambda a, b: a == b,
    "cmp_ne": lambda a, b: a != b,
    "cmp_lt": lambda a, b: a < b,
    "cmp_le": lambda a, b: a <= b,
    "cmp_gt": lambda a, b: a > b,
    "cmp_ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("name", sorted(COMPARE))
def test_comparisons(name: str, dtype: str) -> None:
    """Python's comparisons, NaN included."""
    values = [0.0, 1.0, 2.0] + ([math.nan, math.inf, -math.inf] if "float" in dtype else [])
    x = np.array(values).astype(getattr(ml_dtypes, dtype, dtype))
    made = apply(op_of(name), x.reshape(-1, 1), x)
    assert made.tolist() == [[COMPARE[name](a, b) for b in values] for a in values]


def test_is_inf_by_sign() -> None:
    """Either sign can be left out."""
    x = np.array([1, -np.inf, np.inf, np.nan], np.float32)
    assert apply(op_of("is_inf"), x).tolist() == [False, True, True, False]
    assert apply(op_of("is_inf"), x, detect_positive=False).tolist() == [False, True, False, False]
    assert apply(op_of("is_inf"), x, detect_negative=False).tolist() == [False, False, True, False]
    assert apply(op_of("is_nan"), x).tolist() == [False, False, False, True]


def test_replace_nan() -> None:
    """Only NaN is replaced."""
    x = np.array([1, np.nan, -np.inf], np.float32)
    assert apply(op_of("replace_nan"), x, value=3.0).tolist() == [1, 3, -np.inf]


def test_select_keeps_what_is_not_chosen_away() -> None:
    """NaN of the other side does not leak."""
    a, b = np.array([1, np.nan]), np.array([np.nan, 2])
    assert apply(op_of("select"), np.array([True, False]), a, b).tolist() == [1, 2]


def cast(x: np.ndarray, dtype: Any, saturate: bool = True) -> np.ndarray:
    """glow.cast."""
    return apply(CastOp, x, results=tensor(x.shape, dtype), saturate=saturate)


def test_cast_of_floats_to_integers_truncates() -> None:
    """Towards zero."""
    assert cast(np.array([-1.9, -0.5, 0.5, 1.9]), "int32").tolist() == [-1, 0, 0, 1]
    assert cast(np.array([-1.9, 1.9]).astype(BF16), "int64").tolist() == [-1, 1]


def test_cast_to_bool_is_not_zero() -> None:
    """NaN and fractions are true."""
    assert cast(np.array([0.0, -0.0, 0.3, np.nan], np.float32), "bool").tolist() == [False, False, True, True]


def test_cast_rounds_to_even() -> None:
    """float32 to bfloat16: the tie goes to the even neighbour."""
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-9], np.float32)
    assert cast(x, BF16).astype(np.float32).tolist() == [1, 1 + 2**-6, 1]


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_cast_to_float8_saturates_where_asked(name: str) -> None:
    """Beyond the range: the largest finite value, or NaN or infinity."""
    kind = getattr(ml_dtypes, name)
    largest = float(ml_dtypes.finfo(kind).max)
    x = np.array([1e6, -1e6, np.nan, 1.0], np.float32)
    made = cast(x, kind).astype(np.float32)
    assert made[0] == largest and made[1] == -largest and np.isnan(made[2]) and made[3] == 1
    assert not np.isfinite(cast(x, kind, saturate=False).astype(np.float32)[:2]).any()


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_four_bit_integers(name: str) -> None:
    """Casts and arithmetic of 4-bit integers."""
    x = np.array([1, 2, 3, 7], np.int32)
    narrow = cast(x, getattr(ml_dtypes, name))
    assert narrow.astype(np.int32).tolist() == [1, 2, 3, 7]
    assert cast(narrow, "float32").tolist() == [1, 2, 3, 7]
    assert apply(op_of("add"), narrow[:3], narrow[:3]).astype(int).tolist() == [2, 4, 6]
