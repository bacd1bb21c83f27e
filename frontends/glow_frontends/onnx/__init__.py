"""ONNX import and export."""

from __future__ import annotations

from glow_dialects.core.errors import GlowError, NotStatic

try:
    import onnx as _  # noqa: F401
except ModuleNotFoundError:
    raise GlowError("ONNX models need the package onnx: pip install onnx") from None

from glow_frontends.onnx.importer import import_model
from glow_frontends.onnx.mapped import load_mapped
from glow_frontends.onnx.model import load, runtime_inputs
from glow_frontends.onnx.plan import ModelPlan

__all__ = ["ModelPlan", "NotStatic", "import_model", "load", "load_mapped", "runtime_inputs"]
