"""Optimisers at the end of a training function: gradients clipped, weights and states updated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.errors import GlowError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.term import Term
from glow_dialects.core.types import dtype_of, element_of, shape_of, tensor, typed
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.module import SaveOp, placeholders
from glow_dialects.ops.optimizer import AdagradOp, AdamOp, MomentumOp, RmspropOp, SgdOp
from glow_passes.autodiff.training import Training, add_placeholder, read, step_value

#: The input that holds the learning rate where it is not fixed.
LEARNING_RATE = "train.learning_rate"


@dataclass(frozen=True)
class Optimizer:
    """Which optimiser, with which numbers. `lr` None: the learning rate is an input of every step.

    `clip_value` bounds each gradient element, `clip_norm` the norm of all gradients together; 0 is
    no bound. `options` are further properties of the optimiser's operator. `groups` gives weights
    whose names match a pattern a `weight_decay` of their own, and an `lr_scale`.
    """

    name: str
    lr: float | None = None
    weight_decay: float = 0.0
    clip_norm: float = 0.0
    clip_value: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    groups: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])

    def group(self, name: str) -> Mapping[str, float]:
        """The settings of the weight `name`: the first group that matches."""
        return next((v for p, v in self.groups.items() if fnmatchcase(name, p)), {})

    def operator(self) -> tuple[type[GraphOp], dict[str, float], dict[str, Any]]:
        """The operator, its states with their initial values, and its properties."""
        options = {"weight_decay": self.weight_decay, **self.options}
        match self.name:
            case "sgd" if not options.get("momentum"):
                return SgdOp, {}, {"weight_decay": self.weight_decay}
            case "sgd":
                return MomentumOp, {"velocity": 0.0}, options
            case "adam" | "adamw":
                largest = {"largest": 0.0} if options.pop("amsgrad", False) else {}
                options["decoupled"] = self.name == "adamw"
                return AdamOp, {"first": 0.0, "second": 0.0, **largest}, options
            case "rmsprop":
                states = {"square": 0.0}
                if options.pop("centered", False):
                    states["mean"] = 0.0
                if options.get("momentum"):
                    states["velocity"] = 0.0
                return RmspropOp, states, options
            case "adagrad":
                return AdagradOp, {"square": options.pop("initial", 0.0)}, options
            case _:
                raise GlowError(f"no optimizer '{self.name}'; there are: sgd, adam, adamw, rmsprop, adagrad")

    def counts(self) -> bool:
        """Whether the update depends on the number of finished steps."""
        late = self.options.get("lr_decay") or self.options.get("dampening")
        return self.name in ("adam", "adamw") or bool(late)


def clipped(training: Training, chosen: Optimizer) -> dict[str, SSAValue]:
    """The gradients after clipping by value, then by global norm."""
    b, grads = training.builder, dict(training.gradients)
    if chosen.clip_value:
        bound = chosen.clip_value
        grads = {n: b(ClipOp(g, min=-bound, max=bound)) for n, g in grads.items()}
    if chosen.clip_norm:
        terms = {n: Term(g, b) for n, g in grads.items()}
        squares = [(g * g).sum(tuple(range(len(g.shape))), keepdims=False) for g in terms.values()]
        total = squares[0]
        for square in squares[1:]:
            total = total + square
        factor = (chosen.clip_norm / (total.sqrt() + 1e-6)).minimum(1.0)
        grads = {n: (g * factor).value for n, g in terms.items()}
    return grads


def learning_rate(module: ModuleOp, b: Builder, chosen: Optimizer, like: SSAValue) -> SSAValue:
    """The learning rate as a scalar of the element type of `like`."""
    kind = tensor((), element_of(like))
    if chosen.lr is not None:
        return b.splat(chosen.lr, kind)
    return read(add_placeholder(module, LEARNING_RATE, kind, "input"), b)


def apply_optimizer(
    module: ModuleOp, training: Training, chosen: Optimizer, names: Mapping[str, str] | None = None
) -> None:
    """Update every parameter in place, with its states beside it as `<parameter>.<state>`.

    `names` are those of the model where they are not the symbols. GlowError where a group matches
    no parameter.
    """
    public = dict(names or {n: n for n in training.parameters})
    for pattern in chosen.groups:
        if not any(fnmatchcase(n, pattern) for n in public.values()):
            raise GlowError(f"{chosen.name}: no weight matches the group '{pattern}'")
    kind, states, properties = chosen.operator()
    b, known = training.builder, placeholders(module)
    grads = clipped(training, chosen)
    rates: dict[Any, SSAValue] = {}
    step = step_value(module, b) if chosen.counts() else None
    # The last layer's gradient is known first: using it at once frees what it was computed from.
    block = training.function.body.block
    order: dict[Operation | Block, int] = {op: place for place, op in enumerate(block.ops)}
    for name in sorted(grads, key=lambda n: order[grads[n].owner]):
        grad, weight = grads[name], training.parameters[name]
        element = element_of(weight)
        if element not in rates:
            rates[element] = learning_rate(module, b, chosen, weight)
        shape, dtype = shape_of(weight), dtype_of(typed(weight))
        symbols = {
            s: add_placeholder(module, f"{name}.{s}", typed(weight), "state", np.full(shape, first, dtype))
            for s, first in states.items()
        }
        own, rate = chosen.group(public[name]), rates[element]
        if own.get("lr_scale", 1.0) != 1.0:
            rate = (Term(rate, b) * own["lr_scale"]).value
        own_properties: dict[str, Any] = properties | {n: v for n, v in own.items() if n == "weight_decay"}
        by_name = {"weight": weight, "grad": grad, "lr": rate, "step": step}
        by_name |= {s: read(symbol, b) for s, symbol in symbols.items()}
        operands = [by_name.get(operand) for operand, _ in kind.operand_groups()]
        update = b.insert(kind(*operands, **own_properties))
        for value, symbol in zip(update.results, (known[name], *symbols.values()), strict=True):
            b.insert(SaveOp.of(value, symbol))
