"""ONNX models in and out."""

from __future__ import annotations

from glow_frontends.onnx.importer import NotStatic, import_model
from glow_frontends.onnx.mapped import load_mapped
from glow_frontends.onnx.model import load, runtime_inputs
from glow_frontends.onnx.plan import ModelPlan

__all__ = ["ModelPlan", "NotStatic", "import_model", "load", "load_mapped", "runtime_inputs"]
