"""What glow-compile writes beside an object: libraries, linked weights, functions, threads, modules."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from bundles import build, needs_cc, network
from commands import refused, run
from onnx import helper

import glow_compiler as glow
from glow_tools import compile as compile_command
from glow_tools import compile_wasm

needs_cmake = pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake")
needs_valgrind = pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind")
needs_node = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("wasm-ld")), reason="no node or no wasm-ld"
)


def compiled(path: Path, folder: Path, *options: object) -> None:
    """Run glow-compile, which must succeed."""
    done = run(compile_command.main, path, "-o", folder, *options)
    assert done.status == 0, done


@needs_cc
@pytest.mark.parametrize("weights", ["embed", "c"])
def test_linked_weights(tmp_path: Path, weights: str) -> None:
    """Weights in the object, or as C source, give the same results without a file."""
    compiled(network(tmp_path), tmp_path, "--weights", weights)
    assert not (tmp_path / "net.weights").exists()
    extra = ["net_weights.c"] if weights == "c" else []
    program = build(tmp_path, "net_example.c", "net.o", *extra)
    x = np.random.default_rng(1).standard_normal((1, 3, 9, 9)).astype(np.float32)
    x.tofile(tmp_path / "x.bin")
    subprocess.run([str(program), "x.bin"], cwd=tmp_path, check=True)
    got = np.fromfile(tmp_path / "probabilities.out", np.float32)
    expected = glow.compile(network(tmp_path), backend="interpreter").run({"x": x})["probabilities"]
    np.testing.assert_allclose(got, expected[0], rtol=1e-4, atol=1e-6)


@needs_cc
def test_other_weights_are_refused(tmp_path: Path) -> None:
    """A file of the right size whose contents are not those that the code was compiled with."""
    compiled(network(tmp_path), tmp_path)
    program = build(tmp_path, "net_example.c", "net.o")
    data = bytearray((tmp_path / "net.weights").read_bytes())
    data[100] ^= 1
    (tmp_path / "other").write_bytes(bytes(data))
    done = subprocess.run([str(program), "other"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "not the weights that this program was compiled with" in done.stderr


@needs_cc
def test_pointers_are_checked(tmp_path: Path) -> None:
    """Missing and unaligned pointers are told by the header's check."""
    compiled(network(tmp_path), tmp_path)
    (tmp_path / "check.c").write_text(
        '#include "net.h"\n'
        "static _Alignas(64) char memory[256];\n"
        "int main(void) {\n"
        "  void *tensors[NET_TENSORS] = {memory, memory + 64};\n"
        "  int right = net_pointers_right(tensors, memory, memory + 128);\n"
        "  int arena = net_pointers_right(tensors, memory, memory + 8);\n"
        "  tensors[1] = memory + 4;\n"
        "  int tensor = net_pointers_right(tensors, memory, memory + 128);\n"
        "  tensors[1] = 0;\n"
        "  int none = net_pointers_right(tensors, memory, memory + 128);\n"
        "  return !(right && !arena && !tensor && !none);\n"
        "}\n"
    )
    subprocess.run([str(build(tmp_path, "check.c", "net.o"))], check=True)


@needs_cc
def test_a_table_of_shapes(tmp_path: Path) -> None:
    """A name given again begins another set of shapes: a function of its own, of the same weights."""
    compiled(onnx_network(tmp_path), tmp_path / "one", "--shape", "x=1x3x8x8")
    compiled(onnx_network(tmp_path), tmp_path, "--shape", "x=1x3x8x8", "--shape", "x=4x3x8x8")
    one, two = (p.stat().st_size for p in (tmp_path / "one/net.weights", tmp_path / "net.weights"))
    assert one <= two < 2 * one
    (tmp_path / "main.c").write_text(TABLE)
    program = build(tmp_path, "main.c", "net.o")
    x = np.random.default_rng(0).standard_normal((4, 3, 8, 8)).astype(np.float32)
    x.tofile(tmp_path / "x.bin")
    subprocess.run([str(program)], cwd=tmp_path, check=True)
    expected = glow.compile(onnx_network(tmp_path), backend="interpreter").run({"x": x})["y"]
    for number, rows in ((1, 1), (2, 4)):
        got = np.fromfile(tmp_path / f"y{number}.bin", np.float32).reshape(rows, -1)
        np.testing.assert_allclose(got, expected[:rows].reshape(rows, -1), rtol=1e-4, atol=1e-5)


