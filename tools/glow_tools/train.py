"""glow-train: train a model on arrays in files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glow_tools.command_line import Parser
from glow_tools.common import add_backend, add_shape, command, count_option, fail, guarded

if TYPE_CHECKING:
    import numpy as np

    from glow_compiler.optim import Recipe

EXAMPLES = """\
  glow-train model.onnx --data train.npz --epochs 5 -o trained.onnx
  glow-train net.mlir --data train.npz --test test.npz --optimizer adam --lr 1e-3 --batch 64
  glow-train net.mlir --data train.npz --checkpoint state.safetensors --epochs 20     (again: goes on)
  glow-train net.mlir --data train.npz --trainable 'classifier*' --schedule cosine -o tuned.mlir
"""
OPTIMIZERS = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop", "adagrad": "Adagrad"}


def arguments() -> Parser:
    """The command line."""
    parser = command(
        "glow-train",
        "Train a model. Data files are .npz archives with one array per input, under the input's name "
        "(`x` if the model has one input), and the labels under the name --labels. The first axis of each "
        "array is the sample.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("model", help=".onnx or .mlir file, or a Python script to run (its arguments follow)")
    add("--data", type=Path, metavar="FILE.npz", help="the samples to train on")
    add("--test", type=Path, metavar="FILE.npz", help="samples to evaluate on after each epoch")
    add("--labels", default="y", help="name of the labels in the files (default: y)")
    told = "the loss (default: cross_entropy); output: the model's output is the loss"
    add("--loss", default="cross_entropy", help=told)
    add("--optimizer", choices=tuple(OPTIMIZERS), default="sgd", help="the optimiser (default: sgd)")
    add("--lr", type=float, default=0.01, help="learning rate (default: 0.01)")
    add("--momentum", type=float, default=0.0, help="momentum of sgd (default: 0)")
    add("--weight-decay", type=float, default=0.0, help="weight decay (default: 0)")
    add("--clip-norm", type=float, default=0.0, help="maximum norm of the gradients (default: no limit)")
    told = "schedule of the learning rate (default: constant)"
    add("--schedule", choices=("constant", "cosine"), default="constant", help=told)
    add("--batch", type=count_option, help="samples per step (default: the model's batch size)")
    add("--epochs", type=count_option, default=1, help="number of epochs (default: 1)")
    add("--seed", type=count_option, default=0, help="seed of the shuffling (default: 0)")
    told = "train only these weights (with * and ?), or with !NAME all except these"
    add("--trainable", action="append", metavar="NAME", help=told)
    add_shape(parser)
    add_backend(parser)
    add("--threads", type=count_option, default=1, help="worker threads (default: 1)")
    told = "memory for activations; cheap operators are computed again to fit"
    add("--memory-budget", type=count_option, metavar="BYTES", help=told)
    told = "if the loss is NaN or infinite, name the first operator that is"
    add("--detect-anomaly", action="store_true", help=told)
    told = "continue from this file if it exists; save to it after each epoch"
    add("--checkpoint", type=Path, metavar="FILE", help=told)
    told = "start with the weights of a safetensors file, such as a checkpoint"
    add("--weights", type=Path, metavar="FILE", help=told)
    add("-o", "--output", type=Path, metavar="FILE", help="write the trained model (.onnx or .mlir)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-train`."""
    a = list(sys.argv[1:] if argv is None else argv)
    if a and a[0].endswith(".py"):
        return guarded(lambda: _script(a))
    parser = arguments()
    a = parser.parse_args(a)
    if a.data is None:
        parser.error("--data is required")
    if a.output is not None and a.output.suffix not in (".onnx", ".mlir"):
        parser.error(f"-o {a.output}: a trained model is called NAME.onnx or NAME.mlir")
    return guarded(lambda: _train(a))


def _script(arguments: list[str]) -> None:
    """Run a training script as Python would."""
    import runpy

    if not Path(arguments[0]).exists():
        fail(f"{arguments[0]}: No such file or directory")
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")


def _train(a: argparse.Namespace) -> None:
    import glow_compiler as glow
    from glow_tools.input_values import load_archive

    data = load_archive(a.data)
    labels = own_labels(a, data, a.data)
    count = len(next(iter(data.values()), ())) if labels is None else len(labels)
    trainer = glow.Trainer(
        a.model,
        a.loss,
        recipe(a, count),
        batch=a.batch,
        backend=a.backend,
        threads=a.threads,
        trainable=a.trainable or ("*",),
        shapes=dict(a.shape) or None,
        seed=a.seed,
        memory_budget=a.memory_budget,
        detect_anomaly=a.detect_anomaly,
    )
    if a.weights is not None:
        trainer.load_weights(a.weights)
    names = [p.name for p in trainer.inputs]
    inputs = chosen(data, names, a.data)
    validation = None
    if a.test is not None:
        test = load_archive(a.test)
        test_labels = own_labels(a, test, a.test)
        validation = (chosen(test, names, a.test), test_labels)

    def show(epoch_figures: dict[str, float]) -> None:
        figures = ", ".join(f"{n} {v:.4g}" for n, v in epoch_figures.items() if n != "epoch")
        print(f"epoch {epoch_figures['epoch']:.0f}: {figures}", flush=True)

    trainer.fit((inputs, labels), a.epochs, validation=validation, checkpoint=a.checkpoint, progress=show)
    if a.output is not None:
        glow.save(trainer.module(), a.output)
        print(f"wrote {a.output}")


def recipe(a: argparse.Namespace, samples: int) -> Recipe:
    """The optimiser that the options describe; `samples` is how many an epoch has."""
    from glow_compiler import optim

    options: dict[str, Any] = {"weight_decay": a.weight_decay, "clip_norm": a.clip_norm}
    if a.optimizer == "sgd":
        options["momentum"] = a.momentum
    elif a.momentum:
        fail(f"--momentum is sgd's; {a.optimizer} has its own")
    rate: Any = a.lr
    if a.schedule == "cosine":
        steps = max(1, a.epochs * (samples // (a.batch or 1)))
        rate = optim.cosine(a.lr, steps=steps)
    return getattr(optim, OPTIMIZERS[a.optimizer])(rate, **options)


def own_labels(a: argparse.Namespace, data: dict[str, np.ndarray], path: Path) -> np.ndarray | None:
    """The labels, removed from the data; None where the model's output is its loss."""
    return None if a.loss == "output" else pop_labels(data, a.labels, path)


def pop_labels(data: dict[str, np.ndarray], labels: str, path: Path) -> np.ndarray:
    """The labels, removed from the data."""
    if labels not in data:
        fail(f"{path} has no labels '{labels}'; it contains: {', '.join(data)} (see --labels)")
    return data.pop(labels)


def chosen(data: Mapping[str, np.ndarray], names: Sequence[str], path: Path) -> dict[str, np.ndarray]:
    """The model's inputs; `x` stands for the only one."""
    if len(names) == 1 and names[0] not in data and "x" in data:
        return {names[0]: data["x"]}
    missing = [n for n in names if n not in data]
    if missing:
        fail(f"{path} has no input '{missing[0]}'; it contains: {', '.join(data)}")
    return {n: data[n] for n in names}


if __name__ == "__main__":
    raise SystemExit(main())
