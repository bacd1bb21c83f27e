"""What the examples share: first weights, the order of samples, and the accuracies of PyTorch's runs.

python examples/training/recipes.py    # run every recipe in PyTorch, write pytorch.json
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import glow_compiler as glow

RECIPES = ("digits_mlp", "lenet_mnist", "lstm_sequence", "char_rnn", "fine_tuning", "file_kinds")
RECORD = Path(__file__).with_name("pytorch.json")
SEED = 0
"""Of the first weights and of the order of samples, in both runs of a recipe."""

Array = np.ndarray[Any, Any]
Weights = dict[str, Array]


def uniform(sizes: Mapping[str, tuple[Sequence[int], int]]) -> Weights:
    """Weights by name, of shapes, between -1 and 1 over the root of the number of inputs."""
    rng = np.random.default_rng(SEED)
    return {
        name: rng.uniform(-(inputs**-0.5), inputs**-0.5, shape).astype(np.float32)
        for name, (shape, inputs) in sizes.items()
    }


def constants(g: glow.GraphBuilder, start: Weights) -> dict[str, Any]:
    """The weights as constants of a graph, under their names."""
    return {name: g.constant(array, name) for name, array in start.items()}


def batches(x: Array, y: Array, epochs: int, size: int) -> Iterator[tuple[Array, Array]]:
    """The batches of all epochs, each in an order of its own; what fills no batch is left out."""
    for epoch in range(epochs):
        order = np.random.default_rng([SEED, epoch]).permutation(len(x))
        for first in range(0, len(x) - size + 1, size):
            chosen = order[first : first + size]
            yield x[chosen], y[chosen]


def train_in_pytorch(
    forward: Callable[[Any], Any],
    optimizer: Any,
    data: Iterator[tuple[Array, Array]],
    clip_norm: float = 0.0,
) -> None:
    """Steps of PyTorch's optimiser down the cross entropy of `forward`, a function of an input tensor."""
    import torch

    for x, y in data:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(forward(torch.tensor(x)), torch.tensor(y)).backward()
        if clip_norm:
            weights = [w for group in optimizer.param_groups for w in group["params"]]
            torch.nn.utils.clip_grad_norm_(weights, clip_norm)
        optimizer.step()


def digest(name: str) -> str:
    """Of the data of a recipe whose data change with this repository; of others the empty one."""
    return getattr(importlib.import_module(name), "digest", str)()


def recorded(name: str) -> float | None:
    """The accuracy that PyTorch reached with a recipe when pytorch.json was written; None where the data were
    others then."""
    facts = json.loads(RECORD.read_text())
    return facts["accuracies"][name] if facts["digests"].get(name, "") == digest(name) else None


def show(name: str, train: Callable[[], float], train_with_pytorch: Callable[[], float]) -> None:
    """Print a recipe's accuracies: Glow's, that of PyTorch where it is installed, the recorded one."""
    print(f"glow               {train():.4f}")
    if find_spec("torch") is not None:
        print(f"pytorch            {train_with_pytorch():.4f}")
    before = recorded(name)
    print(f"pytorch, recorded  {'with other data' if before is None else f'{before:.4f}'}")


def record() -> None:
    """Run every recipe in PyTorch and write what they reach, with the version, the seed and the day."""
    import torch

    accuracies = {name: importlib.import_module(name).train_with_pytorch() for name in RECIPES}
    facts = {
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "seed": SEED,
        "accuracies": {name: round(value, 4) for name, value in accuracies.items()},
        "digests": {name: digest(name) for name in RECIPES if digest(name)},
    }
    RECORD.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    record()
