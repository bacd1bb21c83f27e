"""Kernels that are described as nests: their meaning, their expansion and the machine, beside NumPy."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from xdsl.parser import Parser

import glow_compiler as glow
from glow_backends.cpu.backend import CpuBackend
from glow_backends.cpu.emit.integer import Requantize
from glow_backends.cpu.kernels.gemm.contractions import emit_product, folded, product_scratch, schedule_of
from glow_backends.cpu.kernels.gemm.gemm_int8 import Int8GemmSpec, emit_gemm_int8, pack_int8_gemm
from glow_backends.cpu.lower.contraction import emit_contraction
from glow_backends.cpu.lower.rooms import rooms_of
from glow_backends.cpu.standalone import StandaloneKernel, aligned
from glow_backends.cpu.target import CpuTarget, host, named
from glow_backends.nests.finish import Finish
from glow_backends.nests.instructions import instruction, instructions
from glow_backends.nests.meaning import run_kernel
from glow_backends.nests.products import Product, describe, pack_columns, shapes_of
from glow_backends.nests.schedule import Schedule, ScheduleAttr
from glow_dialects.core.element_types import by
from glow_tools.context import tool_context

SHAPES = [(1, 1, 1), (5, 7, 9), (33, 40, 70), (17, 3, 130), (64, 64, 64)]
"""Rests of rows, of columns and of the depth of every kind, and none."""
AVX2 = named("haswell")
TARGETS = {"host": host(), "no-tiles": replace(host(), has_amx=False), "avx2": AVX2, "threads": host(2)}
UNITS = {
    "fma.f64": Schedule("fma.f64", 8, 4, 2),
    "fma.f64 as it lies": Schedule("fma.f64", 8, 8, 3, pack_b=False),
    "fma.f32": Schedule("fma.f32", 16, 6, 4),
    "muladd.i32": Schedule("muladd.i32", 16, 4, 2),
    "muladd.i64": Schedule("muladd.i64", 8, 4, 2, pack_b=False),
    "dot4.u8s8": Schedule("dot4.u8s8", 16, 4, 2, pack_a=True),
    "tile.s8s8": Schedule("tile.s8s8", 16, 2, 2, pack_a=True),
    "tile.u8s8": Schedule("tile.u8s8", 16, 1, 2, pack_a=True),
    "tile.s8u8": Schedule("tile.s8u8", 16, 2, 1, pack_a=True),
    "tile.u8u8 in parts": Schedule("tile.u8u8", 16, 2, 2, pack_a=True, shares=(2, 3)),
}


def numbers(kind: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Random elements of a type: all bytes, and integers whose sums stay exact."""
    rng, dtype = np.random.default_rng(seed), by("short")[kind].dtype
    if dtype.kind == "f":
        return rng.normal(size=shape).astype(dtype)
    low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.itemsize == 1 else (-9999, 9999)
    return rng.integers(low, high + 1, shape).astype(dtype)


def operands(p: Product) -> tuple[np.ndarray, np.ndarray]:
    """Random a and b."""
    return numbers(p.a, (*p.a_batch, p.m, p.k), 0), numbers(p.b, (*p.b_batch, p.k, p.n), 1)


