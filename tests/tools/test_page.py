"""The page of a compilation: what it holds, and in a browser how soon it is there and searched."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_tools import opt

BROWSER = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
SMALL = """
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %a = glow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %b = glow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %y = glow.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  glow.save %y to @y : tensor<4xf32>
}
"""


def transformer(layers: int, path: Path) -> int:
    """Write an encoder of attention and feed-forward blocks under names by scope; its number of nodes."""
    rng = np.random.default_rng(0)
    width, heads, length = 16, 2, 6
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, np.ndarray] = {"perm_shape": np.array([1, length, heads, width // heads])}
    weights |= {"flat": np.array([1, length, width]), "scale": np.float32(0.35), "half": np.float32(0.5)}
    weights |= {
        "one": np.float32(1),
        "root": np.float32(1.4142135),
        "two": np.float32(2),
        "eps": np.float32(1e-5),
    }

    def node(kind: str, scope: str, *inputs: str, **attributes: object) -> str:
        name = f"{scope}/{kind}_{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def linear(scope: str, x: str, outputs: int, inputs: int) -> str:
        weights[f"{scope}.w"] = rng.standard_normal((inputs, outputs)).astype(np.float32) * np.float32(0.2)
        weights[f"{scope}.b"] = np.zeros(outputs, np.float32)
        return node("Add", scope, node("MatMul", scope, x, f"{scope}.w"), f"{scope}.b")

    def norm(scope: str, x: str) -> str:
        centred = node("Sub", scope, x, node("ReduceMean", scope, x, axes=[-1]))
        power = node("ReduceMean", scope, node("Pow", scope, centred, "two"), axes=[-1])
        result = node("Div", scope, centred, node("Sqrt", scope, node("Add", scope, power, "eps")))
        weights[f"{scope}.g"] = np.ones(width, np.float32)
        weights[f"{scope}.h"] = rng.standard_normal(width).astype(np.float32)
        return node("Add", scope, node("Mul", scope, result, f"{scope}.g"), f"{scope}.h")

    def split(scope: str, x: str, order: list[int]) -> str:
        return node("Transpose", scope, node("Reshape", scope, x, "perm_shape"), perm=order)

    x = "x"
    for number in range(layers):
        layer = f"/encoder/layer.{number}"
        self = f"{layer}/attention/self"
        query, key, value = (linear(f"{self}/{n}", x, width, width) for n in ("query", "key", "value"))
        product = node("MatMul", self, split(self, query, [0, 2, 1, 3]), split(self, key, [0, 2, 3, 1]))
        shares = node("Softmax", self, node("Mul", self, product, "scale"), axis=-1)
        mixed = node("MatMul", self, shares, split(self, value, [0, 2, 1, 3]))
        mixed = node("Reshape", self, node("Transpose", self, mixed, perm=[0, 2, 1, 3]), "flat")
        out = linear(f"{layer}/attention/output", mixed, width, width)
        x = norm(f"{layer}/attention/output/norm", node("Add", f"{layer}/attention/output", out, x))
        wide = linear(f"{layer}/feed", x, 2 * width, width)
        erf = node("Erf", f"{layer}/feed/gelu", node("Div", f"{layer}/feed/gelu", wide, "root"))
        gelu = node("Mul", f"{layer}/feed/gelu", wide, node("Add", f"{layer}/feed/gelu", erf, "one"))
        back = linear(f"{layer}/output", node("Mul", f"{layer}/feed/gelu", gelu, "half"), width, 2 * width)
        x = norm(f"{layer}/output/norm", node("Add", f"{layer}/output", back, x))
    shape = [1, length, width]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return len(nodes)


def told(page: str) -> dict:
    """What a page holds."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1].replace("<\\/", "</"))


