"""The example of a backend: one file, written against base.py, conformant in what it claims."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from glow_backends.base import Backend
from glow_backends.conformance import cases, check_backend, check_case
from glow_dialects.core.types import Array

FOLDER = Path(__file__).parents[2] / "examples/numpy_backend"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The example, loaded from its file."""
    spec = importlib.util.spec_from_file_location("numpy_backend", FOLDER / "numpy_backend.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["numpy_backend"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_example_is_conformant(example: ModuleType) -> None:
    """All that it claims, and all that decomposes into it, agrees with the references."""
    report = check_backend(example.NumpyBackend())
    assert not report.failures(), report
    agreeing = [o for o in report.outcomes if o.status == "agrees"]
    assert len(agreeing) >= 40
    assert report.counts()["declined"] > 0, "it claims a part only"


def test_example_knows_only_the_base() -> None:
    """Of the backends, passes and runtime it imports glow_backends.base and nothing else."""
    tree = ast.parse((FOLDER / "numpy_backend.py").read_text(encoding="utf-8"))
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = {m for m in modules if m and m.startswith("glow_") and not m.startswith("glow_dialects")}
    assert ours == {"glow_backends.base"}


def test_source_is_readable(example: ModuleType) -> None:
    """The generated function has one line an instruction."""
    from glow_backends.conformance import module_of_sample
    from glow_dialects.dialects import context
    from glow_passes.pipeline import INSTR, LOWER

    case = next(cases(["relu"]))
    module, _ = module_of_sample(case.sample, "inputs")
    for item in (*LOWER, *INSTR):
        item.apply(context(), module)
    assert example.NumpyBackend().compile(module).source.splitlines() == [
        "def program(weights, arena):",
        "    v0 = weights['in0']",
        "    v1 = weights['out0']",
        "    np.maximum(v0, 0, out=v1)",
        "    return",
    ]


def wrong(backend: type[Backend]) -> Backend:
    """A backend whose programs add one to their first output."""

    class Wrong(backend):
        def compile(self, module, function="main"):
            program = super().compile(module, function)
            run = program.run

            def off_by_one(inputs: dict[str, Array]) -> dict[str, Array]:
                results = run(inputs)
                return {name: value + np.array(1, value.dtype) for name, value in results.items()}

            program.run = off_by_one
            return program

    return Wrong()


def test_wrong_results_are_found(example: ModuleType) -> None:
    """The check is able to fail."""
    outcome = check_case(wrong(example.NumpyBackend), next(cases(["relu"])))
    assert outcome.status == "differs"
    assert "max abs error 1" in outcome.message
