"""The Open Inference Protocol (KServe, version 2): tensors and metadata, as JSON and as bytes.

Requests come from anyone: whatever is wrong with one is a ProtocolError, and nothing of it reaches a file.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from math import prod
from reprlib import repr as shown
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
from glow_runtime.serve.json_body import (
    ProtocolError,
    object_of,
    read_object,
    text_of,
    truth_of,
    whole_of,
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
#: Elements of a tensor. One without elements may be as large in its other dimensions, which is work, as well.
MOST_ELEMENTS, MOST_AROUND_NONE = 1 << 40, 1 << 20
#: Elements that are written as JSON at a time.
_PIECE = 1 << 14
#: Characters of a request's own name.
MOST_ID = 4096
#: Parameters of inference that would change the answer, and are not there.
_ABSENT = ("classification", "shared_memory_region", "sequence_id")


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
        raise ProtocolError(f"datatype {shown(name)} is not one of {', '.join(DATATYPES)}")
    return dtype_named(DATATYPES[name])


def shape_named(name: str, shape: object) -> tuple[int, ...]:
    """A tensor's shape; ProtocolError where it is none."""
    if not isinstance(shape, list) or len(shape) > MOST_DIMS:  # pyright: ignore[reportUnknownArgumentType]
        raise ProtocolError(f"input '{name}': its shape is a list of at most {MOST_DIMS} dimensions")
    dims: list[int] = []
    for dim in shape:  # pyright: ignore[reportUnknownVariableType]
        if type(dim) is not int or not 0 <= dim < MOST_ELEMENTS:  # pyright: ignore[reportUnknownArgumentType]
            raise ProtocolError(f"input '{name}': {shown(dim)} is no dimension")
        dims.append(dim)
    if prod(dims) >= MOST_ELEMENTS:
        raise ProtocolError(f"input '{name}': its shape has more elements than any memory")
    if 0 in dims and prod(filter(None, dims)) > MOST_AROUND_NONE:
        raise ProtocolError(
            f"input '{name}': shape {dims} has no elements; the product of its other dimensions may be at "
            f"most {MOST_AROUND_NONE}"
        )
    return tuple(dims)


# --- tensors ------------------------------------------------------------------------------------