def expected(p: Product, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product, by NumPy."""
    if p.sums.startswith("i"):
        return np.matmul(a.astype(np.int64) - p.a_zero, b.astype(np.int64) - p.b_zero)
    return np.matmul(a.astype(np.longdouble), b.astype(np.longdouble))


def _emitted(module: ir.Module, name: str, spec: Any, target: CpuTarget) -> ir.Function:
    kernel, shapes = spec
    return emit_contraction(module, name, kernel, shapes, target)


def machine(p: Product, s: Schedule, target: CpuTarget, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The result of the code of a schedule."""
    kernel = describe(p, s)
    kernel.verify()
    code = StandaloneKernel(_emitted, (kernel, shapes_of(p, s)), target)
    y = aligned(np.zeros((*p.batch, p.m, p.n), by("short")[p.out].dtype))
    room = sum(rooms_of(kernel).bytes(s, p.m, p.k))
    code(y, aligned(a), aligned(b), aligned(np.full(max(1, target.threads * room), 0xFF, np.uint8)))
    return y


def check(y: np.ndarray, want: np.ndarray, depth: int) -> None:
    """Integers are equal; floats are as near as sums of so many products are."""
    if y.dtype.kind in "iu":
        np.testing.assert_array_equal(y, want)
    else:
        limit = np.finfo(y.dtype).eps * 8 * depth**0.5
        np.testing.assert_allclose(y, want.astype(y.dtype), atol=limit, rtol=limit)


def product_of(s: Schedule, shape: tuple[int, int, int], signs: str = "", **more: object) -> Product:
    """A product of what an instruction takes; of bytes with other signs where these are told."""
    unit = s.unit
    a, b = (signs[:2], signs[2:]) if signs else (unit.a, unit.b)
    return Product(*shape, a, b, unit.c, **more)  # pyright: ignore[reportArgumentType]


def runs(s: Schedule) -> Schedule:
    """The schedule where this machine has the unit, else with its meaning in plain code."""
    return replace(s, expand=s.expand or (s.unit.is_tile and not host().has_amx))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", UNITS)
def test_products_of_every_instruction(name: str, shape: tuple[int, int, int]) -> None:
    s = runs(UNITS[name])
    p = product_of(s, shape)
    a, b = operands(p)
    check(machine(p, s, host(), a, b), expected(p, a, b), p.k)


@pytest.mark.parametrize("name", ["tile.s8s8", "dot4.u8s8"])
@pytest.mark.parametrize("signs", ["i8i8", "u8i8", "i8u8", "u8u8"])
@pytest.mark.parametrize("zeros", [(0, 0), (3, -7), (0, 5)], ids=str)
def test_bytes_of_any_sign_and_zero_point(name: str, signs: str, zeros: tuple[int, int]) -> None:
    """An instruction of other signs takes shifted bytes; sums of rows and columns make up for it."""
    s = runs(UNITS[name])
    p = product_of(s, (33, 40, 70), signs, a_zero=zeros[0], b_zero=zeros[1])
    a, b = operands(p)
    check(machine(p, s, host(), a, b), expected(p, a, b), p.k)


@pytest.mark.parametrize("name", [n for n in UNITS if n.startswith("tile")])
@pytest.mark.parametrize("shape", [(5, 7, 9), (33, 40, 70)], ids=str)
def test_expansion_is_the_machine(name: str, shape: tuple[int, int, int]) -> None:
    s = replace(UNITS[name], expand=True)
    p = product_of(s, shape)
    a, b = operands(p)
    y = machine(p, s, host(), a, b)
    np.testing.assert_array_equal(y, expected(p, a, b))
    if host().has_amx:
        np.testing.assert_array_equal(y, machine(p, UNITS[name], host(), a, b))


@pytest.mark.parametrize("name", UNITS)
def test_meaning_is_numpys(name: str) -> None:
    """The description alone, run by NumPy, with a batch that broadcasts and zero points of bytes."""
    s = UNITS[name]
    zeros = {"a_zero": 3, "b_zero": -7} if s.unit.group == 4 else {}
    p = product_of(s, (5, 18, 9), "i8u8" if zeros else "", a_batch=(2, 1), b_batch=(1, 3), **zeros)
    a, b = operands(p)
    y = np.zeros((*p.batch, p.m, p.n), by("short")[p.out].dtype)
    kernel = describe(p, s)
    run_kernel(kernel, [y, a, b])
    check(y, expected(p, a, b), p.k)
    check(machine(p, runs(s), host(), a, b), y, p.k)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "p",
    [
        Product(33, 40, 70, "f64", "f64", "f64"),
        Product(3, 40, 70, "f64", "f64", "f64", (2, 1), (3,)),
        Product(7, 9, 33, "i64", "i64", "i64", (4,)),
        Product(40, 33, 70, "i8", "u8", "i32", a_zero=2, b_zero=9),
        Product(2, 33, 70, "i8", "i8", "i32"),
        Product(40, 20, 64, "u8", "i8", "f32", finish=Finish(factor="all")),
        Product(40, 20, 64, "u8", "i8", "u8", finish=Finish(True, "column", True)),
    ],
    ids=str,
)
def test_chosen_schedules(target: str, p: Product) -> None:
    """What the rules choose for a processor, with every finish."""
    made, p = TARGETS[target], folded(p)
    a, b = operands(p)
    rng, f = np.random.default_rng(2), p.finish
    factor = rng.uniform(1e-3, 2e-3, p.n if f.factor == "column" else 1).astype(np.float32)
    bias, limits = rng.integers(-99, 99, p.n).astype(np.int32), np.array([-3, 140, 3], np.float32)
    extras = [v for v, used in ((bias, f.bias), (factor, f.factor), (limits, f.limits)) if used]
    y = aligned(np.zeros((*p.batch, p.m, p.n), by("short")[p.out].dtype))
    room = np.full(max(1, product_scratch(p, made)), 0xFF, np.uint8)
    StandaloneKernel(emit_product, p, made)(y, *map(aligned, (a, b, *extras, room)))
    want = expected(p, a, b) + (bias if f.bias else 0)
    if f.factor:
        want = want.astype(np.float32) * factor
    if f.limits:
        want = np.clip(np.rint(np.clip(want, *limits[:2])) + limits[2], 0, 255).astype(np.uint8)
    check(y, want, p.k if not f.factor else 1)
    own = np.zeros_like(y)
    if made is TARGETS["host"]:
        run_kernel(describe(p, schedule_of(p, made)), [own, a, b, *extras])
        check(y, own, p.k if not f.factor else 1)


