"""Functions taken apart: names, circles of plans, branches, states and open sizes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from xdsl.dialects.builtin import ModuleOp

import glow_compiler as glow
from glow_dialects.core.errors import PartitionError
from glow_dialects.dialects import context
from glow_dialects.ops.module import FuncOp, functions, placeholders
from glow_dialects.parse import parse_module
from glow_passes.partition.nodes import node_graph
from glow_passes.partition.split import extract, segments, split, tell_sizes

V = "tensor<2xf32>"


def function_of(body: str, *ports: str) -> FuncOp:
    """A function on vectors `x` and `y`, an output, with further placeholders."""
    kinds = (f"@x input : {V}", f"@y output : {V}", *ports)
    declared = "\n".join(f"glow.placeholder {port}" for port in kinds)
    text = f"{declared}\nglow.func @main {{\n%x = glow.get @x : {V}\n{body}\n}}"
    return next(functions(parse_module(text, "split", context())))


def unary(*names: str) -> Iterator[str]:
    """relu of the first name is the second, and so on."""
    for number, (read, made) in enumerate(zip(names, names[1:], strict=False)):
        yield f"{made} = glow.relu {read} {{of = {number}}} : ({V}) -> {V}"


def module_around(function: FuncOp) -> ModuleOp:
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    return module


def test_names() -> None:
    """Functions and the values between them have names of their own, whatever there is already."""
    body = "\n".join([*unary("%x", "%v", "%w", "%0", "%1"), f"glow.save %1 to @y : {V}"])
    function = function_of(body, f"@main_0 input : {V}", f"@main.v output : {V}", f"@main.v_1 output : {V}")
    module = module_around(function)
    assert [f.sym_name.data for f in split(function, [0, 1, 2, 3, 3])] == [
        "main_0_1",
        "main_1",
        "main_2",
        "main_3",
    ]
    transfers = [n for n, p in placeholders(module).items() if p.kind.data == "transfer"]
    assert transfers == ["main.v_2", "main.w", "main.value"]
    module.verify()


@pytest.mark.parametrize(
    ("parts", "circle"),
    [
        ([0, 1, 2, 1, 1], "1 -> 2 -> 1"),  # behind another
        ([0, 1, 2, 0, 0], "0 -> 1 -> 2 -> 0"),
        ([1, 1, 0, 1, 2], "0 -> 1 -> 0"),  # before another
    ],
)
def test_circles(parts: list[int], circle: str) -> None:
    """The partitions that wait for each other, without those that do not."""
    body = "\n".join([*unary("%x", "%a", "%b", "%c", "%d"), f"glow.save %d to @y : {V}"])
    with pytest.raises(PartitionError, match=f"partitions {circle} form a circle: node"):
        split(function_of(body), parts)


def test_states_stay_states() -> None:
    """A partition alone has transfers as inputs and outputs, and states as they were."""
    body = f"""
        %s = glow.get @s : {V}
        %a = glow.relu %s : ({V}) -> {V}
        glow.save %a to @s : {V}
        %b = glow.tanh %a : ({V}) -> {V}
        glow.save %b to @y : {V}"""
    first, second = split(function_of(body, f"@s state : {V}"), [0, 0, 1, 1])
    kinds = [{n: p.kind.data for n, p in placeholders(extract(f)).items()} for f in (first, second)]
    assert kinds == [{"s": "state", "main.a": "output"}, {"main.a": "input", "y": "output"}]


BRANCH = f"""
        "glow.if"(%c) ({{
          glow.yield %a : {V}
        }}, {{
          glow.yield %x : {V}
        }}) : (tensor<i1>) -> {V}"""


def test_segments() -> None:
    """Branches are alone; a save goes with its value, and ends what is straight."""
    body = f"""
        %c = glow.get @c : tensor<i1>
        glow.save %x to @copy : {V}
        %0 = glow.relu %x : ({V}) -> {V}
        %a = glow.relu %0 : ({V}) -> {V}
        %b = {BRANCH}
        %d = {BRANCH}
        %e = glow.relu %b : ({V}) -> {V}
        glow.save %b to @first : {V}
        %f = glow.relu %d : ({V}) -> {V}
        glow.save %f to @y : {V}"""
    outputs = (f"@copy output : {V}", f"@first output : {V}")
    graph = node_graph(function_of(body, "@c input : tensor<i1>", *outputs))
    assert segments(graph) == [0, 1, 1, 2, 3, 4, 2, 5, 5]
    alone = f"%c = glow.get @c : tensor<i1>\n%b = {BRANCH.replace('%a', '%x')}\nglow.save %b to @y : {V}"
    assert segments(node_graph(function_of(alone, "@c input : tensor<i1>"))) == [0, 0]


def test_open_sizes_are_told() -> None:
    """A part takes the inputs that tell sizes which its own do not, and no others."""
    g = glow.GraphBuilder()
    x, same = g.placeholder("x", ("n", 4)), g.placeholder("same", ("n", 2))
    other, fixed = g.placeholder("other", ("k", 3)), g.placeholder("fixed", (5,))
    for number, value in enumerate((x, same, other, fixed)):
        g.save(g.relu(value), f"y{number}")
    whole = g.module.clone()
    pieces = [extract(f) for f in split(next(functions(g.module)), [0, 0, 1, 1, 2, 2, 3, 3])]
    for piece in pieces:
        tell_sizes(piece, whole)
    names = [[n for n, p in placeholders(piece).items() if p.kind.data == "input"] for piece in pieces]
    assert names == [["x", "other"], ["same", "other"], ["other", "x"], ["fixed"]]
