"""Bundles of functions that share weights and states: inference beside training, encoder and decoder."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from bundles import build, needs_cc
from commands import run

import glow_compiler as glow
from glow_dialects.core.types import Array
from glow_tools import compile as compile_command

STEPS, RATE = 30, 0.1
needs_node = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("wasm-ld")), reason="no node or no wasm-ld"
)


def trained() -> tuple[glow.Trainer, Array, Array]:
    """A classifier after some steps, its momentum among the states, and what it learns."""
    rng = np.random.default_rng(0)
    g = glow.GraphBuilder()
    x = g.placeholder("x", (8, 6))
    first = g.constant(rng.standard_normal((6, 16)).astype(np.float32) / 3, "w1")
    second = g.constant(rng.standard_normal((16, 3)).astype(np.float32) / 3, "w2")
    h = g.relu(g.fully_connected(x, first, g.constant(np.zeros(16, np.float32), "b1")))
    g.save(g.fully_connected(h, second, g.constant(np.zeros(3, np.float32), "b2")), "y")
    trainer = glow.Trainer(g, optimizer=glow.optim.SGD(lr=RATE, momentum=0.9), backend="interpreter")
    inputs, labels = rng.standard_normal((8, 6)).astype(np.float32), np.arange(8) % 3
    for _ in range(3):
        trainer.step(inputs, labels)
    return trainer, inputs, labels


C = """
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
static void *memory(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }
static void load(const char *path, void *to, size_t bytes) {
  FILE *file = fopen(path, "rb");
  if (!file || fread(to, 1, bytes, file) != bytes) exit(1);
  fclose(file);
}
static void save(const char *path, const void *from, size_t bytes) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(from, 1, bytes, file) != bytes) exit(1);
  fclose(file);
}
int main(void) {
  char *weights = memory(NET_WEIGHT_BYTES);
  void *arena = memory(NET_STEP_ARENA_BYTES + NET_MAIN_ARENA_BYTES);
  load("net.weights", weights, NET_WEIGHT_BYTES);
  void *tensors[NET_STEP_TENSORS]; /* both functions have the same table */
  for (int i = 0; i < NET_STEP_TENSORS; ++i) {
    const glow_tensor *tensor = &net_step_tensors[i];
    if (strcmp(tensor->name, net_main_tensors[i].name)) return 2;
    tensors[i] = memory(tensor->bytes);
    if (tensor->initial >= 0) memcpy(tensors[i], weights + tensor->initial, tensor->bytes);
  }
  load("x.bin", tensors[NET_STEP_X], NET_STEP_X_BYTES);
  load("labels.bin", tensors[NET_STEP_TRAIN_LABELS], NET_STEP_TRAIN_LABELS_BYTES);
  *(float *)tensors[NET_STEP_TRAIN_LEARNING_RATE] = RATE;
  for (int i = 0; i < STEPS; ++i) {
    net_step(tensors, weights, arena);
    printf("%.9g\\n", (double)*(float *)tensors[NET_STEP_TRAIN_LOSS]);
  }
  net_main(tensors, weights, arena);
  save("y.out", tensors[NET_MAIN_Y], NET_MAIN_Y_BYTES);
  save("w1.out", tensors[NET_STEP_W1], NET_STEP_W1_BYTES);
  return 0;
}
"""


@needs_cc
def test_training_in_c(tmp_path: Path) -> None:
    """A step and the model in one object: losses, weights and answers are those of the trainer in Python."""
    trainer, inputs, labels = trained()
    glow.save(trainer.module(step=True), tmp_path / "net.mlir")
    assert run(compile_command.main, tmp_path / "net.mlir", "-o", tmp_path).status == 0
    inputs.tofile(tmp_path / "x.bin")
    labels.astype(np.int64).tofile(tmp_path / "labels.bin")
    (tmp_path / "main.c").write_text(C.replace("STEPS;", f"{STEPS};").replace("RATE;", f"{RATE}f;"))
    program = build(tmp_path, "main.c", "net.o")
    done = subprocess.run([str(program)], cwd=tmp_path, capture_output=True, text=True, check=True)
    losses = [float(line) for line in done.stdout.splitlines()]
    expected = [trainer.step(inputs, labels) for _ in range(STEPS)]
    assert losses[-1] < losses[0] / 2
    np.testing.assert_allclose(losses, expected, rtol=1e-3, atol=1e-5)
    weights = np.fromfile(tmp_path / "w1.out", np.float32).reshape(6, 16)
    np.testing.assert_allclose(weights, trainer.parameters()["w1"], rtol=1e-3, atol=1e-4)
    answers = np.fromfile(tmp_path / "y.out", np.float32).reshape(8, 3)
    np.testing.assert_allclose(answers, trainer.predict(inputs), rtol=1e-3, atol=1e-3)


NODE = """
import { load } from "./net.mjs";
const { x, labels, rate, steps } = JSON.parse(process.argv[2]);
const net = await load();
const { net_main: main, net_step: step } = net.functions;
const inputs = { x: Float32Array.from(x) };
const data = { ...inputs, "train.labels": BigInt64Array.from(labels, BigInt) };
for (let i = 0; i < steps; ++i) step.run({ ...data, "train.learning_rate": new Float32Array([rate]) });
console.log(JSON.stringify(Array.from(main.run(inputs).y)));
"""


@needs_node
def test_training_in_a_module(tmp_path: Path) -> None:
    """The functions of a module share its states, too."""
    trainer, inputs, labels = trained()
    glow.save(trainer.module(step=True), tmp_path / "net.mlir")
    assert run(compile_command.main, tmp_path / "net.mlir", "-o", tmp_path, "--target", "wasm32").status == 0
    (tmp_path / "main.mjs").write_text(NODE)
    facts = {"x": inputs.ravel().tolist(), "labels": labels.tolist(), "rate": RATE, "steps": STEPS}
    command = ["node", "main.mjs", json.dumps(facts)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    for _ in range(STEPS):
        trainer.step(inputs, labels)
    answers = np.reshape(json.loads(done.stdout), (8, 3))
    np.testing.assert_allclose(answers, trainer.predict(inputs), rtol=1e-3, atol=1e-3)


PAIR = """
glow.placeholder @x input : tensor<1x4xf32>
glow.placeholder @z input : tensor<1x4xf32>
glow.placeholder @code state : tensor<1x4xf32>
glow.placeholder @text output : tensor<1x4xf32>
glow.constant @w = dense<[[2.0, 0.0, 0.0, 1.0], [0.0, 3.0, 0.0, 0.0],
  [0.0, 0.0, 4.0, 0.0], [1.0, 0.0, 0.0, 5.0]]> : tensor<4x4xf32>
