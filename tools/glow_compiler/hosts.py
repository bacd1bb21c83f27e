"""HostManager for every form of model that `glow.compile` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Backend
from glow_compiler.api import compile, executable, is_saved, load_graph, parsed
from glow_dialects.core.file_kinds import FileKind, is_kind
from glow_passes.partition.split import partition_of
from glow_runtime.compiler import Compiler
from glow_runtime.devices.device import Device
from glow_runtime.devices.function import CallRecipe, Recipe
from glow_runtime.executable import Executable
from glow_runtime.host.host import HostManager as RuntimeHost
from glow_runtime.host.picture import to_dot
from glow_runtime.host.tracing import Tracer

Shapes = Mapping[str, Sequence[int]]


class ModelReader:
    """How a host reads models: as `load` and `compile` do."""

    def module(self, model: Any, shapes: Shapes | None) -> ModuleOp:
        """The graph of a model of fixed shapes."""
        return load_graph(model, shapes)

    def has_plan(self, model: Any) -> bool:
        """Whether nodes of a graph, in memory or as text, say in which partition they are."""
        from glow_frontends.builder import GraphBuilder

        if is_kind(model, FileKind.TEXT):
            model = load_graph(model)
        module = model.module if isinstance(model, GraphBuilder) else model
        return isinstance(module, ModuleOp) and any(partition_of(op) is not None for op in module.walk())

    def executable(self, model: Any, compiler: Compiler, shapes: Shapes | None) -> Executable:
        """The model with all that it needs to run, its programs made by a compiler."""
        if is_saved(model):
            return compile(model, compiler.backend)
        return executable(parsed(model), compiler, shapes)

    def elsewhere(self, model: Any, backend: Backend, shapes: Shapes | None, folder: Path) -> Recipe:
        """How another process compiles the model; a graph in memory is written to `folder` for it."""
        if not isinstance(model, str | Path | tuple) and not hasattr(model, "SerializeToString"):
            from glow_compiler.files import save

            save(model, folder / "model.mlir")
            model = folder / "model.mlir"
        return CallRecipe(compile, {"model": model, "backend": backend, "shapes": shapes})


class HostManager(RuntimeHost):
    """Serves several models on several devices.

    All methods can be called from any thread. A host belongs to the process that made it.

    Args:
        devices: Devices, or strings such as "process:0,memory=64M"; by default one "cpu" device per core.
        max_active: The largest number of running requests.
        max_queue: The largest number of waiting requests; a further one is a RefusedError.
        tracer: Records requests; see `Tracer`.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> g.save(g.relu(g.placeholder("x", (2,))), "y")
        >>> with glow.HostManager([glow.Device("cpu")]) as host:
        ...     network = host.add_network("net", g)
        ...     host.run("net", {"x": np.array([-1, 2], np.float32)})["y"].tolist()
        [0.0, 2.0]
    """

    def __init__(
        self,
        devices: Sequence[Device | str] | None = None,
        max_active: int = 48,
        max_queue: int = 100,
        *,
        tracer: Tracer | None = None,
    ) -> None:
        super().__init__(devices, max_active, max_queue, reader=ModelReader(), tracer=tracer)

    def picture(self) -> str:
        """Graphviz text of the devices, the partitions on them, and the steps in which these run."""
        return to_dot(self.devices, self.networks)
