"""PyTorch networks as ONNX models."""

from __future__ import annotations

import io
import warnings
from typing import Any

import onnx
import pytest


def exported(net: Any, *examples: Any, symbolic: bool = True) -> onnx.ModelProto:
    """The network as ONNX, its batch symbolic or fixed."""
    torch = pytest.importorskip("torch")
    file, names = io.BytesIO(), [f"x{i}" for i, _ in enumerate(examples)]
    net.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net,
            examples,
            file,
            dynamo=False,
            do_constant_folding=False,
            input_names=names,
            output_names=["y"],
            dynamic_axes={n: {0: "batch"} for n in [*names, "y"]} if symbolic else None,
        )
    net.train()
    return onnx.load_from_string(file.getvalue())


def exported_for_training(net: Any, example: Any) -> onnx.ModelProto:
    """The network as an ONNX model in the form that training wants: nothing folded."""
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net,
            example,
            file,
            dynamo=False,
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
            opset_version=17,
        )
    return onnx.load_from_string(file.getvalue())
