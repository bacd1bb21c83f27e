"""Each rule of StableHLO beside JAX: values, shapes and element types, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from beside_jax import check, jax, numbers

jnp, lax = jax.numpy, jax.lax
pytestmark = [pytest.mark.slow, pytest.mark.peers]
Function = Callable[..., Any]

X, Y = numbers(3, 4), numbers(3, 4, seed=1)
I, J = numbers(3, 4, dtype="int32"), numbers(3, 4, dtype="int32", seed=1)
U, V = numbers(3, 4, dtype="uint32", high=1 << 31), numbers(3, 4, dtype="uint32", seed=1)
B, C = numbers(3, 4, dtype="bool"), numbers(3, 4, dtype="bool", seed=1)


def each(*functions: Function) -> Function:
    """All of some functions of the same arguments."""
    return lambda *x: [f(*x) for f in functions]


def named(*names: str) -> Function:
    """Functions of jax.lax."""
    return each(*(getattr(lax, name) for name in names))


ELEMENTWISE: dict[str, tuple[Any, ...]] = {
    "of any number": (
        named(
            *[
                "abs",
                "ceil",
                "cos",
                "exp",
                "expm1",
                "floor",
                "neg",
                "sign",
                "sin",
                "tan",
                "tanh",
                "logistic",
                "is_finite",
                "erf",
                "erfc",
            ]
        ),
        X,
    ),
    "of any number, more": (named("cbrt", "square", "atan", "asinh", "sinh", "cosh"), X),
    "of positive numbers": (named("log", "log1p", "sqrt", "rsqrt", "lgamma", "digamma"), np.abs(X) + 0.1),
    "of small numbers": (named("asin", "acos", "atanh", "erf_inv"), X / 5),
    "of large numbers": (named("acosh"), np.abs(X) + 1.1),
    "rounded": (
        lambda x: [lax.round(x, way) for way in lax.RoundingMethod],
        np.arange(-3, 3, 0.5, np.float32),
    ),
    "of two": (
        each(
            *(getattr(lax, name) for name in ["add", "sub", "mul", "div", "max", "min", "atan2", "rem"]),
            lambda x, y: [x == y, x != y, x < y, x <= y, x > y, x >= y, jnp.where(x > y, x, y)],
            lambda x, y: [lax.clamp(-0.5, x, 0.5), jnp.power(jnp.abs(x), y), x**3, x // y, x % y],
        ),
        X,
        Y,
    ),
    "angles of every quarter": (
        lax.atan2,
        np.float32([0, 0, 1, -1, 2, -2, 0]),
        np.float32([1, -1, 0, 0, -1, -1, 0]),
    ),
    "of integers": (
        each(
            lambda x, y: [
                x + y,
                x - y,
                x * y,
                x // (y + 1),
                x % (y + 1),
                lax.rem(x - 2, y + 1),
                -x,
                abs(x - 2),
            ],
            lambda x, y: [x & y, x | y, x ^ y, ~x, x << y, x >> y, lax.shift_right_logical(x - 9, y)],
            lambda x, y: [jnp.sign(x - 2), lax.population_count(x - 2), lax.clz(x), jnp.maximum(x, y), x**2],
            lambda x, y: [x.astype(kind) for kind in ("bool", "float32", "uint8", "int8", "float16")],
        ),
        I,
        J,
    ),
    "of unsigned integers": (
        each(
            lambda x, y: [
                x + y,
                x - y,
                x * y,
                x // (y + 1),
                x % (y + 1),
                x & y,
                x | y,
                x ^ y,
                ~x,
                x << y,
                x >> y,
            ],
            lambda x, y: [lax.shift_right_arithmetic(x - 9, y), lax.population_count(x), lax.clz(y)],
            lambda x, y: [lax.bitcast_convert_type(x, jnp.float32), lax.bitcast_convert_type(x, jnp.int32)],
        ),
        U,
        V,
    ),
    "of booleans": (
        each(
            lambda x, y: [x & y, x | y, x ^ y, ~x, jnp.where(x, 1, 2), x.astype(jnp.float32)],
            lambda x, y: [jnp.any(x, 1), jnp.all(y, 0), jnp.sum(x), jnp.sort(x), jnp.argsort(y)],
        ),
        B,
        C,
    ),
    "bits of other widths": (
        each(
            lambda x: lax.bitcast_convert_type(x, jnp.uint8),
            lambda x: lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.uint16), jnp.float32),
        ),
        X,
    ),
}

MOVED: dict[str, tuple[Any, ...]] = {
    "reshaped": (lambda x: [x.reshape(2, 6), x.T, jnp.squeeze(x[:1]), x[None], x.ravel()], X),
    "repeated": (lambda x: [jnp.broadcast_to(x, (2, 3, 4)), jnp.tile(x, (2, 2)), x[:, None] + x[None]], X),
    "cut": (lambda x: [x[1:, ::2], x[::-1], jnp.roll(x, 1, 0), jnp.tril(x), jnp.split(x, 2, 1)], X),
    "joined": (lambda x: [jnp.concatenate([x, x], 1), jnp.stack([x, x])], X),
    "padded": (
        each(
            lambda x: jnp.pad(x, ((1, 2), (0, 3)), constant_values=2.0),
            lambda x: lax.pad(x, 0.0, ((1, -1, 2), (-1, 2, 1))),
            lambda x: lax.pad(x, x[0, 0], ((1, 1, 0), (0, 0, 2))),
            lambda x: [jnp.pad(x, 1, mode=mode) for mode in ("edge", "reflect", "wrap")],
        ),
        X,
    ),
    "numbers": (lambda: [jnp.arange(5), lax.broadcasted_iota(jnp.int32, (3, 4), 1), jnp.eye(3)],),
}

PRODUCTS: dict[str, tuple[Any, ...]] = {
    "matrices": (
        each(
            lambda x, y: [x @ y.T, x.T @ y, jnp.outer(x[0], y[0]), x[0] @ y[0], x @ y[0]],
            *(lambda x, y, s=s: jnp.einsum(s, x, y) for s in ("ij,kj->ki", "ij,ij->i", "ij,ij", "ji,jk->ki")),
        ),
        X,
        Y,
    ),
    "stacks": (
        each(
            *(
                lambda q, k, s=s: jnp.einsum(s, q, k)
                for s in ("bqhd,bkhd->bhqk", "bqhd,bkhe->behdqk", "abcd,ebcd->ae", "bthd,bthe->bhde")
            ),
            lambda q, k: jnp.tensordot(q, k, ((1, 2), (1, 2))),
            lambda q, k: jnp.einsum("bhqk,bkhd->bqhd", jnp.einsum("bqhd,bkhd->bhqk", q, k), k),
        ),
        numbers(2, 3, 4, 5),
        numbers(2, 3, 4, 5, seed=1),
    ),
    "integers": (
        lambda x, y: [lax.dot(x, y.T, preferred_element_type=jnp.int32), x @ y.T],
        numbers(3, 4, dtype="int8"),
        numbers(3, 4, dtype="int8", seed=1),
    ),
}

REDUCED: dict[str, tuple[Any, ...]] = {
    "to numbers": (
        lambda x: [
            x.sum(),
            x.sum(1),
            x.max(0),
            x.min(1),
            x.prod(0),
            x.mean(0),
            x.var(1),
            x.std(),
            jnp.ptp(x, 0),
        ],
        X,
    ),
    "to places": (lambda x: [jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.argmax(x)], X),
    "to places of equals": (lambda x: [jnp.argmax(x, 1), jnp.argmin(x, 0)], I),
    "softly": (
        lambda x: [jax.nn.logsumexp(x, 1), jax.nn.softmax(x, 0), jax.nn.log_softmax(x), jnp.median(x, 1)],
        X,
    ),
    "where": (lambda x: [jnp.sum(x, where=x > 0), jnp.count_nonzero(x > 0), jnp.max(x, initial=0.5)], X),
    "bits": (
        lambda x: [
            lax.reduce(x, np.int32(0), lax.bitwise_xor, (0,)),
            lax.reduce(x, np.int32(3), lax.bitwise_or, (0, 1)),
        ],
        I,
    ),
    "running": (
        lambda x: [
            jnp.cumsum(x, 0),
            jnp.cumprod(x, 1),
            lax.cumsum(x, 1, reverse=True),
            lax.cumlogsumexp(x, 1),
        ],
        X,
    ),
    "running extremes": (
        lambda x, i: [lax.cummax(x, 1), lax.cummin(x, 0), lax.cummax(i, 1), lax.cummin(i, 1)],
        X,
        I,
    ),
    "in order": (
        each(
            lambda x, i: [
                jnp.sort(x),
                jnp.sort(x, 0, descending=True),
                jnp.argsort(i),
                jnp.argsort(i, 0, descending=True),
            ],
            lambda x, i: [
                lax.sort((i, x), num_keys=2),
                lax.sort((x, i), dimension=0),
                jnp.lexsort((x[0], i[0])),
            ],
            lambda x, i: [lax.top_k(x, 2), jnp.unique(i, size=4), jnp.searchsorted(jnp.sort(x[0]), x[1])],
        ),
        X,
        I,
    ),
}


def windows(x: Any, start: Any, join: Function, size: Any, steps: Any, pads: Any, **more: Any) -> Any:
    """lax.reduce_window."""
    return lax.reduce_window(x, start, join, size, steps, pads, **more)


def pooled(x: Any, join: Function, start: float, size: int = 2, pads: str = "VALID") -> Any:
    """Windows of an image, every second one."""
    return windows(x, start, join, (1, size, size, 1), (1, 2, 2, 1), pads)


def convolved(
    x: Any, w: Any, steps: Any = (1, 1), pads: Any = "SAME", order: str = "NHWC HWIO NHWC", **more: Any
) -> Any:
    """lax.conv_general_dilated."""
    return lax.conv_general_dilated(x, w, steps, pads, dimension_numbers=tuple(order.split()), **more)


IMAGE, FILTER = numbers(2, 8, 9, 3), numbers(3, 3, 3, 5)
WINDOWS: dict[str, tuple[Any, ...]] = {
    "pools": (
        each(
            lambda x: [
                pooled(x, lax.max, -np.inf),
                pooled(x, lax.max, -np.inf, 3, "SAME"),
                pooled(x, lax.min, np.inf),
            ],
            lambda x: [pooled(x, lax.add, 0.0) / 4, pooled(x, lax.mul, 1.0)],
            lambda x: pooled(x, lax.add, 0.0, 3, "SAME") / pooled(jnp.ones_like(x), lax.add, 0.0, 3, "SAME"),
        ),
        IMAGE,
    ),
    "odd pools": (
        each(
            lambda x: windows(x, -np.inf, lax.max, (1, 1, 3, 2), (1, 1, 2, 1), "SAME"),
            lambda x: windows(x, -np.inf, lax.max, (2, 1, 3, 1), (1, 1, 2, 1), "VALID"),
            lambda x: windows(
                x,
                -np.inf,
                lax.max,
                (1, 2, 2, 1),
                (1, 1, 1, 1),
                ((0, 0), (1, 0), (0, 1), (0, 0)),
                window_dilation=(1, 2, 3, 1),
            ),
            lambda x: windows(
                x, -np.inf, lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "VALID", base_dilation=(1, 2, 2, 1)
            ),
        ),
        IMAGE,
    ),
    "pools of integers": (
        lambda x: [pooled(x, lax.max, np.int32(-(2**31))), pooled(x, lax.add, np.int32(0), 2, "SAME")],
        numbers(2, 5, 4, 3, dtype="int32"),
    ),
    "convolutions": (
        lambda x, w: [
            convolved(x, w),
            convolved(x, w, (2, 2), "VALID"),
            convolved(x, w, (2, 1), ((1, 2), (0, 1)), rhs_dilation=(1, 2)),
        ],
        IMAGE,
        FILTER,
    ),
    "convolutions of other orders": (
        lambda x, w: [
            convolved(x.transpose(3, 0, 1, 2), w.transpose(3, 2, 0, 1), order="CNHW OIHW CNHW"),
            convolved(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), order="NCHW OIHW NCHW"),
            convolved(x.transpose(1, 0, 3, 2), w.transpose(2, 3, 0, 1), order="HNCW IOHW NCHW"),
        ],
        IMAGE,
        FILTER,
    ),
    "transposed convolutions": (
        lambda x, w, v: [
            lax.conv_transpose(x, w, (2, 2), "SAME"),
            lax.conv_transpose(x, w, (2, 2), "VALID"),
            lax.conv_transpose(x, v, (2, 3), "SAME", rhs_dilation=(2, 1)),
            convolved(x, w, pads=((1, 1), (2, 0)), lhs_dilation=(2, 3)),
            convolved(x, w, (2, 2), ((1, 1), (2, 0)), lhs_dilation=(2, 3)),
        ],
        IMAGE,
        FILTER,
        numbers(2, 3, 3, 4),
    ),
    "depthwise": (lambda x, w: convolved(x, w, feature_group_count=3), IMAGE, numbers(3, 3, 1, 6)),
    "in groups": (
        lambda x, w: [
            convolved(x, w, feature_group_count=2),
            convolved(x, w, pads=((1, 1), (1, 1)), feature_group_count=2, lhs_dilation=(2, 2)),
        ],
        numbers(2, 6, 5, 4),
        numbers(3, 3, 2, 6),
    ),
    "in groups of samples": (
        lambda x, w: [
            convolved(x, w, batch_group_count=2),
            convolved(x.transpose(0, 3, 1, 2), w, batch_group_count=2, order="NCHW HWIO NCHW"),
        ],
        numbers(4, 6, 5, 3),
        numbers(3, 3, 3, 6),
    ),
    "of lines": (
        lambda x, w: [convolved(x, w, (2,), order="NWC WIO NWC"), jnp.convolve(x[0, :, 0], w[:, 0, 0])],
        numbers(2, 9, 3),
        numbers(3, 3, 4),
    ),
    "of volumes": (
        lambda x, w: convolved(x, w, (1, 2, 1), order="NDHWC DHWIO NDHWC"),
        numbers(1, 4, 5, 6, 2),
        numbers(2, 3, 3, 2, 3),
    ),
}

CUBE, OTHER = numbers(4, 5, 6), numbers(4, 5, 6, seed=1)
AT = np.array([3, 0, 2], np.int32)
TAKEN: dict[str, tuple[Any, ...]] = {
    "rows": (
        lambda x, i: [
            x[i],
            x[:, i],
            x[..., i],
            x[i[0]],
            x[jnp.array([0, -1])],
            x[np.array([[2, 0], [1, 1]])],
            x[1:3, i],
        ],
        CUBE,
        AT,
    ),
    "elements": (lambda x, i: [x[i, i], x[i, :, i], x[i[0], i[1]], jnp.take(x, i, axis=1)], CUBE, AT),
    "outside": (
        lambda x, i: [x.at[i + 2].get(mode="fill", fill_value=-1), x.at[i + 2].get(mode="clip"), x[i + 1]],
        CUBE,
        AT,
    ),
    "windows": (
        lambda x, i: [
            lax.dynamic_slice(x, (i[0], i[1], i[2]), (2, 3, 4)),
            lax.dynamic_slice(x, (0, i[1], 7), (4, 3, 2)),
            lax.dynamic_index_in_dim(x, i[0], 1),
        ],
        CUBE,
        AT,
    ),
    "for each": (
        lambda x, i: [
            jax.vmap(lambda a, j: a[j])(x[:3], i),
            jax.vmap(lambda a, j: lax.dynamic_slice(a, (j, 0), (2, 3)))(x[:3], i),
        ],
        CUBE,
        AT,
    ),
    "along an axis": (
        lambda x, i: [jnp.take_along_axis(x, i, 1), jnp.take_along_axis(x, i, 0)],
        X,
        numbers(3, 4, dtype="int32", high=3),
    ),
    "written": (
        lambda x, i, v: [
            x.at[i].set(v[:3]),
            x.at[i[0]].set(v[0]),
            x.at[:, 1].set(0.0),
            x.at[i, i].set(1.0),
            x.at[..., i].set(2.0),
            x.at[1:3, 2:4].set(7.0),
            jax.vmap(lambda a, j: a.at[j].set(0.0))(x[:3], i),
        ],
        CUBE,
        AT,
        OTHER,
    ),
    "written and joined": (
        lambda x, i, v: [
            x.at[i].add(v[:3]),
            x.at[i].mul(v[:3]),
            x.at[i].max(v[:3]),
            x.at[i].min(2.0),
            x.at[:, i].add(1.0),
            jnp.zeros(4).at[i].add(1.0),
            jax.ops.segment_sum(v[:3], i, 4),
            jnp.bincount(i, length=5),
        ],
        CUBE,
        AT,
        OTHER,
    ),
    "written outside": (
        lambda x, i, v: [x.at[i + 3].set(5.0), x.at[i + 3].add(5.0), x.at[i + 3, i].max(9.0)],
        CUBE,
        AT,
        OTHER,
    ),
    "written windows": (
        lambda x, i, v: [
            lax.dynamic_update_slice(x, v[:2, :3], (i[0], i[1], 0)),
            lax.dynamic_update_slice(x, v[:1], (i[0], 0, 0)),
            lax.dynamic_update_slice(x, v[:2, :3], (1, 9, 0)),
        ],
        CUBE,
        AT,
        OTHER,
    ),
}

TABLES = (ELEMENTWISE, MOVED, PRODUCTS, REDUCED, WINDOWS, TAKEN)
CASES = {f"{name}": case for table in TABLES for name, case in table.items()}


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str) -> None:
    """Values of the functions of one row of a table."""
    assert len(CASES) == sum(map(len, TABLES)), "two rows have one name"
    function, *arguments = CASES[name]
    check(function, *arguments, tolerance=2e-5)


@pytest.mark.parametrize("dtype,tolerance", [("float16", 1e-2), ("bfloat16", 5e-2)])
def test_halves(dtype: str, tolerance: float) -> None:
    """Half precision: arithmetic, sums, products, infinities among constants."""
    x, y = numbers(3, 4, dtype=dtype), numbers(3, 4, dtype=dtype, seed=1)
    number = np.asarray(1.5, x.dtype)
    check(
        lambda x, y: [
            x + y,
            x * number,
            jnp.exp(x),
            x.astype("float32"),
            x.sum(1),
            x @ y.T,
            jax.nn.softmax(x),
        ],
        x,
        y,
        tolerance=tolerance,
    )


def test_doubles() -> None:
    """Double precision and wide integers."""
    with jax.enable_x64(True):
        x, i = numbers(3, 4, dtype="float64"), numbers(3, 4, dtype="int64")
        check(
            lambda x, i: [jnp.exp(x) @ x.T, x.max(1), i * i + 3, jnp.argmax(x, 0), jnp.cumsum(i)],
            x,
            i,
            tolerance=1e-12,
        )


def test_pixels_cut_off() -> None:
    """Padding of less than none; XLA reads beside the image there, so it is cut before for the comparison."""
    check(
        lambda x, w: convolved(x, w, pads=((-1, 1), (0, -2))),
        IMAGE,
        FILTER,
        wanted=lambda x, w: convolved(x[:, 1:, :-2], w, pads=((0, 1), (0, 0))),
    )
