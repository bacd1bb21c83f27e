"""Fine-tuning a real model: magika, which tells types of files, learns kinds that it does not know.

Its last layer alone is trained to tell this repository's FileCheck tests, Python and documents; the
model comes from its package (`pip install --no-deps magika==1.0.3`), or from the folder GLOW_MODELS.

python examples/training/file_kinds.py
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np

import glow_compiler as glow

ROOT = Path(__file__).parents[2]
MODEL = "magika/models/standard_v3_3/model.onnx"
LAYER = "jax2tf_get_logits_/pjit_get_logits_/MagikaV2/"
WEIGHTS, BIAS = "jax2tf_get_logits_/Const_24:0", f"{LAYER}Dense_1/Reshape:0"
FEATURES = f"{LAYER}LayerNorm_1/AddV2_1:0"  # what the last layer takes
KINDS = ("tests/filecheck/**/*.mlir", "passes/**/*.py", "docs/*.md")
PAD, HALF, BATCH, EPOCHS, RATE = 256, 1024, 16, 4, 0.02


def model_path() -> Path | None:
    """The model of the installed package, None where there is none."""
    folder = os.environ.get("GLOW_MODELS")
    if folder:
        path = Path(folder) / Path(MODEL).name
        return path if path.exists() else None
    try:
        found = [f for f in files("magika") or () if str(f) == MODEL]
    except PackageNotFoundError:
        return None
    return Path(str(found[0].locate())) if found else None


def features(text: bytes) -> np.ndarray:
    """What magika reads of a file: its first and its last bytes, filled up with 256."""
    codes = np.frombuffer(text.strip(), np.uint8).astype(np.int32)
    first, last = codes[:HALF], codes[-HALF:]
    made = np.full(2 * HALF, PAD, np.int32)
    made[: len(first)] = first
    made[2 * HALF - len(last) :] = last
    return made


def data(part: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` pieces of files and their kinds; the parts 0 and 1 have no file in common."""
    rng = np.random.default_rng(part)
    found = [[p.read_bytes() for p in sorted(ROOT.glob(kind))[part::2]] for kind in KINDS]
    labels = rng.integers(0, len(KINDS), count)
    rows: list[np.ndarray] = []
    for label in labels:
        text = found[label][rng.integers(len(found[label]))]
        size = int(rng.integers(40, 400))
        start = int(rng.integers(max(1, len(text) - size)))
        rows.append(features(text[start : start + size]))
    return np.stack(rows), labels


def batches(epoch: int, count: int) -> list[np.ndarray]:
    """Sample numbers of each step of an epoch."""
    order = np.random.default_rng(epoch).permutation(count)
    return [order[i : i + BATCH] for i in range(0, count - BATCH + 1, BATCH)]


def train(path: Path, backend: str = "cpu") -> float:
    """Accuracy on pieces of other files after training the last layer with Glow."""
    x, y = data(0, 12 * BATCH)
    trainer = glow.Trainer(
        path,
        "cross_entropy",
        glow.optim.Adam(RATE),
        trainable=[WEIGHTS, BIAS],
        batch=BATCH,
        backend=backend,
    )
    for epoch in range(EPOCHS):
        for chosen in batches(epoch, len(x)):
            trainer.step(x[chosen], y[chosen])
    return trainer.evaluate(*data(1, 20 * BATCH))["accuracy"]


def before_the_head(path: Path, x: np.ndarray) -> np.ndarray:
    """What the last layer takes, by onnxruntime."""
    import onnx
    import onnxruntime

    model = onnx.load(path)
    model.graph.output.append(onnx.helper.make_tensor_value_info(FEATURES, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    parts = [session.run([FEATURES], {"bytes": x[i : i + 64]})[0] for i in range(0, len(x), 64)]
    return np.concatenate(parts)


def train_with_pytorch(path: Path) -> float:
    """The same recipe in PyTorch, on what the layers before give."""
    import onnx
    import torch

    (x, y), (test_x, test_y) = data(0, 12 * BATCH), data(1, 20 * BATCH)
    start = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}
    weights, bias = (torch.tensor(start[n], requires_grad=True) for n in (WEIGHTS, BIAS))
    inputs = torch.tensor(before_the_head(path, x))
    optimizer = torch.optim.Adam([weights, bias], RATE)
    for epoch in range(EPOCHS):
        for chosen in batches(epoch, len(x)):
            optimizer.zero_grad()
            scores = inputs[chosen] @ weights + bias
            torch.nn.functional.cross_entropy(scores, torch.tensor(y[chosen])).backward()
            optimizer.step()
    scores = torch.tensor(before_the_head(path, test_x)) @ weights + bias
    return float((scores.argmax(1).numpy() == test_y).mean())


if __name__ == "__main__":
    model = model_path()
    if model is None:
        raise SystemExit("the model is not there: pip install --no-deps magika==1.0.3")
    print(f"glow    {train(model):.4f}")
    print(f"pytorch {train_with_pytorch(model):.4f}")
