"""Random programs of statements beside CPython: values, what arguments hold afterwards, gradients."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from statement_programs import Program

import glow_compiler as glow


def _function(program: Program, folder: Path) -> Any:
    path = folder / "program.py"
    path.write_text(program.text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def check(seed: int, backend: str, folder: Path) -> None:
    """Compare a program with CPython; refused ones are no failure."""
    program = Program(seed)
    f, given = _function(program, folder), program.arguments(seed)
    expected, got = copy.deepcopy(given), copy.deepcopy(given)
    with np.errstate(all="ignore"):
        want = f(*expected)
    compiled = glow.jit(f, backend=backend)
    try:
        result = compiled(*got)
    except glow.GlowError as error:
        pytest.skip(str(error))
    close = 2e-4 if program.kind == "float32" else 1e-9
    for have, wanted in zip((*result, *got), (*want, *expected), strict=True):
        np.testing.assert_allclose(have, wanted, close, close, err_msg=program.text)
    ran = {i["runs on"] for i in compiled.report()["instances"]}
    assert ran == {backend}, compiled.report()


@pytest.mark.parametrize("seed", range(24))
def test_machine_code_is_as_cpython(seed: int, tmp_path: Path) -> None:
    check(seed, "cpu", tmp_path)


@pytest.mark.parametrize("seed", range(8))
def test_interpreter_is_as_cpython(seed: int, tmp_path: Path) -> None:
    check(seed, "interpreter", tmp_path)


def check_gradient(seed: int, folder: Path) -> None:
    """Compare gradients with differences; refused programs are no failure."""
    program = Program(seed, "float64", scalar=True)
    f, given = _function(program, folder), program.arguments(seed)
    compiled = glow.value_and_grad(f, argnums=(0, 1, 2))
    try:
        value, gradients = compiled(*copy.deepcopy(given))
    except glow.GlowError as error:
        pytest.skip(str(error))
    base = f(*copy.deepcopy(given))
    np.testing.assert_allclose(value, base)
    for k, gradient in enumerate(gradients):
        wanted = np.zeros_like(gradient)
        for place in np.ndindex(wanted.shape):
            ends: list[float] = []
            for step in (1e-6, -1e-6):
                moved = copy.deepcopy(given)
                moved[k][place] += step
                ends.append(f(*moved))
            wanted[place] = (ends[0] - ends[1]) / 2e-6
        scale = 1e-4 * max(1.0, abs(base))
        np.testing.assert_allclose(gradient, wanted, 1e-4, scale, err_msg=program.text)
    assert compiled.report()["instances"][-1]["runs on"] == "cpu"


@pytest.mark.parametrize("seed", range(8))
def test_gradients_are_differences(seed: int, tmp_path: Path) -> None:
    check_gradient(seed, tmp_path)
