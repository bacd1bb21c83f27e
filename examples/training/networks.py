"""What the examples with recurrent networks share: PyTorch networks as ONNX models."""

from __future__ import annotations

import io
import warnings
from typing import Any

import onnx
import torch


def exported(net: Any, example: Any) -> onnx.ModelProto:
    """The network as ONNX for inputs shaped like `example`, nothing folded."""
    file = io.BytesIO()
    net.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net,
            example,
            file,
            dynamo=False,
            do_constant_folding=False,
            input_names=["x"],
            output_names=["scores"],
        )
    return onnx.load_from_string(file.getvalue())
