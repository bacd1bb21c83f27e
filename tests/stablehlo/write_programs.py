"""Writes `programs/*.mlir`, the text of small functions of JAX, which tests read where there is no JAX.

python tests/stablehlo/write_programs.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from glow_frontends.stablehlo.jax_export import generic_text

FOLDER = Path(__file__).with_name("programs")


def f32(*shape: Any) -> Any:
    """A matrix of floats."""
    return jax.ShapeDtypeStruct(shape, np.float32)


def i32(*shape: int) -> Any:
    """A matrix of integers."""
    return jax.ShapeDtypeStruct(shape, np.int32)


def layers(params: Any, x: Any) -> Any:
    """Two layers and a softmax."""
    for w, b in params:
        x = jax.nn.relu(x @ w + b)
    return jax.nn.softmax(x)


def norm(x: Any, scale: Any, offset: Any) -> Any:
    """A layer normalisation and a gelu."""
    centred = x - x.mean(-1, keepdims=True)
    return jax.nn.gelu(centred / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + offset)


def image(x: Any, w: Any) -> Any:
    """A convolution, a max pool and a mean pool."""
    y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    top = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return top, lax.reduce_window(y, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4


def indexed(x: Any, i: Any, v: Any) -> Any:
    """Rows and windows, read and written."""
    return x[i], x.at[i].add(v), x.at[i + 2].set(v), lax.dynamic_slice(x, (i[0], i[1]), (2, 2))


def ordered(x: Any) -> Any:
    """Orders, places and running sums."""
    return (
        jnp.sort(x),
        jnp.argsort(x, 0, descending=True),
        jnp.argmax(x, 1),
        lax.top_k(x, 2),
        jnp.cumsum(x, 0),
    )


def loops(x: Any) -> Any:
    """A scan, a loop that data end, and a branch."""
    total, rows = lax.scan(lambda c, y: (c + y, c * y), jnp.zeros(3), x)
    grown, turns = lax.while_loop(
        lambda s: s[0].sum() < 100, lambda s: (s[0] * 2, s[1] + 1), (total**2 + 1, 0)
    )
    return rows, grown, turns, lax.cond(total[0] > 0, lambda t: t, lambda t: -t, total)


def bits(x: Any) -> Any:
    """The arithmetic of random numbers: shifts and bits of unsigned integers."""
    u = lax.bitcast_convert_type(x, jnp.uint32)
    turned = (u << 13) | (u >> 19)
    return u ^ turned, lax.shift_right_logical(x, 3), x >> 3, lax.population_count(u)


def grouped(q: Any, k: Any) -> Any:
    """Products of stacks of matrices with axes in odd places."""
    return jnp.einsum("bqhd,bkhd->bhqk", q, k), jnp.einsum("abcd,ebcd->ae", q, k)


def spectrum(x: Any) -> Any:
    """What is refused."""
    return jnp.abs(jnp.fft.fft(x))


def open_rows(x: Any) -> Any:
    """Sizes that differ from call to call."""
    return jax.nn.softmax(x.reshape(-1, 2), axis=0), x + x.shape[0], jnp.concatenate([x, x])


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "layers": (layers, ([(f32(5, 6), f32(6)), (f32(6, 4), f32(4))], f32(3, 5))),
    "norm": (norm, (f32(3, 8), f32(8), f32(8))),
    "image": (image, (f32(2, 6, 6, 3), f32(3, 3, 3, 4))),
    "indexed": (indexed, (f32(5, 4), i32(3), f32(3, 4))),
    "ordered": (ordered, (f32(4, 5),)),
    "loops": (loops, (f32(4, 3),)),
    "bits": (bits, (i32(7),)),
    "grouped": (grouped, (f32(2, 3, 4, 5), f32(2, 3, 4, 5))),
    "spectrum": (spectrum, (f32(8),)),
    "open_rows": (open_rows, (f32(*export.symbolic_shape("n, 4")),)),
}


def main() -> None:
    """Write every program."""
    for name, (function, arguments) in PROGRAMS.items():
        text, constants = generic_text(export.export(jax.jit(function))(*arguments))
        assert not constants, f"{name}: constants stand beside the text"
        text = re.sub(r'(?<=[" ])/[^"]*/([\w.]+:\d+)', r"\1", text)
        (FOLDER / f"{name}.mlir").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
