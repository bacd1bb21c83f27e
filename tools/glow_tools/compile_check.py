"""glow-compile --check: run the result on its target and compare with the interpreter or onnxruntime."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_backends.base import get_backend, ports
from glow_dialects.core.file_kinds import FileKind, is_kind
from glow_tools.bench_kernels import planned
from glow_tools.closeness import Tolerance, difference
from glow_tools.common import fail, settled
from glow_tools.feeds import one_feed
from glow_tools.input_values import values_given
from glow_tools.machines import machine_for, run_bundle
from glow_tools.onnxruntime_run import onnxruntime_outputs

if TYPE_CHECKING:
    from glow_backends.cpu.aot import AotProgram, Source
    from glow_backends.cpu.target import CpuTarget
    from glow_dialects.core.types import Array


def prepare(a: argparse.Namespace, target: CpuTarget) -> None:
    """Say before the work what keeps the bundle from being run here."""
    machine = machine_for(target)
    if machine.missing:
        fail(f"--check needs {machine.missing}, which is not installed")
    if a.size:
        fail("--check needs fixed shapes: use --shape instead of --size")
    if a.check == "onnxruntime" and not is_kind(a.model, FileKind.ONNX):
        fail("onnxruntime runs .onnx files: --check interpreter")


def check(a: argparse.Namespace, program: AotProgram, sources: Sequence[Source]) -> int:
    """Print how far the outputs of each function are from the other's; 1 where that is not rounding."""

    feeds = [_feed(a, source, number) for number, source in enumerate(sources)]
    results = run_bundle(a.output, program, feeds)
    wrong = False
    for source, feed, (outputs,) in zip(sources, feeds, results, strict=True):
        expected = _expected(a, source, feed)
        differences = {n: difference(v, expected[n], Tolerance()) for n, v in outputs.items()}
        for name, found in differences.items():
            if found.bad:
                print(f"{source.name}: differs from {a.check}: {name}: {found}", file=sys.stderr)
        wrong |= any(d.bad for d in differences.values())
        largest = max((d.largest for d in differences.values()), default=0.0)
        place = machine_for(program.target)
        if not any(d.bad for d in differences.values()):
            print(f"{source.name}, run by {place}: agrees with {a.check}: max abs error {largest:.3g}")
    return int(wrong)


def _feed(a: argparse.Namespace, source: Source, seed: int) -> dict[str, Any]:
    """Random inputs; those that decide which graph the model has, as they were for this one."""
    shapes = {p.name: p.shape for p in ports(source.module, "input")}
    decided = settled(a.model, shapes, values_given(a.model, a.input), silent=True).values
    return one_feed(source.module, None, seed, decided)


def _expected(a: argparse.Namespace, source: Source, feed: dict[str, Any]) -> dict[str, Array]:
    """The outputs of a function by name, computed elsewhere."""
    if a.check == "onnxruntime":
        return onnxruntime_outputs(a.model, feed)

    interpreter = get_backend("interpreter")
    shapes = {name: np.shape(array) for name, array in feed.items()}
    module, _, _ = planned(a.model, shapes, interpreter, exact=a.exact)
    return interpreter.compile(module, source.function.sym_name.data).run(feed)
