"""Element-wise programs against NumPy in higher precision and against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_runner import run_kernel

from glow_backends.cpu.emit.pointwise import Pointwise, Step
from glow_backends.cpu.jit import new_module
from glow_backends.cpu.kernels.pointwise.elementwise import ElementwiseSpec, emit_elementwise
from glow_backends.cpu.target import host

NUMPY: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40, 88.8, -103.9, 1e30, -1e30, 0.5]
RNG = np.random.default_rng(7)


def dtype_name(array: np.ndarray) -> str:
    """The kernel's name of an array's dtype."""
    return next(n for n, t in NUMPY.items() if np.dtype(t) == array.dtype)


def run_program(program: Pointwise, inputs: list[np.ndarray], threads: int = 1) -> list[np.ndarray]:
    """The program over its broadcast inputs."""
    shape = np.broadcast_shapes(*(a.shape for a in inputs))
    dtypes = tuple(dtype_name(a) for a in inputs)
    typed = Pointwise(program.inputs, program.steps, program.outputs, dtypes)
    results = tuple(typed.dtype(i) for i in program.outputs)
    spec = ElementwiseSpec(typed, shape, tuple(a.shape for a in inputs), dtypes, results)
    return run_kernel(emit_elementwise, spec, [(shape, NUMPY[d]) for d in results], inputs, threads)


def apply(op: str, inputs: list[np.ndarray], dtype: str, params: tuple[Any, ...] = ()) -> np.ndarray:
    """One step over its inputs."""
    n = len(inputs)
    program = Pointwise(n, (Step(op, tuple(range(n)), params, dtype),), (n,))
    return run_program(program, inputs)[0]


def worst_ulp(result: np.ndarray, reference: np.ndarray) -> float:
    """The largest error in units of the last place; infinite where NaN or infinity differ."""
    with np.errstate(all="ignore"):
        rounded = reference.astype(result.dtype)
        same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
        error = np.abs(result.astype(np.float64) - reference.astype(np.float64))
        error = np.where(same, 0.0, error / np.spacing(np.abs(rounded)).astype(np.float64))
    return float(np.nan_to_num(error, nan=np.inf).max())


def _erf(x: np.ndarray) -> np.ndarray:
    torch = pytest.importorskip("torch")
    return torch.erf(torch.from_numpy(x.astype(np.float64))).numpy()


def torch_float64(name: str, x: np.ndarray) -> np.ndarray:
    """A function of torch.nn.functional in float64."""
    torch = pytest.importorskip("torch")
    return getattr(torch.nn.functional, name)(torch.from_numpy(x.astype(np.float64))).numpy()


FUNCTIONS: list[tuple[str, Callable[..., Any], float, float, float]] = [
    ("exp", np.exp, -104, 89, 1.5),
    ("log", np.log, 0, 30, 1.5),
    ("log1p", np.log1p, -1, 9, 2.0),
    ("expm1", np.expm1, -20, 88, 2.5),
    ("tanh", np.tanh, -9, 9, 3.0),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), -80, 80, 3.0),
    ("softplus", lambda x: np.logaddexp(0, x), -90, 90, 3.0),
    ("erf", _erf, -4.5, 4.5, 2.0),
    ("sin", np.sin, -20, 20, 2.5),
    ("sin", np.sin, -1e7, 1e7, 2.5),
    ("cos", np.cos, -20, 20, 2.5),
    ("tan", np.tan, -20, 20, 4.0),
    ("atan", np.arctan, -9, 9, 2.5),
    ("asin", np.arcsin, -1, 1, 2.5),
    ("acos", np.arccos, -1, 1, 2.5),
    ("sinh", np.sinh, -89, 89, 4.0),
    ("cosh", np.cosh, -89, 89, 4.0),
    ("asinh", np.arcsinh, -99, 99, 3.0),
    ("acosh", np.arccosh, 1, 99, 3.0),
    ("atanh", np.arctanh, -1, 1, 3.0),
    ("rsqrt", lambda x: 1 / np.sqrt(x), 0, 9, 2.0),
    ("reciprocal", lambda x: 1 / x, -9, 9, 1.0),
]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda c: f"{c[0]}-{c[3]:g}")
def test_function_accuracy(case: tuple[str, Callable[..., Any], float, float, float], dtype: str) -> None:
    """Every elementary function, with its special values, within its stated error."""
    op, reference, low, high, bound = case
    x = np.concatenate([RNG.uniform(low, high, 20011), SPECIAL]).astype(NUMPY[dtype])
    wide = np.float64 if dtype == "f32" or op == "erf" else np.longdouble
    with np.errstate(all="ignore"):
        expected = reference(x.astype(wide))
    assert worst_ulp(apply(op, [x], dtype), expected) <= bound


def test_gelu() -> None:
    """The exact form, below zero too, where x Phi(x) by erf loses all digits."""
    x = np.concatenate([RNG.uniform(-4, 9, 20011), [np.inf, -np.inf, np.nan, 0.0, -0.0]]).astype(np.float32)
    wide = torch_float64("gelu", x)
    y = apply("gelu", [x], "f32", ("none",))
    np.testing.assert_allclose(y, wide, rtol=5e-6, atol=1e-15)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_power(dtype: str) -> None:
    """pow against NumPy, with every pair of special values."""
    special = np.array([*SPECIAL, 2.0, 3.0, -2.0, -3.0, 2.5], NUMPY[dtype])
    a, b = (g.ravel() for g in np.meshgrid(special, special))
    x = np.concatenate([RNG.uniform(0, 20, 20000), RNG.uniform(-9, 9, 999), a]).astype(a.dtype)
    y = np.concatenate([RNG.uniform(-20, 20, 20000), RNG.integers(-9, 9, 999), b]).astype(a.dtype)
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    assert worst_ulp(apply("pow", [x, y], dtype), expected) <= 1.5


@pytest.mark.parametrize("exponent", [2.0, 3.0, 1.0, -1.0, 0.5, 4.0])
def test_power_by_a_constant(exponent: float) -> None:
    """x^c for the exponents that are products, and for others."""
    x = RNG.uniform(0.1, 9, 999).astype(np.float32)
    program = Pointwise(1, (Step("constant", (), (exponent,)), Step("pow", (0, 1))), (2,))
    expected = np.power(x.astype(np.float64), exponent)
    assert worst_ulp(run_program(program, [x])[0], expected) <= 2.0


ACTIVATIONS: list[tuple[str, tuple[Any, ...], str, dict[str, Any]]] = [
    ("relu", (), "relu", {}),
    ("leaky_relu", (0.1,), "leaky_relu", {"negative_slope": 0.1}),
    ("elu", (1.3,), "elu", {"alpha": 1.3}),
    ("selu", (), "selu", {}),
    ("celu", (0.7,), "celu", {"alpha": 0.7}),
    ("gelu", (False,), "gelu", {}),
    ("gelu", (True,), "gelu", {"approximate": "tanh"}),
    ("swish", (), "silu", {}),
    ("mish", (), "mish", {}),
    ("softsign", (), "softsign", {}),
    ("hard_swish", (), "hardswish", {}),
    ("hard_sigmoid", (1 / 6, 0.5), "hardsigmoid", {}),
    ("softplus", (), "softplus", {}),
    ("clip", (-1.0, 2.0), "hardtanh", {"min_val": -1.0, "max_val": 2.0}),
]


@pytest.mark.parametrize("case", ACTIVATIONS, ids=lambda c: f"{c[0]}{c[1]}")
def test_activation(case: tuple[str, tuple[Any, ...], str, dict[str, Any]]) -> None:
    """The activations against PyTorch in f64."""
    torch = pytest.importorskip("torch")
    op, params, name, options = case
    x = np.concatenate([RNG.normal(0, 3, 5003), [0.0, -0.0, np.nan, 50, -50]]).astype(np.float32)
    function = getattr(torch.nn.functional, name)
    expected = function(torch.from_numpy(x.astype(np.float64)), **options).numpy()
    np.testing.assert_allclose(apply(op, [x], "f32", params), expected, rtol=2e-6, atol=3e-7)


BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "mod": np.mod, "fmod": np.fmod, "floor_div": np.floor_divide,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [d for d in NUMPY if d not in ("i1", "f16", "bf16")])
@pytest.mark.parametrize("op", BINARY)
def test_arithmetic(op: str, dtype: str) -> None:
    """Binary arithmetic in every dtype; integers wrap and a zero divisor gives 0."""
    if dtype.startswith("f"):
        x, y = (RNG.normal(0, 9, 1003).astype(NUMPY[dtype]) for _ in range(2))
        x[:4], y[:4] = (np.nan, 1, -0.0, 5), (1, np.nan, 0.5, -5)
    else:
        info = np.iinfo(NUMPY[dtype])
        x = RNG.integers(info.min, info.max, 1003, NUMPY[dtype], endpoint=True)
        y = RNG.integers(max(info.min, -9), 9, 1003, NUMPY[dtype])
        x[:2], y[:2] = info.min, (info.max if info.min == 0 else -1, 0)
    with np.errstate(all="ignore"):
        expected = BINARY[op](x, y)
    np.testing.assert_array_equal(apply(op, [x, y], dtype), expected)


def test_integer_division_truncates() -> None:
    """div of integers rounds towards zero."""
    x, y = np.arange(-50, 50, dtype=np.int32), np.full(100, -7, np.int32)
    np.testing.assert_array_equal(apply("div", [x, y], "i32"), np.trunc(x / y).astype(np.int32))


UNARY: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "trunc": np.trunc, "sign": np.sign, "sqrt": np.sqrt,
}  # fmt: skip


@pytest.mark.parametrize("op", UNARY)
def test_exact_unary(op: str) -> None:
    """Functions whose results are exact or correctly rounded."""
    x = np.concatenate([RNG.normal(0, 9, 501), SPECIAL, [0.5, 1.5, 2.5, -0.5]]).astype(np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(apply(op, [x], "f32"), UNARY[op](x))
    if op in ("neg", "abs", "sign"):
        y = RNG.integers(-100, 100, 77).astype(np.int64)
        np.testing.assert_array_equal(apply(op, [y], "i64"), UNARY[op](y))


@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "u8", "i64", "u32"])
@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparison(op: str, dtype: str) -> None:
    """Comparisons, false with NaN except for ne."""
    functions = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
                 "gt": "greater", "ge": "greater_equal"}  # fmt: skip
    x, y = (RNG.integers(0, 255, 333).astype(NUMPY[dtype]) // 16 for _ in range(2))
    if dtype.startswith("f"):
        x[3] = np.nan
    expected = getattr(np, functions[op])(x, y)
    np.testing.assert_array_equal(apply(f"cmp_{op}", [x, y], "i1"), expected)


def test_booleans_and_select() -> None:
    """Logic on bytes and choosing by a mask."""
    a, b = (RNG.integers(0, 2, 301).astype(np.bool_) for _ in range(2))
    x, y = (RNG.normal(size=301).astype(np.float32) for _ in range(2))
    for op, function in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
        np.testing.assert_array_equal(apply(op, [a, b], "i1"), function(a, b))
    np.testing.assert_array_equal(apply("not", [a], "i1"), ~a)
    np.testing.assert_array_equal(apply("select", [a, x, y], "f32"), np.where(a, x, y))
    z = np.array([np.nan, np.inf, -np.inf, 1.0] * 9, np.float32)
    np.testing.assert_array_equal(apply("is_nan", [z], "i1"), np.isnan(z))
    np.testing.assert_array_equal(apply("is_inf", [z], "i1"), np.isinf(z))
    np.testing.assert_array_equal(apply("is_inf", [z], "i1", (True, False)), np.isneginf(z))


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "u64"])
def test_bits(dtype: str) -> None:
    """Bitwise operations and shifts."""
    x = RNG.integers(0, 127, 99).astype(NUMPY[dtype])
    y = RNG.integers(0, 7, 99).astype(NUMPY[dtype])
    functions = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
                 "bitwise_xor": np.bitwise_xor, "shift_left": np.left_shift,
                 "shift_right": np.right_shift}  # fmt: skip
    for op, function in functions.items():
        np.testing.assert_array_equal(apply(op, [x, y], dtype), function(x, y))
    np.testing.assert_array_equal(apply("bitwise_not", [x], dtype), ~x)


@pytest.mark.slow
@pytest.mark.parametrize("target", NUMPY)
@pytest.mark.parametrize("source", NUMPY)
def test_cast(source: str, target: str) -> None:
    """Conversions between all dtypes as astype does them, for values the target holds."""
    signed = not (source.startswith("u") or target.startswith("u") or "i1" in (source, target))
    whole = RNG.integers(-100 if signed else 0, 100, 203)
    x = whole.astype(NUMPY[source])
    if source.startswith(("f", "bf")) and target.startswith(("f", "bf")):
        x = (RNG.normal(0, 10, 203) * 1.000001).astype(NUMPY[source])
    elif source.startswith("f"):
        x = (x + 0.25).astype(NUMPY[source])
    result = apply("cast", [x], target)
    np.testing.assert_array_equal(result.astype(np.float64), x.astype(NUMPY[target]).astype(np.float64))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_sixteen_bit_floats_round_after_each_step(dtype: str) -> None:
    """f16 and bf16 give what NumPy gives when every operation rounds."""
    x, y = (RNG.normal(0, 3, 515).astype(NUMPY[dtype]) for _ in range(2))
    program = Pointwise(2, (Step("mul", (0, 1), (), dtype), Step("add", (2, 0), (), dtype)), (3,))
    np.testing.assert_array_equal(run_program(program, [x, y])[0], x * y + x)


def test_f64_to_f16_rounds_once() -> None:
    """A value just above a tie is not rounded twice."""
    x = np.array([1.0 + 2.0**-11 + 2.0**-40, 1.0 + 2.0**-11 - 2.0**-40, 65519.999, 1e-9])
    np.testing.assert_array_equal(apply("cast", [x], "f16"), x.astype(np.float16))


SHAPES = [
    [(3, 5, 7), (3, 5, 7)],
    [(2, 6, 35), (6, 1)],
    [(2, 6, 200), (6, 1)],
    [(4, 3, 5, 16), (3, 1, 16)],
    [(9, 3), (3,)],
    [(9, 1), (1, 130)],
    [(5, 1, 7), (1, 4, 1)],
    [(), (40,)],
    [(1,), ()],
    [(0, 3), (3,)],
    [(2, 1, 100, 33), (1, 3, 1, 33)],
]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_broadcast(shapes: list[tuple[int, ...]], threads: int) -> None:
    """Operands broadcast by NumPy's rule, on one worker and on several."""
    x, y = (np.asarray(RNG.normal(size=s), np.float32) for s in shapes)
    program = Pointwise(2, (Step("sub", (0, 1)), Step("mul", (2, 0))), (3,))
    np.testing.assert_array_equal(run_program(program, [x, y], threads)[0], (x - y) * x)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [16, 35, 1000])
