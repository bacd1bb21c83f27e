"""python examples/npu/cycles.py MODEL [NAME=1x3x64x64 ...]: a model's table of cycles on the accelerator.

In f32 and quantised, whose results are compared with the CPU's and, bit by bit, with the interpreter's.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import glow_compiler as glow

sys.path.insert(0, str(Path(__file__).parent))
from glow_npu import NpuBackend  # pyright: ignore[reportMissingImports] # beside this file

HEAD = "| | no hiding | hiding | bound | of these, host |\n| --- | --- | --- | --- | --- |"


def row(title: str, net: Any, plain: Any) -> str:
    """A row of the table: cycles without hiding, with it, the bound, and what only the host could do."""
    before, after = plain.program.timeline(), net.program.timeline()
    busy = after.busy()
    unit = max(busy, key=lambda name: busy[name])
    return f"| {title} | {before.cycles:,} | {after.cycles:,} | {after.bound:,} ({unit}) | {busy['host']:,} |"


def check(got: Mapping[str, Any], want: Mapping[str, Any], exact: bool) -> None:
    """AssertionError where results differ: at all, or by more than sums in another order."""
    for name, value in want.items():
        scale = 0 if exact else 1e-3 * float(np.abs(value).max())
        np.testing.assert_allclose(got[name], value, rtol=0 if exact else 1e-3, atol=scale)


def main() -> None:
    """Print the table of the model that the command line names."""
    path, *given = sys.argv[1:]
    named = {n: tuple(map(int, s.split("x"))) for n, _, s in (text.partition("=") for text in given)}
    more: dict[str, Any] = {"shapes": named} if named else {}
    net, rng = glow.compile(path, **more), np.random.default_rng(0)
    shapes: dict[str, Any] = {port.name: named.get(port.name) or port.shape for port in net.inputs}
    feed = {port.name: rng.standard_normal(shapes[port.name]).astype(port.dtype) for port in net.inputs}
    quantized = glow.quantize(path, [feed], everything=True)
    exact = glow.compile(quantized, backend="interpreter").run(feed)
    print(HEAD)
    for kind, model, want in (("f32", path, net.run(feed)), ("int8", quantized, exact)):
        hidden = glow.compile(model, backend=NpuBackend(), **more)
        check(hidden.run(feed), want, exact=want is exact)
        plain = glow.compile(model, backend=NpuBackend(hide=False), **more)
        print(row(f"{Path(path).stem}, {kind}", hidden, plain), flush=True)


if __name__ == "__main__":
    main()
