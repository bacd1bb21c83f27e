"""The gRPC server of the Open Inference Protocol; its threads run the requests."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from glow_dialects.core.errors import GlowError
from glow_runtime.serve.http import Limits
from glow_runtime.serve.json_body import ProtocolError
from glow_runtime.serve.messages import MESSAGES, SERVICE
from glow_runtime.serve.protocol import (
    MOST_TENSORS,
    InferRequest,
    Wanted,
    check_outputs,
    chosen_outputs,
    datatype,
    dtype_of_name,
    from_bytes,
    limits_of,
    metadata,
    refuse_absent,
    shape_named,
    status_of,
    to_bytes,
)
from glow_runtime.serve.repository import ModelRepository

if TYPE_CHECKING:
    from glow_dialects.core.types import Array

LOG = logging.getLogger("glow")
#: Calls that are worked on at a time, and those that are taken.
THREADS, MOST_CALLS = 64, 256
#: Characters of an error: clients refuse long headers.
MOST_TEXT = 1000
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
#: The field of a tensor's contents in which elements of a datatype are.
_CONTENTS = {
    "BOOL": "bool_contents",
    **{f"INT{bits}": "int_contents" for bits in (8, 16, 32)},
    **{f"UINT{bits}": "uint_contents" for bits in (8, 16, 32)},
    "INT64": "int64_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


class GrpcServer:
    """A repository of models over gRPC; `start` gives the port, `stop` ends what is under way."""

    def __init__(self, models: ModelRepository, limits: Limits | None = None) -> None:
        self.models, self.limits = models, limits or Limits()
        most = self.limits.request_bytes
        self._server: Any = grpc.server(
            ThreadPoolExecutor(THREADS, thread_name_prefix="glow-grpc"),
            options=[
                ("grpc.max_receive_message_length", most),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),  # a port is one server's
            ],
            maximum_concurrent_rpcs=MOST_CALLS,
        )
        calls: dict[str, Callable[[Any], Any]] = {
            "ServerLive": lambda request: MESSAGES["ServerLiveResponse"](live=True),
            "ServerReady": lambda request: MESSAGES["ServerReadyResponse"](ready=self.models.host.ready),
            "ServerMetadata": self._server_metadata,
            "ModelReady": self._model_ready,
            "ModelMetadata": self._model_metadata,
            "ModelInfer": self._infer,
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                self._guarded(name, call, free=name in ("ServerLive", "ServerReady")),
                response_serializer=_serialized,
            )
            for name, call in calls.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))

    def start(self, address: str, key: bytes = b"", certificate: bytes = b"") -> int:
        """Listen at `host:port` (port 0: any that is free), with TLS where there is a key; the port."""
        try:
            if key:
                credentials = grpc.ssl_server_credentials([(key, certificate)])
                port = self._server.add_secure_port(address, credentials)
            else:
                port = self._server.add_insecure_port(address)
        except RuntimeError:
            raise GlowError(f"gRPC cannot listen at {address}: the port is taken, or not allowed") from None
        self._server.start()
        return port

    def stop(self, grace: float = 5.0) -> None:
        """Take no more calls, and wait for those under way, for `grace` seconds."""
        self._server.stop(grace).wait()

    def _guarded(self, name: str, call: Callable[[Any], Any], free: bool) -> Callable[[bytes, Any], Any]:
        """A call whose errors are statuses; where a token is asked for, only with it."""
        expected, message = f"Bearer {self.limits.token}".encode(), MESSAGES[f"{name}Request"]

        def guarded(body: bytes, context: Any) -> Any:
            if self.limits.token and not free:
                given = str(dict(context.invocation_metadata()).get("authorization", ""))
                if not hmac.compare_digest(given.encode(), expected):
                    context.abort(grpc.StatusCode.UNAUTHENTICATED, "authorization: Bearer ... is missing")
            tracer = self.models.host.tracer
            try:
                request = _read(message, body)
                if tracer is None:
                    return call(request)
                with tracer.caller(dict(context.invocation_metadata())):
                    return call(request)
            except GlowError as error:
                context.abort(_CODES.get(status_of(error), grpc.StatusCode.INTERNAL), str(error)[:MOST_TEXT])
            except Exception as error:
                LOG.exception("a call failed")
                context.abort(grpc.StatusCode.INTERNAL, f"internal error: {type(error).__name__}")

        return guarded

    # --- calls -------------------------------------------------------------------------------
    def _server_metadata(self, request: Any) -> Any:
        from importlib.metadata import version

        return MESSAGES["ServerMetadataResponse"](name="glow-serve", version=version("glow-compiler"))

    def _model_ready(self, request: Any) -> Any:
        try:
            self.models.network(request.name, request.version)
        except GlowError:
            return MESSAGES["ModelReadyResponse"](ready=False)
        return MESSAGES["ModelReadyResponse"](ready=True)

    def _model_metadata(self, request: Any) -> Any:
        _, network = self.models.network(request.name, request.version)
        return MESSAGES["ModelMetadataResponse"](
            **metadata(request.name, self.models.versions(request.name), network)
        )

    def _infer(self, request: Any) -> Any:
        version, network = self.models.network(request.model_name, request.model_version)
        call = parse_message(request)
        check_outputs(call, network.output_names)
        timeout = min(call.timeout or self.limits.answer, self.limits.answer)
        outputs = self.models.host.run(network.name, call.inputs, call.priority, timeout)
        answer = MESSAGES["ModelInferResponse"](
            model_name=request.model_name, model_version=version, id=request.id
        )
        for wanted, array in chosen_outputs(call, outputs):
            answer.outputs.add(name=wanted.name, datatype=datatype(array.dtype), shape=array.shape)
            answer.raw_output_contents.append(to_bytes(array))
        return answer


def _serialized(answer: Any) -> bytes:
    return answer.SerializeToString()


def _read(message: Any, body: bytes) -> Any:
    """A message of its bytes."""
    try:
        return message.FromString(body)
    except DecodeError:
        raise ProtocolError("the call is not a message of the protocol") from None


def parse_message(request: Any) -> InferRequest:
    """A request from its message, with tensors as bytes or as numbers."""
    inputs: dict[str, Any] = {}
    raw = list(request.raw_input_contents)
    if len(request.inputs) > MOST_TENSORS or (raw and len(raw) != len(request.inputs)):
        raise ProtocolError(f"{len(request.inputs)} inputs, {len(raw)} of them as bytes")
    for number, item in enumerate(request.inputs):
        dtype, shape = dtype_of_name(item.datatype), shape_named(item.name, list(item.shape))
        if item.name in inputs:
            raise ProtocolError(f"input '{item.name}' is there twice")
        _parameters(item)
        given = [field.name for field, _ in item.contents.ListFields()]
        if not raw:
            inputs[item.name] = _from_contents(item, given, dtype, shape)
        elif given:
            raise ProtocolError(f"input '{item.name}' is given as bytes and as {given[0]}")
        else:
            inputs[item.name] = from_bytes(item.name, raw[number], dtype, shape)
    for output in request.outputs:
        _parameters(output)
    limits = limits_of(_parameters(request))
    return InferRequest(inputs, [Wanted(o.name, True) for o in request.outputs], True, request.id, **limits)


def _parameters(item: Any) -> dict[str, Any]:
    """The parameters of a message."""
    parameters = {
        n: getattr(p, p.WhichOneof("parameter_choice") or "", None) for n, p in item.parameters.items()
    }
    refuse_absent(parameters)
    return parameters


def _from_contents(item: Any, given: list[str], dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """A tensor from the numbers in the field of its type."""
    name, field = item.name, _CONTENTS.get(item.datatype)
    if field is None:
        raise ProtocolError(f"input '{name}': {item.datatype} are given as bytes")
    data = getattr(item.contents, field)
    if len(data) != prod(shape) or set(given) - {field}:
        text = f"{len(data)} elements for {item.datatype}{list(shape)}"
        raise ProtocolError(f"input '{name}': {text} in {field}; it has {', '.join(given) or 'nothing'}")
    try:
        values = [d.decode() for d in data] if dtype == object else data
        return np.array(values, dtype).reshape(shape)
    except UnicodeDecodeError:
        raise ProtocolError(f"input '{name}': a string that is not UTF-8") from None
    except (ValueError, OverflowError):
        raise ProtocolError(f"input '{name}': a number is out of range for {item.datatype}") from None
