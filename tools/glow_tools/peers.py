"""The engines that glow-bench compares, with a common interface: load a model, run it."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

Feed = Mapping[str, np.ndarray]
Outputs = dict[str, np.ndarray]
Runs = tuple[Callable[[], object], Callable[[], Outputs]]


class Engine(ABC):
    """Something that runs a model. All of them get the same inputs and as many threads."""

    name: str
    #: The package that must be there, and the message where it is not.
    package: str

    def __init__(
        self,
        path: str,
        threads: int,
        backend: str = "cpu",
        exact: bool = False,
        budget: float | None = None,
    ) -> None:
        self.path = path
        self.threads = threads
        self.backend = backend  # of this compiler, as are `exact` and `budget`
        self.exact, self.budget = exact, budget
        #: Of the inputs that are to come, so that everything is compiled when the model is loaded.
        self.shapes: dict[str, tuple[int, ...]] = {}

    @classmethod
    def available(cls) -> bool:
        """Whether the engine is installed."""
        return importlib.util.find_spec(cls.package) is not None

    @abstractmethod
    def load(self) -> None:
        """Read and compile the model."""

    @abstractmethod
    def bind(self, feed: Feed) -> Runs:
        """(run the loaded model on `feed`, outputs of the last run by name).

        Inputs and outputs are bound once, so that a run copies and allocates as little as the engine
        allows.
        """

    def facts(self) -> dict[str, Any]:
        """Further facts of the loaded model from the engine."""
        return {}


class Glow(Engine):
    """This compiler."""

    name = "glow"
    package = "glow_compiler"

    def load(self) -> None:
        import glow_compiler as glow

        shapes = self.shapes or None
        options: dict[str, Any] = {"exact": self.exact, "compile_budget": self.budget}
        self.net = glow.compile(self.path, self.backend, self.threads, shapes=shapes, **options)

    def bind(self, feed: Feed) -> Runs:
        bound = self.net.bind({s.name: feed[s.name] for s in self.net.inputs})
        return bound, lambda: bound.outputs

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
        from onnxruntime import InferenceSession, SessionOptions  # pyright: ignore[reportAttributeAccessIssue]

        options: Any = SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session: Any = InferenceSession(self.path, options, providers=["CPUExecutionProvider"])

    def bind(self, feed: Feed) -> Runs:
        names = [o.name for o in self.session.get_outputs()]
        binding = self.session.io_binding()
        for argument in self.session.get_inputs():
            binding.bind_cpu_input(argument.name, feed[argument.name])
        for name in names:
            binding.bind_output(name)
        run = self.session.run_with_iobinding
        return (
            lambda: run(binding),
            lambda: dict(zip(names, binding.copy_outputs_to_cpu(), strict=True)),
        )


class OpenVino(Engine):
    """OpenVINO's CPU plugin in float32, one stream."""

    name = "openvino"
    package = "openvino"

    def load(self) -> None:
        import openvino  # pyright: ignore[reportMissingImports]

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

    def bind(self, feed: Feed) -> Runs:
        import openvino  # pyright: ignore[reportMissingImports]

        self.tensors = {n: np.ascontiguousarray(a) for n, a in feed.items()}
        for port in self.request.model_inputs:
            name = next(n for n in port.get_names() if n in self.tensors)
            self.request.set_tensor(port, openvino.Tensor(self.tensors[name], shared_memory=True))
        request = self.request

        def outputs() -> Outputs:
            return {o.get_any_name(): np.array(request.get_tensor(o).data) for o in request.model_outputs}

        return request.infer, outputs


class Torch(Engine):
    """PyTorch in eager mode, by way of the onnx2torch package."""

    name = "torch"
    package = "onnx2torch"

    def load(self) -> None:
        import torch  # pyright: ignore[reportMissingImports]
        from onnx2torch import convert  # pyright: ignore

        torch.set_num_threads(self.threads)
        self.model: Any = cast(Any, convert)(self.path).eval()

    def bind(self, feed: Feed) -> Runs:
        import torch  # pyright: ignore[reportMissingImports]

        tensors: list[Any] = [cast(Any, torch).from_numpy(a) for a in feed.values()]
        results: list[Any] = []

        def run() -> None:
            with torch.inference_mode():
                results[:] = [self.model(*tensors)]

        def outputs() -> Outputs:
            values: Any = results[0] if isinstance(results[0], tuple | list) else results
            return {f"{i}": v.numpy() for i, v in enumerate(values)}

        return run, outputs


ENGINES: dict[str, type[Engine]] = {e.name: e for e in (Glow, OnnxRuntime, OpenVino, Torch)}
