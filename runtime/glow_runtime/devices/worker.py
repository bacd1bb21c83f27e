"""The worker process of a `process` device: loads and runs functions until its host is gone."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

from glow_dialects.core.errors import DeviceError
from glow_runtime.devices.channel import Channel
from glow_runtime.devices.function import Recipe, Runner


@dataclass(frozen=True)
class Load:
    """Load a function under a name."""

    name: str
    recipe: Recipe


@dataclass(frozen=True)
class Evict:
    """Free a function."""

    name: str


#: Run a function (the message that must be quick): its name, inputs that an earlier run left here, outputs
#: that stay here, both by name.
Execute = tuple[str, dict[str, int], dict[str, int]]
#: The answer where all went well: forms of the outputs that stay here.
Finished = dict[str, tuple[tuple[int, ...], Any]]


@dataclass(frozen=True)
class Fetch:
    """Send a tensor that stayed here."""

    key: int


@dataclass(frozen=True)
class Release:
    """Forget tensors that stayed here."""

    keys: tuple[int, ...]


@dataclass(frozen=True)
class Failed:
    """The answer where something raised an error."""

    error: BaseException


class Worker:
    """The functions and tensors of this process."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._runners: dict[str, Runner] = {}
        self._tensors: dict[int, Any] = {}

    def serve(self) -> None:
        """Do what the host asks, one thing after another."""
        while True:
            try:
                message, arrays = self._channel.receive()
            except (EOFError, OSError):
                return
            try:
                answer, outputs = self._answer(message, arrays)
            except BaseException as error:
                answer, outputs = Failed(_picklable(error)), {}
            self._channel.send(answer, outputs)

    def _answer(self, message: Any, arrays: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        match message:
            case (name, kept, keep):
                arrays.update({n: self._tensors[key] for n, key in kept.items()})
                outputs = self._runners[name].run(arrays)
                forms: Finished = {}
                for output, key in keep.items():
                    value = self._tensors[key] = outputs.pop(output)
                    forms[output] = value.shape, value.dtype
                return forms, outputs
            case Load():
                self._runners[message.name] = message.recipe.runner()
            case Evict():
                del self._runners[message.name]
                gc.collect()
            case Fetch():
                return {}, {"tensor": self._tensors[message.key]}
            case Release():
                for key in message.keys:
                    self._tensors.pop(key, None)
            case _:
                raise AssertionError(message)
        return {}, {}


def _picklable(error: BaseException) -> BaseException:
    """The error, or one that says what it says, where it cannot travel."""
    import pickle

    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return DeviceError(f"{type(error).__name__}: {error}")
    return error
