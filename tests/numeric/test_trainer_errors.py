"""What users get wrong with the Trainer: one message of a GlowError for each, before anything is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_backends.base import get_backend
from glow_dialects.core.errors import GlowError
from glow_dialects.core.sample import random

O = glow.optim
X, Y = random(4, 6), np.array([0, 1, 2, 0])


def trainer(loss: str = "cross_entropy", optimizer: Any = None, **options: Any) -> glow.Trainer:
    """A Trainer of 6 -> 5 -> 3 on the interpreter."""
    b = glow.GraphBuilder()
    hidden = b.relu(b.matmul(b.placeholder("x", (4, 6)), b.constant(random(6, 5), "w")))
    b.save(b.matmul(hidden, b.constant(random(5, 3), "v")), "y")
    options.setdefault("backend", "interpreter")
    return glow.Trainer(b, loss, optimizer, **options)


def _rate(of: Any) -> float:
    return trainer(optimizer=O.SGD(lr=of)).step(X, Y)


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "labels of unequal parts": (
        lambda: trainer().step(X, [[1], [2, 3], [1], [1]]),
        "labels is a list with rows of different lengths",
    ),
    "labels of text": (lambda: trainer().step(X, list("abcd")), "labels: dtype <U1, expected real numbers"),
    "no labels": (lambda: trainer().step(X, None), "loss 'cross_entropy' needs labels"),
    "complex labels": (lambda: trainer("mse").step(X, np.zeros((4, 3), complex)), "dtype complex128"),
    "no inputs": (lambda: trainer().step(None, Y), "input 'x' is None, expected an array"),
    "prediction of nothing": (lambda: trainer().predict({}), "missing input 'x'"),
    "other labels to evaluate": (lambda: trainer().evaluate(X, Y + 7), "label 7 at .0. is out of range"),
    "labels to evaluate in columns": (lambda: trainer().evaluate(X, Y[:, None]), "labels have shape"),
    "text as weights": (
        lambda: trainer().set_parameters({"w": np.full((6, 5), "a")}),
        "dtype <U1",
    ),
    "smoothing": (lambda: trainer(loss_options={"label_smoothing": 2.0}), "label_smoothing is 2.0"),
    "weights of classes": (
        lambda: trainer(loss_options={"weights": [1.0, 2.0]}),
        "loss .*3 classes",
    ),
    "reduction": (lambda: trainer(loss_options={"reduction": "avg"}), "reduction is 'avg', not one of"),
    "delta": (lambda: trainer("huber", loss_options={"delta": -1.0}), "delta is -1.0"),
    "rate of text": (lambda: O.SGD(lr="0.1"), "sgd: lr is '0.1', expected a finite number"),  # pyright: ignore
    "infinite rate": (lambda: O.Adam(lr=float("inf")), "adam: lr is inf"),
    "schedule without a rate": (lambda: _rate(lambda step: None), "the rate of step 0 is None"),
    "schedule that is negative": (lambda: _rate(lambda step: -1.0), "the rate of step 0 is -1.0"),
    "schedule that is not a number": (lambda: _rate(lambda step: float("nan")), "the rate of step 0 is nan"),
    "schedule that was not made": (lambda: _rate(O.cosine), "lr is called with the step's number alone"),
    "schedule of no steps": (lambda: O.cosine(0.1, steps=0), "steps is 0, expected at least 1"),
    "schedule of no interval": (lambda: O.exponential(0.1, 0.9, every=0), "every is 0"),
    "one milestone": (lambda: O.multi_step(0.1, 5), "milestones are 5"),  # pyright: ignore
    "negative warm-up": (lambda: O.constant(0.1, warmup=-2), "warmup is -2"),
    "one beta": (lambda: O.Adam(betas=0.9), "betas are 0.9, expected two numbers"),  # pyright: ignore
    "momentum of text": (lambda: O.SGD(0.1, momentum="a"), "sgd: momentum is 'a'"),  # pyright: ignore
    "negative decay of a group": (
        lambda: O.SGD(0.1, groups={"*": {"weight_decay": -1.0}}),
        "sgd: weight_decay of group",
    ),
    "group of a number": (lambda: O.SGD(0.1, groups={"*": 0.1}), "expected a dict"),  # pyright: ignore
    "batch of text": (lambda: trainer(batch="8"), "batch is '8', expected an integer"),
    "budget": (lambda: trainer(memory_budget=-5), "memory_budget is -5"),
    "momentum of averages": (lambda: trainer(momentum=2.0), "momentum is 2.0"),
    "seed": (lambda: trainer(seed=-1), "seed is -1"),
    "epochs": (lambda: trainer().fit((X, Y), 1.5, progress=False), "epochs is 1.5"),  # pyright: ignore
    "metric": (
        lambda: trainer().fit((X, Y), 1, metrics={"a": 5}, progress=False),  # pyright: ignore
        "metric 'a' is 5",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name: str) -> None:
    """A GlowError that says what and where."""
    action, message = CASES[name]
    with pytest.raises(GlowError, match=message):
        action()


def test_model_of_another_kind() -> None:
    """The same message as that of glow.compile."""
    with pytest.raises(TypeError, match="a model is a path"):
        glow.Trainer(5)


def test_one_pattern() -> None:
    """A text is one pattern."""
    made = trainer(trainable="w*", optimizer=O.SGD(lr=lambda step: 0.1))
    assert list(made.parameters()) == ["w"]
    made.step(X, Y)


def test_a_backend_that_was_made() -> None:
    """A trainer takes one as glow.compile does."""
    assert trainer(backend=get_backend("interpreter")).steps == 0
