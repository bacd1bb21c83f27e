"""Seconds and memory of a training step, one thread, PyTorch beside it.

    python -m benchmarks.training            # every network
    python -m benchmarks.training mlp lenet

Each measurement runs in its own process: processor seconds of a step (the best of several, so that
other programs matter little) and the peak of resident memory. Networks:
an MLP 64-128-10 with a batch of 32, LeNet with 64, ResNet18 on 32 x 32 images with 32, an LSTM and a
GRU of 128 hidden over 50 places with 32.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

STEPS = {"mlp": 2000, "lenet": 40, "resnet18": 4, "lstm": 40, "gru": 40}


def example(name: str) -> np.ndarray:
    """A batch of inputs."""
    shapes = {"mlp": (32, 64), "lenet": (64, 1, 28, 28), "resnet18": (32, 3, 32, 32)}
    return np.random.default_rng(0).normal(size=shapes.get(name, (32, 50, 64))).astype(np.float32)


def network(name: str) -> tuple[Any, np.ndarray]:
    """(the PyTorch network, a batch of inputs)."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    if name == "mlp":
        return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), example(name)
    if name == "lenet":
        layers = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
        layers += [nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        layers += [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
        return nn.Sequential(*layers), example(name)
    return (resnet18() if name == "resnet18" else sequence(name)), example(name)


def sequence(name: str) -> Any:
    """An LSTM or GRU of 128 hidden over 50 places of 64 numbers, and a classifier of its last state."""
    from torch import nn

    class Sequence(nn.Module):
        """The layer and the classifier."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = getattr(nn, name.upper())(64, 128, batch_first=True)
            self.head = nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            """Scores [N, 10]."""
            return self.head(self.layer(x)[0][:, -1])

    return Sequence()


def resnet18() -> Any:
    """ResNet18 with the stem for small images."""
    import torch
    from torch import nn

    class Block(nn.Module):
        """Two convolutions and a shortcut."""

        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.first_norm = nn.BatchNorm2d(outputs)
            self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.second_norm = nn.BatchNorm2d(outputs)
            self.shortcut = nn.Sequential()
            if stride != 1 or inputs != outputs:
                across = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
                self.shortcut = nn.Sequential(across, nn.BatchNorm2d(outputs))

        def forward(self, x: Any) -> Any:
            """relu(convolutions + shortcut)."""
            y = torch.relu(self.first_norm(self.first(x)))
            return torch.relu(self.second_norm(self.second(y)) + self.shortcut(x))

    layers: list[Any] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def export(name: str, path: Path) -> None:
    """Write a network as ONNX, nothing folded."""
    import torch

    net, x = network(name)
    net.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, torch.tensor(x), str(path), dynamo=False, do_constant_folding=False)


def glow_step(path: Path, x: np.ndarray, labels: np.ndarray) -> Callable[[], float]:
    """A step of Glow on the exported network; returns its loss."""
    import glow_compiler as glow

    trainer = glow.Trainer(path, "cross_entropy", glow.optim.SGD(lr=0.01, momentum=0.9))
    return lambda: trainer.step(x, labels)


def torch_step(name: str, x: np.ndarray, labels: np.ndarray) -> Callable[[], float]:
    """A step of PyTorch; returns its loss."""
    import torch

    torch.set_num_threads(1)
    net, _ = network(name)
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    data, targets = torch.tensor(x), torch.tensor(labels)

    def step() -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(data), targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def memory() -> float:
    """Peak resident memory of this program so far, MB (getrusage's count starts from the parent's)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(s.split()[1]) / 1024 for s in lines if s.startswith("VmHWM:"))


def measure(name: str, framework: str, path: Path) -> dict[str, float]:
    """One measurement, in this process."""
    x = example(name)
    labels = np.random.default_rng(1).integers(0, 10, len(x))
    step = glow_step(path, x, labels) if framework == "glow" else torch_step(name, x, labels)
    loss, count = step(), max(1, STEPS[name] // 5)
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(count):
            step()
        best = min(best, (time.process_time() - start) / count)
    return {"milliseconds": best * 1e3, "megabytes": memory(), "loss": loss}


def main() -> None:
    """Measure what was asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("networks", nargs="*", default=list(STEPS), help=", ".join(STEPS))
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each network")
    parser.add_argument("--one", nargs=2, metavar=("FRAMEWORK", "MODEL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        framework, path = arguments.one
        print(json.dumps(measure(arguments.networks[0], framework, Path(path))))
        return
    if not arguments.json:
        print("network    glow ms   torch ms   faster   glow MB   torch MB")
    for name in arguments.networks:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            export(name, path)
            found: dict[str, dict[str, float]] = {}
            for framework in ("glow", "torch"):
                command = [sys.executable, "-m", "benchmarks.training", name, "--one", framework, str(path)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found[framework] = json.loads(done.stdout.splitlines()[-1])
        ours, theirs = found["glow"], found["torch"]
        if arguments.json:
            print(json.dumps({"model": name, **found}), flush=True)
            continue
        ratio = theirs["milliseconds"] / ours["milliseconds"]
        assert abs(ours["loss"] - theirs["loss"]) < 1e-3 * abs(theirs["loss"]) + 1e-4
        print(
            f"{name:9s} {ours['milliseconds']:8.3f}   {theirs['milliseconds']:8.3f}   {ratio:5.2f}x"
            f"   {ours['megabytes']:7.0f}   {theirs['megabytes']:8.0f}"
        )


if __name__ == "__main__":
    main()
