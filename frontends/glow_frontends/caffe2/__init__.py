"""Caffe2 importer: an init net with the weights, and a predict net."""

from __future__ import annotations

from glow_dialects.core.errors import GlowError

try:
    import google.protobuf as _  # noqa: F401
except ModuleNotFoundError:
    raise GlowError("Caffe2 nets need the package protobuf: pip install protobuf") from None

from glow_frontends.caffe2.importer import import_caffe2

__all__ = ["import_caffe2"]
