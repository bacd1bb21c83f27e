"""glow-compile --size: bundles whose calls give the sizes of open dimensions."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from bundles import build, needs_cc, network
from commands import refused, run
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_backends.cpu.aot_sizes import shared
from glow_backends.cpu.open_sizes import Life
from glow_dialects.core.types import Array
from glow_frontends.builder import GraphBuilder
from glow_tools import compile as compile_command

needs_node = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("wasm-ld")), reason="no node or no wasm-ld"
)


def attention(folder: Path) -> Path:
    """Rows n of t tokens each: products of open sizes both ways, softmax, a mean over what is open."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((16, 16)).astype(np.float32) / 4
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Transpose", ["h"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["h", "turned"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["parts"], axis=-1),
        helper.make_node("MatMul", ["parts", "h"], ["mixed"]),
        helper.make_node("Relu", ["mixed"], ["y"]),
        helper.make_node("ReduceMean", ["y"], ["z"], axes=[1], keepdims=0),
    ]
    ports = {"x": ["n", "t", 16], "y": ["n", "t", 16], "z": ["n", 16]}
    x, *results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in ports.items()]
    graph = helper.make_graph(nodes, "net", [x], results, [numpy_helper.from_array(w, "w")])
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def compiled(path: Path, folder: Path, *options: object) -> None:
    """Run glow-compile, which must succeed, and leave no sizes out."""
    done = run(compile_command.main, path, "-o", folder, *options)
    assert done.status == 0, done
    assert "refuses" not in done.output, done


def data(path: Path, n: int, t: int) -> tuple[Array, dict[str, Array]]:
    """Random rows, and what the interpreter makes of them."""
    x = np.random.default_rng(n * 100 + t).standard_normal((n, t, 16)).astype(np.float32)
    return x, glow.compile(path, backend="interpreter").run({"x": x})


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("threads", [1, 2])
def test_sizes_in_c(tmp_path: Path, threads: int) -> None:
    """The example takes sizes from its caller, one row among them, and refuses others with a message."""
    path = attention(tmp_path)
    compiled(path, tmp_path, "--size", "n=1..4", "--size", "t=32..70", "--threads", threads)
    command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-std=c11", "-pthread"]
    subprocess.run([*command, "net_example.c", "net.o", "-lm", "-o", "net"], cwd=tmp_path, check=True)
    for n, t in ((1, 32), (2, 33), (4, 70)):
        x, expected = data(path, n, t)
        x.tofile(tmp_path / "x.bin")
        subprocess.run(["./net", "net.weights", str(n), str(t), "x.bin"], cwd=tmp_path, check=True)
        for name, value in expected.items():
            got = np.fromfile(tmp_path / f"{name}.out", np.float32).reshape(value.shape)
            np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5)
    for n, t in ((5, 40), (0, 40), (2, 71)):
        command = ["./net", "net.weights", str(n), str(t)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (1, "net: no code for these sizes\n")


def recurrence(folder: Path) -> Path:
    """h = tanh(x W + h U) over n rows, and h V of each."""
    rng = np.random.default_rng(0)
    weights = {n: rng.standard_normal(s).astype(np.float32) / 3 for n, s in SIDES.items()}
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["p"]),
            helper.make_node("MatMul", ["h", "u"], ["q"]),
            helper.make_node("Add", ["p", "q"], ["s"]),
            helper.make_node("Tanh", ["s"], ["h1"]),
            helper.make_node("MatMul", ["h1", "v"], ["y"]),
        ],
        "turn",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, k]) for n, k in (("h", 8), ("x", 5))],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, k]) for n, k in (("h1", 8), ("y", 3))],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    scan = helper.make_node("Scan", ["h0", "xs"], ["last", "ys"], body=body, num_scan_inputs=1)
    shapes: dict[str, list[int | str]] = {"h0": [2, 8], "xs": ["n", 2, 5], "last": [2, 8], "ys": ["n", 2, 3]}
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    graph = helper.make_graph([scan], "net", ports[:2], ports[2:])
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


