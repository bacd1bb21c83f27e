"""Optimisers and learning-rate schedules of `glow.Trainer`; numbers mean what they mean in PyTorch.

glow.optim.SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
glow.optim.AdamW(lr=glow.optim.cosine(1e-3, steps=1000, warmup=100), clip_norm=1.0)
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glow_compiler.checks import integer, number
from glow_dialects.core.errors import GlowError
from glow_passes.autodiff.optimize import Optimizer

Schedule = Callable[[int], float]
"""Step (from 0) -> learning rate."""
Groups = Mapping[str, Mapping[str, float]]
"""Weights whose names match a pattern -> their own `weight_decay`, and `lr_scale`, a factor of the rate."""


@dataclass(frozen=True)
class Recipe:
    """An optimiser for the Trainer.

    `lr` is a number, or a schedule: a function of the step number. In `groups`, the first pattern that
    matches the name of a weight applies: {"*.bias": {"weight_decay": 0.0}} means biases without weight decay.
    """

    name: str
    lr: float | Schedule
    weight_decay: float = 0.0
    clip_norm: float = 0.0
    clip_value: float = 0.0
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    groups: Groups = field(default_factory=dict[str, Mapping[str, float]])

    def __post_init__(self) -> None:
        for what in ("weight_decay", "clip_norm", "clip_value"):
            number(f"{self.name}: {what}", getattr(self, what))
        for what in ("momentum", "dampening", "alpha", "epsilon", "lr_decay", "initial"):
            number(f"{self.name}: {what}", self.options.get(what, 0.0))
        if callable(self.lr):
            _check_schedule(self.name, self.lr)
        else:
            number(f"{self.name}: lr", self.lr)
        for pattern, values in self.groups.items():
            if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise GlowError(f"{self.name}: group '{pattern}' is {values!r}, expected a dict of settings")
            for setting, value in values.items():
                if setting not in ("weight_decay", "lr_scale"):
                    raise GlowError(
                        f"{self.name}: group '{pattern}' sets '{setting}'; there are: weight_decay, lr_scale"
                    )
                number(f"{self.name}: {setting} of group '{pattern}'", value)

    def rate(self, step: int) -> float:
        """The learning rate of a step; GlowError where a schedule gives none."""
        return number(f"the rate of step {step}", self.lr(step)) if callable(self.lr) else float(self.lr)

    def compiled(self) -> Optimizer:
        """The settings of the training function; the rate is an input of each step."""
        return Optimizer(
            self.name,
            None,
            self.weight_decay,
            self.clip_norm,
            self.clip_value,
            {n: v if isinstance(v, bool) else float(v) for n, v in self.options.items()},
            self.groups,
        )


def _check_schedule(name: str, schedule: Callable[..., Any]) -> None:
    """GlowError where a function cannot be called with a step's number alone."""
    try:
        inspect.signature(schedule).bind(0)
    except TypeError as error:
        raise GlowError(f"{name}: lr is called with the step's number alone: {error}") from None
    except ValueError:  # a function of C that tells no signature
        pass


def SGD(
    lr: float | Schedule,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    clip_norm: float = 0.0,
    clip_value: float = 0.0,
    groups: Groups | None = None,
    dampening: float = 0.0,
) -> Recipe:
    """Stochastic gradient descent with momentum and Nesterov momentum."""
    if nesterov and (not momentum or dampening):
        raise GlowError("sgd: nesterov needs a momentum and no dampening")
    options: dict[str, Any] = {}
    if momentum:
        options = {"momentum": momentum, "nesterov": nesterov, "dampening": dampening}
    return Recipe("sgd", lr, weight_decay, clip_norm, clip_value, options, groups or {})


def Adam(
    lr: float | Schedule = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    clip_norm: float = 0.0,
    clip_value: float = 0.0,
    groups: Groups | None = None,
    amsgrad: bool = False,
) -> Recipe:
    """Adam; weight decay is added to the gradient. `amsgrad` divides by the largest mean square so far."""
    return Recipe("adam", lr, weight_decay, clip_norm, clip_value, _adam(betas, eps, amsgrad), groups or {})


