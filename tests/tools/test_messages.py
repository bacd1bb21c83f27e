"""Messages of the parser and the verifiers: file, line, column, operator, what to do."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from glow_tools import opt

HEAD = "glow.placeholder @x input : tensor<2x5xf32>\nglow.placeholder @y output : tensor<2x5xf32>\n"
T, M = "tensor<2x5xf32>", "memref<2x5xf32>"
X, RELU = "%x = glow.get @x : tensor<2x5xf32>\n", "glow.relu %x : (tensor<2x5xf32>) -> tensor<2x5xf32>\n"


def graph(body: str) -> str:
    """A program whose function has `body` from line 5 on."""
    return f"{HEAD}glow.func @main {{\n{X}{body}}}\n"


def instructions(body: str) -> str:
    """A program whose instructions begin on line 7."""
    return (
        f"{HEAD}glow_instr.func @main declare {{\n%x = weight @x mutable : memref<2x5xf32>\n"
        f"%y = weight @y mutable : memref<2x5xf32>\n}} program {{\n{body}}}\n"
    )


BROKEN = {
    "undefined": (
        graph(f"%a = glow.relu %z : ({T}) -> {T}\n"),
        5, 16, "glow.relu", "define %z",
    ),
    "unknown": (
        graph("%a = glow.rleu %x : (tensor<1xf32>) -> tensor<1xf32>\n"),
        5, 6, "glow.rleu", "did you mean glow.relu",
    ),
    "dialect": (
        graph("%a = glwo.relu %x : (tensor<1xf32>) -> tensor<1xf32>\n"),
        5, 6, "glwo.relu", "no dialect 'glwo'",
    ),
    "type": (
        graph("glow.save %x to @y : tensor<2x6xf32>\n"),
        5, 11, "glow.save", "write tensor<2x5xf32> here",
    ),
    "no types": (
        graph("%a = glow.relu %x : tensor<2x5xf32>\n"),
        5, 21, "glow.relu", "in parentheses",
    ),
    "axis": (
        graph(f"%a = glow.softmax %x {{axis = 7}} : ({T}) -> {T}\n"),
        5, 1, "glow.softmax", "axes are 0 to 1",
    ),
    "property": (
        graph(f"%a = glow.softmax %x : ({T}) -> {T}\n"),
        5, 1, "glow.softmax", "{axis = ...}",
    ),
    "order": (
        graph(f"%b = glow.neg %a : ({T}) -> {T}\n%a = {RELU}"),
        5, 1, "glow.neg", "move that up",
    ),
    "symbol": (
        HEAD + "glow.placeholder @x input : tensor<2xf32>\n",
        3, 1, "glow.placeholder", "rename one",
    ),
    "foreign": (
        graph("%c = arith.constant 1.0 : f32\n"),
        5, 1, "arith.constant", "use a tensor",
    ),
    "open": (
        HEAD + "glow.func @main {\n",
        3, 1, "glow.func", "close its region",
    ),
    "size": (
        "glow.constant @w = dense<[1.0, 2.0]> : tensor<3xf32>\n",
        1, 1, "glow.constant", "change the values",
    ),
    "second": (
        f"{HEAD}glow.func @first {{\n}}\nglow.func @main {{\n{X}glow.save %x to @x : tensor<2x5xf32>\n}}\n",
        7, 1, "glow.save", "use a state",
    ),
    "unwritten": (
        instructions(f"%a = alloc : {M}\nrelu @out %y, @in %a : {M}, {M}\ndealloc @out %a : {M}\n"),
        8, 1, "glow_instr.relu", "write it first",
    ),
    "access": (
        instructions(f"relu @in %y, @in %x : {M}, {M}\n"),
        7, 1, "glow_instr.relu", "@out",
    ),
    "leak": (
        instructions(f"%a = alloc : {M}\n"),
        7, 1, "glow_instr.alloc", "add glow_instr.dealloc",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_place_and_remedy(case: str, tmp_path: Path) -> None:
    """The message says where, which operator, and what to do."""
    text, line, column, operator, remedy = BROKEN[case]
    file = tmp_path / "broken.mlir"
    file.write_text(text)
    told = io.StringIO()
    with contextlib.redirect_stderr(told):
        assert opt.main([str(file)]) == 1
    message = told.getvalue()
    assert message.startswith(f"error: {file}:{line}:{column}"), message
    assert operator in message and remedy in message and "internal" not in message, message


def test_announced_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`expected-error@+1` counts for errors of verifiers, too."""
    wrong = "%a = glow.softmax %x {axis = 7} : (tensor<2x5xf32>) -> tensor<2x5xf32>\n"
    file = tmp_path / "x.mlir"
    file.write_text(graph("// expected-error@+1 {{axis 7}}\n" + wrong))
    assert opt.main([str(file), "--verify-diagnostics"]) == 0
    file.write_text(graph("// expected-error@+2 {{axis 7}}\n" + wrong))
    assert opt.main([str(file), "--verify-diagnostics"]) == 1
    err = capsys.readouterr().err
    assert "x.mlir:6: unexpected error" in err and "x.mlir:5: expected error" in err


def test_only_what_changed_is_verified(tmp_path: Path) -> None:
    """What a pass breaks is found where it reads what changed, by value or by symbol, with the place."""
    import re

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp, TensorType, f32
    from xdsl.passes import ModulePass

    from glow_dialects.dialects import context
    from glow_dialects.ops.module import FuncOp, PlaceholderOp
    from glow_dialects.parse import parse_module
    from glow_passes.failure import BrokenPassError
    from glow_passes.pipeline import PassRunner

    class Breaking(ModulePass):
        name = "breaking"

        def __init__(self, what: str) -> None:
            self.what = what

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            function = next(f for f in op.ops if isinstance(f, FuncOp))
            get, relu, save = function.body.block.ops
            match self.what:
                case "type":
                    get.results[0]._type = TensorType(f32, [3, 5])  # pyright: ignore
                case "symbol":
                    found = next(p for p in op.ops if isinstance(p, PlaceholderOp))
                    found.detach()
                case "order":
                    save.detach()
                    function.body.block.insert_op_before(save, relu)
                case _:
                    pass

    messages = {"type": "tensor<3x5xf32>", "symbol": "@x", "order": "before its definition"}
    for what, expected in messages.items():
        module = parse_module(graph(f"%a = {RELU}glow.save %a to @y : tensor<2x5xf32>\n"), "x", context())
        with pytest.raises(BrokenPassError) as caught:
            PassRunner(context(), verify=True).run(module, [Breaking(what)])
        assert re.search(expected, str(caught.value)) and "pass breaking" in str(caught.value)