@pytest.mark.parametrize("columns", [2, 3, 7, 8])
@pytest.mark.parametrize("outer", [1, 5])
def test_short_rows(outer: int, columns: int, rows: int, threads: int) -> None:
    """Rows shorter than a vector, with operands constant along rows, down columns, or both."""
    shapes = [(outer, rows, columns), (outer, rows, 1), (outer, 1, columns), (outer, 1, 1)]
    x, y, z, w = (RNG.normal(size=s).astype(np.float32) for s in shapes)
    program = Pointwise(4, (Step("sub", (0, 1)), Step("mul", (4, 2)), Step("add", (5, 3))), (6,))
    (result,) = run_program(program, [x, y, z, w], threads)
    np.testing.assert_allclose(result, (x - y) * z + w, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(4, 300), (9, 16), (50, 3), (5,), (1, 1), (2, 0)], ids=str)
def test_steps_on_single_elements(shape: tuple[int, ...], threads: int) -> None:
    """What steps compute of operands of one element is computed once, and may be a result itself."""
    x = RNG.normal(size=shape).astype(np.float32)
    scale, factor, zero = np.float32(0.37), np.full(1, 1.7, np.float32), np.array([200], np.uint8)
    steps = (
        Step("constant", (), (3.0,)),
        Step("cast", (3,), (), "f32"),
        Step("mul", (1, 2)),
        Step("sub", (0, 5)),
        Step("add", (6, 4)),
        Step("mul", (7, 8)),
    )
    program = Pointwise(4, steps, (6, 9), ("f32", "f32", "f32", "u8"))
    have = run_program(program, [x, np.array(scale), factor, zero], threads)
    both = scale * factor[0] + np.float32(3)
    np.testing.assert_array_equal(have[0], np.full(shape, scale * factor[0]))
    np.testing.assert_array_equal(have[1], (x - np.float32(200)) * both)


