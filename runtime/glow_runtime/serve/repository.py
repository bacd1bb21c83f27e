"""ModelRepository: which models and versions a server has, from files and folders."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glow_dialects.core.errors import GlowError, NetworkError
from glow_dialects.core.file_kinds import FileKind, is_kind
from glow_dialects.core.files import beside
from glow_runtime.host.host import HostManager
from glow_runtime.host.network import Network

LOG = logging.getLogger("glow")
#: What a version's folder may hold, in the order in which it is looked for.
FILES = ("model.onnx", "model.mlir", "model.glow")
_NAME = re.compile(r"[\w.@-]+")


@dataclass(frozen=True)
class ModelFile:
    """A version of a model in a file."""

    name: str
    version: str
    path: Path | str


def is_language_model(path: Path) -> bool:
    """Whether a path is that of a language model: a .gguf file, or a folder as Hugging Face has them."""
    return is_kind(path, FileKind.GGUF, FileKind.LANGUAGE_FOLDER)


def find_models(texts: Sequence[str], programs: bool = False) -> list[ModelFile]:
    """The models of a command's arguments: `model.onnx`, `name=model.onnx`, or a folder of models.

    A folder has `NAME/VERSION/model.onnx` or `NAME/model.onnx` in it. GlowError where there is no model, or
    one is compiled (`model.glow`) and `programs` does not say that such machine code may run.
    """
    files: list[ModelFile] = []
    for text in texts:
        name, equals, place = text.rpartition("=")
        path = Path(place)
        if path.is_dir():
            found = _in_folder(path)
            if not found:
                raise GlowError(f"{path}: no NAME/VERSION/{FILES[0]} in this folder")
            files += found
            if not programs and (
                code := next((f.path for f in found if str(f.path).endswith(".glow")), None)
            ):
                raise GlowError(f"{code} is machine code: --trust-programs takes such files, from anyone")
        elif path.is_file():
            files.append(ModelFile(name if equals else path.stem, "1", path))
        else:
            near = beside(str(path))
            hint = f"; did you mean {near}?" if near else ""
            raise GlowError(f"{path}: there is no such file or folder{hint}")
    keys = [(f.name, f.version) for f in files]
    for file in files:
        if not _NAME.fullmatch(file.name):
            raise GlowError(
                f"'{file.name}' is not a name for a model; use letters, digits, '_', '.', '-' and '@'"
            )
        if keys.count((file.name, file.version)) > 1:
            raise GlowError(
                f"two models have name '{file.name}' and version {file.version}: say NAME={file.path}"
            )
    return files


def _in_folder(folder: Path) -> list[ModelFile]:
    found: list[ModelFile] = []
    for model in sorted(p for p in folder.iterdir() if p.is_dir()):
        versions = [p for p in model.iterdir() if p.is_dir() and p.name.isdecimal()]
        for place, version in [
            *((p, p.name) for p in sorted(versions, key=lambda p: int(p.name))),
            (model, "1"),
        ]:
            file = next((place / n for n in FILES if (place / n).is_file()), None)
            if file is not None:
                found.append(ModelFile(model.name, version, file))
    return found


class ModelRepository:
    """The models of a server, each version a network of the host. All methods are for any thread."""

    def __init__(self, host: HostManager, files: Sequence[ModelFile], options: Mapping[str, Any]) -> None:
        self.host = host
        self._files = {(f.name, f.version): f for f in files}
        self._options = dict(options)
        self._lock = threading.RLock()
        #: Versions by model, the one that is served by default last.
        self._loaded: dict[str, list[str]] = {}

    def load_all(self) -> None:
        """Load every version of every model; what fails is an error."""
        for name, version in self._files:
            self._load(name, version)

    def load(self, name: str) -> None:
        """Load a model's versions again, from the files as they are now."""
        with self._lock:
            versions = [v for n, v in self._files if n == name]
            if not versions:
                raise NetworkError(f"no model '{name}'; there are: {', '.join(self.names())}")
            for version in versions:
                self._load(name, version)

    def _load(self, name: str, version: str) -> None:
        with self._lock:
            file = self._files[name, version]
            change = self.host.add_network
            if version in self._loaded.get(name, ()):
                change = self.host.update_network
            change(
                _network_name(name, version),
                file.path if isinstance(file.path, str) else str(file.path),
                **self._options,
            )
            versions = self._loaded.setdefault(name, [])
            if version not in versions:
                versions.append(version)
                versions.sort(key=int)
            LOG.info("model %s, version %s, is loaded", name, version)

    def unload(self, name: str) -> None:
        """Take a model off, when the requests that it has are answered."""
        with self._lock:
            if name not in self._loaded:
                raise NetworkError(f"model '{name}' is not loaded; there are: {', '.join(self._loaded)}")
            versions = self._loaded.pop(name)
        for version in versions:
            self.host.remove_network(_network_name(name, version))
        LOG.info("model %s is unloaded", name)

    def names(self) -> list[str]:
        """Every model, loaded or not."""
        return sorted({name for name, _ in self._files})

    def index(self) -> list[dict[str, str]]:
        """Every version with its state, as Triton's extension has it."""
        return [
            {"name": n, "version": v, "state": "READY" if v in self._loaded.get(n, ()) else "UNAVAILABLE"}
            for n, v in self._files
        ]

    def versions(self, name: str) -> list[str]:
        """The versions of a model that are loaded; NetworkError where none is."""
        versions = self._loaded.get(name)
        if not versions:
            raise NetworkError(f"no model '{name}'; there are: {', '.join(sorted(self._loaded)) or 'none'}")
        return list(versions)

    def network(self, name: str, version: str = "") -> tuple[str, Network]:
        """(version, network) of a model: of the highest version where none is asked for."""
        versions = self.versions(name)
        chosen = version or versions[-1]
        network = self.host.networks.get(_network_name(name, chosen))
        if chosen not in versions or network is None:
            raise NetworkError(f"model '{name}' has no version '{chosen}'; there are: {', '.join(versions)}")
        return chosen, network


def _network_name(model: str, version: str) -> str:
    return f"{model}:{version}"