TABLE = """
#include <stdio.h>
#include <string.h>
#include "net.h"
static _Alignas(64) char weights[NET_WEIGHT_BYTES], arena[NET_ARENA_BYTES + NET_2_ARENA_BYTES];
static _Alignas(64) float x[4 * 3 * 8 * 8], y[4 * 4 * 8 * 8];
static void load(const char *path, void *to, size_t bytes) {
  FILE *file = fopen(path, "rb");
  if (!file || fread(to, 1, bytes, file) != bytes) __builtin_trap();
  fclose(file);
}
static void save(const char *path, size_t bytes) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(y, 1, bytes, file) != bytes) __builtin_trap();
  fclose(file);
}
int main(void) {
  load("net.weights", weights, sizeof weights);
  load("x.bin", x, sizeof x);
  void *tensors[2];
  for (int i = 0; i < 2; ++i) {  /* by name: the dynamic interface */
    tensors[i] = strcmp(net_tensors[i].name, "x") ? (void *)y : (void *)x;
    if (net_tensors[i].shape[0] != 1 || net_2_tensors[i].shape[0] != 4) return 1;
  }
  net(tensors, weights, arena);
  save("y1.bin", sizeof y / 4);
  net_2(tensors, weights, arena);
  save("y2.bin", sizeof y);
  return 0;
}
"""


def onnx_network(folder: Path) -> Path:
    """A convolution of any batch in an ONNX file."""
    w = np.random.default_rng(3).standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 4, 8, 8])],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@needs_cc
