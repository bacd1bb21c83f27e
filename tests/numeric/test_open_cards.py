"""Every operator with sizes that only the run tells, 0 and 1 among them, against the interpreter."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from card_runner import SAMPLES

import glow_compiler as glow
from glow_dialects.core.errors import GlowError
from glow_dialects.core.sample import Sample
from glow_dialects.core.types import Array
from glow_frontends.builder import GraphBuilder


def _sizes(name: str) -> list[int]:
    """Numbers of elements along what is open: 0, 1, and some at random."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return [5, 1, 0, *map(int, rng.integers(2, 40, 3))]


def _firsts() -> Iterator[tuple[str, Sample]]:
    """A sample of each operator whose results follow from its operands."""
    seen: set[type] = set()
    for name, sample in SAMPLES.items():
        plain = all(type(a) is np.ndarray and a.dtype.isbuiltin == 1 for a in sample.arrays())
        if sample.results is None and sample.op not in seen and plain and _axes(sample):
            seen.add(sample.op)
            yield name, sample


def _axes(sample: Sample) -> list[list[tuple[int, int]]]:
    """Sets of axes (operand, axis) that may be open together: the first ones, each alone, those alike."""
    arrays = sample.arrays()
    every = [(i, axis) for i, a in enumerate(arrays) for axis in range(a.ndim) if a.shape[axis] > 1]
    alike = [[o for o in every if arrays[o[0]].shape[o[1]] == arrays[i].shape[axis]] for i, axis in every]
    samples = [[o for o in every if o[1] == 0]]
    return [*samples, *([o] for o in every), *alike]


def _graph(sample: Sample) -> tuple[GraphBuilder, list[tuple[int, int]]] | None:
    """The operator with the first of its axes open that may be."""
    arrays = sample.arrays()
    for axes in _axes(sample):
        if len({arrays[i].shape[axis] for i, axis in axes}) > 1:
            continue
        g = GraphBuilder()
        values = [
            g.placeholder(f"x{i}", ["n" if (i, k) in axes else d for k, d in enumerate(a.shape)], a.dtype)
            for i, a in enumerate(arrays)
        ]
        try:
            op = sample.build(g.builder, [v.ssa for v in values])
            op.verify()
        except Exception:  # not along this axis
            continue
        for index, result in enumerate(op.results):
            g.save(result, f"y{index}")
        return g, axes
    return None


def _fed(sample: Sample, axes: list[tuple[int, int]], size: int) -> dict[str, Array]:
    """The sample's values, repeated or cut to a size."""
    feed: dict[str, Array] = {}
    for i, array in enumerate(sample.arrays()):
        for operand, axis in axes:
            if operand == i:
                array = np.take(array, np.arange(size) % array.shape[axis], axis)
        feed[f"x{i}"] = np.ascontiguousarray(array)
    return feed


def _run(net: glow.Executable, feed: dict[str, Array]) -> dict[str, Array] | GlowError:
    try:
        return net.run(feed)
    except GlowError as error:
        return error


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # means of nothing
@pytest.mark.parametrize("name", [name for name, _ in _firsts()])
def test_open_sizes_give_what_the_interpreter_gives(name: str) -> None:
    sample = dict(_firsts())[name]
    made = _graph(sample)
    if made is None:
        pytest.skip("every size is a property of the operator")
    g, axes = made
    net = glow.compile(g, specialize="never")
    reference = glow.compile(g, backend="interpreter")
    for size in _sizes(name):
        feed = _fed(sample, axes, size)
        found, expected = _run(net, feed), _run(reference, feed)
        if isinstance(expected, GlowError) and "out of range" in str(expected):
            continue  # such subscripts are an error where the operator is `checked`, else brought into range
        if isinstance(expected, GlowError) or isinstance(found, GlowError):
            assert isinstance(expected, GlowError) and isinstance(found, GlowError), (size, found, expected)
            continue
        for key, values in expected.items():
            assert found[key].shape == values.shape, (size, key)
            rtol, atol = (2e-3, 1e-4) if values.dtype.kind in "fc" else (0, 0)
            np.testing.assert_allclose(found[key], values, rtol, atol, err_msg=f"{size} {key}")
