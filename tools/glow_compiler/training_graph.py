"""TrainingGraph: a training module and an inference module from a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue

from glow_backends.base import public_name
from glow_compiler.losses import Loss
from glow_dialects.core.attributes import Resource, ResourceAttr
from glow_dialects.core.builder import Builder
from glow_dialects.core.errors import GlowError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, Tensor, shape_of, typed
from glow_dialects.ops.batch_norm import BatchNormTrainOp
from glow_dialects.ops.dropout import DropoutTrainOp
from glow_dialects.ops.module import (
    ConstantOp,
    FuncOp,
    GetOp,
    PlaceholderOp,
    SaveOp,
    functions,
    placeholders,
)
from glow_dialects.ops.softmax import SoftmaxOp
from glow_passes.autodiff.differentiate import count_step, differentiate
from glow_passes.autodiff.make_trainable import make_trainable
from glow_passes.autodiff.optimize import LEARNING_RATE, Optimizer, apply_optimizer
from glow_passes.autodiff.training import Training, add_placeholder, read
from glow_passes.graph.driver import rewrite
from glow_passes.graph.simplify import BEFORE_TRAINING

LABELS, LOSS, ROOT = "train.labels", "train.loss", "train.root"


class TrainingGraph:
    """`training`: @main does one step. `inference`: @main is the model, its weights still placeholders."""

    def __init__(
        self,
        module: ModuleOp,
        loss: Loss,
        optimizer: Optimizer,
        trainable: Sequence[str],
        output: str | None,
        momentum: float | None = None,
        seed: int = 0,
    ) -> None:
        if not all(isinstance(name, str) for name in trainable):  # pyright: ignore
            raise GlowError(f"trainable: patterns of the names of weights, not {trainable!r}")
        self.inference = module.clone()
        if not any(p.kind.data == "trainable" for p in placeholders(self.inference).values()):
            make_trainable(self.inference, trainable)
        known = placeholders(self.inference)
        self.parameters = {s: public_name(p) for s, p in known.items() if p.kind.data == "trainable"}
        #: Weights and running averages, the model's names by symbol.
        self.model_state = {
            s: public_name(p) for s, p in known.items() if p.kind.data in ("trainable", "state")
        }
        if not self.parameters:
            raise GlowError("the model has no weights to train")
        self.training = self.inference.clone()
        # Operators that exporters take apart have better gradients whole, and losses look for them.
        rewrite(self.training, BEFORE_TRAINING)
        function = main_of(self.training)
        save = _output(function, output)
        self.output: Tensor = typed(save.input)
        target = save.target()
        assert isinstance(target, PlaceholderOp)
        self.output_name = public_name(target)
        scores, self.softmax_dropped = save.input, False
        if loss.classes and isinstance(scores.owner, SoftmaxOp) and scores.owner.axis == 1:
            # A model for inference ends in probabilities; the loss takes what they are made of.
            scores, self.softmax_dropped = scores.owner.input, True
        self._add_loss(function, loss, scores)
        training = differentiate(self.training, function, ROOT, momentum=momentum, seed=seed)
        self._check_reached(training, trainable)
        before = set(training.function.body.block.ops)
        apply_optimizer(self.training, training, optimizer, self.parameters)
        count_step(self.training, training)
        #: The operations that turn gradients into new weights.
        self.updates = {op for op in training.function.body.block.ops if op not in before}
        self._only(training.function, function)
        rate = placeholders(self.training).get(LEARNING_RATE)
        self.rate: Tensor | None = None if rate is None else typed(rate.type)
        self.loss_name, self.labels = LOSS, LABELS
        self.own_inputs = (LABELS, LEARNING_RATE)

    @property
    def drops(self) -> bool:
        """Whether a step drops values at random, as its seed says."""
        return any(isinstance(op, DropoutTrainOp) for op in main_of(self.training).body.block.ops)

    def lone_statistics(self) -> int:
        """How many normalisations take the statistics of one value a channel, which say nothing."""
        norms = (op for op in main_of(self.training).body.block.ops if isinstance(op, BatchNormTrainOp))
        return sum(all(shape_of(op.input)[axis] == 1 for axis in op.others) for op in norms)

    def _check_reached(self, training: Training, patterns: Sequence[str]) -> None:
        """GlowError where weights were asked for that the loss does not depend on."""
        reached = [self.parameters[s] for s in training.gradients]
        self.unreached = tuple(n for n in self.parameters.values() if n not in reached)
        for pattern in (p for p in patterns if not p.startswith("!")):
            if self.unreached and not any(fnmatchcase(n, pattern) for n in reached):
                raise GlowError(f"no gradient of output '{self.output_name}' reaches '{pattern}'")

    def _add_loss(self, function: FuncOp, loss: Loss, scores: SSAValue) -> None:
        self.labels_type = loss.labels(typed(scores))
        self.classes = shape_of(scores)[1] if loss.classes else 0
        b = Builder.at_end(function.body.block)
        kind = self.labels_type
        labels = None if kind is None else read(add_placeholder(self.training, LABELS, kind, "input"), b)
        value, root = loss.insert(scores, labels, b)
        for name, result in ((LOSS, value), (ROOT, root)):
            target = add_placeholder(self.training, name, typed(result), "output")
            b.insert(SaveOp.of(result, target))

    def _only(self, function: FuncOp, source: FuncOp) -> None:
        """Leave the training function alone in the module, as @main, with the loss as its output."""
        source.detach()
        source.erase()
        function.properties["sym_name"] = StringAttr("main")
        known = placeholders(self.training)
        others = {n: p for n, p in known.items() if p.kind.data == "output" and n != LOSS}
        for op in list(function.body.block.ops):
            if isinstance(op, SaveOp) and op.symbol.root_reference.data in others:
                op.detach()
                op.erase()
        for op in others.values():
            op.detach()
            op.erase()

    def joined(self, state: Mapping[str, Array]) -> ModuleOp:
        """The inference function and the step, as @step, in one module, with these values of their states."""
        module = self.training.clone()
        step, block = main_of(module), module.body.block
        step.properties["sym_name"] = StringAttr("step")
        shared = {op.sym_name.data for op in block.ops if isinstance(op, PlaceholderOp | ConstantOp)}
        for op in self.inference.clone().body.block.ops:
            op.detach()
            if not (isinstance(op, PlaceholderOp | ConstantOp) and op.sym_name.data in shared):
                block.insert_op_before(op, step)
        for name, op in placeholders(module).items():
            if name in state:
                op.properties["init"] = ResourceAttr(Resource(name, np.array(state[name])))
        module.verify()
        return module

    # --- looking for the first bad value -------------------------------------------------------
    def first_not_finite(self, feed: Mapping[str, Array], state: Mapping[str, Array]) -> str:
        """Run the step operator by operator; says which one first made a value that is not finite."""
        known: dict[SSAValue, Array] = {}
        by_symbol = {s: public_name(p) for s, p in placeholders(self.training).items()}
        for op in main_of(self.training).body.block.ops:
            if isinstance(op, GetOp):
                target = op.target()
                name = op.symbol.root_reference.data
                array: Any = target.array() if isinstance(target, ConstantOp) else None
                if array is None:
                    array = state[name] if name in state else feed[by_symbol[name]]
                known[op.result] = np.asarray(array)
                if not _finite(known[op.result]):
                    return f"the value of @{name} is not finite before the step"
            elif isinstance(op, GraphOp):
                with np.errstate(all="ignore"):
                    values = op.evaluate([known[v] for v in op.operands])
                known.update(zip(op.results, values, strict=True))
                if not all(_finite(v) for v in values):
                    hint = op.results[0].name_hint
                    return f"{op.name}{f' (%{hint})' if hint else ''} is the first whose result is not finite"
        return "no operator does so in the reference interpreter"


def _finite(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def main_of(module: ModuleOp) -> FuncOp:
    """The function @main."""
    for function in functions(module):
        if function.sym_name.data == "main":
            return function
    raise GlowError("the module has no function @main")


def _output(function: FuncOp, name: str | None) -> SaveOp:
    saves = [op for op in function.body.block.ops if isinstance(op, SaveOp)]
    known: dict[str, SaveOp] = {}
    for save in saves:
        target = save.target()
        if isinstance(target, PlaceholderOp) and target.kind.data == "output":
            known[public_name(target)] = save
    if not known or (name is not None and name not in known):
        raise GlowError(
            f"no output '{name or ''}' for the loss; the outputs are: {', '.join(known) or 'none'}"
        )
    return known[name] if name is not None else list(known.values())[-1]
