"""Special values: the CPU beside the cards, the doors beside their peers, tails of activations.

`make special` compares everything; here it is a part that changes with the operator.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from special_cards import KINDS, ulps
from special_doors import DOORS
from special_values import every_card, through

import glow_compiler as glow
from glow_dialects.core.types import Array

#: Of the names of a door in a type one in so many is run.
PART = 12
PEERS = {"ONNX": "onnxruntime", "PyTorch": "torch", "JAX": "jax", "functions": "numpy"}


@pytest.mark.slow
def test_cpu_is_the_cards_meaning() -> None:
    """A part of all samples and types, on special values."""
    seen, wrong = every_card(step=97)
    assert len(seen) > 20 and not wrong, "\n".join(wrong)


@pytest.mark.parametrize("door", sorted(DOORS))
def test_doors_are_their_peers(door: str, tmp_path: Path) -> None:
    """A part of the names of a door in each type: every difference has a reason."""
    pytest.importorskip(PEERS[door])
    wrong, count = list[str](), 0
    kinds = ("float32", "int32", "float16", "uint8")
    for turn, kind in enumerate(kinds if door in ("ONNX", "functions") else kinds[:2]):
        for case, text, _ in through(door, kind, tmp_path, lambda n, turn=turn: (n + 3 * turn) % PART == 0):
            count += case is not None
            wrong += [text] if text else []
    assert count > 8 and not wrong, "\n".join(wrong)


X = np.array(
    [
        -np.inf,
        np.inf,
        np.nan,
        -3e38,
        3e38,
        -100,
        -90,
        -88,
        -20,
        -14.72,
        -14,
        -6,
        -1,
        -1e-40,
        1e-40,
        -0.0,
        0,
        1,
    ],
    np.float32,
)


def applied(name: str, x: Array, **options: Any) -> Array:
    """A method of the builder on the CPU, x a column."""
    g = glow.GraphBuilder()
    g.save(getattr(g, name)(g.placeholder("x", x.shape, x.dtype), **options), "y")
    return glow.compile(glow.load(g), "cpu").run({"x": x})["y"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["mish", "gelu", "gelu_tanh", "swish", "sigmoid", "hard_swish"])
def test_tails(name: str, dtype: str) -> None:
    """Far tails and infinities beside PyTorch's formula in float64; no digits are lost on the way to 0."""
    torch = pytest.importorskip("torch")
    F = torch.nn.functional
    with np.errstate(all="ignore"):
        x = X.astype(KINDS[dtype])
    wide = torch.from_numpy(x.astype(np.float64))
    expected = {
        "mish": lambda: F.mish(wide),
        "gelu": lambda: wide * torch.special.erfc(wide * -(0.5**0.5)) * 0.5,
        "gelu_tanh": lambda: (
            wide * torch.sigmoid(wide * (1 + 0.044715 * wide * wide) * (8 / torch.pi) ** 0.5)
        ),
        "swish": lambda: F.silu(wide),
        "sigmoid": lambda: torch.sigmoid(wide),
        "hard_swish": lambda: wide * (F.hardtanh(wide + 3, 0, 6) / 6),
    }[name]().numpy()
    options = {"approximate": "tanh"} if name == "gelu_tanh" else {}
    made = applied(name.removesuffix("_tanh"), x, **options)
    with np.errstate(all="ignore"):
        error = ulps(made, expected.astype(x.dtype))
    # float64 has no better reference here; the argument of e^-x^2 has as many units of error as digits.
    limit = {"gelu": 800.0, "gelu_tanh": 800.0}.get(name, 8.0)
    assert (error <= limit).all(), [*zip(x, made, expected, strict=True)]


@pytest.mark.parametrize("name", ["mish", "gelu", "swish", "sigmoid", "relu", "hard_swish", "elu", "tanh"])
def test_fused_into_a_product(name: str) -> None:
    """As the epilogue of a matrix product the function is the same."""
    g = glow.GraphBuilder()
    x, w = g.placeholder("x", (len(X), 1), np.float32), g.constant(np.ones((1, 32), np.float32), "w")
    g.save(getattr(g, name)(g.matmul(x, w)), "y")
    made = glow.compile(glow.load(g), "cpu").run({"x": X.reshape(-1, 1)})["y"]
    alone = applied(name, X)
    np.testing.assert_allclose(made, np.repeat(alone.reshape(-1, 1), 32, 1), rtol=1e-6)


def test_signs_of_zero() -> None:
    """-0 stays -0 where functions are about x near 0, as in PyTorch; its sign is 0, as in NumPy."""
    zero = np.array([-0.0] * 20, np.float32)
    for name in ("relu", "elu", "selu", "celu", "asinh", "sinh", "atanh", "tan", "erf", "gelu", "mish"):
        for backend in ("cpu", "interpreter"):
            g = glow.GraphBuilder()
            g.save(getattr(g, name)(g.placeholder("x", zero.shape, zero.dtype)), "y")
            assert np.signbit(glow.compile(glow.load(g), backend).run({"x": zero})["y"]).all(), (
                name,
                backend,
            )
    assert not np.signbit(applied("sign", zero)).any()


def test_integers() -> None:
    """Powers below zero, exponents wider than the base, limits between whole numbers."""
    g = glow.GraphBuilder()
    x, y = g.placeholder("x", (6,), np.int8), g.placeholder("z", (6,), np.int64)
    g.save(g.pow(x, y), "y")
    base, exponent = np.array([1, -1, -1, 2, 3, 3], np.int8), np.array([-5, -5, -4, -1, 256, 300])
    expected = [1, -1, 1, 0, *((pow(3, n, 256) + 128) % 256 - 128 for n in (256, 300))]
    for backend in ("cpu", "interpreter"):
        assert glow.compile(glow.load(g), backend).run({"x": base, "z": exponent})["y"].tolist() == expected
    assert applied("clip", np.array([-3, 0, 1, 9], np.int8), min=0.5, max=2.5).tolist() == [1, 1, 1, 2]


@pytest.mark.parametrize("target", ["uint32", "uint64"])
def test_floats_out_of_range_of_unsigned(target: str) -> None:
    """As NumPy's vector code: negative numbers wrap, the upper half is exact, what is beyond is one value."""
    x = np.repeat(np.array([np.nan, np.inf, -np.inf, -5, 3e9, 2.5, 1e20], np.float32), 16)
    with np.errstate(all="ignore"):
        expected = x.astype(target)
    if expected[0] == 0:
        pytest.skip("this processor's conversions saturate")
    assert applied("cast", x, dtype=target).tolist() == expected.tolist()


def test_floor_division() -> None:
    """Zeros have the sign of the quotient, NaN stays NaN."""
    values = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3.5], np.float32)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    g = glow.GraphBuilder()
    g.save(g.floor_div(g.placeholder("x", x.shape, x.dtype), g.placeholder("z", y.shape, y.dtype)), "y")
    with np.errstate(all="ignore"):
        expected = x // y
    assert (ulps(glow.compile(glow.load(g), "cpu").run({"x": x, "z": y})["y"], expected) == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sign_of_nan_in_pytorch(dtype: str) -> None:
    """PyTorch's sign of NaN is 0."""
    torch = pytest.importorskip("torch")

    class Sign(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.sign(x)

    x = torch.tensor([float("nan"), -2.0, 0.0, 3.0], dtype=getattr(torch, dtype))
    assert glow.compile(Sign(), example_inputs=(x,))(x).tolist() == torch.sign(x).tolist()
