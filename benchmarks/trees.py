"""Ensembles of trees that scikit-learn, LightGBM, XGBoost and CatBoost grew, beside onnxruntime.

    pip install skl2onnx onnxmltools lightgbm xgboost catboost
    python -m benchmarks.trees [--model REGEX] [--rows 1 16 256 4096] [--folder DIRECTORY] [--json FILE]

Each learns random rows, its exporter writes the file; one thread each on one pinned core, the two in turn.
`ratio` is onnxruntime's time over ours, `error` the largest difference over the largest of onnxruntime's
numbers, `labels` how many labels differ.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.quantized_by_onnxruntime import timed

WIDTH = 20
OPSETS = {"": 18, "ai.onnx.ml": 3}
Data = tuple[np.ndarray, np.ndarray, np.ndarray]


def _data() -> Data:
    """Rows, a number for each, and one of three classes for each."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4000, WIDTH)).astype(np.float32)
    y = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2]) + 0.1 * rng.standard_normal(len(x))
    return x, y.astype(np.float32), np.digitize(y, [-0.7, 0.7])


def _scikit(
    name: str, double: bool = False, classes: bool = False, **options: Any
) -> Callable[[Data, Path], None]:
    def write(data: Data, path: Path) -> None:
        from skl2onnx import to_onnx
        from sklearn import ensemble, tree

        kind = getattr(ensemble, name, None) or getattr(tree, name)
        x, y, labels = data
        model = kind(random_state=0, **options).fit(x, labels if classes else y)
        example = x[:1].astype(np.float64) if double else x[:1]
        extra = {"options": {id(model): {"zipmap": False}}} if classes else {}
        onnx.save(to_onnx(model, example, target_opset=OPSETS, **extra), path)

    return write


def _lightgbm(double: bool = False, classes: bool = False, **options: Any) -> Callable[[Data, Path], None]:
    def write(data: Data, path: Path) -> None:
        from lightgbm import LGBMClassifier, LGBMRegressor
        from onnxmltools.convert import convert_lightgbm
        from onnxmltools.convert.common.data_types import DoubleTensorType, FloatTensorType

        x, y, labels = data
        kind = LGBMClassifier if classes else LGBMRegressor
        model = kind(verbose=-1, random_state=0, **options).fit(x, labels if classes else y)
        form = (DoubleTensorType if double else FloatTensorType)([None, WIDTH])
        extra = {"zipmap": False} if classes else {}
        onnx.save(convert_lightgbm(model, None, [("x", form)], target_opset=15, **extra), path)

    return write


def _xgboost(classes: bool = False, **options: Any) -> Callable[[Data, Path], None]:
    def write(data: Data, path: Path) -> None:
        from onnxmltools.convert import convert_xgboost
        from onnxmltools.convert.common.data_types import FloatTensorType
        from xgboost import XGBClassifier, XGBRegressor

        x, y, labels = data
        kind = XGBClassifier if classes else XGBRegressor
        model = kind(random_state=0, n_jobs=1, **options).fit(x, labels if classes else y)
        onnx.save(
            convert_xgboost(model, initial_types=[("x", FloatTensorType([None, WIDTH]))], target_opset=15),
            path,
        )

    return write


def _catboost(classes: bool = False, **options: Any) -> Callable[[Data, Path], None]:
    def write(data: Data, path: Path) -> None:
        from catboost import CatBoostClassifier, CatBoostRegressor

        x, y, labels = data
        kind = CatBoostClassifier if classes else CatBoostRegressor
        model = kind(verbose=False, random_seed=0, thread_count=1, allow_writing_files=False, **options)
        model.fit(x, labels if classes else y).save_model(str(path), format="onnx")

    return write


