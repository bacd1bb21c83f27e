"""Fine-tuning a real model: magika, which tells types of files, learns kinds that it does not know.

Its last layer alone is trained to tell from which of three data sets a piece of a table in text comes: all of
them are the same to magika, comma-separated values. The data are scikit-learn's; the model comes from its
package (`pip install --no-deps magika==1.0.3`), or from the folder GLOW_MODELS.

python examples/training/file_kinds.py
"""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np
from recipes import SEED, Array, batches, show, train_in_pytorch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import glow_compiler as glow

MODEL = "magika/models/standard_v3_3/model.onnx"
LAYER = "jax2tf_get_logits_/pjit_get_logits_/MagikaV2/"
WEIGHTS, BIAS = "jax2tf_get_logits_/Const_24:0", f"{LAYER}Dense_1/Reshape:0"
FEATURES = f"{LAYER}LayerNorm_1/AddV2_1:0"  # what the last layer takes
KINDS = (load_digits, load_wine, load_breast_cancer)
PAD, HALF, BATCH, EPOCHS, RATE = 256, 1024, 16, 3, 0.02


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


def model() -> Path:
    """The model's file; FileNotFoundError where it is not there."""
    path = model_path()
    if path is None:
        raise FileNotFoundError("the model is not there: pip install --no-deps magika==1.0.3")
    return path


def features(text: bytes) -> Array:
    """What magika reads of a file: its first and its last bytes, filled up with 256."""
    codes = np.frombuffer(text.strip(), np.uint8).astype(np.int32)
    first, last = codes[:HALF], codes[-HALF:]
    made = np.full(2 * HALF, PAD, np.int32)
    made[: len(first)] = first
    made[2 * HALF - len(last) :] = last
    return made


def table(rows: Array) -> bytes:
    """Comma-separated values, a line a row."""
    return "\n".join(",".join(f"{value:g}" for value in row) for row in rows).encode()


@cache
def data(part: int, count: int) -> tuple[Array, Array]:
    """`count` pieces of tables and their kinds; the parts 0 and 1 have no row in common."""
    rng = np.random.default_rng([SEED, part])
    tables = [table(load(return_X_y=True)[0][part::2]) for load in KINDS]
    labels = rng.integers(0, len(KINDS), count)
    rows: list[Array] = []
    for label in labels:
        size = int(rng.integers(40, 400))
        start = int(rng.integers(len(tables[label]) - size))
        rows.append(features(tables[label][start : start + size]))
    return np.stack(rows), labels


def train(backend: str = "cpu") -> float:
    """Accuracy on pieces of other rows after training the last layer with Glow."""
    trainer = glow.Trainer(
        model(),
        "cross_entropy",
        glow.optim.Adam(RATE),
        trainable=[WEIGHTS, BIAS],
        batch=BATCH,
        backend=backend,
    )
    for x, y in batches(*data(0, 24 * BATCH), EPOCHS, BATCH):
        trainer.step(x, y)
    return trainer.evaluate(*data(1, 40 * BATCH))["accuracy"]


def before_the_head(x: Array) -> Array:
    """What the last layer takes, by onnxruntime."""
    import onnx
    import onnxruntime

    proto = onnx.load(model())
    proto.graph.output.append(onnx.helper.make_tensor_value_info(FEATURES, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    parts = [session.run([FEATURES], {"bytes": x[i : i + 64]})[0] for i in range(0, len(x), 64)]
    return np.concatenate(parts)


def train_with_pytorch() -> float:
    """The same recipe in PyTorch, on what the layers before give."""
    import onnx
    import torch

    (x, y), (test_x, test_y) = data(0, 24 * BATCH), data(1, 40 * BATCH)
    start = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(model()).graph.initializer}
    weights, bias = (torch.tensor(start[n], requires_grad=True) for n in (WEIGHTS, BIAS))

    def head(rows: torch.Tensor) -> torch.Tensor:
        return rows @ weights + bias

    optimizer = torch.optim.Adam([weights, bias], RATE)
    train_in_pytorch(head, optimizer, batches(before_the_head(x), y, EPOCHS, BATCH))
    return float((head(torch.tensor(before_the_head(test_x))).argmax(1).numpy() == test_y).mean())


if __name__ == "__main__":
    show("file_kinds", train, train_with_pytorch)
