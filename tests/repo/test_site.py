"""The site of documents builds without a broken link or anchor, and its reference leaves nothing out."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import glow_compiler
from glow_dialects.ops import OPERATORS
from glow_tools.pipelines import every_pass, named

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a link or an anchor that leads nowhere is an error."""
    pytest.importorskip("material", reason="mkdocs-material is not installed (make setup)")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def sections(site: Path, page: str) -> set[str]:
    """The anchors of the sections of a page of the reference."""
    text = (site / "reference" / page / "index.html").read_text(encoding="utf-8")
    return set(re.findall(r'<h[23] id="([^"]+)"', text))


def operators() -> Iterable[str]:
    """Every operator of the table of cards."""
    return (name for names in OPERATORS.values() for name in names.split())


def passes() -> Iterable[str]:
    """Every pass and every pipeline."""
    return [*every_pass(), *named()]


def commands() -> Iterable[str]:
    """Every installed command."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]


def dialects() -> Iterable[str]:
    """Every dialect of the project."""
    return ["glow_fn", "glow", "glow_instr", "quant", "glow_cpu", "glow_cpu_instr"]


REFERENCE: dict[str, Callable[[], Iterable[str]]] = {
    "api": lambda: glow_compiler.__all__,
    "operators": operators,
    "passes": passes,
    "commands": commands,
    "dialects": dialects,
}


@pytest.mark.parametrize("page", REFERENCE)
def test_the_reference_is_whole(site: Path, page: str) -> None:
    """A page of the reference has a section for each thing that there is."""
    assert set(REFERENCE[page]()) - sections(site, page) == set()


def test_an_operator_says_what_it_takes(site: Path) -> None:
    """The section of an operator: operands, properties with defaults, element types, gradient, ONNX."""
    text = (site / "reference/operators/index.html").read_text(encoding="utf-8")
    section = text[text.index('<h2 id="lrn"') :].split("<h2", 2)[1]
    plain = " ".join(re.sub(r"<[^>]+>", " ", section).split())
    assert "property size int required property alpha float 0.0001" in plain
    assert "Element types: f32 , f64 , f16 , bf16 ." in plain
    assert re.search(
        r"Gradient: no. Decomposes into [^.]*\bavg_pool\b[^.]*\. Instruction: glow_instr.lrn", plain
    )
    assert "glow.lrn %1 {" in plain and "(tensor&lt;2x5x3x2xf32&gt;) -&gt; tensor&lt;2x5x3x2xf32&gt;" in plain
    assert re.search(r">lrn</a></td>(\s*<td>.*</td>){4}\s*<td>LRN</td>", text)


#: What cannot fail of itself.
HARMLESS = {
    "clear_caches",
    "stop_gradient",
    "unroll",
    "Trainer.parameters",
    "Trainer.module",
    "Executable.forget",
}


def calls() -> dict[str, Callable[..., object]]:
    """The functions of the API, and the methods of its classes that do more than insert an operator."""
    public = {name: getattr(glow_compiler, name) for name in glow_compiler.__all__}
    functions = {name: value for name, value in public.items() if inspect.isfunction(value)}
    for kind in (glow_compiler.Executable, glow_compiler.Trainer, glow_compiler.GraphBuilder):
        methods = {n: v for n, v in vars(kind).items() if inspect.isfunction(v) and not n.startswith("_")}
        functions |= {f"{kind.__name__}.{n}": v for n, v in methods.items() if v.__doc__}
    return functions


@pytest.mark.parametrize("name", sorted(calls().keys() - HARMLESS))
def test_errors_are_documented(name: str) -> None:
    """What the API says of itself names the errors that a caller may meet."""
    assert re.search("[Ee]rror|[Pp]roblems", calls()[name].__doc__ or "")