SIDES = {"w": (5, 8), "u": (8, 8), "v": (8, 3)}


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("threads", [1, 2])
def test_loops_in_c(tmp_path: Path, threads: int) -> None:
    """A loop of as many turns as its caller says."""
    path = recurrence(tmp_path)
    compiled(path, tmp_path, "--size", "n=2..60", "--threads", threads)
    command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-std=c11", "-pthread"]
    subprocess.run([*command, "net_example.c", "net.o", "-lm", "-o", "net"], cwd=tmp_path, check=True)
    for n in (2, 9, 60):
        rng = np.random.default_rng(n)
        feed = {n: rng.standard_normal(s).astype(np.float32) for n, s in (("h0", (2, 8)), ("xs", (n, 2, 5)))}
        for name, array in feed.items():
            array.tofile(tmp_path / f"{name}.bin")
        inputs = ["net.weights", str(n), "h0.bin", "xs.bin"]
        subprocess.run(["./net", *inputs], cwd=tmp_path, check=True)
        for name, value in glow.compile(path, backend="interpreter").run(feed).items():
            got = np.fromfile(tmp_path / f"{name}.out", np.float32).reshape(value.shape)
            np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5)


BY_NAME = """
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
/* Knows the names "net", "x" and "t" only: the rest is looked up. */
static void *memory(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }
int main(void) {
  const glow_bundle *bundle = &net_bundle;
  const glow_function *f = bundle->functions;
  int64_t sizes[2], shapes[16], arena;
  if (bundle->abi != GLOW_BUNDLE_ABI || strcmp(f->name, "net") || f->size_count != 2) return 1;
  for (int i = 0; i < 2; ++i) sizes[i] = strcmp(f->sizes[i].name, "t") ? f->sizes[i].least : 40;
  if (f->plan(sizes, shapes, &arena) || (size_t)arena > f->arena_bytes) return 2;
  void *tensors[8];
  size_t bytes[8];
  const int64_t *shape = shapes;
  for (int i = 0; i < f->tensor_count; shape += f->tensors[i++].rank) {
    bytes[i] = glow_bytes(&f->tensors[i], shape);
    if (bytes[i] > f->tensors[i].bytes) return 3;
    tensors[i] = memory(bytes[i]);
    for (size_t k = 0; k < bytes[i] / 4; ++k) ((float *)tensors[i])[k] = (float)(k % 7) / 8;
  }
  glow_call call = {tensors, memory(bundle->weight_bytes), memory((size_t)arena), sizes, NULL, NULL};
  FILE *file = fopen("net.weights", "rb");
  if (!file || fread((void *)call.weights, 1, bundle->weight_bytes, file) != bundle->weight_bytes) return 4;
  fclose(file);
  for (int run = 0; run < 10; ++run) if (f->run(&call)) return 5;
  file = fopen("out", "wb");
  for (int i = 0; i < f->tensor_count; ++i) {
    if (!strcmp(f->tensors[i].kind, "output")) fwrite(tensors[i], 1, bytes[i], file);
    free(tensors[i]);
  }
  fclose(file);
  free((void *)call.weights);
  free(call.arena);
  sizes[0] = sizes[1] = 1000;
  return f->plan(sizes, shapes, &arena) == GLOW_SIZES ? 0 : 6;
}
"""


@needs_cc
def test_sizes_by_name(tmp_path: Path) -> None:
    """The table of a bundle: functions, tensors and sizes by name, in memory of the very size of the plan."""
    path = attention(tmp_path)
    compiled(path, tmp_path, "--size", "n=3..4", "--size", "t=32..70")
    (tmp_path / "main.c").write_text(BY_NAME)
    flags = ["-g", "-fsanitize=address,undefined"]
    if subprocess.run(["cc", *flags, "main.c", "net.o", "-lm", "-o", "main"], cwd=tmp_path).returncode:
        build(tmp_path, "main.c", "net.o").rename(tmp_path / "main")
    subprocess.run(["./main"], cwd=tmp_path, check=True)
    x = (np.arange(3 * 40 * 16, dtype=np.float32) % 7 / 8).reshape(3, 40, 16)
    expected = glow.compile(path, backend="interpreter").run({"x": x})
    wanted = np.concatenate([expected[n].ravel() for n in ("y", "z")])
    np.testing.assert_allclose(np.fromfile(tmp_path / "out", np.float32), wanted, rtol=1e-4, atol=1e-5)


