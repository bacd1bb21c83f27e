"""The package that `new_backend` writes works as it stands; packages that do not take no tool with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from commands import refused, run
from onnx import TensorProto, helper, save

import glow_compiler as glow
from glow_tools.new_backend import main

BIN = Path(sys.executable).parent


def install(folder: Path) -> None:
    """What pip writes beside the modules of a folder, so that its entry points are found there."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in entries.items())
        for group, entries in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups))


def started(folder: Path, *words: str, others: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command in a process that finds the package in the folder."""
    paths = [str(folder), *([] if others is None else [str(others)])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "GLOW_CACHE_DIR": ""}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new package, as if it were installed."""
    root = tmp_path_factory.mktemp("packages")
    assert main(["toy_chip", "--root", str(root)]) == 0
    install(root / "glow_toy_chip")
    return root / "glow_toy_chip"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a node of the package's domain."""
    path = tmp_path_factory.mktemp("model") / "fma.onnx"
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy"]
    nodes = [helper.make_node("Fma", ["x", "x", "x"], ["y"], domain="com.toy_chip")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.toy_chip", 1)]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.mark.slow
def test_its_own_tests_pass(package: Path) -> None:
    done = started(package, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_its_lit_tests_pass(package: Path) -> None:
    if shutil.which(str(BIN / "lit")) is None or shutil.which(str(BIN / "filecheck")) is None:
        pytest.skip("lit or filecheck is not installed")
    done = started(package, str(BIN / "lit"), "-v", "tests/lit")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_its_import_rule_and_option(package: Path, model: Path) -> None:
    """A node of its domain, on a backend with options; a wrong option is told with those that there are."""
    words = (str(BIN / "glow-run"), str(model), "--random", "0", "--backend")
    done = started(package, *words, "toy_chip{fuse=false}", "--compare", "interpreter")
    assert done.returncode == 0, done.stderr
    wrong = started(package, *words, "toy_chip{fused=false}")
    assert wrong.returncode == 1 and wrong.stderr.count("error:") == 1
    assert "backend toy_chip has no option 'fused'; there are: threads, fuse" in wrong.stderr
    odd = started(package, *words, "toy_chip{fuse")
    assert odd.returncode == 1 and "is no backend with options, as in npu{" in odd.stderr


BROKEN = '''
from glow_backends.base import Backend

class LyingBackend(Backend):
    """Says that it supports everything, and has broken parts."""
    name = "lying"

    def __init__(self, threads=1, size=1):
        super().__init__(threads)
        if size < 1:
            raise ValueError("size is at least 1")

    def supports(self, op):
        return True

    def compile(self, module, function="main"):
        raise KeyError("gelu")

    @classmethod
    def passes(cls):
        raise RuntimeError("no passes today")

    @classmethod
    def dialects(cls):
        raise RuntimeError("no dialects today")
'''


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of which nearly everything is wrong."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "glow_lying.py").write_text(BROKEN)
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "glow-lying"\nversion = "1.2"\n'
        '[project.entry-points."glow.backends"]\n'
        'lying = "glow_lying:LyingBackend"\nworse = "glow_lying:gone"\n'
        '[project.entry-points."glow.dialects"]\nodd = "glow_lying:gone"\n'
        '[project.entry-points."glow.onnx_rules"]\n"com.toy" = "glow_lying:LyingBackend"\n'
    )
    install(folder)
    return folder


@pytest.mark.slow
def test_a_broken_package_takes_nothing_with_it(package: Path, broken: Path, tmp_path: Path) -> None:
    """glow-opt and xdsl-opt print the program of the other package, and warn of this one by its name."""
    source = package / "tests/lit/fuse.mlir"
    for command in ("glow-opt", "xdsl-opt"):
        done = started(package, str(BIN / command), str(source), "-p", "toy_chip-fuse", others=broken)
        assert done.returncode == 0 and "toy_chip.fma" in done.stdout, done.stderr
        for told in (
            "backend 'worse' of package glow-lying 1.2 is ignored",
            "RuntimeError: no passes today",
        ):
            assert told in done.stderr, (command, told)
    assert "dialects of backend lying of package glow-lying 1.2 are left out" in done.stderr


@pytest.mark.slow
def test_lies_are_told(broken: Path, tmp_path: Path) -> None:
    """What a backend says it supports and does not compile, and values that it refuses."""
    g = glow.GraphBuilder()
    g.save(g.gelu(g.placeholder("x", (2, 3))), "y")
    glow.save(g, tmp_path / "net.mlir")
    words = (str(BIN / "glow-run"), str(tmp_path / "net.mlir"), "--random", "0", "--backend")
    lies = started(broken, *words, "lying")
    assert lies.returncode == 1 and "Traceback" not in lies.stderr
    assert (
        "backend lying of package glow-lying 1.2 failed to compile a node that it claims to support"
        in lies.stderr
    )
    assert "check_backend" in lies.stderr
    refuses = started(broken, *words, "lying{size=0}")
    assert (
        "backend lying of package glow-lying 1.2 refuses threads=1, size=0: size is at least 1"
        in refuses.stderr
    )


def test_names(tmp_path: Path) -> None:
    """Bad names, names that are taken, and folders that exist are refused."""
    refused(run(main, "Odd-Name", "--root", tmp_path), "is not a snake_case name")
    refused(run(main, "cpu", "--root", tmp_path), "there is a backend 'cpu' already")
    (tmp_path / "glow_there").mkdir()
    refused(run(main, "there", "--root", tmp_path), "exists")


def test_options_of_backends_in_passes() -> None:
    """A pass that takes a backend is printed with the options that it has, and read again so."""
    from glow_backends.base import get_backend
    from glow_tools.pipelines import describe, parse

    backend = get_backend("interpreter{planned=true}")
    assert backend.options == {"planned": True}
    text = describe(parse("glow-legalize{backend=interpreter late=true}"))
    assert "late=true" in text and describe(parse(text)) == text
    assert len(parse("interpreter{planned=true}")) > 10
