"""ONNX models in and out."""

from __future__ import annotations

from glow_frontends.onnx.importer import import_model, runtime_inputs
from glow_frontends.onnx.model import load

__all__ = ["import_model", "load", "runtime_inputs"]
