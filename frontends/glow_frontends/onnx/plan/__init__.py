"""How each node of a model runs: in a compiled program, on the host, or as control flow on the host."""

from __future__ import annotations

from glow_frontends.onnx.plan.model import ModelPlan

__all__ = ["ModelPlan"]
