"""Passes on buffers: the numbers of straight programs stay, and copies, stores and buffers go where they can.

A program is lines on weights of 8 floats: the input `x`, the outputs `y` and `z`, the state `s`.

    alloc a [2x4] [near]        a buffer, of 8 elements where nothing else is said
    view v a 4 [offset]         a part of a buffer, or another shape of it
    neg a x; add a b c; ...     an instruction, what is written first
    start a x; wait a           a transfer
    for neg a x                 an instruction in both turns of a loop
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from glow_backends.interpreter.backend import InterpreterProgram
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_dialects.instr.memory import InstrFuncOp, instr_function
from glow_dialects.parse import parse_module
from glow_passes.instr import dead_stores, eliminate_copies, share_buffers
from glow_passes.instr.plan_memory import PlanMemoryPass
from glow_passes.instr.shrink_lives import shrink

X = np.array([3, -1, 4, -1, 5, -9, 2, -6], np.float32)
S = np.array([-2, 7, -1, 8, -2, 8, 1, -8], np.float32)
FORMULAS: dict[str, Callable[..., Array]] = {
    "neg": np.negative,
    "relu": lambda a: np.maximum(a, 0),
    "abs": np.abs,
    "copy": np.copy,
    "add": np.add,
    "sub": np.subtract,
    "flip": np.flip,
    "start": np.copy,
}
PROPERTIES = {"flip": " {axes = array<i64: 0>}"}
WEIGHTS = {"x": "input", "y": "output", "z": "output", "s": "state"}


def program(lines: Sequence[str]) -> ModuleOp:
    """A program in text; every buffer ends at its end."""
    shapes, spaces, body = dict.fromkeys(WEIGHTS, "8"), dict.fromkeys(WEIGHTS, ""), list[str]()
    allocs: list[str] = []

    def kind(name: str) -> str:
        return f"memref<{shapes[name]}xf32{spaces[name]}>"

    for line in lines:
        loop, (word, name, *more) = line.startswith("for "), line.removeprefix("for ").split()
        if word == "alloc":
            spaces[name] = ', "near"' if "near" in more else ""
            shapes[name] = next((m for m in more if m != "near"), "8")
            allocs.append(name)
            body.append(f"%{name} = glow_instr.alloc : {kind(name)}")
        elif word == "view":
            source, shapes[name], *offset = more
            spaces[name] = spaces[source]
            at = f" offset {offset[0]}" if offset else ""
            body.append(f"%{name} = glow_instr.tensorview %{source}{at} : {kind(source)} to {kind(name)}")
        elif word == "wait":
            body.append(f"glow_instr.wait @after %t{name} : !glow_instr.token")
        else:
            operands = [f"@out %{name}", *(f"@in %{m}" for m in more)]
            kinds = ", ".join(map(kind, (name, *more)))
            instruction = f"{', '.join(operands)}{PROPERTIES.get(word, '')} : {kinds}"
            if word == "start":
                body.append(f"%t{name} = glow_instr.start_copy {instruction}")
            else:
                around = ("glow_instr.for %i = 0 to 2 step 1 {", "}") if loop else ()
                body += [*around[:1], f"glow_instr.{word} {instruction}", *around[1:]]
    body += [f"glow_instr.dealloc @out %{name} : {kind(name)}" for name in allocs]
    text = [f"glow.placeholder @{n} {k} : tensor<8xf32>" for n, k in WEIGHTS.items()]
    text.append("glow_instr.func @main attributes {memories = {near = {size = 4096 : i64}}} declare {")
    text += [f"%{n} = glow_instr.weight @{n} mutable : memref<8xf32>" for n in WEIGHTS]
    return parse_module("\n".join([*text, "} program {", *body, "}"]), "program", context())


def expected(lines: Sequence[str]) -> dict[str, Array]:
    """What the weights hold in the end, by NumPy."""
    held = {"x": X.copy(), "y": np.zeros(8, np.float32), "z": np.zeros(8, np.float32), "s": S.copy()}
    for line in lines:
        word, name, *more = line.removeprefix("for ").split()
        if word == "alloc":
            shape = next((m for m in more if m != "near"), "8")
            held[name] = np.full([int(n) for n in shape.split("x")], np.nan, np.float32)
        elif word == "view":
            shape = [int(n) for n in more[1].split("x")]
            at = int(more[2]) if len(more) > 2 else 0
            held[name] = held[more[0]].reshape(-1)[at : at + int(np.prod(shape))].reshape(shape)
        elif word != "wait":
            held[name][...] = FORMULAS[word](*(held[m] for m in more))
    return {name: held[name] for name in "yzs"}


def check(module: ModuleOp, lines: Sequence[str]) -> None:
    """The program gives what its lines do; by itself, and planned, in memory full of other numbers."""
    module.verify()
    planned = module.clone()
    PlanMemoryPass().apply(context(), planned)
    for made, plan in ((module, False), (planned, True)):
        net = InterpreterProgram(made, instr_function(made, "main"), planned=plan)
        net.state["s"][...] = S
        got = {**net.run({"x": X.copy()}), "s": net.state["s"]}
        for name, want in expected(lines).items():
            np.testing.assert_array_equal(got.get(name, 0 * want), want, err_msg="; ".join([name, *lines]))


def changed(step: Callable[[InstrFuncOp], int], text: str) -> tuple[int, list[str]]:
    """What a pass counts, and the operations that it leaves, without weights and ends of buffers."""
    lines = [line.strip() for line in text.split(";")]
    module = program(lines)
    check(module, lines)
    count = step(instr_function(module, "main"))
    check(module, lines)
    names = [op.name.removeprefix("glow_instr.") for op in instr_function(module, "main").block.ops]
    return count, [n for n in names if n not in ("weight", "dealloc")]


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("alloc a; neg a x; copy y a", 1),
        ("neg y x; copy y y", 1),
        # Both have the same contents afterwards, whichever is read.
        ("alloc a; neg a x; copy y a; add z a y", 1),
        ("alloc a; neg a x; copy y a; abs z a; abs s y", 1),
        # To another buffer, which begins after the first one.
        ("alloc a; neg a x; alloc b; copy b a; add y b b", 1),
        ("alloc b; alloc a; neg a x; copy b a; add y b b", 1),
        # One shape for another.
        ("alloc a 2x4; view u x 2x4; neg a u; view v a 8; copy y v", 1),
        ("alloc a 2x4; view u x 2x4; neg a u; view v a 4x2; view w v 8; copy y w; abs z w", 1),
        # Of two copies of one buffer, the first.
        ("alloc a; neg a x; copy y a; copy z a", 1),
        ("alloc a; neg a x; copy y a; alloc b; abs b x; copy z b", 2),
        # What the program is given stays.
        ("copy y x", 0),
        ("view u x 4; view v y 4; copy v u; neg z x", 0),
        # Part of a buffer, or to a part of one.
        ("alloc a; neg a x; view v a 4; alloc b 4; copy b v; view w y 4; abs w b", 0),
        ("alloc a 4; view u x 4 2; neg a u; view v y 4 1; copy v a", 0),
        # From another memory, or to one.
        ("alloc a near; neg a x; copy y a", 0),
        ("alloc a; neg a x; alloc b near; copy b a; abs y b", 0),
        ("alloc a near; neg a x; alloc b near; copy b a; abs y b", 1),
        # The old contents are read, before the source begins or while it is there.
        ("alloc a; abs z s; neg a x; copy s a", 1),
        ("alloc a; neg a x; abs z s; copy s a", 0),
        ("alloc a; neg a x; relu s x; copy s a", 0),
        ("alloc a; neg a x; view v s 4; view w z 4; abs w v; copy s a", 0),
        # A buffer that had something else in it before.
        ("alloc b; neg b x; add z b b; alloc a; abs a x; copy b a; add y b b", 0),
        # Either is written afterwards.
        ("alloc a; neg a x; copy y a; abs a x; copy z a", 1),
        ("alloc a; neg a x; copy y a; abs a x; flip z a", 0),
        ("alloc a; neg a x; copy s a; abs s x; flip z a", 0),
        ("alloc a; neg a x; copy s a; view v s 4; view u x 4; abs v u; flip z a", 0),
        # An element of a result may be written where that of the operand was.
        ("alloc a; sub a s x; copy s a", 1),
        ("alloc a; sub a x s; copy s a", 1),
        ("alloc b; neg b x; alloc a; sub a b s; copy s a; abs y b", 1),
        # Not where others are still to be read, or it is read twice, or by a later instruction.
        ("alloc a; flip a s; copy s a", 0),
        ("alloc a; add a s s; copy s a", 0),
        ("alloc a; neg a x; sub a a s; copy s a", 0),
        ("alloc a; sub a s x; add a a s; copy s a", 0),
        ("alloc a; neg a x; abs z a; sub a s x; copy s a", 0),
        ("alloc a 2x4; view v s 2x4; view u x 2x4; sub a v u; view w a 8; copy s w", 0),
        # Under way, or in the turns of a loop.
        ("alloc a; start a x; wait a; copy y a", 0),
        ("alloc a; neg a x; for neg a x; copy y a", 0),
        ("alloc a; neg a x; for abs z y; copy y a", 0),
    ],
)
def test_copies_that_go(text: str, gone: int) -> None:
    """Those of a whole buffer whose place is not in use from its first write on."""
    count, left = changed(eliminate_copies.eliminate, text)
    assert count == gone
    assert left.count("copy") == text.count("copy") - gone


def test_what_is_computed_elsewhere_lives_as_long() -> None:
    """A buffer ends where it and what was copied to it have been read."""
    for text in (
        "alloc a; neg a x; alloc b; copy b a; abs y b; relu z a",
        "alloc a; neg a x; alloc b; copy b a; relu z a; abs y b",
        "alloc a 2x4; view u x 2x4; neg a u; view v a 8; alloc b; copy b v; abs y b; relu z v",
    ):
        lines = text.split("; ")
        module = program(lines)
        function = instr_function(module, "main")
        shrink(function.block)
        assert eliminate_copies.eliminate(function) == 1
        check(module, lines)
        names = [op.name.removeprefix("glow_instr.") for op in function.block.ops]
        assert names.count("alloc") == names.count("dealloc") == 1 and names[-1] == "dealloc"


@pytest.mark.parametrize(
    ("text", "saved"),
    [
        ("alloc a; neg a x; alloc b; relu b a; copy y b", 1),
        ("alloc a; neg a x; alloc b; relu b a; alloc c; abs c b; copy y c", 2),
        ("alloc a; neg a x; alloc b; add b x a; copy y b", 1),
        # Both operands end here: one buffer is taken.
        ("alloc a; neg a x; alloc c; abs c x; alloc b; add b a c; copy y b", 1),
        # The other operand ends here.
        ("alloc a; neg a x; alloc c; abs c x; alloc b; add b a c; copy y b; copy z a", 1),
        # Through another shape of all of it.
        ("alloc a 2x4; view u x 2x4; neg a u; view v a 8; alloc b; relu b v; copy y b", 1),
        # Not of a part, or another size, or another memory.
        ("alloc a; neg a x; view v a 4; alloc b 4; relu b v; view w y 4; copy w b", 0),
        ("alloc a; neg a x; view v a 4 4; alloc b 4; relu b v; view w y 4; copy w b", 0),
        ("alloc a near; neg a x; alloc b; relu b a; copy y b", 0),
        # Of the program, read later, read twice, or by what looks at other elements.
        ("alloc b; relu b x; copy y b", 0),
        ("alloc b; relu b s; copy s b", 0),
        ("alloc a; neg a x; alloc b; relu b a; add y a b", 0),
        ("alloc a; neg a x; alloc b; add b a a; copy y b", 0),
        ("alloc a; neg a x; alloc b; flip b a; copy y b", 0),
        ("alloc a; neg a x; alloc b; relu b a; for abs y a; copy z b", 0),
        # The result is in use before, or is what the program shows.
        ("alloc b; neg b x; copy z b; alloc a; abs a x; relu b a; copy y b", 0),
        ("alloc a; neg a x; relu y a", 0),
        ("alloc a; start a x; wait a; alloc b; relu b a; copy y b", 1),
        # A view of the result that stands before the operand begins.
        ("alloc b; view v b 2x4; view w v 8; alloc a; neg a x; relu b a; copy y w", 1),
    ],
)
def test_buffers_that_are_shared(text: str, saved: int) -> None:
    """A result takes the place of an operand that nothing reads afterwards."""
    count, left = changed(share_buffers.share, text)
    assert count == saved
    assert left.count("alloc") == text.count("alloc") - saved


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("alloc a; neg a x; relu y x", "relu"),
        ("alloc a; abs a x; alloc b; neg b a; relu y x", "relu"),
        ("alloc a; abs a x; relu a x; copy y a", "alloc relu copy"),
        # Read before it is overwritten, or overwritten in part.
        ("alloc a; abs a x; neg a a; copy y a", "alloc abs neg copy"),
        ("alloc a; abs a x; copy z a; neg a x; copy y a", "alloc abs copy neg copy"),
        (
            "alloc a; abs a x; view v a 4; view u x 4; neg v u; copy y a",
            "alloc abs tensorview tensorview neg copy",
        ),
        # What is shown is written, each time.
        ("neg y x; abs y x", "neg abs"),
        ("view v y 4; view u x 4; neg v u", "tensorview tensorview neg"),
        # Views that nobody reads, or only what goes.
        ("view v x 4; neg y x", "neg"),
        ("alloc a 4; view v x 4; abs a v; neg y x", "neg"),
        ("alloc a; neg y x", "neg"),
        # Transfers and loops stay, with what they read.
        ("alloc a; start a x; wait a; neg y x", "alloc start_copy wait neg"),
        ("alloc a; alloc b; abs b x; start a b; wait a; neg y x", "alloc alloc abs start_copy wait neg"),
        ("alloc a; abs a x; for neg y a", "alloc abs for"),
        ("alloc a; abs a x; neg a x; for neg y a", "alloc neg for"),
    ],
)
def test_stores_that_nobody_reads(text: str, left: str) -> None:
    """They go with their buffers, and the weights that nothing uses."""
    lines = [line.strip() for line in text.split(";")]
    module = program(lines)
    function = instr_function(module, "main")
    before = sum(isinstance(op, InstrOp) for op in function.block.ops if op.name != "glow_instr.dealloc")
    removed = dead_stores.eliminate(function)
    check(module, lines)
    names = [op.name.removeprefix("glow_instr.") for op in function.block.ops]
    assert [n for n in names if n not in ("weight", "dealloc")] == left.split()
    assert names.count("dealloc") == left.split().count("alloc")
    instructions = [n for n in left.split() if n not in ("alloc", "tensorview", "for")]
    assert removed == before - len(instructions)
    assert all(w.result.first_use is not None for w in function.weights())


def random_lines(seed: int) -> list[str]:
    """Instructions on buffers and views that have been written, results anywhere."""
    draw = random.Random(seed)
    lines: list[str] = []
    sizes, base = dict.fromkeys(WEIGHTS, 8), {name: name for name in WEIGHTS}
    ready = {"x", "s"}
    for number in range(16):
        word = draw.choice(["neg", "copy", "copy", "copy", "add", "sub", "flip"])
        known = [n for n in sizes if base[n] in ready]
        if draw.random() < 0.3:
            source = draw.choice(known)
            size = draw.choice([4, 8])
            if size <= sizes[source]:
                name, at = f"v{number}", draw.choice([0, sizes[source] - size])
                lines.append(f"view {name} {source} {size} {at}")
                sizes[name], base[name] = size, base[source]
                known.append(name)
        if draw.random() < 0.6:
            name = f"a{number}"
            sizes[name], base[name] = draw.choice([4, 8, 8, 8]), name
            lines.append(f"alloc {name} {sizes[name]}")
            result = name
        else:  # of those that are not written yet only the whole
            result = draw.choice(
                [n for n in sizes if n != "x" and base[n] != "x" and (n == base[n] or base[n] in ready)]
            )
        fitting = [n for n in known if sizes[n] == sizes[result] and base[n] != base[result]]
        if word in ("neg", "add", "sub") and result in known and draw.random() < 0.3:
            fitting = [result]  # in place
        if not fitting:
            continue
        count = 2 if word in ("add", "sub") else 1
        if fitting == [result]:
            others = [n for n in known if sizes[n] == sizes[result] and base[n] != base[result]]
            operands = [result, *([draw.choice(others)] if others else [])][:count]
            if len(operands) < count:
                continue
        else:
            operands = [draw.choice(fitting) for _ in range(count)]
        lines.append(" ".join([word, result, *operands]))
        ready.add(base[result])
    return lines


def both(function: InstrFuncOp) -> int:
    """All passes, one after another."""
    shrink(function.block)
    return sum(
        step(function) for step in (dead_stores.eliminate, eliminate_copies.eliminate, share_buffers.share)
    )


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed: int) -> None:
    """Each pass by itself, and all, keep what the program shows."""
    for number in range(4 * seed, 4 * seed + 4):
        lines = random_lines(number)
        for step in (eliminate_copies.eliminate, share_buffers.share, dead_stores.eliminate, both):
            module = program(lines)
            step(instr_function(module, "main"))
            check(module, lines)