def test_threads_of_the_host(tmp_path: Path) -> None:
    """A callback of the host runs the workers; no runtime of ours is linked."""
    compiled(network(tmp_path, channels=64), tmp_path, "--threads", "3")
    command = ["cc", "-O1", "-std=c11", "-pthread", "net_example.c", "net.o", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    x = np.random.default_rng(1).standard_normal((1, 3, 9, 9)).astype(np.float32)
    x.tofile(tmp_path / "x.bin")
    expected = glow.compile(network(tmp_path, channels=64), backend="interpreter").run({"x": x})
    for _ in range(20):
        subprocess.run([str(tmp_path / "program"), "net.weights", "x.bin"], cwd=tmp_path, check=True)
        got = np.fromfile(tmp_path / "probabilities.out", np.float32).reshape(1, 5)
        np.testing.assert_allclose(got, expected["probabilities"], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@needs_cc
@needs_cmake
@pytest.mark.parametrize("weights", ["file", "embed", "c"])
def test_a_library_for_cmake(tmp_path: Path, weights: str) -> None:
    """A C++ program finds the library by CMake's find_package, and links it with its weights."""
    compiled(network(tmp_path), tmp_path / "bundle", "--emit", "library", "--weights", weights)
    if weights == "file":
        source = Path(__file__).parents[2] / "examples/cpp"
        lines = built(source, tmp_path, "classify").splitlines()
        x = np.ones((1, 3, 9, 9), np.float32)
        expected = glow.compile(network(tmp_path), backend="interpreter").run({"x": x})["probabilities"]
        name, *values = lines[0].split()
        assert name == "probabilities:"
        np.testing.assert_allclose([float(v) for v in values], expected[0], rtol=1e-4, atol=1e-5)
        return
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(app C CXX)\nfind_package(net REQUIRED)\n"
        "add_executable(app main.cpp)\ntarget_link_libraries(app net::net)\n"
    )
    (tmp_path / "main.cpp").write_text(
        '#include "net.h"\nint main() { return !net_weights_right(net_weights) || net == nullptr; }\n'
    )
    built(tmp_path, tmp_path, "app")


def built(source: Path, folder: Path, program: str) -> str:
    """What a program that CMake builds prints."""
    configure = ["cmake", "-S", str(source), "-B", "build", f"-Dnet_DIR={folder / 'bundle'}"]
    for command in (configure, ["cmake", "--build", "build"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    done = subprocess.run([f"build/{program}"], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@needs_cc
def test_pkg_config(tmp_path: Path) -> None:
    """What pkg-config says compiles and links."""
    if not shutil.which("pkg-config"):
        pytest.skip("no pkg-config")
    compiled(network(tmp_path), tmp_path, "--emit", "library")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "net"],
        env={"PKG_CONFIG_PATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    (tmp_path / "main.c").write_text('#include "net.h"\nint main(void) { return net == 0; }\n')
    subprocess.run(["cc", "main.c", *flags, "-o", "main"], cwd=tmp_path, check=True)
    subprocess.run([str(tmp_path / "main")], check=True)


LOOP = """
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
int main(void) {
  char *weights = aligned_alloc(64, (NET_WEIGHT_BYTES + 63) / 64 * 64);
  char *arena = aligned_alloc(64, (NET_ARENA_BYTES + 63) / 64 * 64);
  float *x = aligned_alloc(64, (NET_X_BYTES + 63) / 64 * 64);
  float *y = aligned_alloc(64, (NET_PROBABILITIES_BYTES + 63) / 64 * 64);
  FILE *file = fopen("net.weights", "rb");
  if (!file || fread(weights, 1, NET_WEIGHT_BYTES, file) != NET_WEIGHT_BYTES) return 1;
  fclose(file);
  for (size_t i = 0; i < NET_X_BYTES / sizeof *x; ++i) x[i] = (float)i;
  void *tensors[NET_TENSORS];
  tensors[NET_X] = x;
  tensors[NET_PROBABILITIES] = y;
  float sum = 0;
  for (int i = 0; i < 1000; ++i) {
    net(tensors, weights, arena);
    sum += y[i % 5];
  }
  printf("%s\\n", sum > 0 ? "run" : "nothing");  /* a branch on results: undefined ones are told */
  free(weights); free(arena); free(x); free(y);
  return 0;
}
"""


@pytest.mark.slow
@needs_cc
@needs_valgrind
def test_valgrind_finds_nothing(tmp_path: Path) -> None:
    """A thousand runs in memory of the very size that the header says."""
    compiled(network(tmp_path), tmp_path, "--target", "x86-64-v2" if _x86() else "host")
    (tmp_path / "loop.c").write_text(LOOP)
    program = build(tmp_path, "loop.c", "net.o")
    command = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_cc
def test_address_sanitizer_finds_nothing(tmp_path: Path) -> None:
    """The same with the C side built for AddressSanitizer."""
    compiled(network(tmp_path), tmp_path)
    (tmp_path / "loop.c").write_text(LOOP)
    command = ["cc", "-g", "-fsanitize=address,undefined", "loop.c", "net.o", "-o", "loop"]
    if subprocess.run(command, cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("no AddressSanitizer")
    done = subprocess.run([str(tmp_path / "loop")], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr


def _x86() -> bool:
    return platform.machine() in ("x86_64", "AMD64")


NODE = """
import { readFileSync } from "node:fs";
import { load } from "./out/net.mjs";
const data = readFileSync("x.bin");
const x = new Float32Array(data.buffer.slice(data.byteOffset, data.byteOffset + data.length));
const net = await load();
console.log(JSON.stringify(Array.from(net.run({ x }).probabilities)));
const refusals = [{ x: new Float32Array(3) }, { x: [1, 2] }, { y: x }, {}];
for (const inputs of refusals) {
  try { net.run(inputs); console.log("accepted"); } catch (error) { console.log(error.message); }
}
try { await load({ weights: new Uint8Array(4) }); } catch (error) { console.log(error.message); }
"""


@needs_node
@pytest.mark.parametrize("target", ["wasm32", "wasm32-scalar"])
@pytest.mark.parametrize("weights", ["file", "embed"])
def test_a_module_in_node(tmp_path: Path, target: str, weights: str) -> None:
    """The package of a WebAssembly module: results, refusals of wrong inputs and of other weights."""
    compiled(network(tmp_path), tmp_path / "out", "--target", target, "--weights", weights)
    x = np.random.default_rng(1).standard_normal((1, 3, 9, 9)).astype(np.float32)
    x.tofile(tmp_path / "x.bin")
    (tmp_path / "main.mjs").write_text(NODE)
    done = subprocess.run(["node", "main.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True)
    first, *messages = done.stdout.splitlines()
    expected = glow.compile(network(tmp_path), backend="interpreter").run({"x": x})["probabilities"]
    np.testing.assert_allclose(json.loads(first), expected[0], rtol=1e-4, atol=1e-6)
    wanted = "input 'x' must be a Float32Array of 243 (1x3x9x9)"
    assert messages[:4] == [wanted, wanted, "no input 'y'; there are: x", wanted]
    if weights == "file":
        assert messages[4] == "net: not the weights that this module was compiled with"
    package = json.loads((tmp_path / "out/package.json").read_text())
    assert set(package["files"]) | {"package.json"} == {p.name for p in (tmp_path / "out").iterdir()}


@needs_node
def test_halves_in_a_module(tmp_path: Path) -> None:
    """WebAssembly has no 16-bit floats: conversions as NumPy does them, of every half and between."""
    halves = np.arange(65536).astype(np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(invalid="ignore"):
        between = np.nextafter(halves, np.float32(np.inf)), (halves + np.roll(halves, 1)) / 2
    x = np.concatenate([halves, *between, np.array([1e-8, 65519.9, 65520, 1e9, -1e9], np.float32)])
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=onnx.TensorProto.FLOAT16),
        helper.make_node("Neg", ["h"], ["n"]),
        helper.make_node("Cast", ["n"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    ports = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, x.shape) for n in "xy"]
    graph = helper.make_graph(nodes, "halves", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "net.onnx")
    compiled(tmp_path / "net.onnx", tmp_path, "--target", "wasm32")
    x.tofile(tmp_path / "x.bin")
    (tmp_path / "main.mjs").write_text(
        'import { readFileSync, writeFileSync } from "node:fs";\n'
        'import { load } from "./net.mjs";\n'
        'const data = readFileSync("x.bin");\n'
        "const x = new Float32Array(data.buffer.slice(data.byteOffset, data.byteOffset + data.length));\n"
        'writeFileSync("y.bin", new Uint8Array((await load()).run({ x }).y.buffer));\n'
    )
    subprocess.run(["node", "main.mjs"], cwd=tmp_path, check=True)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = -x.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "y.bin", np.float32), expected)


def test_bad_targets(tmp_path: Path) -> None:
    """Unknown targets, CPUs and features are told before the model is read, and nothing is written."""
    model, out = tmp_path / "none.onnx", tmp_path / "o"
    for options, words in (
        (("--target", "pdp11"), ("pdp11", "cortex-m4")),
        (("--target", "pdp11-dec-none"), ("pdp11-dec-none",)),
        (("--target", "x86_64-unknown-linux-gnu", "--mcpu", "z80"), ("z80",)),
        (("--target", "cortex-a72", "--mattr", "+warp"), ("warp",)),
        (("--target", "cortex-a72", "--mattr", "neon"), ("write +neon or -neon",)),
        (("--target", "apple-m1", "--emit", "library"), ("ELF",)),
        (("--threads", "0"), ("threads",)),
    ):
        refused(run(compile_command.main, model, "-o", out, *options), *words)
    refused(run(compile_command.main, model, "-o", out, "--memory", "much"), "much", status=2)
    assert not out.exists()


def test_options_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What WebAssembly has not, and a missing linker."""
    model, out = network(tmp_path), tmp_path / "o"
    refused(run(compile_command.main, model, "-o", out, "--target", "wasm32", "--weights", "c"), "embedded")
    monkeypatch.setattr(compile_wasm, "_NAMES", ("no-such-linker",))
    refused(run(compile_command.main, model, "-o", out, "--target", "wasm32"), "wasm-ld", "lld")
    assert not out.exists()


def test_a_budget_of_memory(tmp_path: Path) -> None:
    """A model that needs more than the budget is refused with both figures."""
    model = network(tmp_path)
    refused(run(compile_command.main, model, "-o", tmp_path / "o", "--memory", "1K"), "1024", "net needs")
    compiled(model, tmp_path / "o", "--memory", "1M")


@pytest.mark.slow
def test_the_presets(tmp_path: Path) -> None:
    """Each preset is listed, and compiles the network."""
    from glow_backends.cpu.presets import PRESETS

    listed = run(compile_command.main, "--list-targets")
    assert listed.status == 0 and all(name in listed.output for name in PRESETS)
    model = network(tmp_path)
    for name in sorted(PRESETS.keys() - {n for n in PRESETS if n.startswith("wasm")}):
        compiled(model, tmp_path / name, "--target", name)


def test_a_triple_with_a_cpu_and_features(tmp_path: Path) -> None:
    """What is no preset: a triple of LLVM's, a CPU, features."""
    target = ("--target", "aarch64-unknown-linux-gnu", "--mcpu", "cortex-a55", "--mattr", "+fullfp16")
    compiled(network(tmp_path), tmp_path, *target)
    assert "aarch64-unknown-linux-gnu (cortex-a55)" in (tmp_path / "net.h").read_text()
