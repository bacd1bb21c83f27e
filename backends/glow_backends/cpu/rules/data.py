"""Data movement: transposes, slices, gathers, scatters."""

from __future__ import annotations

from glow_backends.cpu.calls import Rule

RULES: dict[str, Rule] = {}
