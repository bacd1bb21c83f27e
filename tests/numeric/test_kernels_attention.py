"""The attention kernel and the pass that finds it, against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import CPU, run_kernel

import glow_compiler as glow
from glow_backends.cpu.emit.common import broadcast_strides
from glow_backends.cpu.kernels.gemm.attention import attention_scratch_bytes, emit_attention
from glow_backends.cpu.kernels.gemm.attention_op import PLAIN, ordered, result_order, strides_of
from glow_backends.cpu.kernels.gemm.attention_spec import AttentionSpec
from glow_backends.cpu.target import named
from glow_dialects.ops.transpose import inverse

HEADS_INSIDE = (0, 2, 1, 3)
KEYS_LAST = (0, 1, 3, 2)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal values."""
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, scale: float = 1.0
) -> np.ndarray:
    """softmax(scale q k' + mask) v in float64."""
    scores = scale * (q.astype(np.float64) @ np.swapaxes(k.astype(np.float64), -1, -2))
    scores = scores if mask is None else scores + mask
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True) @ v.astype(np.float64)


CASES: dict[str, dict[str, Any]] = {
    "plain": {"sizes": (1, 2, 16, 32, 16, 32)},
    "tails": {"sizes": (2, 3, 37, 45, 19, 23), "scale": 0.25},
    "one row": {"sizes": (1, 1, 1, 5, 3, 2)},
    "long": {"sizes": (1, 1, 20, 530, 8, 16), "mask": (1, 1, 1, 530)},
    "heads inside": {
        "sizes": (2, 3, 29, 33, 16, 20), "q": HEADS_INSIDE, "k": HEADS_INSIDE, "v": HEADS_INSIDE,
        "order": HEADS_INSIDE, "mask": (2, 1, 1, 33), "scale": 0.5,
    },
    "keys transposed": {"sizes": (1, 2, 17, 40, 8, 8), "k": KEYS_LAST, "mask": (17, 40)},
    "two rows": {"sizes": (2, 3, 2, 70, 20, 37), "mask": (2, 1, 2, 70), "scale": 0.25},
    "rows with heads inside": {
        "sizes": (2, 3, 3, 33, 16, 64), "q": HEADS_INSIDE, "k": HEADS_INSIDE, "v": HEADS_INSIDE,
        "order": HEADS_INSIDE, "mask": (2, 1, 3, 1),
    },
    "one row, keys transposed": {"sizes": (1, 2, 1, 40, 8, 8), "k": KEYS_LAST},
    "one row of many": {"sizes": (1, 2, 1, 129, 64, 300), "room": 7},
    "rows of many": {"sizes": (2, 2, 9, 45, 16, 8), "room": 3, "mask": (9, 45)},
    "mask of rows": {"sizes": (1, 2, 17, 40, 8, 8), "mask": (1, 2, 17, 1)},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_attention(case: dict[str, Any], threads: int) -> None:
    """Sizes that do not divide, every order of operands, masks that broadcast."""
    batch, heads, rows, keys, depth, width = case["sizes"]
    plain = {
        "q": random(batch, heads, rows, depth),
        "k": random(batch, heads, keys + case.get("room", 0), depth, seed=1),
        "v": random(batch, heads, keys + case.get("room", 0), width, seed=2),
    }
    orders = {n: case.get(n, PLAIN) for n in plain}
    given = {n: np.ascontiguousarray(np.transpose(a, inverse(orders[n]))) for n, a in plain.items()}
    order = case.get("order", PLAIN)
    shape = ordered((batch, heads, rows, width), order)
    mask = random(*case["mask"], seed=3) if "mask" in case else None
    strides: dict[str, Any] = {n: strides_of(a.shape, orders[n]) for n, a in given.items()}
    if mask is not None:
        strides["mask"] = broadcast_strides(mask.shape, (batch, heads, rows, keys))
    sizes = {"batch": batch, "heads": heads, "rows": rows, "keys": keys, "depth": depth, "width": width}
    strides["result"] = strides_of(shape, result_order(order))
    spec = AttentionSpec(**sizes, **strides, scale=case.get("scale"))
    work = np.zeros(attention_scratch_bytes(spec, named(CPU, threads)) // 4, np.float32)
    inputs = [*given.values(), *([] if mask is None else [mask]), work]
    (y,) = run_kernel(emit_attention, spec, [(shape, np.float32)], inputs, threads)
    k, v = (plain[n][:, :, :keys] for n in "kv")
    want = np.transpose(attend(plain["q"], k, v, mask, case.get("scale", 1.0)), order)
    np.testing.assert_allclose(y, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("kind", ["divided", "masked", "shared", "windows", "single"])
def test_attention_is_found(kind: str) -> None:
    """As exporters write it: scale before or after, masks, heads of any rank."""
    g = glow.GraphBuilder()
    lead = {"single": (), "windows": (2, 3, 2)}.get(kind, (2, 3))
    arrays = {n: random(*lead, 9, 8, seed=i) for i, n in enumerate("qkv")}
    q, k, v = (g.placeholder(n, a.shape) for n, a in arrays.items())
    rank = len(lead) + 2
    turned = g.transpose(k, permutation=(*range(rank - 2), rank - 1, rank - 2))
    mask = np.where(np.tri(9), 0, -np.inf).astype(np.float32) if kind in ("masked", "windows") else None
    if kind == "shared":
        scores = g.batch_matmul(g.mul(q, 0.5), g.mul(turned, 0.5))
    else:
        scores = g.div(g.batch_matmul(q, turned), 4.0)
    if mask is not None:
        scores = g.add(scores, g.constant(mask, "mask"))
    g.save(g.batch_matmul(g.softmax(scores, axis=-1), v), "y")
    net = glow.compile(g)
    y = net.run(arrays)["y"]
    np.testing.assert_allclose(
        y, attend(arrays["q"], arrays["k"], arrays["v"], mask, 0.25), rtol=2e-5, atol=2e-6
    )


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("rows", [1, 3, 6])
@pytest.mark.parametrize("cut", [2, 1])
def test_attention_over_a_part(backend: str, rows: int, cut: int) -> None:
    """The first keys and values of larger tensors are read where they are; a part of the heads is not."""
    g = glow.GraphBuilder()
    arrays = {
        n: random(2, 4, size, 8, seed=i) for i, (n, size) in enumerate((("q", rows), ("k", 50), ("v", 50)))
    }
    q, *held = (g.placeholder(n, a.shape) for n, a in arrays.items())
    part = (2, 4, 33, 8) if cut == 2 else (2, 3, 50, 8)
    k, v = (g.slice(x, (0, 0, 0, 0), part) for x in held)
    q = g.slice(q, (0, 0, 0, 0), (2, part[1], rows, 8))
    scores = g.batch_matmul(q, g.transpose(k, permutation=KEYS_LAST))
    g.save(g.batch_matmul(g.softmax(scores, axis=-1), v), "y")
    y = glow.compile(g, backend=backend).run(arrays)["y"]
    q, k, v = (arrays[n][:, : part[1]] for n in "qkv")
    np.testing.assert_allclose(
        y, attend(q, k[:, :, : part[2]], v[:, :, : part[2]], None), rtol=2e-5, atol=2e-6
    )


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize(("rows", "heads"), [(1, 2), (3, 2), (9, 2), (2, 3), (9, 1)])
def test_shared_heads(backend: str, rows: int, heads: int) -> None:
    """Keys and values that are repeated for heads which follow each other are read where they are."""
    g = glow.GraphBuilder()
    arrays = {
        "q": random(2, 6, rows, 16),
        **{n: random(2, heads, 21, 16, seed=i + 1) for i, n in enumerate("kv")},
    }
    q, *held = (g.placeholder(n, a.shape) for n, a in arrays.items())
    wide = (
        g.reshape(
            g.expand(g.reshape(x, (2, heads, 1, 21, 16)), shape=(2, heads, 6 // heads, 21, 16)),
            (2, 6, 21, 16),
        )
        for x in held
    )
    k, v = wide
    scores = g.batch_matmul(q, g.transpose(k, permutation=KEYS_LAST))
    g.save(g.batch_matmul(g.softmax(scores, axis=-1), v), "y")
    net = glow.compile(g, backend=backend)
    y = net.run(arrays)["y"]
    k, v = (np.repeat(arrays[n], 6 // heads, 1) for n in "kv")
    np.testing.assert_allclose(y, attend(arrays["q"], k, v, None), rtol=2e-5, atol=2e-6)
