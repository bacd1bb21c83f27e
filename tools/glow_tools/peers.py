"""The engines that glow-bench compares, behind one interface: load a model, run it on a feed."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Feed = Mapping[str, np.ndarray]


class Engine(ABC):
    """Something that runs a model. All of them get the same inputs and as many threads."""

    name: str
    #: The package that must be there, and what to say where it is not.
    package: str

    def __init__(self, path: str, threads: int, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.path = path
        self.threads = threads
        self.shapes = dict(shapes)

    @classmethod
    def available(cls) -> bool:
        """Whether the engine is installed."""
        return importlib.util.find_spec(cls.package) is not None

    @abstractmethod
    def load(self) -> None:
        """Read and compile the model."""

    @abstractmethod
    def bind(self, feed: Feed) -> Callable[[], dict[str, np.ndarray]]:
        """A function that runs the loaded model on `feed` and returns the outputs by name."""

    def facts(self) -> dict[str, Any]:
        """What else the engine tells of the loaded model."""
        return {}


class Glow(Engine):
    """This compiler."""

    name = "glow"
    package = "glow_compiler"

    def load(self) -> None:
        import glow_compiler as glow

        self.net = glow.compile(self.path, threads=self.threads, shapes=self.shapes or None)

    def bind(self, feed: Feed) -> Callable[[], dict[str, np.ndarray]]:
        given = dict(feed)
        return lambda: self.net.run(given)

    def facts(self) -> dict[str, Any]:
        report = self.net.report()
        return {
            "arena_bytes": report.arena_bytes,
            "weight_bytes": report.weight_bytes,
            "kernels": report.kernels,
        }


class OnnxRuntime(Engine):
    """onnxruntime's CPU provider, all graph optimisations on."""

    name = "onnxruntime"
    package = "onnxruntime"

    def load(self) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])

    def bind(self, feed: Feed) -> Callable[[], dict[str, np.ndarray]]:
        names = [o.name for o in self.session.get_outputs()]
        wanted = {i.name for i in self.session.get_inputs()}
        given = {n: a for n, a in feed.items() if n in wanted}
        run = self.session.run
        return lambda: dict(zip(names, run(names, given), strict=True))


class OpenVino(Engine):
    """OpenVINO's CPU plugin in float32, one stream."""

    name = "openvino"
    package = "openvino"

    def load(self) -> None:
        import openvino

        core = openvino.Core()
        model = core.read_model(self.path)
        if self.shapes:
            model.reshape({name: list(shape) for name, shape in self.shapes.items()})
        config = {
            "INFERENCE_NUM_THREADS": self.threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",
        }
        self.request = core.compile_model(model, "CPU", config).create_infer_request()

    def bind(self, feed: Feed) -> Callable[[], dict[str, np.ndarray]]:
        given = dict(feed)
        outputs = [(o.get_any_name(), o) for o in self.request.model_outputs]
        infer = self.request.infer

        def run() -> dict[str, np.ndarray]:
            results = infer(given)
            return {name: results[port] for name, port in outputs}

        return run


class Torch(Engine):
    """PyTorch in eager mode, by way of the onnx2torch package."""

    name = "torch"
    package = "onnx2torch"

    def load(self) -> None:
        import torch
        from onnx2torch import convert

        torch.set_num_threads(self.threads)
        self.model = convert(self.path).eval()

    def bind(self, feed: Feed) -> Callable[[], dict[str, np.ndarray]]:
        import torch

        given = [torch.from_numpy(a) for a in feed.values()]

        def run() -> dict[str, np.ndarray]:
            with torch.inference_mode():
                out = self.model(*given)
            values = out if isinstance(out, tuple | list) else [out]
            return {f"{i}": v.numpy() for i, v in enumerate(values)}

        return run


ENGINES: dict[str, type[Engine]] = {e.name: e for e in (Glow, OnnxRuntime, OpenVino, Torch)}
