"""WebAssembly modules with threads in Node and in a browser; types, weights that are fetched once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from browser import needs_browser, opened, visit
from bundles import network
from commands import run

import glow_compiler as glow
from glow_tools import compile as compile_command

needs_linker = pytest.mark.skipif(not shutil.which("wasm-ld"), reason="no wasm-ld")
needs_node = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("wasm-ld")), reason="no node or no wasm-ld"
)


def bundle(folder: Path, *options: object) -> list[float]:
    """Write the package of a network with two threads; what the network makes of ones."""
    path = network(folder, channels=64)
    done = run(compile_command.main, path, "-o", folder, "--target", "wasm32", "--threads", "2", *options)
    assert done.status == 0, done
    x = np.ones((1, 3, 9, 9), np.float32)
    return glow.compile(path, backend="interpreter").run({"x": x})["probabilities"][0].tolist()


NODE = """
import { load } from "./net.mjs";
const x = new Float32Array(3 * 9 * 9).fill(1);
const results = [];
for (const threads of [undefined, true, false]) {
  const net = await load({ threads });
  for (let i = 0; i < 50; ++i) net.run({ x: x.map((v) => v * i) });
  results.push([net.threads, Array.from(net.run({ x }).probabilities)]);
  net.close();
  try { net.run({ x }); results.push("runs"); } catch (error) { results.push(error.message); }
}
await load({ threads: true });  // its workers end with the program
try { await load({ weights: new Uint8Array(8) }); } catch (error) { results.push(error.message); }
console.log(JSON.stringify(results));
"""


@needs_node
@pytest.mark.parametrize("weights", ["file", "embed"])
def test_threads_in_node(tmp_path: Path, weights: str) -> None:
    """Workers share a run, as often as wanted; a module without threads is there, too."""
    expected = bundle(tmp_path, "--weights", weights)
    (tmp_path / "main.mjs").write_text(NODE)
    line = ["node", "main.mjs"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    (count, one), closed, (several, two), also, (alone, three), runs, *refused = json.loads(done.stdout)
    assert count in (1, 2) and (several, alone) == (2, 1)
    for got in (one, two, three):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    assert also == "net: it is closed" and runs == "runs" and closed in (also, runs)
    if weights == "file":
        assert refused == ["net: not the weights that this module was compiled with"]
    files = set(json.loads((tmp_path / "package.json").read_text())["files"])
    assert {"net.wasm", "net.threads.wasm", "net.worker.mjs"} <= files
    assert ("net.weights" in files) == (weights == "file")


PAGE = """
import { load } from "./net.mjs";
const x = new Float32Array(3 * 9 * 9).fill(1);
const results = [];
for (const options of [{}, {}, { threads: false }]) {
  const net = await load(options);
  for (let i = 0; i < 20; ++i) net.run({ x: x.map((v) => v * i) });
  results.push([net.threads, Array.from(net.run({ x }).probabilities)]);
}
await report(results);
"""


@needs_linker
@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("isolated", [True, False])
def test_a_page(tmp_path: Path, isolated: bool) -> None:
    """In a browser a page has threads where it is isolated; weights are fetched once."""
    expected = bundle(tmp_path)
    imported, _, script = PAGE.strip().partition("\n")
    (tmp_path / "run.mjs").write_text(f"{imported}\nexport async function main(report) {{ {script} }}")
    results, fetched = visit(tmp_path, 'await (await import("./run.mjs")).main(report);', isolated)
    assert isinstance(results, list), results
    cores = 2 if isolated else 1
    assert [count for count, _ in results] in ([cores, cores, 1], [1, 1, 1])
    for _, got in results:
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    assert fetched["/net.weights"] == 1, fetched


TYPED = """
import { load, type NetInputs } from "./net.mjs";
const net = await load({ threads: false });
const inputs: NetInputs = { x: new Float32Array(243) };
const row: Float32Array = net.run(inputs).probabilities;
const count: number = net.threads + net.inputs[0].shape.length + row.length;
net.functions.net.run({ x: row });
// @ts-expect-error an input of another type
net.run({ x: new Int8Array(3) });
// @ts-expect-error no such output
net.run(inputs).y;
net.close();
export default count;
"""


@needs_linker
@pytest.mark.skipif(not shutil.which("tsc"), reason="no TypeScript")
def test_types(tmp_path: Path) -> None:
    """What TypeScript knows of a module."""
    bundle(tmp_path)
    (tmp_path / "main.ts").write_text(TYPED)
    options = ["--strict", "--noEmit", "--target", "es2022", "--module", "nodenext"]
    done = subprocess.run(["tsc", *options, "main.ts"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


EXAMPLE = Path(__file__).parents[2] / "examples/webassembly"
BUILD = "import sys; from pathlib import Path; import build; build.build(Path(sys.argv[1]))"
SAYS = '  await fetch("/", { method: "POST", body: JSON.stringify(answer.textContent) });\n'


@needs_linker
@needs_browser
@pytest.mark.slow
def test_the_example(tmp_path: Path) -> None:
    """The page of examples/webassembly reads most digits as they are labelled, and says its times."""
    subprocess.run([sys.executable, "-c", BUILD, str(tmp_path)], cwd=EXAMPLE, check=True)
    before, mark, after = (tmp_path / "index.html").read_text().partition("  let last = null;\n")
    (tmp_path / "told.html").write_text(before + SAYS + mark + after)
    answer, _ = opened(tmp_path, "told.html")
    head, right, loaded = answer.split("; ")
    assert " ms" in head and loaded.startswith("loaded in"), answer
    assert int(right.split()[0]) >= 20, answer