NODE = """
import { readFileSync } from "node:fs";
import { load } from "./net.mjs";
const data = readFileSync("x.bin");
const x = new Float32Array(data.buffer.slice(data.byteOffset, data.byteOffset + data.length));
const net = await load();
for (const t of [70, 33]) {
  console.log(JSON.stringify(Array.from(net.run({ x: x.slice(0, 2 * t * 16) }, { n: 2, t }).z)));
}
for (const sizes of [{ n: 5, t: 40 }, { n: 2 }, { n: 2, t: 40 }]) {
  try { net.run({ x }, sizes); console.log("accepted"); } catch (error) { console.log(String(error)); }
}
"""


@needs_node
def test_sizes_in_a_module(tmp_path: Path) -> None:
    """JavaScript gives sizes beside the inputs."""
    path = attention(tmp_path)
    compiled(path, tmp_path, "--target", "wasm32", "--size", "n=2..4", "--size", "t=32..70")
    x, _ = data(path, 2, 70)
    x.tofile(tmp_path / "x.bin")
    (tmp_path / "main.mjs").write_text(NODE)
    done = subprocess.run(["node", "main.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True)
    *results, bound, missing, length = done.stdout.splitlines()
    net = glow.compile(path, backend="interpreter")
    for t, line in zip((70, 33), results, strict=True):
        expected = net.run({"x": x.ravel()[: 2 * t * 16].reshape(2, t, 16)})["z"]
        np.testing.assert_allclose(json.loads(line), expected.ravel(), rtol=1e-4, atol=1e-5)
    assert bound == "RangeError: no code for sizes n=5 (2 to 4), t=40 (32 to 70)"
    assert missing == "TypeError: size 't' must be an integer"
    assert length == "TypeError: input 'x' must be a Float32Array of 1280 (2x40x16)"


def test_what_cannot_be_open(tmp_path: Path) -> None:
    """Unknown names, dimensions without a size, bounds that are none, models of fixed shapes."""
    path, out = attention(tmp_path), tmp_path / "out"
    command = compile_command.main
    refused(run(command, path, "-o", out, "--size", "k=1..3"), "no open dimension of that name", "n, t")
    refused(run(command, path, "-o", out, "--size", "n=1..3"), "dimension 't' of input 'x' has no size")
    refused(run(command, path, "-o", out, "--size", "n=3..1"), "is not NAME=MIN..MAX", status=2)
    sizes = ["--size", "n=2..4", "--size", "t=33..100000"]
    refused(run(command, path, "-o", out, *sizes), "sizes, at most 65536", "closer bounds")
    fixed = network(tmp_path)
    refused(run(command, fixed, "-o", out, "--size", "n=1..3"), "no open dimension", "none")
    assert not out.exists()


def test_sizes_of_a_graph_of_text(tmp_path: Path) -> None:
    """Open sizes of `.mlir` files are arguments as those of ONNX models are."""
    g = GraphBuilder()
    g.save(g.relu(g.placeholder("x", (g.size("n", 1, 99), 4))), "y")
    glow.save(g, tmp_path / "open.mlir")
    out = tmp_path / "out"
    assert run(compile_command.main, tmp_path / "open.mlir", "-o", out, "--size", "n=1..9").status == 0
    assert '{"n", 1, 9}' in (out / "open.h").read_text()


def test_buffers_share_places() -> None:
    """Buffers that meet are apart; each of the others goes where one has been."""
    lives = [Life(0, 2, 100), Life(1, 3, 80), Life(2, 4, 90), Life(3, 5, 10), Life(0, 5, 1)]
    assert sorted(map(sorted, shared(lives))) == [[0, 2], [1, 3], [4]]
