"""Trainer: a model, a loss and an optimiser compiled into one program that is run once a step."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from glow_backends.base import Backend, Port, Program, check_inputs, ports
from glow_backends.report import Report
from glow_compiler import checkpoint
from glow_compiler.api import backend_of
from glow_compiler.checks import integer, number, numbers
from glow_compiler.datasets import batches, by_name, cut, pair, samples, whole
from glow_compiler.graph_structure import lines_of
from glow_compiler.losses import Loss
from glow_compiler.notebook import History
from glow_compiler.optim import SGD, Recipe
from glow_compiler.trained_model import module_of, open_form
from glow_compiler.training_graph import TrainingGraph, main_of
from glow_dialects.core.errors import BindingError, GlowError
from glow_dialects.core.types import Array, dtype_of, shape_of, tensor_of
from glow_passes.autodiff.freeze_placeholders import freeze_placeholders
from glow_passes.autodiff.optimize import LEARNING_RATE
from glow_passes.autodiff.rematerialize import BUDGET
from glow_runtime.compile import compile_module

Metrics = Mapping[str, Callable[[Array, Array], float]]  # name -> function of the outputs and the labels


@dataclass
class _Step:
    """A compiled step for one number of samples."""

    graph: TrainingGraph
    program: Program

    def __post_init__(self) -> None:
        self.inputs = [p for p in self.program.inputs if p.name not in self.graph.own_inputs]
        kind = self.graph.labels_type
        self.label_shape = None if kind is None else shape_of(kind)
        self.state: dict[str, Array] = self.program.state  # pyright: ignore


class Trainer:
    """Trains a model. Each step is one call of a compiled program.

    Args:
        model: A path (.onnx or .mlir), an onnx.ModelProto, a module or a GraphBuilder.
        loss: The name of the loss, or "output" if the model's output is the loss.
        optimizer: The optimiser, see `glow.optim`; by default SGD.
        batch: Fixes a dynamic first dimension. A step with fewer samples is compiled once more.
        backend: Where the steps run.
        threads: Threads of a step.
        trainable: Names of weights to train, with `*` and `?`; `!` in front excludes weights.
        loss_options: Options of the loss.
        output: The output that the loss is computed from; by default the last one.
        shapes: Fixes dynamic dimensions of inputs.
        values: Fixes inputs of an ONNX model, for example those that select a branch.
        momentum: Momentum of running averages in normalisations; None: the model's.
        memory_budget: Bytes for activations. Cheap operators are computed again in the backward pass until
            they fit, as far as possible.
        detect_anomaly: If a loss is not finite, name the first operator whose result is not, and undo the
            step.
        seed: Seed of dropout and of the order of the data.
        devices: Two or more devices that share each batch in equal parts. The result is that of one device up
            to rounding, for losses that are means or sums over samples. Batch normalisation uses the
            statistics of each part. A batch that cannot be divided runs on one device.

    Raises:
        NotDifferentiableError: Lists all operators that have no gradient.
        GlowError: Anything else that is wrong with the model or the arguments.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> w = g.constant(np.zeros((1, 1), np.float32), "w")
        >>> g.save(g.matmul(g.placeholder("x", (4, 1)), w), "y")
        >>> trainer = glow.Trainer(g, loss="mse", optimizer=glow.optim.SGD(lr=0.1))
        >>> x = np.ones((4, 1), np.float32)
        >>> for _ in range(50):
        ...     loss = trainer.step(x, 3 * x)
        >>> trainer.parameters()["w"].round(2).tolist()
        [[3.0]]
    """

    def __init__(
        self,
        model: Any,
        loss: str = "cross_entropy",
        optimizer: Recipe | None = None,
        *,
        batch: int | None = None,
        backend: str | Backend = "cpu",
        threads: int = 1,
        trainable: Sequence[str] = ("*",),
        loss_options: Mapping[str, Any] | None = None,
        output: str | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, Array] | None = None,
        momentum: float | None = None,
        memory_budget: int | None = None,
        detect_anomaly: bool = False,
        seed: int = 0,
        devices: Sequence[Any] = (),
    ) -> None:
        optimizer = SGD(lr=0.01) if optimizer is None else optimizer
        if not isinstance(optimizer, Recipe):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GlowError(f"optimizer is {optimizer!r}, expected one of glow.optim, such as SGD(lr=0.1)")
        for what, whole_number, least in (("batch", batch, 1), ("memory_budget", memory_budget, 1)):
            if whole_number is not None:
                integer(what, whole_number, least)
        if momentum is not None:
            number("momentum", momentum, most=1.0)
        trainable = trainable if isinstance(trainable, list | tuple) else cast("Sequence[str]", (trainable,))
        self.optimizer = optimizer
        self.loss = Loss(loss, dict(loss_options or {}))
        self.backend, self.threads, self.seed = backend, threads, integer("seed", seed)
        self.detect_anomaly = detect_anomaly
        compiled = optimizer.compiled()

        shared = None
        if devices:
            from glow_compiler.data_parallel import DataParallel

            shared = DataParallel(devices)

        def graph_for(wanted: Mapping[str, Sequence[int]] | None) -> TrainingGraph:
            module = module_of(model, shapes, trainable, batch, values, wanted)
            graph = TrainingGraph(module, self.loss, compiled, trainable, output, momentum, seed)
            if memory_budget is not None:
                main_of(graph.training).attributes[BUDGET] = IntegerAttr(memory_budget, i64)
            return graph

        def build(wanted: Mapping[str, Sequence[int]] | None) -> _Step:
            graph = graph_for(wanted)
            data = [p for p in ports(graph.training, "input") if p.name not in graph.own_inputs]
            if shared is None or any(not p.shape or p.shape[0] % len(shared) for p in data):
                return _Step(graph, self._compile(graph.training))
            from glow_compiler.data_parallel import ParallelProgram

            part = graph_for({p.name: (p.shape[0] // len(shared), *p.shape[1:]) for p in data})
            sums = self.loss.options.get("reduction") == "sum"
            return _Step(graph, ParallelProgram(graph, part, backend_of(self.backend, 1, {}), shared, sums))

        self._build, self._open_form = build, lambda: open_form(model, trainable, values)
        self._whole = build(None)
        self._others: dict[tuple[tuple[int, ...], ...], _Step] = {}
        self.graph, self.state = self._whole.graph, self._whole.state
        self._inputs = self._whole.inputs
        self._rate = np.zeros((), dtype_of(self.graph.rate)) if self.graph.rate is not None else None
        self._inference: Program | None = None
        self._fresh = False
        self.steps = self.epoch = self._position = 0
        if batch is not None and self._inputs and self.batch != batch:
            raise GlowError(f"the model has a batch of {self.batch}, not {batch}")

    def __repr__(self) -> str:
        weights = sum(v.size for v in self.state.values())
        return f"Trainer({self.loss.name}, {weights} numbers of state, {self.steps} steps done)"

    # --- facts -----------------------------------------------------------------------------------
    @property
    def inputs(self) -> list[Port]:
        """The inputs of a step, labels left out."""
        return list(self._inputs)

    @property
    def batch(self) -> int:
        """Samples a step: the first dimension of the inputs."""
        sizes = {p.shape[0] for p in self._inputs if p.shape}
        return sizes.pop() if len(sizes) == 1 else (self.graph.output.get_shape() or (1,))[0]

    @property
    def report(self) -> Report:
        """The report of compiling the step: stages with seconds, kernels, bytes of the arena."""
        return self._whole.program.report

    def parameters(self) -> dict[str, Array]:
        """Copies of the trainable weights, by their names in the model."""
        return {public: self.state[symbol].copy() for symbol, public in self.graph.parameters.items()}

    def set_parameters(self, values: Mapping[str, Array]) -> None:
        """Overwrite weights by name. GlowError for unknown names and different shapes."""
        symbols = {public: symbol for symbol, public in self.graph.parameters.items()}
        for name, array in values.items():
            if name not in symbols:
                raise GlowError(f"no parameter '{name}'; there are: {', '.join(symbols)}")
            target = self.state[symbols[name]]
            value = numbers(f"parameter '{name}'", array)
            if value.shape != target.shape:
                raise GlowError(f"parameter '{name}' has shape {target.shape}, got {value.shape}")
            target[...] = value
        self._fresh = False

    # --- training -------------------------------------------------------------------------------
    def step(self, inputs: Any, labels: Any = None) -> float:
        """Do one training step.

        Args:
            inputs: An array, a dict by name, or a list in the model's order.
            labels: The labels; None if the model's output is the loss.

        Returns:
            The loss before the update.

        Raises:
            BindingError: The data do not fit the model.
            GlowError: The loss is not finite.
        """
        compiled, feed = self._feed(inputs)
        self.loss.check_labels(labels)
        if labels is not None:
            feed[self.graph.labels] = self._checked(compiled, numbers("labels", labels))
        if self._rate is not None:
            if not self.steps or callable(self.optimizer.lr):
                self._rate[...] = self.optimizer.rate(self.steps)
            feed[LEARNING_RATE] = self._rate
        before = {n: a.copy() for n, a in self.state.items()} if self.detect_anomaly else None
        if compiled is not self._whole:
            for name, array in self.state.items():
                compiled.state[name][...] = array
        loss = float(compiled.program.run(feed)[self.graph.loss_name])
        if compiled is not self._whole:
            for name, array in self.state.items():
                array[...] = compiled.state[name]
        self._fresh = False
        if not math.isfinite(loss):
            self._anomaly(compiled, loss, feed, before)
        self.steps += 1
        return loss

    def _feed(self, inputs: Any) -> tuple[_Step, dict[str, Array]]:
        """The program for the number of samples, and the inputs by name, checked."""
        if type(inputs) is np.ndarray and len(self._inputs) == 1:
            port = self._inputs[0]
            if inputs.shape == port.shape and inputs.dtype == port.dtype:
                return self._whole, {port.name: inputs}
        data = by_name(inputs, self._inputs)
        count = samples(data, self._inputs)
        chosen = self._whole
        if count is not None:
            try:
                chosen = self._resized({n: a.shape for n, a in data.items()}, count)
            except BindingError:
                if all(data[p.name].shape[:1] != p.shape[:1] for p in self._inputs):
                    raise
        return chosen, check_inputs(chosen.inputs, data)

    def _resized(self, shapes: Mapping[str, tuple[int, ...]], count: int) -> _Step:
        """The step for another number of samples than `batch`; its states are copied in and out."""
        key = tuple(shapes[p.name] for p in self._inputs)
        if key not in self._others:
            try:
                if not count:
                    raise GlowError("there are no training data")
                trainer = self._build(shapes)
                if trainer.graph.lone_statistics() > self.graph.lone_statistics():
                    raise GlowError("a normalisation of the batch has one value for each channel")
                self._others[key] = trainer
            except GlowError as error:
                raise BindingError(f"a batch of {count} samples: {error}") from None
        return self._others[key]

    def _count(self, inputs: Any) -> int:
        """How many samples inputs without labels are."""
        return samples(by_name(inputs, self._inputs), self._inputs) or self.batch

    def _takes(self, inputs: Any) -> bool:
        """Whether the model can be made for so many samples."""
        data = by_name(inputs, self._inputs)
        try:
            self._resized({n: a.shape for n, a in data.items()}, samples(data, self._inputs) or 0)
        except BindingError:
            return False
        return True

    def _checked(self, compiled: _Step, labels: Array) -> Array:
        """The labels in the form that the program takes."""
        graph = compiled.graph
        assert graph.labels_type is not None
        if graph.classes and labels.dtype == np.int64 and labels.shape == compiled.label_shape:
            flat = np.ascontiguousarray(labels)
            # Negative numbers are large ones without a sign.
            if flat.size and flat.view(np.uint64).max() < graph.classes:
                return flat
        return self.loss.check(labels, graph.labels_type, graph.classes)

    def _anomaly(
        self, compiled: _Step, loss: float, feed: dict[str, Array], before: dict[str, Array] | None
    ) -> None:
        if before is None:
            raise GlowError(
                f"the loss is {loss} at step {self.steps}, and the weights were updated; "
                "Trainer(detect_anomaly=True) undoes such steps and names the operator"
            )
        for name, array in before.items():
            self.state[name][...] = array
        culprit = compiled.graph.first_not_finite(feed, before)
        raise GlowError(f"the loss is {loss} at step {self.steps}: {culprit}; the step was undone")

    def fit(
        self,
        dataset: Any,
        epochs: int,
        *,
        validation: Any = None,
        metrics: Metrics | None = None,
        shuffle: bool = True,
        drop_last: bool | None = None,
        checkpoint: str | Path | None = None,
        every: int = 0,
        progress: bool | Callable[[dict[str, float]], None] = True,
    ) -> History:
        """Train for some epochs.

        Args:
            dataset: A pair (inputs, labels) of arrays; or an iterable of batches, one pair per step, that can
                be iterated once per epoch; or a function from the number of an epoch to such an iterable.
                Arrays are divided into batches, in an order that depends only on the trainer's seed and the
                epoch.
            epochs: The number of epochs.
            validation: Data in the same forms, evaluated after each epoch.
            metrics: Further functions of outputs and labels for the validation, by name.
            shuffle: Shuffle the data.
            drop_last: Whether to skip a smaller last batch. By default it is used if the model can be
                compiled for it. True skips it, False makes it an error if the model cannot be compiled for
                it.
            checkpoint: A file. Training continues from it if it exists, and saves to it after each epoch.
            every: Also save after this number of steps.
            progress: Show progress, or a function that is called with the figures of each epoch.

        Returns:
            Loss, seconds and validation figures of each epoch.

        Raises:
            BindingError: The data do not fit the model.
            GlowError: An argument is wrong, or the loss is not finite.
        """
        integer("epochs", epochs)
        integer("every", every)
        for name, metric in (metrics or {}).items():
            if not callable(metric):
                raise GlowError(f"metric '{name}' is {metric!r}, expected a function of outputs and labels")
        path = None if checkpoint is None else Path(checkpoint)
        if path is not None and path.exists():
            self.load(path)
        last = epochs if path is not None else self.epoch + epochs
        history = History()
        while self.epoch < last:
            history.append(self._epoch(dataset, shuffle, drop_last, path, every))
            if validation is not None:
                figures = self._validate(validation, metrics or {})
                history[-1] |= {f"validation_{n}": v for n, v in figures.items()}
            if path is not None:
                self.save(path)
            if callable(progress):
                progress(history[-1])
            elif progress:
                text = ", ".join(f"{n} {v:.4g}" for n, v in history[-1].items() if n != "epoch")
                print(f"epoch {self.epoch}/{last}: {text}", file=sys.stderr)
        return history

    def _epoch(
        self, dataset: Any, shuffle: bool, drop_last: bool | None, path: Path | None, every: int
    ) -> dict[str, float]:
        total, count, start = 0.0, 0, time.perf_counter()
        if isinstance(dataset, tuple):
            order = np.random.default_rng([self.seed, self.epoch]) if shuffle else None
            inputs, labels = pair(dataset)
            data = cut(inputs, labels, self._inputs, self.batch, order)
        else:
            data = batches(dataset, self.epoch)
        if drop_last is not False:
            data = whole(data, self._inputs, None if drop_last else self._takes)
        for index, (inputs, labels) in enumerate(data):
            if index < self._position:
                continue
            size = len(labels) if labels is not None else self._count(inputs)
            total += self.step(inputs, labels) * size
            count += size
            self._position = index + 1
            if path is not None and every and self.steps % every == 0:
                self.save(path)
        if not count and not self._position:
            hint = "" if isinstance(dataset, tuple) or not self.epoch else ": generators end with an epoch"
            raise GlowError(f"the data set has no batch of {self.batch} samples{hint}")
        self.epoch, self._position = self.epoch + 1, 0
        seconds = time.perf_counter() - start
        return {"epoch": self.epoch, "loss": total / max(count, 1), "seconds": seconds}

    # --- inference ------------------------------------------------------------------------------
    def predict(self, inputs: Any) -> Array:
        """The model's output for any number of samples, with the current weights; BindingError as `step`."""
        data = by_name(inputs, self._inputs)
        if all(p.name in data and data[p.name].shape == p.shape for p in self._inputs):
            return self._infer(data)
        if any(p.name not in data for p in self._inputs):
            return self._infer(data)  # which says what is missing
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

    def _validate(self, data: Any, metrics: Metrics) -> dict[str, float]:
        if isinstance(data, tuple):
            return self.evaluate(*pair(data), metrics)
        if not self.loss.labelled:
            return self._own_loss([x for x, _ in batches(data, self.epoch)])
        parts = [(self.predict(x), numbers("labels", y)) for x, y in batches(data, self.epoch)]
        if not parts:
            raise GlowError("the validation data have no batch")
        outputs, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self._figures(outputs, labels, metrics)

    def evaluate(self, inputs: Any, labels: Any = None, metrics: Metrics | None = None) -> dict[str, float]:
        """The mean loss, the accuracy if labels are classes, and `metrics`, over any number of samples.

        If the model's output is the loss, only the loss of whole batches is computed. BindingError if inputs
        or labels do not fit the model or each other.
        """
        self.loss.check_labels(labels)
        if not self.loss.labelled:
            parts = cut(inputs, None, self._inputs, self.batch, None)
            return self._own_loss([x for x, _ in whole(parts, self._inputs, None)])
        return self._figures(self.predict(inputs), numbers("labels", labels), metrics or {})

    def _own_loss(self, parts: Sequence[Any]) -> dict[str, float]:
        if not parts:
            raise GlowError(f"the validation data have no batch of {self.batch} samples")
        return {"loss": float(np.mean([self._infer(by_name(x, self._inputs)).mean() for x in parts]))}

    def _figures(self, output: Array, targets: Array, metrics: Metrics) -> dict[str, float]:
        if len(output) != len(targets):
            raise BindingError(f"{len(output)} samples, {len(targets)} labels")
        kind = self.loss.labels(tensor_of(output))
        assert kind is not None
        targets = self.loss.check(targets, kind, self.graph.classes)
        scores = np.log(np.maximum(output, 1e-38)) if self.graph.softmax_dropped else output
        figures = {"loss": self.loss.value(scores, targets)}
        if self.loss.classes:
            right, counted = output.argmax(axis=1) == targets, self.loss.counted(targets)
            figures["accuracy"] = float(right[counted].mean())
        return figures | {name: float(metric(output, targets)) for name, metric in metrics.items()}

    # --- files ----------------------------------------------------------------------------------
    def save(self, path: str | Path) -> None:
        """Write a checkpoint: weights, optimiser states, running averages and the position in the data.

        GlowError if the file cannot be written.
        """
        facts = {"steps": self.steps, "epoch": self.epoch, "position": self._position, "seed": self.seed}
        checkpoint.write(Path(path), self.state, facts, self._belonging)

    def load(self, path: str | Path) -> None:
        """Continue from a checkpoint, with the same numbers as if training had not stopped.

        GlowError names the differences if the checkpoint belongs to another graph, loss or optimiser, or was
        written within an epoch with another batch size.
        """
        arrays, facts = checkpoint.read(Path(path), self.state, self._belonging)
        batch = facts["belonging"]["batch"]
        if facts["position"] and batch != self.batch:
            raise GlowError(
                f"{path}: saved within an epoch of batches of {batch}; here they have {self.batch}"
            )
        if facts["seed"] != self.seed and self.graph.drops:
            raise GlowError(f"{path}: seed {facts['seed']} was used for dropout; here it is {self.seed}")
        for name, array in arrays.items():
            self.state[name][...] = array
        self.steps, self.epoch = facts["steps"], facts["epoch"]
        if self._rate is not None:
            self._rate[...] = self.optimizer.rate(self.steps)
        self._position, self.seed, self._fresh = facts["position"], facts["seed"], False

    def load_weights(self, path: str | Path, names: Sequence[str] = ("*",)) -> list[str]:
        """Load weights and running averages from a checkpoint of any training.

        Args:
            path: A checkpoint, or any safetensors file with the model's names. Optimiser states and the
                position in the data do not change.
            names: Which weights, with `*` and `?`.

        Returns:
            The names of the loaded weights.

        Raises:
            GlowError: A matching weight is missing in the file, or has another shape or type.
        """
        public = self.graph.model_state
        patterns = (names,) if isinstance(names, str) else names
        arrays = checkpoint.read_weights(Path(path), self.state, public, patterns)
        for symbol, array in arrays.items():
            self.state[symbol][...] = array
        self._fresh = False
        return [public[symbol] for symbol in arrays]

    @cached_property
    def _belonging(self) -> checkpoint.Belonging:
        loss = f"{self.loss.name} of '{self.graph.output_name}'"
        graph = lines_of(main_of(self.graph.inference))
        return checkpoint.Belonging(loss, self.optimizer.name, self.batch, graph)

    def module(self, step: bool = False) -> ModuleOp:
        """The trained model as a module, for `glow.compile`. Its dynamic sizes are dynamic again.

        With `step`, the weights are states shared by two functions: @main, the model, and @step, a training
        step. @step takes `train.labels` and `train.learning_rate` in addition to the inputs, and returns
        `train.loss`. The states have the current values, and the batch size is this trainer's. `glow.save`
        writes such a module for glow-compile.
        """
        if step:
            return self.graph.joined(self.state)
        inference = self._open_form() or self.graph.inference.clone()
        freeze_placeholders(inference, self.state)
        return inference

    def export(self, path: str | Path) -> None:
        """Write the trained model as ONNX. UnsupportedError lists operators that ONNX cannot express."""
        from glow_frontends.onnx.export import save_model

        save_model(self.module(), Path(path))

    def _compile(self, module: ModuleOp) -> Program:
        return compile_module(module, backend_of(self.backend, self.threads, {}))
