"""Programs with loops, strided views, memories and tokens: each backend runs them to the same numbers."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import pytest
from device_programs import ROWS, TILES
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import MemRefType, f32

import glow_compiler as glow
from glow_backends.base import get_backend
from glow_dialects.dialects import context
from glow_dialects.instr.memory import AllocOp, ViewOp
from glow_dialects.instr.regions import overlap
from glow_dialects.instr.strides import strided
from glow_dialects.parse import parse_module
from glow_passes.instr.unroll import UnrollPass
from glow_passes.pipeline import INSTR


def relu_of(text: str, backend: glow.Backend | str) -> None:
    """A program gives relu of its input."""
    net = glow.compile(parse_module(text, "program", context()), backend=backend)
    data = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)[: net.inputs[0].shape[0]]
    np.testing.assert_array_equal(net.run({"x": data})["y"], np.maximum(data, 0))


@pytest.mark.parametrize("text", [TILES, ROWS])
@pytest.mark.parametrize("threads", [1, 2])
def test_cpu(text: str, threads: int) -> None:
    relu_of(text, get_backend("cpu", threads=threads))


@pytest.mark.parametrize("text", [TILES, ROWS])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("by", [None, 0, 1, 2, 3, 4])
def test_interpreter(text: str, late: bool, by: int | None) -> None:
    """Copies may be done when they start or when they are waited for; loops may be unrolled."""
    module = parse_module(text, "program", context())
    for item in (*([UnrollPass(by)] if by is not None else ()), *INSTR):
        item.apply(context(), module)
        module.verify()
    program = get_backend("interpreter", late=late, planned=True).compile(module)
    data = np.random.default_rng(0).standard_normal(program.inputs[0].shape).astype(np.float32)
    np.testing.assert_array_equal(program.run({"x": data})["y"], np.maximum(data, 0))


def test_late_shows_what_touches_a_copy_under_way() -> None:
    """A program that the verifier refuses gives other numbers where copies come late."""
    wait = "    glow_instr.wait @after %t : !glow_instr.token\n"
    text = ROWS.replace(wait, "").replace("    glow_instr.yield", f"{wait}    glow_instr.yield")
    module = parse_module(text, "program", context())
    inputs = {"x": np.arange(8 * 64, dtype=np.float32).reshape(8, 64)}
    early, late = (get_backend("interpreter", late=x).compile(module).run(inputs)["y"] for x in (False, True))
    assert not np.array_equal(early, late)


PARTS = st.tuples(
    st.integers(0, 6), st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), min_size=1, max_size=3)
)


@given(PARTS, PARTS)
def test_views_meet_where_their_elements_do(
    first: tuple[int, list[tuple[int, int]]], second: tuple[int, list[tuple[int, int]]]
) -> None:
    """`overlap` is exact for strided views."""
    buffer = AllocOp.of(MemRefType(f32, (128,))).result
    places: list[set[int]] = []
    views = []
    for offset, dims in (first, second):
        sizes, strides = zip(*dims, strict=True)
        views.append(ViewOp.of(buffer, strided(MemRefType(f32, sizes), strides), offset).result)
        steps = itertools.product(*(range(0, n * max(s, 1), max(s, 1)) if s else (0,) for n, s in dims))
        places.append({offset + sum(step) for step in steps})
        assert len(places[-1]) <= prod(sizes)
    assert overlap(*views) == bool(places[0] & places[1])