@pytest.mark.parametrize("shape", [(40001,), (2, 20011), (7, 9, 1024)])
def test_workers_divide_large_tensors(shape: tuple[int, ...]) -> None:
    """Large enough for every worker to have a part, with tails."""
    x = RNG.normal(size=shape).astype(np.float32)
    np.testing.assert_array_equal(
        run_program(Pointwise(1, (Step("neg", (0,)),), (1,)), [x], threads=3)[0], -x
    )


def test_several_outputs_and_types() -> None:
    """One loop computes a stack of steps and stores more than one of its values."""
    x = RNG.normal(size=(3, 77)).astype(np.float32)
    steps = (
        Step("constant", (), (0.5,)),
        Step("cmp_gt", (0, 1), (), "i1"),
        Step("mul", (0, 1)),
        Step("select", (2, 3, 0)),
        Step("cast", (4,), (), "i64"),
    )
    results = run_program(Pointwise(1, steps, (2, 4, 5)), [x])
    chosen = np.where(x > 0.5, x * np.float32(0.5), x)
    for result, expected in zip(results, (x > 0.5, chosen, chosen.astype(np.int64)), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_integer_power() -> None:
    """Integer powers wrap as NumPy's do."""
    x, y = RNG.integers(-9, 9, 99), RNG.integers(0, 40, 99)
    np.testing.assert_array_equal(apply("pow", [x, y], "i64"), np.power(x, y))


def test_results_that_may_lie_where_inputs_do() -> None:
    """A result may take the place of an input that another one needs: no store may come before its load."""

    def code(outputs: tuple[int, ...]) -> str:
        program = Pointwise(2, (Step("neg", (0,), (), "f64"), Step("exp", (1,), (), "f64")), outputs)
        dtypes = ("f64",) * len(outputs)
        spec = ElementwiseSpec(program, (3, 3), ((3, 3), (3, 3)), ("f64", "f64"), dtypes)
        module = new_module("kernel", host())
        emit_elementwise(module, "kernel", spec, host())
        return str(module)

    assert "noalias" in code((3,))
    assert "noalias" not in code((2, 3))
