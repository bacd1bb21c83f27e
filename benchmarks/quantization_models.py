"""Accuracy of quantised real models: every schema and calibration, against the float model.

    python -m benchmarks.quantization_models --models DIR --inputs DIR NAME [NAME ...]

DIR/NAME.onnx is a model; --inputs has NAME/<case>/inputs.npz with arrays, and names.json which lists
the names of the inputs in the archive's order. Each model is calibrated with eight variations of its
first case (shifted, of other contrast, noisy) and judged by eight others. The table is Markdown: how
many outputs agree with the float model, and the signal-to-noise ratio of the first output.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import glow_compiler as glow
from glow_compiler.quantization import profile, quantize
from glow_passes.quantize.calibration import CALIBRATIONS
from glow_passes.quantize.schema import SCHEMAS

COUNT = 8
Feed = dict[str, np.ndarray]


def recorded(folder: Path) -> Feed:
    """The inputs of one case."""
    with np.load(folder / "inputs.npz") as archive:
        names = json.loads((folder / "names.json").read_text())["inputs"]
        return {name: archive[key] for name, key in zip(names, archive.files, strict=True)}


def variations(feed: Feed, count: int, seed: int) -> list[Feed]:
    """Float inputs shifted along their last axes, scaled, and with a little noise; some bytes replaced."""
    rng = np.random.default_rng(seed)
    return [{name: _varied(array, rng) for name, array in feed.items()} for _ in range(count)]


def _varied(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if array.dtype.kind != "f":
        return _replaced(array, rng) if array.size > 64 else array
    if array.ndim < 3:
        return (array + rng.normal(0, 0.1 * array.std(), array.shape)).astype(array.dtype)
    low, high = array.min(), array.max()
    axes = [a for a in range(1, array.ndim) if array.shape[a] > 3]
    moved = np.roll(array, [int(rng.integers(-12, 13)) for _ in axes], axes)
    changed = (moved - moved.mean()) * rng.uniform(0.7, 1.1) + moved.mean()
    noisy = changed + rng.normal(0, 0.01 * (high - low), array.shape)
    return np.clip(noisy, low, high).astype(array.dtype)


def _replaced(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A few elements exchanged."""
    made = array.copy().reshape(-1)
    places = rng.integers(0, made.size, (2, max(1, made.size // 64)))
    made[places[0]] = made[places[1]]
    return made.reshape(array.shape)


def agreement(want: np.ndarray, have: np.ndarray) -> float:
    """Percent of equal decisions: the largest class, the side of one half, or 1 - relative error."""
    if want.min() >= 0 and want.max() <= 1 and want.shape[-1] > 1:
        if np.allclose(want.sum(-1), 1, atol=1e-3):
            return 100 * float(np.mean(want.argmax(-1) == have.argmax(-1)))
        return 100 * float(np.mean((want > 0.5) == (have > 0.5)))
    return 100 * (1 - float(np.abs(want - have).mean() / np.abs(want).mean()))


def decibels(want: np.ndarray, have: np.ndarray) -> float:
    """Signal-to-noise ratio."""
    noise = float(((want.astype(np.float64) - have) ** 2).sum())
    return 10 * float(np.log10(float((want.astype(np.float64) ** 2).sum()) / max(noise, 1e-30)))


def outputs(module: Any, feeds: Sequence[Feed], shapes: dict[str, tuple[int, ...]]) -> np.ndarray:
    """The first output for every feed."""
    net = glow.compile(module, shapes=shapes)
    return np.concatenate([next(iter(net.run(feed).values())) for feed in feeds])


def settings(full: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of the table and their options."""
    for schema in SCHEMAS:
        for calibration in CALIBRATIONS:
            if full or (schema, calibration) == ("asymmetric", "none"):
                yield f"{schema}, {calibration}", {"schema": schema, "calibration": calibration}
    yield "one scale a tensor", {"per_channel": False}
    yield "everything", {"everything": True}
    yield "int16", {"precision": "int16"}


def column(path: Path, cases: Path, full: bool) -> dict[str, str]:
    """One model's part of the table."""
    first = recorded(sorted(p for p in cases.iterdir() if p.is_dir())[0])
    shapes = {name: array.shape for name, array in first.items()}
    feeds = [first, *variations(first, COUNT - 1, 2)]
    want = outputs(path, feeds, shapes)
    taken = profile(path, [first, *variations(first, COUNT - 1, 1)], shapes=shapes)
    found: dict[str, str] = {}
    for row, options in settings(full):
        have = outputs(quantize(path, taken, shapes=shapes, **options), feeds, shapes)
        found[row] = f"{agreement(want, have):.2f}, {decibels(want, have):.0f} dB"
        print(f"{path.stem}: {row}: {found[row]}", flush=True)
    for to in ("bf16", "f16"):
        have = outputs(glow.convert_floats(path, to, shapes=shapes), feeds, shapes)
        found[to] = f"{agreement(want, have):.2f}, {decibels(want, have):.0f} dB"
    return found


def main() -> None:
    """Quantise the models, print the table."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument("names", nargs="+")
    made.add_argument("--models", type=Path, required=True)
    made.add_argument("--inputs", type=Path, required=True)
    made.add_argument("--short", action="store_true", help="default schema and calibration only")
    a = made.parse_args()
    columns = {n: column(a.models / f"{n}.onnx", a.inputs / n, not a.short) for n in a.names}
    print("| | " + " | ".join(columns) + " |\n| --- |" + " --- |" * len(columns))
    for row in next(iter(columns.values())):
        print(f"| {row} | " + " | ".join(c[row] for c in columns.values()) + " |")


if __name__ == "__main__":
    main()