def AdamW(
    lr: float | Schedule = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    clip_norm: float = 0.0,
    clip_value: float = 0.0,
    groups: Groups | None = None,
    amsgrad: bool = False,
) -> Recipe:
    """Adam with decoupled weight decay."""
    return Recipe("adamw", lr, weight_decay, clip_norm, clip_value, _adam(betas, eps, amsgrad), groups or {})


def _adam(betas: tuple[float, float], eps: float, amsgrad: bool) -> dict[str, Any]:
    if not isinstance(betas, tuple | list) or len(betas) != 2:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GlowError(f"adam: betas are {betas!r}, expected two numbers")
    first, second = (number("adam: beta", beta) for beta in betas)
    if first >= 1 or second >= 1:
        raise GlowError(f"adam: beta {max(first, second)} is not in [0, 1)")
    return {"beta1": first, "beta2": second, "epsilon": eps, "amsgrad": amsgrad}


def RMSprop(
    lr: float | Schedule = 1e-2,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    clip_norm: float = 0.0,
    clip_value: float = 0.0,
    groups: Groups | None = None,
    momentum: float = 0.0,
    centered: bool = False,
) -> Recipe:
    """RMSprop: gradients divided by the root of their running mean square, or variance if `centered`."""
    options = {
        "alpha": alpha,
        "epsilon": eps,
        "momentum": momentum,
        "centered": centered,
    }
    return Recipe("rmsprop", lr, weight_decay, clip_norm, clip_value, options, groups or {})


def Adagrad(
    lr: float | Schedule = 1e-2,
    eps: float = 1e-10,
    weight_decay: float = 0.0,
    clip_norm: float = 0.0,
    clip_value: float = 0.0,
    groups: Groups | None = None,
    lr_decay: float = 0.0,
    initial_accumulator_value: float = 0.0,
) -> Recipe:
    """Adagrad: gradients divided by the root of the sum of their squares. The rate is divided by 1 +
    `lr_decay` step.
    """
    options = {
        "epsilon": eps,
        "lr_decay": lr_decay,
        "initial": initial_accumulator_value,
    }
    return Recipe("adagrad", lr, weight_decay, clip_norm, clip_value, options, groups or {})


# --- schedules ---------------------------------------------------------------------------------
def _check(lr: float, warmup: int, **others: float) -> None:
    """GlowError where a number of a schedule is none."""
    number("lr of the schedule", lr)
    integer("warmup", warmup)
    for name, value in others.items():
        number(name, value)


def _warmed(rate: float, step: int, warmup: int) -> float:
    return rate * (step + 1) / warmup if step < warmup else rate


def constant(lr: float, warmup: int = 0) -> Schedule:
    """A constant rate, after a linear warm-up over `warmup` steps."""
    _check(lr, warmup)
    return lambda step: _warmed(lr, step, warmup)


def multi_step(lr: float, milestones: Sequence[int], gamma: float = 0.1, warmup: int = 0) -> Schedule:
    """The rate is multiplied by `gamma` at each milestone (a step number)."""
    _check(lr, warmup, gamma=gamma)
    if isinstance(milestones, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GlowError(f"milestones are {milestones!r}, expected a list of steps")
    for milestone in milestones:
        integer("a milestone", milestone)
    return lambda step: _warmed(lr, step, warmup) * gamma ** sum(step >= m for m in milestones)


def exponential(lr: float, gamma: float, every: int = 1, warmup: int = 0) -> Schedule:
    """The rate is multiplied by `gamma` every `every` steps."""
    _check(lr, warmup, gamma=gamma)
    integer("every", every, 1)
    return lambda step: _warmed(lr, step, warmup) * gamma ** (step // every)


def cosine(lr: float, steps: int, warmup: int = 0, minimum: float = 0.0) -> Schedule:
    """Half a cosine from `lr` (after `warmup` steps) to `minimum` (at `steps`)."""
    _check(lr, warmup, minimum=minimum)
    integer("steps", steps, 1)

    def rate(step: int) -> float:
        if step < warmup:
            return _warmed(lr, step, warmup)
        share = min(1.0, (step - warmup) / max(1, steps - warmup))
        return minimum + (lr - minimum) * (1 + math.cos(math.pi * share)) / 2

    return rate
