"""MobileNetV2 as a WebAssembly module in Node, beside onnxruntime-web in the same rounds.

    npm install --prefix FOLDER onnxruntime-web
    python -m benchmarks.webassembly FOLDER        # one thread each; JSON with milliseconds and bytes

Random weights; the times of Node's process are processor time, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

from benchmarks.quantized_networks import Net
from glow_tools import compile as compile_command

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks and stride of each stage (Sandler et al., MobileNetV2, table 2)."""

OURS = """
const { load } = await import("./mobilenet.mjs");
const net = await load();
const x = new Float32Array(3 * 224 * 224).map((_, i) => Math.sin(i));
const run = async () => Object.values(net.run({ x }))[0];
"""
THEIRS = """
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
const ort = createRequire(process.argv[2] + "/")("onnxruntime-web");
ort.env.wasm.numThreads = 1;
const session = await ort.InferenceSession.create(readFileSync("mobilenet.onnx"));
const data = new Float32Array(3 * 224 * 224).map((_, i) => Math.sin(i));
const x = new ort.Tensor("float32", data, [1, 3, 224, 224]);
const run = async () => Object.values(await session.run({ x }))[0].data;
"""
TIMED = """
const started = process.cpuUsage();
{setup}
const begun = process.cpuUsage(started);
const start = (begun.user + begun.system) / 1000;
const times = [];
let y;
for (let i = 0; i < 50; ++i) {{
  const before = process.cpuUsage();
  y = await run();
  const used = process.cpuUsage(before);
  times.push((used.user + used.system) / 1000);
}}
times.sort((a, b) => a - b);
console.log(JSON.stringify({{ start, least: times[0], median: times[25], y: Array.from(y) }}));
"""


def mobilenet() -> ModelProto:
    """Input `x` (1, 3, 224, 224), a thousand results; normalisations are folded."""
    n = Net(1, 3, 224, 224)

    def conv(x: str, inner: int, outer: int, k: int, s: int = 1, g: int = 1, act: bool = True) -> str:
        y = n.conv(x, inner, outer, k, s, g, act="")
        return n.op("Clip", y, zero, six) if act else y

    zero, six = n.constant(np.float32(0)), n.constant(np.float32(6))
    x, channels = conv("x", 3, 32, 3, 2), 32
    for expansion, outer, blocks, stride in STAGES:
        for number in range(blocks):
            step, wide = stride if number == 0 else 1, channels * expansion
            y = conv(x, channels, wide, 1) if expansion > 1 else x
            y = conv(conv(y, wide, wide, 3, step, wide), wide, outer, 1, act=False)
            x = n.op("Add", x, y) if step == 1 and channels == outer else y
            channels = outer
    return n.model(n.head(conv(x, channels, 1280, 1), 1280, 1000))


def measured(folder: Path, packages: Path, rounds: int) -> dict[str, Any]:
    """Least milliseconds of a run and of the start, each engine in a new process each round."""
    onnx.save(mobilenet(), folder / "mobilenet.onnx")
    for target in ("wasm32", "wasm32-relaxed"):
        compile_command.main([str(folder / "mobilenet.onnx"), "-o", str(folder / target), "--target", target])
        (folder / target / "time.mjs").write_text(TIMED.format(setup=OURS))
    (folder / "time.mjs").write_text(TIMED.format(setup=THEIRS))
    relaxed = "--experimental-wasm-relaxed-simd"
    commands = {
        "wasm32": (folder / "wasm32", ["node", "time.mjs"]),
        "wasm32-relaxed": (folder / "wasm32-relaxed", ["node", relaxed, "time.mjs"]),
        "onnxruntime-web": (folder, ["node", "time.mjs", str(packages.resolve())]),
    }
    results: dict[str, Any] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, (place, command) in commands.items():
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
            results[name].append(json.loads(done.stdout.splitlines()[-1]))
    expected = np.array(results["onnxruntime-web"][0]["y"])
    figures: dict[str, Any] = {}
    for name, runs in results.items():
        error = np.abs(np.array(runs[0]["y"]) - expected).max() / np.abs(expected).max()
        figures[name] = {k: min(r[k] for r in runs) for k in ("start", "least", "median")}
        figures[name]["error"] = float(error)
    for target in ("wasm32", "wasm32-relaxed"):
        figures[target]["module bytes"] = (folder / target / "mobilenet.wasm").stat().st_size
    return figures


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", type=Path, help="folder with node_modules/onnxruntime-web")
    parser.add_argument("--rounds", type=int, default=5)
    a = parser.parse_args()
    with TemporaryDirectory() as folder:
        print(json.dumps(measured(Path(folder), a.packages, a.rounds), indent=1))


if __name__ == "__main__":
    main()
