"""Caffe2 nets in: an init net that fills the weights, and a predict net."""

from __future__ import annotations

from glow_frontends.caffe2.importer import import_caffe2

__all__ = ["import_caffe2"]