def test_integers_wrap() -> None:
    p, s = Product(3, 5, 7, "i32", "i32", "i32"), UNITS["muladd.i32"]
    a, b = (
        np.random.default_rng(i).integers(-(2**31), 2**31, n).astype(np.int32)
        for i, n in ((0, (3, 7)), (1, (7, 5)))
    )
    np.testing.assert_array_equal(machine(p, s, host(), a, b), a @ b)


@pytest.mark.parametrize("name", ["dot2.bf16", "tile.bf16"])
def test_fused_sums_round_once(name: str) -> None:
    """The meaning of an instruction is that of exact sums where these are representable."""
    rng = np.random.default_rng(0)
    bf16 = by("short")["bf16"].dtype
    a, b = (rng.integers(-8, 9, n).astype(np.float32).astype(bf16) for n in ((3, 8), (8, 4)))
    y = instruction(name).meaning(np.zeros((3, 4), np.float32), a, b)
    np.testing.assert_array_equal(y, a.astype(np.float64) @ b.astype(np.float64))


def test_a_schedule_is_text() -> None:
    for s in UNITS.values():
        text = str(ScheduleAttr(s))
        assert Parser(tool_context(everything=True), text).parse_attribute() == ScheduleAttr(s)
        assert hash(s) == hash(replace(s))


def test_instructions_have_what_describing_needs() -> None:
    for name, unit in instructions().items():
        assert unit.name == name
        assert unit.k % unit.group == 0
        assert (unit.m > 1) == unit.is_tile == bool(unit.permission)


@glow.jit
def _doubles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a @ b


@pytest.mark.parametrize("shape", [(1, 9, 5), (30, 70, 40), (65, 3, 1)], ids=str)
def test_functions_multiply_doubles(shape: tuple[int, int, int]) -> None:
    """One function, any numbers of rows, columns and products."""
    m, k, n = shape
    a, b = numbers("f64", (m, k), 0), numbers("f64", (k, n), 1)
    check(_doubles(a, b), a @ b, k)


@pytest.mark.parametrize("target", ["host", "threads"])
@pytest.mark.parametrize("sign", ["u8", "i8"])
@pytest.mark.parametrize("shape", [(9, 20, 64), (33, 100, 70), (64, 32, 130)], ids=str)
def test_tiles_give_what_vectors_give(shape: tuple[int, int, int], sign: str, target: str) -> None:
    """A quantised layer with known weights: the bytes of today's kernel, by the packed panels of tiles."""
    made, (m, n, k) = TARGETS[target], shape
    x, w = numbers(sign, (m, k), 0), numbers("i8", (k, n), 1)
    rng = np.random.default_rng(2)
    bias, factor = rng.integers(-99, 99, n).astype(np.int32), rng.uniform(1e-4, 1e-2, n).astype(np.float32)
    requantize = Requantize(3, 0, 250)
    own = Int8GemmSpec(m, n, k, sign == "i8", requantize.form)
    start = bias - 128 * w.astype(np.int32).sum(0, dtype=np.int32) if sign == "i8" else bias
    reach = np.zeros(8 * made.lanes, np.int32)
    before, after = (aligned(np.zeros((m, n), np.uint8)) for _ in range(2))
    tables = (
        np.concatenate([start, reach]),
        requantize.table(np.concatenate([factor, reach.astype(np.float32)])),
    )
    StandaloneKernel(emit_gemm_int8, own, made)(
        before, aligned(x), aligned(pack_int8_gemm(w, own, made)), *map(aligned, tables)
    )
    p = Product(m, n, k, sign, "i8", "u8", packed=True, finish=Finish(True, "column", True))
    panels = pack_columns(w, schedule_of(p, made))
    room = np.full(max(1, product_scratch(p, made)), 0xFF, np.uint8)
    extras = panels, bias, factor, requantize.limits, room
    StandaloneKernel(emit_product, p, made)(after, aligned(x), *map(aligned, extras))
    np.testing.assert_array_equal(before, after)


