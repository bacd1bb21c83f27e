"""Named sizes of graphs: limits and divisors, their text, programs for any of them, messages."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_backends.base import Port
from glow_backends.cpu.open_program import OpenProgram
from glow_backends.cpu.open_sizes import Life, Numbers, SizeTables
from glow_dialects.core.extent import Extent
from glow_dialects.core.symbols import Symbols
from glow_dialects.parse import parse_module
from glow_frontends.builder import GraphBuilder
from glow_passes.graph.bind_sizes import symbols_of
from glow_runtime.hot_sizes import COUNTED, OFTEN, HotSizes
from glow_tools.context import tool_context

RNG = np.random.default_rng(0)
WEIGHTS = RNG.standard_normal((16, 8)).astype(np.float32)


def _graph() -> GraphBuilder:
    """relu(x w) of n rows, the rows twice, and a softmax of (2n + 1, k) numbers."""
    g = GraphBuilder()
    n = g.size("n", 1, 512)
    x, m = g.placeholder("x", (n, 16)), g.placeholder("m", ("2*n+1", "k"))
    y = g.relu(g.matmul(x, g.constant(WEIGHTS, "w")))
    g.save(y, "y")
    g.save(g.reshape(g.concat([y, y], 0), (n * 16,)), "flat")
    g.save(g.softmax(m), "s")
    return g


def _feed(n: int, k: int) -> dict[str, np.ndarray]:
    shapes = {"x": (n, 16), "m": (2 * n + 1, k)}
    return {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def _check(out: dict[str, np.ndarray], feed: dict[str, np.ndarray]) -> None:
    y = np.maximum(feed["x"] @ WEIGHTS, 0)
    e = np.exp(feed["m"] - feed["m"].max(1, keepdims=True))
    np.testing.assert_allclose(out["y"], y, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(out["flat"], np.concatenate([y, y]).reshape(-1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(out["s"], e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_a_graph_with_names_runs_for_every_size(backend: str) -> None:
    net = glow.compile(_graph(), backend)
    for n, k in ((3, 4), (5, 7), (8, 9), (1, 1), (100, 50), (512, 2)):
        feed = _feed(n, k)
        _check(net.run(feed), feed)
    assert backend == "interpreter" or net.report().notes["sizes"] == "any k, n"


@pytest.mark.parametrize(
    ("x", "m", "message"),
    [
        ((600, 16), (1201, 3), "n is 600, expected 1 to 512"),
        ((0, 16), (1, 3), "n is 0, expected 1 to 512"),
        ((4, 16), (10, 3), r"2\*n\+1 is 10"),
        ((4, 16), (11, 3), r"2\*n\+1 is 11, expected 9 where n = 4"),
        ((4, 16), (9,), r"input 'm' has shape \(9,\), expected \(2\*n\+1, k\)"),
        ((4, 15), (9, 3), r"input 'x' has shape \(4, 15\), expected \(n, 16\)"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(x: tuple[int, ...], m: tuple[int, ...], message: str) -> None:
    net = glow.compile(_graph(), "interpreter")
    with pytest.raises(glow.GlowError, match=message):
        net.run({"x": np.zeros(x, np.float32), "m": np.zeros(m, np.float32)})
    _check(net.run(feed := _feed(4, 3)), feed)


@pytest.mark.parametrize(
    "dimension", [-1, "n-", "", "n//2", "1.5", "n x", "9" * 30, 1 << 70, "8 mod 0", None]
)
def test_dimensions_that_are_none_are_refused(dimension: Any) -> None:
    with pytest.raises(glow.ShapeError, match="placeholder 'x'"):
        GraphBuilder().placeholder("x", (dimension, 3))


def test_declarations_that_contradict_are_refused() -> None:
    g = GraphBuilder()
    n = g.size("n", 2, 64, multiple_of=8)
    for wrong in ({"least": 5, "most": 4}, {"least": 9, "most": 15, "multiple_of": 8}, {"least": -1}):
        with pytest.raises(glow.ShapeError, match="size 'm'"):
            g.size("m", **wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(glow.ShapeError, match="already exists"):
        g.size("n")
    with pytest.raises(glow.ShapeError, match="of this graph"):
        GraphBuilder().placeholder("x", (n,))
    with pytest.raises(glow.ShapeError, match="sizes of a state are numbers"):
        g.placeholder("s", (n,), kind="state")
    with pytest.raises(glow.ShapeError, match="do not broadcast"):
        g.add(g.placeholder("x", (n,)), g.placeholder("y", ("m",)))


def test_divisors_are_known_to_the_graph_and_asked_of_calls() -> None:
    g = GraphBuilder()
    h = g.size("h", 8, 64, multiple_of=8)
    x = g.placeholder("x", (h, 4))
    blocks = g.reshape(x, (h // 8, 8, 4))
    assert isinstance(blocks.shape[0], Extent) and not (h % 8) and 8 * (h // 8) == h
    g.save(g.reduce_sum(blocks, axes=(1,)), "y")
    net = glow.compile(g)
    for size in (8, 16, 64, 24):
        x = RNG.standard_normal((size, 4)).astype(np.float32)
        found = net.run({"x": x})["y"].reshape(-1, 4)
        np.testing.assert_allclose(found, x.reshape(-1, 8, 4).sum(1), rtol=1e-4, atol=1e-5)
    with pytest.raises(glow.BindingError, match="h is 12, expected a multiple of 8"):
        net.run({"x": np.zeros((12, 4), np.float32)})


def test_what_a_graph_was_made_for_is_asked_of_calls() -> None:
    g = GraphBuilder()
    x = g.placeholder("x", ("n", 2))
    first = g.slice(x, (0, 0), (5, 2), (1, 1)) if x.shape[0] >= 5 else x
    g.save(first, "y")
    net = glow.compile(g, "interpreter")
    assert net.run({"x": np.zeros((7, 2), np.float32)})["y"].shape == (5, 2)
    with pytest.raises(glow.BindingError, match="n is 4, expected 5 or more"):
        net.run({"x": np.zeros((4, 2), np.float32)})


def test_text_reads_back() -> None:
    text = str(_graph().module)
    assert "#glow.symbols<n = 61 from 1 to 512, k = 91 from 0>" in text and "tensor<[2*n+1]x[k]xf32>" in text
    assert str(parse_module(text, "text", tool_context())) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("glow.placeholder @x input : tensor<[n x 3]xf32>", "is not a size"),
        ("glow.placeholder @x input : tensor<[n", "expected a size in brackets"),
        ("builtin.module attributes {glow.symbols = #glow.symbols<n = 5 from 6>} {}", "size 'n'"),
        (
            "builtin.module attributes {glow.symbols = #glow.symbols<n = 5 where [n] gt 0>} {}",
            "expected a condition",
        ),
    ],
)
def test_text_that_is_wrong_is_refused(text: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        parse_module(text, "text", tool_context())


@pytest.mark.slow
def test_a_file_of_a_graph_is_remembered_whole(tmp_path: Path) -> None:
    path = tmp_path / "graph.mlir"
    g = _graph()
    big = g.constant(RNG.standard_normal((8, 64)).astype(np.float32), "big")
    g.save(g.matmul(g.relu(g.matmul(g.placeholder("z", ("n", 16)), g.constant(WEIGHTS))), big), "z2")
    glow.save(g, path)
    time.sleep(2.1)  # until its time of change tells it from what it was before
    code = (
        "import sys, numpy as np, glow_compiler as glow\n"
        f"net = glow.compile({str(path)!r})\n"
        "for n in (3, 9, 6):\n"
        "    feed = {'x': np.ones((n, 16), np.float32), 'm': np.ones((2 * n + 1, 3), np.float32)}\n"
        "    net.run({**feed, 'z': feed['x']})\n"
        "print('xdsl' in sys.modules, net.report().notes['sizes'])\n"
    )
    for loaded in (True, False):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.split(maxsplit=1) == [str(loaded), "any n\n"]


@pytest.mark.parametrize(
    ("specialize", "kinds"),
    [(None, [0, 1, 1]), ("never", [1, 1, 1]), ("hot", [1, 1, 1]), ("always", [0, 0, 0])],
)
def test_specialisation_is_a_choice(specialize: Any, kinds: list[int]) -> None:
    net = glow.compile(_graph(), specialize=specialize)
    for (n, k), opened in zip(((4, 9), (40, 20), (30, 11)), kinds, strict=True):
        feed = _feed(n, k)
        _check(net.run(feed), feed)
        assert isinstance(net.program, OpenProgram) == bool(opened)


def test_frequent_sizes_get_their_own_program(caplog: pytest.LogCaptureFixture) -> None:
    net = glow.compile(_graph(), specialize="hot")
    feed = _feed(40, 20)
    with caplog.at_level("INFO", "glow"):
        for _ in range(OFTEN + 1):
            _check(net.run(feed), feed)
        for _ in range(300):
            if not isinstance(net.program, OpenProgram):
                break
            time.sleep(0.1)
            net.run(feed)
    assert not isinstance(net.program, OpenProgram)
    assert any("compiling for x=40x16, m=81x20" in message for message in caplog.messages)
    _check(net.run(feed), feed)


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(glow.GlowError, match="specialize='sometimes'"):
        glow.compile(_graph(), specialize="sometimes")  # pyright: ignore[reportArgumentType]


def test_shapes_fix_or_prepare_sizes() -> None:
    net = glow.compile(_graph(), "interpreter", shapes={"x": (4, 16), "m": (9, 3)})
    _check(net.run(feed := _feed(4, 3)), feed)
    with pytest.raises(glow.BindingError, match="expected"):
        net.run(_feed(5, 3))
    prepared = glow.compile(_graph(), shapes=[{"x": (4, 16), "m": (9, 3)}])
    assert symbols_of(_graph().module) is not None
    _check(prepared.run(feed := _feed(4, 3)), feed)


def test_training_binds_the_batch_and_leaves_the_model_open(tmp_path: Path) -> None:
    g = GraphBuilder()
    w = g.trainable(RNG.standard_normal((8, 4)).astype(np.float32), "w")
    g.save(g.matmul(g.placeholder("x", ("n", 8)), w), "y")
    with pytest.raises(glow.ShapeError, match="training needs batch= or shapes="):
        glow.Trainer(g, loss="mse")
    trainer = glow.Trainer(g, loss="mse", batch=5)
    x, y = RNG.standard_normal((20, 8)).astype(np.float32), RNG.standard_normal((20, 4)).astype(np.float32)
    trainer.fit((x, y), 2, progress=False)
    trainer.export(tmp_path / "trained.onnx")
    net = glow.compile(tmp_path / "trained.onnx")
    for rows in (3, 7, 20):
        want = x[:rows] @ trainer.state["w"]
        np.testing.assert_allclose(net.run({"x": x[:rows]})["y"], want, rtol=1e-4, atol=1e-5)


def test_counts_of_sizes_are_bounded() -> None:
    """Sizes that came often are still known where many others come once."""
    sizes, compiled = HotSizes(), list[str]()
    for _ in range(OFTEN - 1):
        sizes.meet("often", lambda: compiled.append("often"))
    for number in range(2 * COUNTED):
        sizes.meet(number, lambda: compiled.append("once"))
    assert len(sizes._met) <= COUNTED  # pyright: ignore[reportPrivateUsage]
    sizes.meet("often", lambda: compiled.append("often"))
    for thread in threading.enumerate():
        if thread.name == "glow-specialize":
            thread.join()
    assert compiled == ["often"]


def test_small_sizes_beside_large_ones_take_the_memory_that_they_need() -> None:
    """Places are for sizes rounded up: those of small arenas much, those of large ones little."""
    sizes = Symbols()
    shape = tuple(sizes.declare(name, least=1) for name in "nhw")
    lives = [Life(0, 1, 4 * prod(shape)), Life(0, 1, 8 * prod(shape))]
    tables = SizeTables(Numbers(lives), [Port("x", shape, np.dtype(np.float32))], [], {})
    for met in ((2, 3000, 3000), (3, 700, 80), (1, 1, 1 << 20), (40, 900, 2)):
        sized = tables.of({"x": met})
        assert sized is not None and 12 * prod(met) <= sized.bytes <= max(24 * prod(met), 1 << 26)
    few = [tables.of({"x": met}) for met in ((2, 50, 60), (3, 64, 7))]
    assert few[0] is not None and few[1] is not None and (few[0].table == few[1].table).all()
