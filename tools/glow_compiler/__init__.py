"""Glow on xDSL, the Python API: `import glow_compiler as glow`.

net = glow.compile("model.onnx", backend="cpu", threads=1)
out = net.run({"data": x})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glow_compiler.api import compile, load
from glow_dialects.core.errors import (
    BindingError,
    ClosedError,
    CompileError,
    DeadlineError,
    DeviceError,
    DeviceMemoryError,
    GlowError,
    ImportProblems,
    NetworkError,
    PartitionError,
    Problem,
    RefusedError,
    ShapeError,
    UnsupportedError,
)
from glow_runtime.executable import Executable

if TYPE_CHECKING:
    from glow_backends.host_fallback import HostFallback
    from glow_compiler import optim, torch
    from glow_compiler.caches import clear_caches
    from glow_compiler.files import save
    from glow_compiler.function_marks import custom_gradient, ops, stop_gradient, unroll
    from glow_compiler.functions import grad, jit, value_and_grad
    from glow_compiler.hosts import HostManager
    from glow_compiler.language_batching import ContinuousBatching
    from glow_compiler.language_model import LanguageModel
    from glow_compiler.quantization import (
        convert_floats,
        profile,
        quantize,
        quantize_dynamic,
    )
    from glow_compiler.speech_model import SpeechModel
    from glow_compiler.torch_report import explain
    from glow_compiler.trainer import Trainer
    from glow_compiler.transforms import hessian, jacobian, jvp, vjp, vmap
    from glow_compiler.weight_quantization import quantize_weights
    from glow_frontends.builder import GraphBuilder
    from glow_passes.quantize.schema import QuantizationError
    from glow_runtime.devices.device import Device
    from glow_runtime.host.batching import Batching
    from glow_runtime.host.telemetry import Telemetry
    from glow_runtime.host.tracing import Tracer
    from glow_runtime.load_program import load_program
    from glow_runtime.page.report import report
    from glow_runtime.pipelines import Pipeline

_LAZY = {
    "Batching": "glow_runtime.host.batching",
    "ContinuousBatching": "glow_compiler.language_batching",
    "Device": "glow_runtime.devices.device",
    "HostFallback": "glow_backends.host_fallback",
    "HostManager": "glow_compiler.hosts",
    "Telemetry": "glow_runtime.host.telemetry",
    "Tracer": "glow_runtime.host.tracing",
    "Pipeline": "glow_runtime.pipelines",
    "clear_caches": "glow_compiler.caches",
    "GraphBuilder": "glow_frontends.builder",
    "LanguageModel": "glow_compiler.language_model",
    "SpeechModel": "glow_compiler.speech_model",
    "explain": "glow_compiler.torch_report",
    "jit": "glow_compiler.functions",
    "grad": "glow_compiler.functions",
    "value_and_grad": "glow_compiler.functions",
    "ops": "glow_compiler.function_marks",
    "stop_gradient": "glow_compiler.function_marks",
    "custom_gradient": "glow_compiler.function_marks",
    "unroll": "glow_compiler.function_marks",
    "hessian": "glow_compiler.transforms",
    "jacobian": "glow_compiler.transforms",
    "jvp": "glow_compiler.transforms",
    "vjp": "glow_compiler.transforms",
    "vmap": "glow_compiler.transforms",
    "Trainer": "glow_compiler.trainer",
    "QuantizationError": "glow_passes.quantize.schema",
    "convert_floats": "glow_compiler.quantization",
    "profile": "glow_compiler.quantization",
    "report": "glow_runtime.page.report",
    "save": "glow_compiler.files",
    "load_program": "glow_runtime.load_program",
    "quantize": "glow_compiler.quantization",
    "quantize_dynamic": "glow_compiler.quantization",
    "quantize_weights": "glow_compiler.weight_quantization",
}


def __getattr__(name: str) -> Any:
    """Parts that few programs need are imported on first use."""
    from importlib import import_module

    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    if name in ("optim", "torch"):
        return import_module(f"glow_compiler.{name}")
    if name == "__version__":
        return import_module("importlib.metadata").version("glow-compiler")
    raise AttributeError(f"module 'glow_compiler' has no attribute '{name}'")


def __dir__() -> list[str]:
    """The public names alone, those that are not imported yet too."""
    return sorted(__all__)


__all__ = [
    "Batching",
    "BindingError",
    "ClosedError",
    "CompileError",
    "ContinuousBatching",
    "DeadlineError",
    "Device",
    "DeviceError",
    "DeviceMemoryError",
    "Executable",
    "GlowError",
    "GraphBuilder",
    "HostFallback",
    "HostManager",
    "ImportProblems",
    "LanguageModel",
    "NetworkError",
    "PartitionError",
    "Pipeline",
    "Problem",
    "QuantizationError",
    "RefusedError",
    "ShapeError",
    "SpeechModel",
    "Telemetry",
    "Tracer",
    "Trainer",
    "UnsupportedError",
    "clear_caches",
    "compile",
    "convert_floats",
    "custom_gradient",
    "explain",
    "grad",
    "hessian",
    "jacobian",
    "jit",
    "jvp",
    "load",
    "load_program",
    "ops",
    "optim",
    "profile",
    "quantize",
    "quantize_dynamic",
    "quantize_weights",
    "report",
    "save",
    "stop_gradient",
    "torch",
    "unroll",
    "value_and_grad",
    "vjp",
    "vmap",
]
