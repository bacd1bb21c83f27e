"""The messages of the Open Inference Protocol over gRPC, from their published field numbers.

They are in a pool of their own, so that other packages of this process may have theirs.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "inference.GRPCInferenceService"

#: Message -> its fields by number: (name, type). `*` is before the type of a repeated field, `?` before that
#: of one of several alternatives; a type with a dot is a message.
_MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "InferParameter": {
        1: ("bool_param", "?bool"),
        2: ("int64_param", "?int64"),
        3: ("string_param", "?string"),
        4: ("double_param", "?double"),
        5: ("uint64_param", "?uint64"),
    },
    "InferTensorContents": {
        1: ("bool_contents", "*bool"),
        2: ("int_contents", "*int32"),
        3: ("int64_contents", "*int64"),
        4: ("uint_contents", "*uint32"),
        5: ("uint64_contents", "*uint64"),
        6: ("fp32_contents", "*float"),
        7: ("fp64_contents", "*double"),
        8: ("bytes_contents", "*bytes"),
    },
    "ServerLiveRequest": {},
    "ServerLiveResponse": {1: ("live", "bool")},
    "ServerReadyRequest": {},
    "ServerReadyResponse": {1: ("ready", "bool")},
    "ModelReadyRequest": {1: ("name", "string"), 2: ("version", "string")},
    "ModelReadyResponse": {1: ("ready", "bool")},
    "ServerMetadataRequest": {},
    "ServerMetadataResponse": {1: ("name", "string"), 2: ("version", "string"), 3: ("extensions", "*string")},
    "ModelMetadataRequest": {1: ("name", "string"), 2: ("version", "string")},
    "ModelMetadataResponse.TensorMetadata": {
        1: ("name", "string"),
        2: ("datatype", "string"),
        3: ("shape", "*int64"),
    },
    "ModelMetadataResponse": {
        1: ("name", "string"),
        2: ("versions", "*string"),
        3: ("platform", "string"),
        4: ("inputs", "*.ModelMetadataResponse.TensorMetadata"),
        5: ("outputs", "*.ModelMetadataResponse.TensorMetadata"),
    },
    "ModelInferRequest.InferInputTensor": {
        1: ("name", "string"),
        2: ("datatype", "string"),
        3: ("shape", "*int64"),
        4: ("parameters", "map"),
        5: ("contents", ".InferTensorContents"),
    },
    "ModelInferRequest.InferRequestedOutputTensor": {1: ("name", "string"), 2: ("parameters", "map")},
    "ModelInferRequest": {
        1: ("model_name", "string"),
        2: ("model_version", "string"),
        3: ("id", "string"),
        4: ("parameters", "map"),
        5: ("inputs", "*.ModelInferRequest.InferInputTensor"),
        6: ("outputs", "*.ModelInferRequest.InferRequestedOutputTensor"),
        7: ("raw_input_contents", "*bytes"),
    },
    "ModelInferResponse.InferOutputTensor": {
        1: ("name", "string"),
        2: ("datatype", "string"),
        3: ("shape", "*int64"),
        4: ("parameters", "map"),
        5: ("contents", ".InferTensorContents"),
    },
    "ModelInferResponse": {
        1: ("model_name", "string"),
        2: ("model_version", "string"),
        3: ("id", "string"),
        4: ("parameters", "map"),
        5: ("outputs", "*.ModelInferResponse.InferOutputTensor"),
        6: ("raw_output_contents", "*bytes"),
    },
}
_FIELD = descriptor_pb2.FieldDescriptorProto


def _add_field(message: Any, number: int, name: str, kind: str) -> None:
    field = message.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
    if kind == "map":
        entry = message.nested_type.add(name="".join(p.capitalize() for p in name.split("_")) + "Entry")
        entry.options.map_entry = True
        _add_field(entry, 1, "key", "string")
        _add_field(entry, 2, "value", ".InferParameter")
        field.label, field.type = _FIELD.LABEL_REPEATED, _FIELD.TYPE_MESSAGE
        field.type_name = f".inference.{_path(message)}.{entry.name}"
        return
    if kind.startswith("?"):
        field.oneof_index = 0
    if kind.startswith("*"):
        field.label = _FIELD.LABEL_REPEATED
    kind = kind.lstrip("?*")
    if kind.startswith("."):
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".inference{kind}"
    else:
        field.type = getattr(_FIELD, f"TYPE_{kind.upper()}")


_paths: dict[int, str] = {}
"""The full names of messages that are being described, by identity."""


def _path(message: Any) -> str:
    return _paths[id(message)]


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="glow_open_inference.proto", package="inference", syntax="proto3"
    )
    described: dict[str, Any] = {}
    for path in sorted(_MESSAGES, key=lambda p: p.count(".")):
        outer, _, name = path.rpartition(".")
        message = described[outer].nested_type.add(name=name) if outer else file.message_type.add(name=name)
        described[path] = message
        _paths[id(message)] = path
    for path, fields in _MESSAGES.items():
        if any(kind.startswith("?") for _, kind in fields.values()):
            described[path].oneof_decl.add(name="parameter_choice")
        for number, (name, kind) in fields.items():
            _add_field(described[path], number, name, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
    return {
        path: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"inference.{path}"))
        for path in _MESSAGES
    }


MESSAGES = _messages()
"""The classes of messages by name."""