def test_a_process_asks_for_tiles_itself() -> None:
    """A backend that comes from a process with tiles has none where they are refused."""
    backend = CpuBackend()
    sent = pickle.loads(pickle.dumps(backend))
    assert sent.target == backend.target
    refused = "import glow_backends.cpu.permission as p\np.tiles_allowed = lambda: False\n"
    code = f"{refused}import pickle, sys\nprint(pickle.load(sys.stdin.buffer).target.has_amx)"
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(backend), capture_output=True, check=True
    )
    assert done.stdout.split() == [b"False"]


def test_what_code_on_tiles_needs() -> None:
    """A saved program says so: where tiles are missing or refused it is not started."""
    tiled, plain = (replace(TARGETS["host"], triple="x86_64", has_amx=has) for has in (True, False))
    assert {*tiled.needs} - {*plain.needs} == {"amx-bf16", "amx-int8"}
    assert not any(feature.startswith("amx") for feature in plain.needs)


def test_code_for_others_asks_for_nothing() -> None:
    """Files that are compiled ahead of time run where nobody asks the system for tiles."""
    assert not replace(host(), has_amx=True).freely.has_amx


# --- rounded factors --------------------------------------------------------------------------------------
ROUNDED = {
    "tile.bf16": Schedule("tile.bf16", 16, 2, 2, pack_a=True),
    "tile.bf16 expanded": Schedule("tile.bf16", 16, 2, 2, pack_a=True, expand=True),
    "dot2.bf16": Schedule("dot2.bf16", 16, 8, 1, pack_a=True),
}


@pytest.mark.parametrize("shape", [(8, 7, 9), (32, 40, 70), (16, 33, 200)], ids=str)
@pytest.mark.parametrize("name", ROUNDED)
def test_products_of_bfloat16_are_what_the_instruction_says(name: str, shape: tuple[int, int, int]) -> None:
    """Bit for bit: which products are added first, and when a sum is rounded."""
    s = runs(ROUNDED[name])
    unit, p = s.unit, Product(*shape, "f32", "f32", "f32")
    a, b = operands(p)
    rest, bf16 = -p.k % unit.k, by("short")["bf16"].dtype
    x, w = np.pad(a.astype(bf16), ((0, 0), (0, rest))), np.pad(b.astype(bf16), ((0, rest), (0, 0)))
    want = np.zeros((p.m, p.n), np.float32)
    for k in range(0, p.k, unit.k):
        want = unit.meaning(want, x[:, k : k + unit.k], w[k : k + unit.k])
    np.testing.assert_array_equal(machine(p, s, host(), a, b), want)


@pytest.mark.parametrize("shape", [(9, 17, 33), (40, 33, 1300)], ids=str)
def test_three_products_of_bfloat16(shape: tuple[int, int, int]) -> None:
    """Errors of some 2**-17 of the factors; long sums go in slices. The description says the same."""
    s = runs(Schedule("tile.bf16x3", 16, 2, 2, pack_a=True))
    p = Product(*shape, "f32", "f32", "f32")
    a, b = operands(p)
    y, want = machine(p, s, host(), a, b), a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(y - want).max() <= 3 * 2.0**-17 * np.sqrt(p.k)
    if p.k < 100:
        own = np.zeros_like(y)
        run_kernel(describe(p, s), [own, a, b])
        np.testing.assert_allclose(own, y, atol=1e-6 * p.k, rtol=0)


