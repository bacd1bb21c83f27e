"""The Open Inference Protocol (KServe, version 2): tensors and metadata, as JSON and as bytes.

Requests come from anyone: whatever is wrong with one is a ProtocolError, and nothing of it reaches a file.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_dialects.core.element_types import by, dtype_named, named
from glow_dialects.core.errors import (
    ClosedError,
    CompileError,
    DeadlineError,
    DeviceError,
    GlowError,
    NetworkError,
    RefusedError,
)

if TYPE_CHECKING:
    from glow_dialects.core.types import Array
    from glow_runtime.host.network import Network
    from glow_runtime.program_source import Signature

#: Element types by the protocol's names.
DATATYPES = {**{name: t.name for name, t in by("server").items()}, "BYTES": "object"}
#: The header of a request or answer with tensors as bytes: how long its JSON is.
HEADER = "inference-header-content-length"
#: Inputs of a request, and dimensions of one.
MOST_TENSORS, MOST_DIMS = 1024, 32


class ProtocolError(GlowError):
    """A request that is not as the protocol has it."""


@dataclass(frozen=True)
class Wanted:
    """An output that a request asks for; `classes`: the largest so many, as text (Triton's extension)."""

    name: str
    binary: bool = False


@dataclass
class InferRequest:
    """An inference request: inputs by name, and how its outputs are to be given."""

    inputs: dict[str, Array]
    outputs: list[Wanted] = field(default_factory=list[Wanted])
    binary: bool = False
    id: str = ""
    priority: int = 0
    timeout: float | None = None


@cache
def datatype(dtype: np.dtype[Any]) -> str:
    """The protocol's name of an element type."""
    if dtype.kind in "OSU":
        return "BYTES"
    known = named(dtype)
    return known.server if known is not None and known.server else dtype.name.upper()


def dtype_of_name(name: object) -> np.dtype[Any]:
    """The element type of a name; ProtocolError lists those there are."""
    if not isinstance(name, str) or name not in DATATYPES:
        raise ProtocolError(f"datatype {name!r} is not one of {', '.join(DATATYPES)}")
    return dtype_named(DATATYPES[name])


def shape_named(name: str, shape: object) -> tuple[int, ...]:
    """A tensor's shape; ProtocolError where it is none."""
    if not isinstance(shape, list) or len(shape) > MOST_DIMS:  # pyright: ignore[reportUnknownArgumentType]
        raise ProtocolError(f"input '{name}': its shape is a list of at most {MOST_DIMS} dimensions")
    dims: list[int] = []
    for dim in shape:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(dim, int) or isinstance(dim, bool) or not 0 <= dim < 1 << 40:
            raise ProtocolError(f"input '{name}': {dim!r} is no dimension")
        dims.append(dim)
    if prod(dims) >= 1 << 40:
        raise ProtocolError(f"input '{name}': its shape has more elements than any memory")
    return tuple(dims)


# --- tensors ------------------------------------------------------------------------------------


def from_bytes(name: str, data: bytes | memoryview, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """A tensor from its bytes in row-major order; strings have their length before them, four bytes each."""
    if dtype == object:
        strings = _strings(name, bytes(data))
        if len(strings) != prod(shape):
            raise ProtocolError(f"input '{name}': {len(strings)} strings for shape {list(shape)}")
        array = np.empty(len(strings), object)
        array[:] = strings
        return array.reshape(shape)
    expected = prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise ProtocolError(f"input '{name}': {len(data)} bytes, {expected} for {dtype}{list(shape)}")
    return np.frombuffer(data, dtype).reshape(shape)


def _strings(name: str, data: bytes) -> list[str]:
    strings: list[str] = []
    at = 0
    while at < len(data):
        if at + 4 > len(data):
            raise ProtocolError(f"input '{name}': a string without its length")
        (length,) = struct.unpack_from("<I", data, at)
        at += 4
        if at + length > len(data):
            raise ProtocolError(f"input '{name}': a string of {length} bytes is cut short")
        try:
            strings.append(data[at : at + length].decode())
        except UnicodeDecodeError:
            raise ProtocolError(f"input '{name}': a string that is not UTF-8") from None
        at += length
    return strings


def to_bytes(array: Array) -> bytes:
    """The inverse of `from_bytes`."""
    if array.dtype.kind not in "OSU":
        return np.ascontiguousarray(array).tobytes()
    parts: list[bytes] = []
    for item in array.reshape(-1):
        text = item if isinstance(item, bytes) else str(item).encode()
        parts += [struct.pack("<I", len(text)), text]
    return b"".join(parts)


def from_json(name: str, data: object, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """A tensor from its elements, in nested lists or a flat one."""
    if not isinstance(data, list):
        raise ProtocolError(f"input '{name}': its data is a list")
    try:
        if dtype == object:
            array = np.array(data, object)
        else:
            array = np.array(data)  # pyright: ignore[reportUnknownArgumentType]
            if array.size and (array.dtype.kind not in "biuf" or (array.dtype.kind == "f") > _real(dtype)):
                raise ValueError
            array = _cast(array, dtype)
    except (ValueError, TypeError, OverflowError):
        raise ProtocolError(f"input '{name}': its data are not all {dtype}") from None
    if array.size != prod(shape):
        raise ProtocolError(f"input '{name}': {array.size} elements for shape {list(shape)}")
    return array.reshape(shape)


def _real(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype.name == "bfloat16"


def _cast(array: Array, dtype: np.dtype[Any]) -> Array:
    """Elements as another type; ValueError where an integer does not fit."""
    cast = array.astype(dtype)
    if dtype.kind in "iu" and array.size and not np.array_equal(cast.astype(object), array.astype(object)):
        raise ValueError
    return cast


# --- requests -----------------------------------------------------------------------------------


def parse_request(body: bytes | memoryview, json_length: int | None) -> InferRequest:
    """A request from the body of a POST: JSON, then the bytes of inputs that say how many they have."""
    length = len(body) if json_length is None else json_length
    if not 0 <= length <= len(body):
        raise ProtocolError(f"{HEADER}: {length} of a body of {len(body)} bytes")
    view = memoryview(body)
    try:
        text: Any = json.loads(bytes(view[:length]))
    except (ValueError, RecursionError):
        raise ProtocolError("the request is not JSON") from None
    if not isinstance(text, dict):
        raise ProtocolError("a request is a JSON object with 'inputs'")
    request: dict[str, Any] = text
    rest = view[length:]
    inputs: dict[str, Array] = {}
    for item in _objects(request.get("inputs"), "inputs"):
        name = _text(item.get("name"), "the name of an input")
        if name in inputs:
            raise ProtocolError(f"input '{name}' is there twice")
        dtype, shape = dtype_of_name(item.get("datatype")), shape_named(name, item.get("shape"))
        size = _parameters(item).get("binary_data_size")
        if size is None:
            inputs[name] = from_json(name, item.get("data"), dtype, shape)
            continue
        if not isinstance(size, int) or not 0 <= size <= len(rest):
            raise ProtocolError(f"input '{name}': {size!r} bytes, the body has {len(rest)} more")
        inputs[name] = from_bytes(name, rest[:size], dtype, shape)
        rest = rest[size:]
    if len(rest):
        raise ProtocolError(f"{len(rest)} bytes at the end of the body belong to no input")
    parameters = _parameters(request)
    binary = parameters.get("binary_data_output") is True
    outputs = [
        Wanted(
            _text(item.get("name"), "the name of an output"),
            bool(_parameters(item).get("binary_data", binary)),
        )
        for item in _objects(request.get("outputs", []), "outputs")
    ]
    return InferRequest(inputs, outputs, binary, str(request.get("id") or ""), **limits_of(parameters))


def limits_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Priority, and timeout in seconds (microseconds in the protocol), of a request's parameters."""
    priority, timeout = parameters.get("priority", 0), parameters.get("timeout")
    if not isinstance(priority, int) or not isinstance(timeout, int | None):
        raise ProtocolError("priority and timeout are whole numbers, the latter of microseconds")
    return {"priority": priority, "timeout": None if not timeout or timeout < 0 else timeout / 1e6}


def _objects(value: object, name: str) -> Sequence[dict[str, Any]]:
    if not isinstance(value, list) or len(value) > MOST_TENSORS:  # pyright: ignore[reportUnknownArgumentType]
        raise ProtocolError(f"'{name}' is a list of at most {MOST_TENSORS} tensors")
    items: list[dict[str, Any]] = []
    for item in value:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(item, dict):
            raise ProtocolError(f"'{name}' is a list of objects")
        items.append(item)  # pyright: ignore[reportUnknownArgumentType]
    return items


def _parameters(item: Mapping[str, Any]) -> dict[str, Any]:
    value = item.get("parameters", {})
    if not isinstance(value, dict):
        raise ProtocolError("'parameters' is an object")
    return value  # pyright: ignore[reportUnknownVariableType]


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ProtocolError(f"{what} is missing")
    return value


# --- answers ------------------------------------------------------------------------------------


def chosen_outputs(request: InferRequest, outputs: Mapping[str, Any]) -> list[tuple[Wanted, Array]]:
    """The outputs that a request asks for: all, where it names none."""
    wanted = request.outputs or [Wanted(name, request.binary) for name in outputs]
    for output in wanted:
        if output.name not in outputs:
            raise ProtocolError(f"no output '{output.name}'; there are: {', '.join(outputs)}")
        if not isinstance(outputs[output.name], np.ndarray):
            raise ProtocolError(f"output '{output.name}' is no tensor, which the protocol has not")
    return [(w, outputs[w.name]) for w in wanted]


def format_answer(
    model: str, version: str, request: InferRequest, outputs: Mapping[str, Any]
) -> tuple[bytes, int | None]:
    """The body of an answer, and the length of its JSON where bytes of tensors follow."""
    items: list[dict[str, Any]] = []
    tail: list[bytes] = []
    for wanted, array in chosen_outputs(request, outputs):
        item: dict[str, Any] = {
            "name": wanted.name,
            "datatype": datatype(array.dtype),
            "shape": list(array.shape),
        }
        if wanted.binary:
            tail.append(to_bytes(array))
            item["parameters"] = {"binary_data_size": len(tail[-1])}
        else:
            item["data"] = _listed(array)
        items.append(item)
    answer: dict[str, Any] = {"model_name": model, "model_version": version, "outputs": items}
    if request.id:
        answer["id"] = request.id
    head = json.dumps(answer).encode()
    return (head + b"".join(tail), len(head)) if tail else (head, None)


def _listed(array: Array) -> list[Any]:
    """Elements as JSON has them, in one list."""
    if array.dtype.kind in "OSU":
        return [i.decode() if isinstance(i, bytes) else str(i) for i in array.reshape(-1)]
    plain = array.astype(np.float32) if array.dtype.name in ("float16", "bfloat16") else array
    return plain.reshape(-1).tolist()


def metadata(name: str, versions: Sequence[str], network: Network) -> dict[str, Any]:
    """What a model takes and gives; -1 is a dimension of any size."""
    return {
        "name": name,
        "versions": list(versions),
        "platform": "glow",
        "inputs": [_signature(s) for s in network.inputs],
        "outputs": [_signature(s) for s in network.outputs],
    }


def _signature(signature: Signature) -> dict[str, Any]:
    shape = [-1 if d is None else d for d in signature.shape]
    return {"name": signature.name, "datatype": datatype(signature.dtype), "shape": shape}


def status_of(error: BaseException) -> int:
    """The HTTP status that an error is answered with."""
    kinds: list[tuple[type[BaseException] | tuple[type[BaseException], ...], int]] = [
        (NetworkError, 404),
        (RefusedError, 429),
        (DeadlineError, 504),
        (ClosedError, 503),
        ((DeviceError, CompileError), 500),
        (GlowError, 400),
    ]
    return next((status for kind, status in kinds if isinstance(error, kind)), 500)
