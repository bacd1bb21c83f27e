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
from glow_dialects.dialects import context
from glow_dialects.ops.module import GetOp, functions
from glow_dialects.parse import parse_module
from glow_passes.partition.nodes import node_graph
from glow_passes.partition.predicates import by_predicate, for_rows, has_predicates, predicate_of

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
    wrong = g.placeholder("r", (BATCH + 1,), dtype=np.bool_)
    told = f"{BATCH + 1} samples, but the first dimensions .* are .*{BATCH}"
    with pytest.raises(glow.ShapeError, match=told), g.predicated(wrong):
        g.relu(table.graph.placeholder("s", (BATCH, 3)))


@pytest.mark.parametrize("form", [(), (1,)])
@pytest.mark.parametrize("needed", [True, False])
def test_a_scalar_predicate_is_a_branch(needed: bool, form: tuple[int, ...]) -> None:
    net = glow.compile(network(form))
    want = glow.compile(network(None)).run(feed())
    got = net.run(feed(p=np.full(form, needed)))
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


@pytest.mark.slow
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


def parts_by_predicate(*values: Any) -> list[int] | None:
    """The parts of layers, each under a predicate: none, a name, or a number for one that is computed."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (128, 128))
    known: dict[Any, Any] = {}
    for value in values:
        if value not in known and value is not None:
            p = g.placeholder(str(value), (), dtype=np.bool_)
            known[value] = g.logical_not(p) if isinstance(value, int) else p
        with nullcontext() if value is None else g.predicated(known[value]):
            x = g.matmul(x, g.constant(np.eye(128, dtype=np.float32)))
    g.save(x, "y")
    graph = node_graph(next(functions(g.module)))
    assert has_predicates(g.module) == any(v is not None for v in values)
    names = [predicate_of(node.op) for node in graph.nodes if node.op.name == "glow.matmul"]
    assert names == [v if isinstance(v, str) else None for v in values]
    parts = by_predicate(graph)
    return parts and [p for p, node in zip(parts, graph.nodes, strict=True) if node.op.name == "glow.matmul"]


def test_parts_have_one_predicate() -> None:
    """Nodes in a row under one predicate are a part, however that is computed."""
    assert parts_by_predicate(None, "p", "p", "q", None) == [0, 1, 1, 2, 3]
    assert parts_by_predicate("p", 1, "p") == [0, 2, 3]  # what computes the second is part 1
    assert parts_by_predicate(None, None) is None


def test_predicates_that_are_constants_have_no_name() -> None:
    g = glow.GraphBuilder()
    with g.predicated(g.constant(np.array(True), "p")):
        g.save(g.relu(g.placeholder("x", (2,))), "y")
    assert {predicate_of(op) for op in g.module.walk()} == {None}


ROWS: dict[str, tuple[Any, bool]] = {
    "each row": (lambda g, x, v, s: g.softmax(g.add(g.mul(x, v), s)), True),
    "rows of a reshape": (lambda g, x, v, s: g.reshape(g.relu(x), (6, 2, 2)), True),
    "two results": (lambda g, x, v, s: g.top_k(x, 2)[0], False),
    "a mean of all": (lambda g, x, v, s: g.sub(x, g.reduce_mean(x, (0,))), False),
    "columns": (lambda g, x, v, s: g.transpose(x, (1, 0)), False),
    "a product of rows": (lambda g, x, v, s: g.matmul(g.transpose(x, (1, 0)), x), False),
    "weights that are rows": (lambda g, x, v, s: g.matmul(g.constant(weights(6, 6), "w"), x), False),
    "a number for each row": (lambda g, x, v, s: g.add(x, g.constant(weights(6, 1), "w")), False),
    "nothing of rows": (lambda g, x, v, s: g.relu(v), False),
}


@pytest.mark.parametrize("case", ROWS)
def test_fewer_rows(case: str) -> None:
    """A program for two of six rows gives what the whole gives for them, or there is none."""
    make, wanted = ROWS[case]
    g = glow.GraphBuilder()
    x, v, s = g.placeholder("x", (6, 4)), g.placeholder("v", (4,)), g.placeholder("s", ())
    g.save(make(g, x, v, s), "y")
    inputs = {"x": weights(6, 4), "v": weights(4), "s": np.array(2, np.float32)}
    whole = glow.compile(g.module.clone(), backend="interpreter").run(inputs)["y"]
    assert for_rows(g.module, 6, 2) == wanted
    if wanted:
        net = glow.compile(g.module, backend="interpreter")
        np.testing.assert_array_equal(net.run({**inputs, "x": inputs["x"][:2]})["y"], whole[:2])


def test_loops_have_all_rows() -> None:
    """Whatever their bodies do to them."""
    v = "tensor<6x4xf32>"
    text = f"""
        glow.placeholder @x input : {v}
        glow.placeholder @n input : tensor<i64>
        glow.placeholder @y output : {v}
        glow.func @main {{
          %x = glow.get @x : {v}
          %n = glow.get @n : tensor<i64>
          %y = "glow.loop"(%n, %x) <{{operandSegmentSizes = array<i32: 1, 0, 1>}}> ({{
          ^bb0(%turn: tensor<i64>, %v: {v}):
            %on = glow.splat {{value = 1 : i1}} : () -> tensor<i1>
            glow.yield %on, %v : tensor<i1>, {v}
          }}) : (tensor<i64>, {v}) -> {v}
          glow.save %y to @y : {v}
        }}"""
    assert not for_rows(parse_module(text, "loop", context()), 6, 2)


def test_states_have_all_rows() -> None:
    g = glow.GraphBuilder()
    s = g.placeholder("s", (6, 4), kind="state")
    g.save(g.relu(g.add(s, g.placeholder("x", (6, 4)))), "y")
    assert not for_rows(g.module, 6, 2)