def from_bytes(name: str, data: bytes | memoryview, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """A tensor from its bytes in row-major order; strings have their length before them, four bytes each."""
    if dtype == object:
        strings = _strings(name, bytes(data), prod(shape))
        if len(strings) != prod(shape):
            raise ProtocolError(f"input '{name}': {len(strings)} strings for shape {list(shape)}")
        array = np.empty(len(strings), object)
        array[:] = strings
        return array.reshape(shape)
    expected = prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise ProtocolError(f"input '{name}': {len(data)} bytes, {expected} for {dtype}{list(shape)}")
    if dtype.kind == "b" and expected and np.frombuffer(data, np.uint8).max() > 1:
        raise ProtocolError(f"input '{name}': the bytes of BOOL are 0 and 1")
    return np.frombuffer(data, dtype).reshape(shape)


def _strings(name: str, data: bytes, most: int) -> list[str]:
    """The strings of a tensor of `most` elements."""
    strings: list[str] = []
    at = 0
    while at < len(data):
        if len(strings) == most:
            raise ProtocolError(f"input '{name}': more than {most} strings")
        if at + 4 > len(data):
            raise ProtocolError(f"input '{name}': a string without its length")
        (length,) = struct.unpack_from("<I", data, at)
        at += 4
        if at + length > len(data):
            raise ProtocolError(f"input '{name}': a string of {length} bytes is truncated")
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
    """A tensor from its elements, in nested lists or a flat one.

    Their number and kinds are looked at before anything is converted.
    """
    items, count = _elements(name, data, dtype), prod(shape)
    if len(items) != count:
        raise ProtocolError(f"input '{name}': {len(items)} elements for shape {list(shape)}")
    kinds: set[type] = set(map(type, items))
    if not kinds <= _kinds(dtype):
        wrong = next(i for i in items if type(i) not in _kinds(dtype))
        kind = "BYTES" if dtype == object else dtype
        raise ProtocolError(f"input '{name}': its data are not all {kind}: {shown(wrong)}")
    if dtype.kind in "iu" and items:
        limits = np.iinfo(dtype)
        for item in (min(items), max(items)):
            if not limits.min <= item <= limits.max:
                raise ProtocolError(f"input '{name}': {shown(item)} is out of range for {datatype(dtype)}")
    try:
        with np.errstate(over="ignore"):
            array = np.array(items, np.float64).astype(dtype) if _real(dtype) else np.array(items, dtype)
    except OverflowError:
        array = np.array([np.inf])
    if _real(dtype) and not np.isfinite(array).all():
        raise ProtocolError(f"input '{name}': a number is out of range for {datatype(dtype)}")
    return array.reshape(shape)


def _elements(name: str, data: object, dtype: np.dtype[Any]) -> list[Any]:
    """The elements of lists in lists, all of a level of one length."""
    if not isinstance(data, list):
        raise ProtocolError(f"input '{name}': its data is a list, not {shown(data)}")
    items: list[Any] = data
    for _ in range(MOST_DIMS):
        if not items or not isinstance(items[0], list):
            return items
        if set(map(type, items)) != {list} or len(set(map(len, items))) != 1:
            raise ProtocolError(f"input '{name}': its data are not all {dtype} in lists of one length")
        items = list(chain.from_iterable(items))
    raise ProtocolError(f"input '{name}': its data are lists of more than {MOST_DIMS} levels")


def _kinds(dtype: np.dtype[Any]) -> set[type]:
    """What JSON has for elements of a type."""
    if _real(dtype):
        return {int, float}
    return {"b": {bool}, "O": {str}}.get(dtype.kind, {int})


def _real(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype.name == "bfloat16"


# --- requests -----------------------------------------------------------------------------------


def parse_request(body: bytes | memoryview, json_length: int | None) -> InferRequest:
    """A request from the body of a POST: JSON, then the bytes of inputs that say how many they have."""
    length = len(body) if json_length is None else json_length
    if not 0 <= length <= len(body):
        raise ProtocolError(f"{HEADER}: {length} of a body of {len(body)} bytes")
    view = memoryview(body)
    request = read_object(view[:length])
    rest = view[length:]
    inputs: dict[str, Array] = {}
    for item in _objects(request.get("inputs"), "inputs"):
        name = text_of(item.get("name"), "the name of an input")
        if name in inputs:
            raise ProtocolError(f"input '{name}' is there twice")
        dtype, shape = dtype_of_name(item.get("datatype")), shape_named(name, item.get("shape"))
        size = _parameters(item).get("binary_data_size")
        if size is None:
            inputs[name] = from_json(name, item.get("data"), dtype, shape)
            continue
        if type(size) is not int or not 0 <= size <= len(rest):
            raise ProtocolError(f"input '{name}': {shown(size)} bytes, the body has {len(rest)} more")
        inputs[name] = from_bytes(name, rest[:size], dtype, shape)
        rest = rest[size:]
    if len(rest):
        raise ProtocolError(f"{len(rest)} bytes at the end of the body belong to no input")
    parameters = _parameters(request)
    binary = truth_of(parameters.get("binary_data_output", False), "binary_data_output")
    outputs = [
        Wanted(
            text_of(item.get("name"), "the name of an output"),
            truth_of(_parameters(item).get("binary_data", binary), "binary_data"),
        )
        for item in _objects(request.get("outputs") or [], "outputs")
    ]
    return InferRequest(inputs, outputs, binary, _id(request.get("id")), **limits_of(parameters))


def limits_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Priority, and timeout in seconds (microseconds in the protocol), of a request's parameters."""
    priority = whole_of(parameters.get("priority", 0), "priority", -(1 << 63), (1 << 64) - 1)
    timeout = parameters.get("timeout")
    micros = 0 if timeout is None else whole_of(timeout, "timeout, in microseconds,", 0, (1 << 64) - 1)
    return {"priority": priority, "timeout": micros / 1e6 or None}


def _objects(value: object, name: str) -> Sequence[dict[str, Any]]:
    if not isinstance(value, list) or len(value) > MOST_TENSORS:  # pyright: ignore[reportUnknownArgumentType]
        raise ProtocolError(f"'{name}' is a list of at most {MOST_TENSORS} tensors")
    items: list[dict[str, Any]] = []
    for item in value:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(item, dict):
            raise ProtocolError(f"'{name}' is a list of objects, not of {shown(item)}")
        items.append(item)  # pyright: ignore[reportUnknownArgumentType]
    return items


def _parameters(item: Mapping[str, Any]) -> dict[str, Any]:
    parameters = object_of(item.get("parameters"), "'parameters'")
    refuse_absent(parameters)
    return parameters


def refuse_absent(parameters: Mapping[str, Any]) -> None:
    """ProtocolError for parameters of Triton's extensions that would change the answer."""
    for name in _ABSENT:
        if parameters.get(name):
            raise ProtocolError(f"the parameter '{name}' is not supported")


def _id(value: object) -> str:
    """A request's own name, a text or (as Triton takes it) a number."""
    text = str(value) if type(value) is int else "" if value is None else text_of(value, "the request's id")
    if len(text) > MOST_ID:
        raise ProtocolError(f"the request's id has {len(text)} characters; {MOST_ID} are allowed")
    return text


def check_outputs(request: InferRequest, names: Sequence[str]) -> None:
    """ProtocolError where a request asks for an output that there is not, or for one twice."""
    wanted = [w.name for w in request.outputs]
    for name in wanted:
        if name not in names:
            raise ProtocolError(f"no output '{name}'; there are: {', '.join(names)}")
    if len(set(wanted)) != len(wanted):
        raise ProtocolError("an output is asked for twice")


# --- answers ------------------------------------------------------------------------------------


def chosen_outputs(request: InferRequest, outputs: Mapping[str, Any]) -> list[tuple[Wanted, Array]]:
    """The outputs that a request asks for: all, where it names none."""
    check_outputs(request, list(outputs))
    wanted = request.outputs or [Wanted(name, request.binary) for name in outputs]
    for output in wanted:
        if not isinstance(outputs[output.name], np.ndarray):
            raise ProtocolError(
                f"output '{output.name}' is not a tensor, which the protocol does not support"
            )
    return [(w, outputs[w.name]) for w in wanted]


def format_answer(
    model: str, version: str, request: InferRequest, outputs: Mapping[str, Any]
) -> tuple[bytes, int | None]:
    """The body of an answer, and the length of its JSON where bytes of tensors follow."""
    items: list[str] = []
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
            items.append(json.dumps(item))
        else:
            items.append(f'{json.dumps(item)[:-1]}, "data": [{_listed(array.reshape(-1))}]}}')
    about = {"model_name": model, "model_version": version} | ({"id": request.id} if request.id else {})
    head = f'{json.dumps(about)[:-1]}, "outputs": [{", ".join(items)}]}}'.encode()
    return (head + b"".join(tail), len(head)) if tail else (head, None)


def _listed(elements: Array) -> str:
    """Elements as JSON has them, a piece at a time: other threads have their turn between two."""
    pieces = (_piece(elements[at : at + _PIECE]) for at in range(0, len(elements), _PIECE))
    return ", ".join(json.dumps(piece)[1:-1] for piece in pieces)


def _piece(elements: Array) -> list[Any]:
    if elements.dtype.kind in "OSU":
        return [i.decode() if isinstance(i, bytes) else str(i) for i in elements]
    plain = elements.astype(np.float32) if elements.dtype.name in ("float16", "bfloat16") else elements
    return plain.tolist()


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
    if isinstance(error, ProtocolError):
        return error.code
    kinds: list[tuple[type[BaseException] | tuple[type[BaseException], ...], int]] = [
        (NetworkError, 404),
        (RefusedError, 429),
        (DeadlineError, 504),
        (ClosedError, 503),
        ((DeviceError, CompileError), 500),
        (GlowError, 400),
    ]
    return next((status for kind, status in kinds if isinstance(error, kind)), 500)
