"""What notebooks show: HTML of modules, executables, profiles, reports, trainings."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_training import data, mlp
from test_page import SMALL

import glow_compiler as glow
from glow_compiler.quantization import report


class Checked(HTMLParser):
    """Refuses tags that do not close each other, and keeps the words."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data + " "


def shown(thing: Any) -> str:
    """The words of what a notebook shows."""
    parser = Checked()
    parser.feed(thing._repr_html_())
    parser.close()
    assert not parser.open
    return " ".join(parser.words.split())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A small program."""
    path = tmp_path / "net.mlir"
    path.write_text(SMALL)
    return path


def test_modules_and_executables(file: Path) -> None:
    """Inputs, outputs, operations and the text; stages and sizes."""
    words = shown(glow.load(file))
    assert "glow.neg 2" in words and "float32 [4]" in words and "glow.save %y to @y" in words
    assert "<module: input x: tensor<4xf32>" in repr(glow.load(file)) and "@main of 5 op" in repr(
        glow.load(file)
    )
    net = glow.compile(file)
    words = shown(net)
    assert "Executable on cpu" in words and "x float32[4]" in words and "kernels" in words
    assert "stage time" in shown(net.report()) and "weights 64 bytes" in shown(net.report())


def test_profiles_and_quantisation(file: Path) -> None:
    """Ranges of values, decibels of layers."""
    batches = [{"x": np.array([-1, 0, 1, 3], np.float32)}]
    words = shown(glow.profile(file, batches))
    assert "Ranges of 1 batches" in words and "-1 3" in words
    assert "dB" in shown(report(file, batches))


def test_training() -> None:
    """A table of the epochs, and a curve of each figure."""
    trainer = glow.Trainer(mlp(), loss="cross_entropy", backend="interpreter")
    history = trainer.fit(lambda epoch: data(4), epochs=3, progress=False)
    assert len(history) == 3 and all("loss" in epoch for epoch in history)
    words = shown(history)
    assert "epoch loss" in words and f"{history[0]['loss']:.4g} to {history[-1]['loss']:.4g}" in words
