"""Graphs written in Python: `GraphBuilder` and the values it hands out."""

from glow_frontends.builder.graph import GraphBuilder, Value

__all__ = ["GraphBuilder", "Value"]