MODELS: dict[str, Callable[[Data, Path], None]] = {
    "decision tree": _scikit("DecisionTreeRegressor"),
    "decision tree, classes": _scikit("DecisionTreeClassifier", classes=True),
    "random forest": _scikit("RandomForestRegressor", n_estimators=100),
    "random forest, depth 8": _scikit("RandomForestRegressor", n_estimators=100, max_depth=8),
    "random forest, classes": _scikit("RandomForestClassifier", classes=True, n_estimators=100),
    "random forest, classes, f64": _scikit("RandomForestClassifier", True, True, n_estimators=50),
    "extra trees": _scikit("ExtraTreesClassifier", classes=True, n_estimators=50),
    "gradient boosting": _scikit("GradientBoostingRegressor", n_estimators=200),
    "gradient boosting, classes": _scikit("GradientBoostingClassifier", classes=True, n_estimators=60),
    "histograms": _scikit("HistGradientBoostingRegressor"),
    "histograms, classes": _scikit("HistGradientBoostingClassifier", classes=True, max_iter=40),
    "ada boost": _scikit("AdaBoostRegressor", n_estimators=20),
    "ada boost, classes": _scikit("AdaBoostClassifier", classes=True, n_estimators=20),
    "bagging": _scikit("BaggingRegressor", n_estimators=10),
    "isolation forest": _scikit("IsolationForest", n_estimators=50),
    "lightgbm": _lightgbm(n_estimators=100),
    "lightgbm, 255 leaves": _lightgbm(n_estimators=100, num_leaves=255),
    "lightgbm, classes": _lightgbm(classes=True, n_estimators=50),
    "lightgbm, f64": _lightgbm(True, n_estimators=100),
    "xgboost": _xgboost(n_estimators=100),
    "xgboost, depth 3": _xgboost(n_estimators=300, max_depth=3),
    "xgboost, classes": _xgboost(True, n_estimators=50),
    "catboost": _catboost(n_estimators=200),
    "catboost, classes": _catboost(True, n_estimators=100),
}
"""Name -> what writes the file."""


def measure(path: Path, x: np.ndarray) -> dict[str, float]:
    """Microseconds of both, their ratio, and how far the answers differ."""
    import onnxruntime

    import glow_compiler as glow

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    x = x.astype(np.float64 if given.type == "tensor(double)" else np.float32)
    feed, net = {given.name: x}, glow.compile(path)
    answers, expected = net.run(feed), session.run(None, feed)
    error, labels = 0.0, 0
    for info, theirs in zip(session.get_outputs(), expected, strict=True):
        ours = answers[info.name]
        if isinstance(theirs, list):
            ours, theirs = (np.array([list(row.values()) for row in v]) for v in (ours, theirs))
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        if theirs.dtype.kind == "f":
            distance = np.abs(ours.astype(np.float64) - theirs).max()
            error = max(error, float(distance / max(1e-30, np.abs(theirs).max())))
        else:
            labels += int((ours != theirs).sum())
    times = timed([lambda: net.run(feed), lambda: session.run(None, feed)])
    row = {"us": times[0], "onnxruntime": times[1], "ratio": times[1] / times[0]}
    return {**row, "error": error, "labels": labels}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table; 1 where something could not be compiled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="", help="models whose name this expression is found in")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16, 256, 4096])
    parser.add_argument("--folder", type=Path, help="where the models are kept (default: a temporary folder)")
    parser.add_argument("--json", type=Path, help="write the numbers, too")
    a = parser.parse_args(arguments)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows: dict[str, dict[str, float]] = {}
    failed, data = 0, _data()
    test = np.random.default_rng(1).standard_normal((max(a.rows), WIDTH))
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in (n for n in MODELS if re.search(a.model, n)):
            path = folder / f"{name}.onnx".replace(" ", "_")
            for count in a.rows:
                try:
                    if not path.exists():
                        MODELS[name](data, path)
                    row = rows[f"{name} | {count}"] = measure(path, test[:count])
                except Exception as error:
                    failed += 1
                    print(f"{name} | {count}: {type(error).__name__}: {error}", file=sys.stderr)
                    continue
                print(f"{name:28} {count:5} " + " ".join(f"{k} {v:.4g}" for k, v in row.items()), flush=True)
    if rows:
        ratios = np.array([r["ratio"] for r in rows.values()])
        mean = float(np.exp(np.log(ratios).mean()))
        print(f"{len(rows)} cases: geometric mean {mean:.2f}, least {ratios.min():.2f},", end=" ")
        print(f"below 1.5: {int((ratios < 1.5).sum())}")
    if a.json:
        a.json.write_text(json.dumps(rows, indent=1))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
