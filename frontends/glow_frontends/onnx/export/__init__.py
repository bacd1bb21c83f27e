"""ONNX out: a graph function as a ModelProto."""

from glow_frontends.onnx.export.exporter import export_model, save_model

__all__ = ["export_model", "save_model"]