def test_infinities_and_nan_stay_where_they_are() -> None:
    """Rests that are filled up make no NaN of others. (Three products make NaN of infinite factors.)"""
    p = Product(20, 20, 40, "f32", "f32", "f32")
    a, b = (np.abs(v) + np.float32(0.5) for v in operands(p))
    a[3, 39], a[7, 0], b[5, 19] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        want = a @ b
    for name in ("tile.bf16", "dot2.bf16"):
        s = runs(Schedule(name, 16, 2, 2, pack_a=True))
        y = machine(p, s, host(), a, b)
        np.testing.assert_array_equal(np.isnan(y), np.isnan(want))
        np.testing.assert_array_equal(np.isposinf(y), np.isposinf(want))
        np.testing.assert_array_equal(np.isneginf(y), np.isneginf(want))
    y = machine(p, runs(Schedule("tile.bf16x3", 16, 2, 2, pack_a=True)), host(), a, b)
    np.testing.assert_array_equal(np.isfinite(y), np.isfinite(want))


def layer(rows: int) -> tuple[glow.GraphBuilder, dict[str, np.ndarray], np.ndarray]:
    """A layer with a bias, a residual and a gate; its inputs, and its result in double precision."""
    x, w, e = numbers("f32", (rows, 100), 0), numbers("f32", (100, 70), 1) / 10, numbers("f32", (rows, 70), 2)
    g = glow.GraphBuilder()
    total = g.add(g.matmul(g.placeholder("x", x.shape), g.constant(w, "w")), g.constant(e[0], "c"))
    g.save(g.relu(g.add(total, g.placeholder("e", e.shape))), "y")
    return g, {"x": x, "e": e}, np.maximum(x.astype(np.float64) @ w + e[0] + e, 0)


@pytest.mark.parametrize(("precision", "error"), [("float32", 1e-6), ("fast", 3e-5), ("bf16", 2e-2)])
@pytest.mark.parametrize("rows", [1, 9, 37])
def test_precision_is_a_choice(precision: str, error: float, rows: int) -> None:
    g, feed, want = layer(rows)
    net = glow.compile(g, precision=precision)
    got = net.run(feed)["y"]
    assert np.abs(got - want).max() <= error * np.abs(want).max()
    note = net.report().notes.get("precision", "")
    assert note.startswith(precision) == (precision != "float32")
    if precision == "bf16":
        assert "1 layers by" in note
        assert np.abs(got - want).max() > 1e-4 * np.abs(want).max()


def test_unknown_precision_is_told() -> None:
    with pytest.raises(glow.GlowError, match="precision='half' is none; there are: float32, fast, bf16"):
        glow.compile(layer(1)[0], precision="half")


@pytest.mark.parametrize("precision", ["fast", "bf16"])
@pytest.mark.parametrize("target", TARGETS)
def test_precision_on_every_processor(target: str, precision: str) -> None:
    """`bf16` rounds factors wherever it runs, `fast` has tiles or float32."""
    made = replace(TARGETS[target], precision=precision)
    if made.has_amx and not host().has_amx:
        pytest.skip("no tiles here")
    p = Product(33, 20, 41, "f32", "f32", "f32")
    a, b = operands(p)
    y = aligned(np.zeros((p.m, p.n), np.float32))
    room = np.full(max(1, product_scratch(p, made)), 0xFF, np.uint8)
    StandaloneKernel(emit_product, p, made)(y, *map(aligned, (a, b, room)))
    bf16 = by("short")["bf16"].dtype
    left, right = ((v.astype(bf16) if precision == "bf16" else v).astype(np.float64) for v in (a, b))
    np.testing.assert_allclose(y, left @ right, atol=3e-4 if precision == "fast" else 1e-5, rtol=0)


@pytest.mark.parametrize("signs", ["i8i8", "u8i8", "i8u8", "u8u8"])
def test_room_is_what_the_description_needs(signs: str) -> None:
    """Bytes of scratch are told without describing the kernel."""
    for made in (host(), TARGETS["no-tiles"], AVX2):
        for k, packed in ((64, False), (70, False), (70, True)):
            p = product_of(
                UNITS["dot4.u8s8"], (40, 20, k), signs, a_zero=3, packed=packed and signs[2:] == "i8"
            )
            s = schedule_of(p, made)
            assert product_scratch(p, made) == sum(rooms_of(describe(p, s)).bytes(s, p.m, p.k))
