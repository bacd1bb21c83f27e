"""Predicates: nodes, and rows, that nobody needs are left out by the CPU."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from card_runner import SAMPLES, graph_of

import glow_compiler as glow
from glow_backends.predicated import PredicatedPart, PredicatedProgram
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array
from glow_dialects.ops.module import GetOp

BATCH, SIZE = 16, 24


def weights(*shape: int) -> Array:
    return (np.random.default_rng(len(shape)).standard_normal(shape) / 10).astype(np.float32)


def network(predicate: tuple[int, ...] | None, mixes: bool = False) -> glow.GraphBuilder:
    """Some layers under a predicate of a shape; with `mixes`, rows depend on others."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (BATCH, 8, SIZE, SIZE))
    p = None if predicate is None else g.placeholder("p", predicate, dtype=np.bool_)
    f, w = g.constant(weights(16, 8, 3, 3), "f"), g.constant(weights(16 * 144, 32), "w")
    with nullcontext() if p is None else g.predicated(p):
        y = g.max_pool(g.relu(g.conv(x, f, pads=(1, 1, 1, 1))), kernel=(2, 2), strides=(2, 2))
        y = g.fully_connected(g.reshape(y, (BATCH, 16 * 144)), w, None)
        y = g.softmax(y, axis=0) if mixes else y
    g.save(y, "y")
    g.save(g.relu(x), "z")
    return g


def feed(**more: Any) -> dict[str, Array]:
    return {"x": weights(BATCH, 8, SIZE, SIZE), **more}


def part_of(net: Any) -> PredicatedPart:
    """The part of a compiled network that has a predicate."""
    assert isinstance(net.program, PredicatedProgram)
    (part,) = [p for p in net.program.parts if isinstance(p, PredicatedPart) and p.predicate is not None]
    return part


def test_the_builder_writes_predicates() -> None:
    g = network((BATCH,))
    ops = [op for op in g.module.walk() if isinstance(op, GraphOp) and op.operands]
    assert [op.name for op in ops if op.predicate is None] == ["glow.relu"]
    g.module.verify()
    table = g.placeholder("q", (2, 2), dtype=np.bool_)
    with pytest.raises(glow.ShapeError, match="neither a boolean nor one"), g.predicated(table):
        pass


@pytest.mark.parametrize("needed", [True, False])
def test_a_scalar_predicate_is_a_branch(needed: bool) -> None:
    net = glow.compile(network(()))
    want = glow.compile(network(None)).run(feed())
    got = net.run(feed(p=np.array(needed)))
    np.testing.assert_array_equal(got["y"], want["y"] if needed else 0)
    np.testing.assert_array_equal(got["z"], want["z"])


@pytest.mark.parametrize("count", [0, 1, 3, BATCH // 2, BATCH - 1, BATCH])
def test_rows_that_are_needed_are_right(count: int) -> None:
    net = glow.compile(network((BATCH,)))
    assert part_of(net).rows is not None
    want = glow.compile(network(None)).run(feed())
    rows = np.zeros(BATCH, bool)
    rows[np.random.default_rng(count).permutation(BATCH)[:count]] = True
    got = net.run(feed(p=rows))
    np.testing.assert_allclose(got["y"][rows], want["y"][rows], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got["z"], want["z"])
    if count <= BATCH // 2:
        np.testing.assert_array_equal(got["y"][~rows], 0)


def test_rows_that_depend_on_others_are_computed_whole() -> None:
    net = glow.compile(network((BATCH,), mixes=True))
    assert part_of(net).rows is None
    want = glow.compile(network(None, mixes=True)).run(feed())["y"]
    rows = np.arange(BATCH) < 2
    np.testing.assert_allclose(net.run(feed(p=rows))["y"][rows], want[rows], rtol=1e-4, atol=1e-6)


def test_leaving_out_work_saves_time() -> None:
    """Nothing is done where no row is needed, and about an eighth for an eighth of the rows."""
    net = glow.compile(network((BATCH,)))
    part = part_of(net)
    runs = {"whole": 0, "rows": 0}

    def counted(name: str, program: Any) -> None:
        run = program.run

        def counting(inputs: Any) -> Any:
            runs[name] += 1
            return run(inputs)

        program.run = counting

    counted("whole", part.program)
    counted("rows", part.rows)
    for rows, want in ((0, (0, 0)), (2, (0, 1)), (3, (0, 2)), (BATCH, (1, 0))):
        runs.update(whole=0, rows=0)
        net.run(feed(p=np.arange(BATCH) < rows))
        assert (runs["whole"], runs["rows"]) == want


def test_little_work_is_not_worth_a_branch() -> None:
    g = glow.GraphBuilder()
    x = g.placeholder("x", (4, 8))
    with g.predicated(g.placeholder("p", (4,), dtype=np.bool_)):
        g.save(g.relu(x), "y")
    net: Any = glow.compile(g)
    assert not isinstance(net.program, PredicatedProgram)
    data = weights(4, 8)
    np.testing.assert_array_equal(net.run({"x": data, "p": np.zeros(4, bool)})["y"], np.maximum(data, 0))


def test_predicates_outlive_files_and_quantisation(tmp_path: Path) -> None:
    g = network((BATCH,))
    glow.save(g, tmp_path / "net.mlir")
    assert part_of(glow.compile(tmp_path / "net.mlir")).predicate == "p"
    inputs = feed(p=np.ones(BATCH, bool))
    quantized = glow.quantize(g, [inputs], everything=True)
    layers = [
        op for op in quantized.walk() if op.name in ("glow.quantized_conv", "glow.quantized_fully_connected")
    ]
    assert len(layers) == 2 and all(isinstance(op, GraphOp) and op.predicate for op in layers)
    plain = glow.compile(glow.quantize(network(None), [feed()], everything=True)).run(feed())
    np.testing.assert_array_equal(glow.compile(quantized).run(inputs)["y"], plain["y"])


def test_other_backends_drop_predicates() -> None:
    net = glow.compile(network(()), backend="interpreter")
    want = glow.compile(network(None), backend="interpreter").run(feed())["y"]
    np.testing.assert_array_equal(net.run(feed(p=np.array(False)))["y"], want)


def test_operators_take_predicates() -> None:
    """A predicate is valid on every operator, whatever other operands it has."""
    for sample in SAMPLES.values():
        g, _ = graph_of(sample)
        nodes = [op for op in g.function.body.block.ops if isinstance(op, GraphOp)]
        predicate = g.input(np.array(True))
        get = predicate.owner
        assert isinstance(get, GetOp)
        get.detach()
        g.function.body.block.insert_op_before(get, nodes[0])
        for node in nodes:
            node.set_predicate(predicate)
            node.verify()
