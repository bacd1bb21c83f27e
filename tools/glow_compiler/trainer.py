"""Trainer: a model, a loss and an optimiser compiled into one program that is run once a step."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from glow_backends.base import Port, Program, Report, check_inputs, get_backend
from glow_compiler import checkpoint
from glow_compiler.losses import Loss
from glow_compiler.optim import Recipe
from glow_compiler.training_graph import TrainingGraph, main_of
from glow_dialects.core.errors import BindingError, GlowError
from glow_dialects.core.types import Array, dtype_of, shape_of
from glow_passes.autodiff.freeze_placeholders import freeze_placeholders
from glow_passes.autodiff.optimize import LEARNING_RATE
from glow_passes.autodiff.rematerialize import BUDGET
from glow_runtime.compile import compile_module

Batch = tuple[Any, Any]
"""(inputs: an array or a dict by name, labels)."""


class Trainer:
    """Trains a model; every step is one call of a compiled program.

    `model`: a path (.onnx or .mlir), an onnx.ModelProto, a module or a GraphBuilder. `loss` names
    the loss of the last output (or of `output`) with `loss_options`; `trainable` are names of
    weights with `*` and `?`, the others stay as they are. `batch` binds a symbolic first dimension.
    `momentum` is that of running averages in normalisations (None: the model's), `seed` that of
    dropout and of the data's order. With a `memory_budget` in bytes cheap
    operators are computed again in the backward pass until activations fit, as far as that goes.
    Raises NotDifferentiableError with every operator that has no gradient, and GlowError for
    anything else that does not fit.
    """

    def __init__(
        self,
        model: Any,
        loss: str = "cross_entropy",
        optimizer: Recipe | None = None,
        *,
        batch: int | None = None,
        backend: str = "cpu",
        threads: int = 1,
        trainable: Sequence[str] = ("*",),
        loss_options: Mapping[str, Any] | None = None,
        output: str | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        momentum: float | None = None,
        memory_budget: int | None = None,
        detect_anomaly: bool = False,
        seed: int = 0,
    ) -> None:
        if optimizer is None:
            from glow_compiler.optim import SGD

            optimizer = SGD(lr=0.01)
        self.optimizer = optimizer
        self.loss = Loss(loss, dict(loss_options or {}))
        self.backend, self.threads, self.seed = backend, threads, seed
        self.detect_anomaly = detect_anomaly
        module = _module(model, shapes, trainable, batch)
        self.graph = TrainingGraph(module, self.loss, optimizer.compiled(), trainable, output, momentum, seed)
        if memory_budget is not None:
            main_of(self.graph.training).attributes[BUDGET] = IntegerAttr(memory_budget, i64)
        self._program = self._compile(self.graph.training)
        self.state: dict[str, Array] = self._program.state  # pyright: ignore
        self._rate = np.zeros((), dtype_of(self.graph.rate)) if self.graph.rate is not None else None
        self._inputs = [p for p in self._program.inputs if p.name not in self.graph.own_inputs]
        self._label_shape = shape_of(self.graph.labels_type)
        self._inference: Program | None = None
        self._fresh = False
        self.steps = 0
        self.epoch = 0
        self._position = 0
        if batch is not None and self._inputs and self.batch != batch:
            raise GlowError(f"the model has a batch of {self.batch}, not {batch}")

    # --- what there is --------------------------------------------------------------------------
    @property
    def inputs(self) -> list[Port]:
        """The inputs of a step, labels left out."""
        return list(self._inputs)

    @property
    def batch(self) -> int:
        """Samples a step."""
        return self.graph.output.get_shape()[0] if self.graph.output.get_shape() else 1

    @property
    def report(self) -> Report:
        """What compiling the step did: stages with seconds, kernels, bytes of the arena."""
        return self._program.report

    def parameters(self) -> dict[str, Array]:
        """The trainable weights by the model's names, copied."""
        return {public: self.state[symbol].copy() for symbol, public in self.graph.parameters.items()}

    def set_parameters(self, values: Mapping[str, Array]) -> None:
        """Overwrite weights by name; GlowError for unknown names or shapes that differ."""
        symbols = {public: symbol for symbol, public in self.graph.parameters.items()}
        for name, array in values.items():
            if name not in symbols:
                raise GlowError(f"no parameter '{name}'; there are: {', '.join(symbols)}")
            target = self.state[symbols[name]]
            if np.shape(array) != target.shape:
                raise GlowError(f"parameter '{name}' has shape {target.shape}, got {np.shape(array)}")
            target[...] = array
        self._fresh = False

    # --- training -------------------------------------------------------------------------------
    def step(self, inputs: Any, labels: Any) -> float:
        """One update; returns the loss before it. GlowError where the loss is not finite."""
        feed = self._feed(inputs)
        feed[self.graph.labels] = self._checked(np.asarray(labels))
        if self._rate is not None:
            if not self.steps or callable(self.optimizer.lr):
                self._rate[...] = self.optimizer.rate(self.steps)
            feed[LEARNING_RATE] = self._rate
        before = {n: a.copy() for n, a in self.state.items()} if self.detect_anomaly else None
        results = self._program.run(feed)
        loss = float(results[self.graph.loss_name])
        self._fresh = False
        if not math.isfinite(loss):
            self._anomaly(loss, feed, before)
        self.steps += 1
        return loss

    def _feed(self, inputs: Any) -> dict[str, Array]:
        """The inputs by name, checked; a lone array that fits goes a short way."""
        if isinstance(inputs, np.ndarray) and len(self._inputs) == 1:
            port = self._inputs[0]
            if inputs.shape == port.shape and inputs.dtype == port.dtype:
                return {port.name: inputs}
        return check_inputs(self._inputs, _by_name(inputs, self._inputs))

    def _checked(self, labels: Array) -> Array:
        """The labels in the form that the program takes."""
        graph = self.graph
        if graph.classes and labels.dtype == np.int64 and labels.shape == self._label_shape:
            flat = np.ascontiguousarray(labels)
            # Negative numbers are large ones without a sign.
            if flat.size and flat.view(np.uint64).max() < graph.classes:
                return flat
        return self.loss.check(labels, graph.labels_type, graph.classes)

    def _anomaly(self, loss: float, feed: dict[str, Array], before: dict[str, Array] | None) -> None:
        if before is None:
            raise GlowError(
                f"the loss is {loss} at step {self.steps}; Trainer(detect_anomaly=True) names the operator"
            )
        for name, array in before.items():
            self.state[name][...] = array
        culprit = self.graph.first_not_finite(feed, before)
        raise GlowError(f"the loss is {loss} at step {self.steps}: {culprit}; the step was undone")

    def fit(
        self,
        dataset: Any,
        epochs: int,
        *,
        validation: Any = None,
        shuffle: bool = True,
        checkpoint: str | Path | None = None,
        every: int = 0,
        progress: bool | Callable[[dict[str, float]], None] = True,
    ) -> list[dict[str, float]]:
        """Train for `epochs` epochs; returns loss, seconds and validation metrics of each.

        `dataset` is (inputs, labels) of arrays, cut into batches in an order that depends on the
        trainer's seed and the epoch only (samples that fill no batch wait for another epoch's
        order), or an iterable of such pairs, one a step, that can be iterated once an epoch.
        With `checkpoint` the training starts from that file where it exists, saves there after
        each epoch and every `every` steps, and ends when `epochs` are done in all.
        """
        path = None if checkpoint is None else Path(checkpoint)
        if path is not None and path.exists():
            self.load(path)
        last = epochs if path is not None else self.epoch + epochs
        history: list[dict[str, float]] = []
        while self.epoch < last:
            history.append(self._epoch(dataset, shuffle, path, every))
            if validation is not None:
                found = self.evaluate(*validation)
                history[-1] |= {f"validation_{n}": v for n, v in found.items()}
            if path is not None:
                self.save(path)
            if callable(progress):
                progress(history[-1])
            elif progress:
                text = ", ".join(f"{n} {v:.4g}" for n, v in history[-1].items() if n != "epoch")
                print(f"epoch {self.epoch}/{last}: {text}", file=sys.stderr)
        return history

    def _epoch(self, dataset: Any, shuffle: bool, path: Path | None, every: int) -> dict[str, float]:
        total, count, start = 0.0, 0, time.perf_counter()
        for index, (inputs, labels) in enumerate(self._batches(dataset, shuffle)):
            if index < self._position:
                continue
            total += self.step(inputs, labels)
            count += 1
            self._position = index + 1
            if path is not None and every and self.steps % every == 0:
                self.save(path)
        if not count and not self._position:
            raise GlowError(f"the data set has no batch of {self.batch} samples")
        self.epoch, self._position = self.epoch + 1, 0
        seconds = time.perf_counter() - start
        return {"epoch": self.epoch, "loss": total / max(count, 1), "seconds": seconds}

    def _batches(self, dataset: Any, shuffle: bool) -> Iterable[Batch]:
        if not isinstance(dataset, tuple):
            yield from dataset
            return
        inputs: Any = dataset[0]  # pyright: ignore[reportUnknownVariableType]
        labels: Any = dataset[1]  # pyright: ignore[reportUnknownVariableType]
        data, targets = _by_name(inputs, self._inputs), np.asarray(labels)
        count = len(targets)
        for name, array in data.items():
            if len(array) != count:
                raise BindingError(f"input '{name}' has {len(array)} samples, the labels {count}")
        order = np.arange(count)
        if shuffle:
            np.random.default_rng([self.seed, self.epoch]).shuffle(order)
        for first in range(0, count - self.batch + 1, self.batch):
            chosen = order[first : first + self.batch]
            yield {n: a[chosen] for n, a in data.items()}, targets[chosen]

    # --- inference ------------------------------------------------------------------------------
    def predict(self, inputs: Any) -> Array:
        """The output for any number of samples, with the weights as they are now."""
        data = _by_name(inputs, self._inputs)
        count = len(next(iter(data.values())))
        parts: list[Array] = []
        for first in range(0, count, self.batch):
            chosen = np.minimum(np.arange(first, first + self.batch), count - 1)
            parts.append(self._infer({n: a[chosen] for n, a in data.items()}))
        return np.concatenate(parts)[:count]

    def _infer(self, feed: dict[str, Array]) -> Array:
        if self._inference is None:
            self._inference = self._compile(self.graph.inference)
        program = self._inference
        if not self._fresh:
            for name, array in program.state.items():  # pyright: ignore
                array[...] = self.state[name]
            self._fresh = True
        return program.run(check_inputs(program.inputs, feed))[self.graph.output_name]

    def evaluate(self, inputs: Any, labels: Any) -> dict[str, float]:
        """The mean loss, and the accuracy where labels are classes, over any number of samples."""
        output, targets = self.predict(inputs), np.asarray(labels)
        if len(output) != len(targets):
            raise BindingError(f"{len(output)} samples, {len(targets)} labels")
        scores = np.log(np.maximum(output, 1e-38)) if self.graph.softmax_dropped else output
        kind = np.dtype(np.int64) if self.loss.classes else scores.dtype
        found = {"loss": self.loss.value(scores, targets.astype(kind, copy=False))}
        if self.loss.classes:
            found["accuracy"] = float((output.argmax(axis=1) == targets).mean())
        return found

    # --- files ----------------------------------------------------------------------------------
    def save(self, path: str | Path) -> None:
        """Write a checkpoint: weights, optimiser states, running averages and the place in the data."""
        facts = {"steps": self.steps, "epoch": self.epoch, "position": self._position, "seed": self.seed}
        checkpoint.write(Path(path), self.state, facts)

    def load(self, path: str | Path) -> None:
        """Continue from a checkpoint, with the same numbers as if training had not stopped."""
        arrays, facts = checkpoint.read(Path(path), self.state)
        for name, array in arrays.items():
            self.state[name][...] = array
        self.steps, self.epoch = facts["steps"], facts["epoch"]
        if self._rate is not None:
            self._rate[...] = self.optimizer.rate(self.steps)
        self._position, self.seed, self._fresh = facts["position"], facts["seed"], False

    def module(self) -> ModuleOp:
        """The trained model as a module of constants, for `glow.compile`."""
        made = self.graph.inference.clone()
        freeze_placeholders(made, self.state)
        return made

    def export(self, path: str | Path) -> None:
        """Write the trained model as ONNX."""
        from glow_frontends.onnx.export import save_model

        save_model(self.module(), Path(path))

    def _compile(self, module: ModuleOp) -> Program:
        return compile_module(module, get_backend(self.backend, threads=self.threads))


def _module(
    model: Any, shapes: Mapping[str, Sequence[int]] | None, trainable: Sequence[str], batch: int | None
) -> ModuleOp:
    from glow_compiler.api import load
    from glow_frontends.builder import GraphBuilder

    if isinstance(model, ModuleOp | GraphBuilder):
        return load(model)
    if isinstance(model, str | Path) and not str(model).endswith(".onnx"):
        return load(model)
    from glow_frontends.onnx.trainable import import_trainable

    return import_trainable(model, shapes, trainable, batch)


def _by_name(inputs: Any, expected: Sequence[Port]) -> dict[str, Array]:
    """Inputs as a dict; a bare array is the only input."""
    if isinstance(inputs, Mapping):
        return {str(n): np.asarray(a) for n, a in inputs.items()}  # pyright: ignore
    if len(expected) != 1:
        raise BindingError(f"the model has {len(expected)} inputs: {', '.join(p.name for p in expected)}")
    return {expected[0].name: np.asarray(inputs)}
