"""python examples/npu/cycles.py MODEL [NAME=1x3x64x64 ...]: the table of cycles of a model on the accelerator.

In f32 and quantised, whose results are compared with those of the CPU and, bit by bit, of the interpreter.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import glow_compiler as glow

sys.path.insert(0, str(Path(__file__).parent))
from glow_npu import NpuBackend


def row(
    title: str, model: Any, feed: Mapping[str, Any], want: Mapping[str, Any], exact: bool, **more: Any
) -> str:
    """A row of the table: cycles without hiding, with it, and the bound."""
    plain: Any = glow.compile(model, backend=NpuBackend(hide=False), **more)
    hidden: Any = glow.compile(model, backend=NpuBackend(), **more)
    got = hidden.run(feed)
    for name, value in want.items():
        if exact:
            np.testing.assert_array_equal(got[name], value)
        else:
            np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-3 * float(np.abs(value).max()))
    before, after = plain.program.timeline(), hidden.program.timeline()
    unit = max(after.busy(), key=lambda name: after.busy()[name])
    return f"| {title} | {before.cycles:,} | {after.cycles:,} | {after.bound:,} ({unit}) |"


def main() -> None:
    """Print the table of the model that the command line names."""
    path, *given = sys.argv[1:]
    shapes = {n: tuple(map(int, s.split("x"))) for n, _, s in (text.partition("=") for text in given)}
    more: dict[str, Any] = {"shapes": shapes} if shapes else {}
    rng = np.random.default_rng(0)
    net = glow.compile(path, **more)
    sizes = {
        port.name: shapes.get(port.name, tuple(n if isinstance(n, int) else 1 for n in port.shape))
        for port in net.inputs
    }
    feed = {port.name: rng.standard_normal(sizes[port.name]).astype(port.dtype) for port in net.inputs}
    print("| | no hiding | hiding | bound |\n| --- | --- | --- | --- |")
    name = Path(path).stem
    print(row(f"{name}, f32", path, feed, net.run(feed), False, **more), flush=True)
    quantized = glow.quantize(path, [feed], everything=True)
    want = glow.compile(quantized, backend="interpreter").run(feed)
    print(row(f"{name}, int8", quantized, feed, want, True))


if __name__ == "__main__":
    main()