def test_what_the_page_holds(tmp_path: Path) -> None:
    """Passes with times, what each changed as text and graph, lives of buffers, kernels with their names."""
    file, page = tmp_path / "net.mlir", tmp_path / "run.html"
    file.write_text(SMALL)
    arguments = [str(file), "-p", "cpu", "--html", str(page), "-o", str(tmp_path / "out.mlir")]
    assert opt.main(arguments) == 0
    text = page.read_text()
    assert "http://" not in text and "https://" not in text, "the page needs nothing else"
    data = told(text)
    steps = {step["name"]: step for step in data["steps"]}
    cse = next(step for step in data["steps"] if step["name"] == "glow-cse")
    assert cse["counts"] == {"glow.neg": -1} and cse["seconds"] > 0
    begin, end, first, last = cse["edits"][0]
    before = data["steps"][0]["lines"]
    assert any("glow.neg" in data["lines"][n] for n in before[begin:end]) and last - first < end - begin
    gone = set(data["steps"][0]["nodes"]) - set(cse["nodes"])
    assert {data["nodes"][n][1] for n in gone} == {"glow.neg", "glow.add"}, "one is gone, its reader changed"
    neg = next(n for n in (data["nodes"][i] for i in cse["nodes"]) if n[1] == "glow.neg")
    get = next(n for n in (data["nodes"][i] for i in cse["nodes"]) if n[1] == "glow.get")
    assert neg[5] == [get[0]], "the graph has the edges of the program"
    assert all(k["seconds"] > 0 and k["nodes"] for k in data["kernels"]) and data["kernels"]
    assert data["seconds"]["passes"] > 0 and "lines" not in steps["glow-rematerialize"]


def test_memory_over_time(tmp_path: Path) -> None:
    """Buffers are told from which instruction to which they live, and where."""
    file, page = tmp_path / "net.mlir", tmp_path / "run.html"
    file.write_text(SMALL.replace("glow.add", "glow.matmul").replace("<4xf32>", "<4x4xf32>"))
    assert opt.main([str(file), "-p", "lower,instr", "--html", str(page), "-o", "/dev/null"]) == 0
    (plan,) = told(page.read_text())["memory"]
    (buffer,) = plan["buffers"]
    assert plan["labels"] == ["glow_instr.neg", "glow_instr.matmul"] and buffer[1:] == [0, 2, 0, 64]


def test_reports_of_networks(tmp_path: Path) -> None:
    """glow.report(net), net.report().html and notebooks show the same page."""
    file = tmp_path / "net.mlir"
    file.write_text(SMALL)
    net = glow.compile(file)
    report = glow.report(net)
    names = [step["name"] for step in told(report.html)["steps"]]
    assert names[0] == "input" and "glow-cse" in names
    assert [step["name"] for step in told(net.report().html)["steps"]] == names
    report.save(tmp_path / "run.html")
    assert told((tmp_path / "run.html").read_text())["title"] == repr(net)
    assert report._repr_html_().startswith("<iframe srcdoc=")
    net.save(tmp_path / "net.glow")
    with pytest.raises(glow.UnsupportedError, match="compile the model"):
        glow.report(glow.load_program(tmp_path / "net.glow"))


def look(page: Path, fragment: str) -> dict[str, str]:
    """Open a page in the browser; what it says of itself when it is there."""
    assert BROWSER is not None
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    done = subprocess.run(
        [BROWSER, *arguments, f"file://{page}#{fragment}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    body = re.search(r"<body([^>]*)>", done.stdout)
    assert body is not None
    hits = re.search(r'<span id="hits">([^<]*)</span>', done.stdout)
    marked = len(re.findall(r'class="node[^"]*\bhit\b[^"]*" data-node="\d', done.stdout))
    return {
        **dict(re.findall(r'data-(\w+)="(\d+)"', body[1])),
        "hits": hits[1] if hits else "",
        "marked": str(marked),
    }


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
@pytest.mark.parametrize("name", ["resnet50", "transformer"])
def test_in_a_browser(name: str, tmp_path: Path) -> None:
    """Opened and searched in under 2 s; folded scopes open where something is found."""
    page, model = tmp_path / "run.html", LIGHT / "light_resnet50.onnx"
    if name == "transformer":
        model = tmp_path / "transformer.onnx"
        assert transformer(15, model) >= 700
    assert opt.main([str(model), "-p", "optimize,lower", "--html", str(page), "-o", "/dev/null"]) == 0
    data = told(page.read_text())
    words = "conv n14" if name == "resnet50" else "layer.5 query matmul"
    expected = [n for n in (data["nodes"][i] for i in data["steps"][0]["nodes"]) if fits(n, words)]
    seen = look(page, f"pass=0&view=graph&search={words.replace(' ', '+')}")
    assert int(seen["opened"]) < 2000, seen
    assert seen["hits"] == f"{len(expected)} nodes" and seen["marked"] == str(len(expected)) and expected
    assert int(look(page, "pass=0&view=diff&theme=dark&search=relu")["opened"]) < 2000


def fits(node: list, words: str) -> bool:
    """Whether a search finds a node."""
    text = " ".join(node[1:5]).lower()
    return all(word in text for word in words.split())
