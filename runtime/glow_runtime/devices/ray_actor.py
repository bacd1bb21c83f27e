"""The `ray` device: an actor of Ray, on this machine or another; Ray brings the processes and the network."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glow_dialects.core.errors import DeviceError
from glow_runtime.devices.device import Device
from glow_runtime.devices.function import DeviceFunction, Recipe, Runner
from glow_runtime.devices.local import LocalManager

#: Actors in a row that have ended without a run, after which the device is given up.
MOST_ACTORS = 5


class Functions:
    """What the actor does: it keeps functions, and runs them."""

    def __init__(self) -> None:
        self._runners: dict[str, Runner] = {}
        self._folders: list[tempfile.TemporaryDirectory[str]] = []

    def load(self, name: str, recipe: Recipe, files: Mapping[str, bytes]) -> None:
        """Make a function from a recipe and its files, which are those of the host's folder."""
        folder = tempfile.TemporaryDirectory(prefix="glow-ray-")
        self._folders.append(folder)
        for path, data in files.items():
            target = Path(folder.name) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        self._runners[name] = recipe.moved(Path(folder.name)).runner()

    def evict(self, name: str) -> None:
        """Free a function."""
        self._runners.pop(name, None)

    def run(self, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """Outputs of a function."""
        return self._runners[name].run(inputs)


class RayManager(LocalManager):
    """Threads of this process that ask an actor. An actor that ends is replaced, with its functions.

    Options of the device: `address` of the cluster (one of this machine is started where there is none), and
    `actor`, a dict of Ray's options of actors (`num_cpus`, `resources`, `scheduling_strategy`, ...).
    """

    local = False

    def __init__(self, device: Device) -> None:
        try:
            import ray  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise DeviceError("devices of kind ray need Ray: pip install 'glow-compiler[ray]'") from None
        self._ray: Any = ray
        if not self._ray.is_initialized():
            self._ray.init(address=device.options.get("address"), log_to_driver=False, logging_level="ERROR")
        self._packed: dict[str, tuple[Recipe, dict[str, bytes]]] = {}
        self._replacing = threading.Lock()
        self._ended = 0
        self._device = device
        self.actor: Any = self._begin()
        super().__init__(device)

    def _begin(self) -> Any:
        options = {"max_concurrency": max(self._device.lanes, 1), **self._device.options.get("actor", {})}
        return self._ray.remote(Functions).options(**options).remote()

    def _load(self, function: DeviceFunction) -> None:
        with tempfile.TemporaryDirectory(prefix="glow-ray-") as name:
            folder = Path(name)
            recipe = function.recipe(folder)
            files = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        self._packed[function.name] = recipe, files
        try:
            self._asked(lambda: self.actor.load.remote(function.name, recipe, files))
        except BaseException:
            del self._packed[function.name]
            raise
        self._runners[function.name] = _Remote(self, function.name)

    def _evict(self, name: str) -> None:
        super()._evict(name)
        del self._packed[name]
        self._asked(lambda: self.actor.evict.remote(name))

    def _asked(self, ask: Any) -> Any:
        """The answer of the actor; once more from a new one, where the actor has ended."""
        try:
            return self._answer(ask)
        except DeviceError:
            return self._answer(ask)

    def _answer(self, ask: Any) -> Any:
        """The answer of the actor; where it has ended there is another one after the DeviceError."""
        actor = self.actor
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(ask())
        except errors.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None
        except errors.RayActorError:
            self._replace(actor)
            raise DeviceError(f"device {self.name}: its actor ended") from None
        self._ended = 0
        return answer

    def _replace(self, actor: Any) -> None:
        """Another actor with the same functions, unless one has come already."""
        with self._replacing:
            if self.actor is not actor:
                return
            self.state, self.counts.restarts = "restarting", self.counts.restarts + 1
            for _ in range(MOST_ACTORS):
                self._ended += 1
                if self._ended > MOST_ACTORS:
                    break
                made = self._begin()
                try:
                    for name, (recipe, files) in self._packed.items():
                        self._ray.get(made.load.remote(name, recipe, files))
                except self._ray.exceptions.RayActorError:
                    continue
                self.actor, self.state = made, "ready"
                return
            self.state = "failed"

    def run_remotely(self, name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs of a run by the actor: arrays of this process."""
        call = lambda: self.actor.run.remote(name, dict(inputs))  # noqa: E731
        outputs = self._asked(call) if self.device.retry else self._answer(call)
        return {n: np.array(v) if isinstance(v, np.ndarray) else v for n, v in outputs.items()}

    def close(self) -> None:
        super().close()
        self._ray.kill(self.actor)


class _Remote:
    """A function of an actor, as the threads of a device run it."""

    def __init__(self, manager: RayManager, name: str) -> None:
        self._manager, self._name = manager, name

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name."""
        return self._manager.run_remotely(self._name, inputs)
