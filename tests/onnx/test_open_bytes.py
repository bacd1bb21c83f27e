"""Products of bytes of which only the run tells the rows, the columns, the depth and the batch."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import glow_compiler as glow

DEPTH = 20
SCALES = {"a": 0.05, "s": 0.3, "y": 0.25}
BYTES = {np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int8): TensorProto.INT8}


def _scores(kind: np.dtype, zeros: dict[str, int]) -> ModelProto:
    """s = q k and y = s v of bytes, q (b, m, 20), k (b, 20, n), v (b, n, 20), with `zeros` as zero points."""
    element = BYTES[kind]
    scales = [numpy_helper.from_array(np.array(v, np.float32), f"{n}_scale") for n, v in SCALES.items()]
    points = [numpy_helper.from_array(np.array(v, kind), f"{n}_zero") for n, v in zeros.items()]
    nodes = [
        helper.make_node(
            "QLinearMatMul",
            [x, f"{of}_scale", f"{of}_zero", w, "a_scale", "a_zero", f"{y}_scale", f"{y}_zero"],
            [y],
        )
        for x, of, w, y in (("q", "a", "k", "s"), ("s", "s", "v", "y"))
    ]
    shapes = {"q": ["b", "m", DEPTH], "k": ["b", DEPTH, "n"], "v": ["b", "n", DEPTH]}
    inputs = [helper.make_tensor_value_info(n, element, s) for n, s in shapes.items()]
    outputs = [helper.make_tensor_value_info("s", element, ["b", "m", "n"])]
    outputs.append(helper.make_tensor_value_info("y", element, ["b", "m", DEPTH]))
    graph = helper.make_graph(nodes, "g", inputs, outputs, [*scales, *points])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _product(x: np.ndarray, w: np.ndarray, zeros: tuple[int, int, int], scale: float) -> np.ndarray:
    """QLinearMatMul by its definition."""
    total = np.matmul(x.astype(np.int64) - zeros[0], w.astype(np.int64) - zeros[1])
    limits = np.iinfo(x.dtype)
    scaled = np.rint(total.astype(np.float64) * scale) + zeros[2]
    return np.clip(scaled, limits.min, limits.max).astype(x.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_products_of_bytes_for_any_size(kind: type, threads: int) -> None:
    """Depths that fill words or not, columns that fill vectors or panels or not; against the definition."""
    dtype, rng = np.dtype(kind), np.random.default_rng(0)
    zeros = {"a": 120, "s": 100, "y": 90} if kind is np.uint8 else {"a": -7, "s": 3, "y": 11}
    net = glow.compile(_scores(dtype, zeros), threads=threads)
    sizes = [(2, 12, 12), (2, 40, 70), (1, 3, 5), (3, 3, 3)]
    sizes += [(1, int(m), int(n)) for m, n in rng.integers(1, 150, (12, 2))]
    sizes += [(2, 40, n) for n in (1, 2, 4, 15, 16, 17, 31, 32, 63, 64, 65, 66, 67)]
    for b, m, n in sizes:
        shapes = {"q": (b, m, DEPTH), "k": (b, DEPTH, n), "v": (b, n, DEPTH)}
        feed = {name: rng.integers(0, 256, s).astype(np.uint8).view(dtype) for name, s in shapes.items()}
        out = net.run(feed)
        s = _product(
            feed["q"], feed["k"], (zeros["a"], zeros["a"], zeros["s"]), SCALES["a"] ** 2 / SCALES["s"]
        )
        np.testing.assert_allclose(out["s"].astype(int), s.astype(int), atol=1)  # ties
        scale = SCALES["s"] * SCALES["a"] / SCALES["y"]
        y = _product(out["s"], feed["v"], (zeros["s"], zeros["a"], zeros["y"]), scale)
        np.testing.assert_allclose(out["y"].astype(int), y.astype(int), atol=1)
    assert str(net.report().notes["sizes"]).startswith("any ")
