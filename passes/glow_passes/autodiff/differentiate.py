"""glow-differentiate: add a training function to the module of an inference function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.errors import GlowError
from glow_dialects.core.term import Term
from glow_dialects.core.types import shape_of, typed
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.batch_norm import BatchNormOp, BatchNormTrainOp
from glow_dialects.ops.dropout import DropoutOp, DropoutTrainOp
from glow_dialects.ops.module import FuncOp, GetOp, PlaceholderOp, SaveOp, functions, placeholders
from glow_dialects.ops.recurrent import RecurrentOp
from glow_dialects.reverse import (
    NotDifferentiableError,
    blockers,
    cotangents,
    described,
    expand,
    flat,
    on_path,
)
from glow_passes.autodiff.optimize import Optimizer, apply_optimizer
from glow_passes.autodiff.recurrent import has_training_form, training_form
from glow_passes.autodiff.training import STEP, Training, add_placeholder, step_value
from glow_passes.autodiff.volumes import planes_form
from glow_passes.contract import GraphPass


def use_training_forms(module: ModuleOp, function: FuncOp, momentum: float | None, seed: int) -> None:
    """Batch statistics for batch_norm (running ones are saved where they are state), random dropout.

    `seed` shifts those of the dropouts; two of one seed would drop the same places, so that the
    second takes the next number.
    """
    seeds, latest = set[int](), dict[PlaceholderOp, SaveOp]()
    for op in list(function.body.block.ops):
        if isinstance(op, BatchNormOp):
            _train_batch_norm(op, Builder.before(op), momentum, latest)
        elif isinstance(op, DropoutOp) and op.ratio:
            b, own = Builder.before(op), (op.seed + (seed << 32)) % (1 << 63)
            while own in seeds:
                own += 1
            seeds.add(own)
            dropout = DropoutTrainOp(op.input, step_value(module, b), ratio=op.ratio, seed=own)
            _replace(op, b.insert(dropout).results)


def _replace(op: Operation, values: Sequence[SSAValue]) -> None:
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()


def _train_batch_norm(
    op: BatchNormOp, b: Builder, momentum: float | None, latest: dict[PlaceholderOp, SaveOp]
) -> None:
    """`latest`: the last update of each running statistic; a layer that is used again continues from it."""
    sources = [v.owner for v in (op.mean, op.variance)]
    states: list[PlaceholderOp] = []
    for source in sources:
        target = source.target() if isinstance(source, GetOp) else None
        if not isinstance(target, PlaceholderOp) or target.kind.data != "state":
            return  # fixed statistics: the layer is frozen
        states.append(target)
    trained = BatchNormTrainOp(op.input, op.scale, op.bias, epsilon=op.epsilon, layout=op.layout)
    norm = b.insert(trained)
    count = prod([shape_of(op.input)[i] for i in op.others])
    kept = op.momentum if momentum is None else momentum
    unbiased = Term(norm.variance, b) * (count / max(1, count - 1))
    for state, old, new in zip(states, (op.mean, op.variance), (norm.mean, unbiased.value), strict=True):
        if (save := latest.get(state)) is not None:
            old = save.input
            save.detach()
            save.erase()
        latest[state] = b.insert(SaveOp.of((Term(old, b) * kept + Term(new, b) * (1 - kept)).value, state))
    _replace(op, [norm.results[0]])


def loss_of(function: FuncOp, name: str = "") -> SSAValue:
    """The value saved to output `name`, or the last one saved; GlowError where there is none."""
    saves = [op for op in function.body.block.ops if isinstance(op, SaveOp)]
    chosen = [s for s in saves if not name or s.symbol.root_reference.data == name]
    if not chosen:
        there = ", ".join(f"@{s.symbol.root_reference.data}" for s in saves) or "none"
        raise GlowError(f"no output @{name} to differentiate; the outputs are {there}")
    return chosen[-1].input


def differentiate(
    module: ModuleOp,
    function: FuncOp,
    loss: str = "",
    wrt: Sequence[str] = (),
    momentum: float | None = None,
    seed: int = 0,
) -> Training:
    """Append to the module a training form of `function` with the gradients of its parameters.

    `loss` names the output to differentiate (the last by default), `wrt` the placeholders (all
    trainable ones by default); `momentum` is that of running averages (None: each batch_norm's
    own), `seed` that of dropouts. Parameters that the loss does not depend on have no gradient.
    Raises NotDifferentiableError with every operator that is in the way, GlowError where the loss
    depends on no parameter.
    """
    training_function = FuncOp.of(f"{function.sym_name.data}_training", training=True)
    block, mapping = training_function.body.block, dict[SSAValue, SSAValue]()
    for op in function.body.block.ops:
        block.add_op(op.clone(mapping))
    module.body.block.add_op(training_function)
    use_training_forms(module, training_function, momentum, seed)
    loss_value = loss_of(training_function, loss)
    known = placeholders(module)
    names = list(wrt) or [n for n, p in known.items() if p.kind.data == "trainable"]
    unknown = [n for n in names if n not in known]
    if unknown or not names:
        text = ", ".join(f"@{n}" for n in unknown) or "no trainable placeholder"
        raise GlowError(f"cannot differentiate with respect to {text}")
    parameters = _parameters(list(block.ops), names)
    wanted = list(parameters.values())
    for op in on_path(list(block.ops), [loss_value], wanted):
        if isinstance(op, RecurrentOp) and has_training_form(op):
            _replace(op, training_form(op, Builder.before(op)))
        elif (planes := planes_form(op, Builder.before(op))) is not None:
            _replace(op, planes)
    expand(list(block.ops), on_path(list(block.ops), [loss_value], wanted))
    loss_value = loss_of(training_function, loss)
    b = Builder.at_end(block)
    ops = list(block.ops)
    grads = cotangents(ops, {loss_value: b.splat(1, loss_value)}, wanted, b)
    training = Training(training_function, b, parameters)
    training.gradients = {n: g for n, v in parameters.items() if (g := grads[v]) is not None}
    if not training.gradients:
        stops = blockers(ops, [loss_value], wanted) or flat(ops, [loss_value], wanted, b)
        if stops:
            raise NotDifferentiableError(list(dict.fromkeys(described(op) for op in stops)))
        raise GlowError(f"no gradient reaches any of {', '.join(f'@{n}' for n in names)}")
    return training


def _parameters(ops: Sequence[Operation], names: Sequence[str]) -> dict[str, SSAValue]:
    """One read of each parameter; further reads of the same are merged into it."""
    by_name: dict[str, SSAValue] = {}
    for op in ops:
        if isinstance(op, GetOp) and op.symbol.root_reference.data in names:
            name = op.symbol.root_reference.data
            if name in by_name:
                op.result.replace_all_uses_with(by_name[name])
            else:
                by_name[name] = op.result
    return by_name


def save_gradients(module: ModuleOp, training: Training) -> None:
    """Write each gradient to an output placeholder `<parameter>.grad`, zeros where there is none."""
    b = training.builder
    for name, parameter in training.parameters.items():
        value = training.gradients.get(name) or b.splat(0, parameter)
        target = add_placeholder(module, f"{name}.grad", typed(value), "output")
        b.insert(SaveOp.of(value, target))


def count_step(module: ModuleOp, training: Training) -> None:
    """Add one to the step counter where the function reads it."""
    b = training.builder
    target = placeholders(module).get(STEP)
    if target is None:
        return
    gets = [op for op in training.function.body.block.ops if isinstance(op, GetOp)]
    reads = [op for op in gets if op.symbol.root_reference.data == STEP]
    if reads:
        one = b.scalar(1, reads[0].result)
        b.insert(SaveOp.of(b(AddOp(reads[0].result, one)), target))


@dataclass(frozen=True)
class DifferentiatePass(GraphPass):
    """Add @<function>_training: gradients of `wrt` saved as outputs, or applied by an `optimizer`.

    `optimizer` is sgd, adam, adamw, rmsprop or adagrad with its options; without `lr` the learning
    rate is an input of the module.
    """

    name = "glow-differentiate"
    BODIES = False
    function: str = "main"
    loss: str = ""
    wrt: tuple[str, ...] = ()
    optimizer: str = ""
    lr: float | None = None
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    clip_norm: float = 0.0
    clip_value: float = 0.0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        source = next((f for f in functions(op) if f.sym_name.data == self.function), None)
        if source is None:
            raise GlowError(f"the module has no function @{self.function}")
        training = differentiate(op, source, self.loss, self.wrt)
        if not self.optimizer:
            save_gradients(op, training)
        else:
            options = {"momentum": self.momentum, "nesterov": self.nesterov}
            chosen = Optimizer(
                self.optimizer,
                self.lr,
                self.weight_decay,
                self.clip_norm,
                self.clip_value,
                options if self.optimizer == "sgd" else {},
            )
            apply_optimizer(op, training, chosen)
        count_step(op, training)