glow.func @encode {
  %x = glow.get @x : tensor<1x4xf32>
  %w = glow.get @w : tensor<4x4xf32>
  %h = glow.matmul %x, %w : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  glow.save %h to @code : tensor<1x4xf32>
}
glow.func @decode {
  %code = glow.get @code : tensor<1x4xf32>
  %z = glow.get @z : tensor<1x4xf32>
  %w = glow.get @w : tensor<4x4xf32>
  %sum = glow.add %code, %z : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  %y = glow.matmul %sum, %w : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  glow.save %y to @text : tensor<1x4xf32>
}
"""
TWO = """
#include "net.h"
#include <stdio.h>
static _Alignas(64) char arena[NET_ENCODE_ARENA_BYTES + NET_DECODE_ARENA_BYTES + 64];
static float x[4] = {1, 2, 3, 4}, z[4] = {1, 1, 1, 1}, code[4], text[4];
int main(void) {
  void *tensors[NET_ENCODE_TENSORS] = {x, NULL, code, NULL};
  if (!net_encode_pointers_right(tensors, net_weights, arena)) return 1;
  net_encode(tensors, net_weights, arena);
  if (net_decode_pointers_right(tensors, net_weights, arena)) return 2;
  void *others[NET_DECODE_TENSORS] = {NULL, z, code, text};
  if (!net_decode_pointers_right(others, net_weights, arena)) return 3;
  net_decode(others, net_weights, arena);
  printf("%g %g %g %g\\n", (double)text[0], (double)text[1], (double)text[2], (double)text[3]);
  return 0;
}
"""


@needs_cc
def test_an_encoder_and_a_decoder(tmp_path: Path) -> None:
    """Two functions pass a state on; each takes its own inputs, and the weights are there once."""
    (tmp_path / "net.mlir").write_text(PAIR)
    assert run(compile_command.main, tmp_path / "net.mlir", "-o", tmp_path, "--weights", "embed").status == 0
    (tmp_path / "main.c").write_text(TWO)
    program = build(tmp_path, "main.c", "net.o")
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    w = np.diag([2.0, 3, 4, 5])
    w[0, 3] = w[3, 0] = 1
    expected = (np.array([1.0, 2, 3, 4]) @ w + 1) @ w
    np.testing.assert_allclose([float(v) for v in done.stdout.split()], expected)
    (tmp_path / "net.mlir").write_text(PAIR[: PAIR.index("glow.func @decode")])
    assert run(compile_command.main, tmp_path / "net.mlir", "-o", tmp_path / "one").status == 0
    one, both = (
        re.search("WEIGHT_BYTES (.*)", (f / "net.h").read_text()) for f in (tmp_path / "one", tmp_path)
    )
    assert one is not None and both is not None
    assert int(both[1][:-3]) < 2 * int(one[1][:-3])
