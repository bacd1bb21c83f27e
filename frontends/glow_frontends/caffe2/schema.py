"""The part of Caffe2's protobuf schema that nets use, described here so that no Caffe2 is needed.

Only field numbers and types matter for reading files; fields that are not listed are skipped.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_STRING, _BYTES, _INT, _FLOAT, _MESSAGE = (
    _FIELD.TYPE_STRING,
    _FIELD.TYPE_BYTES,
    _FIELD.TYPE_INT64,
    _FIELD.TYPE_FLOAT,
    _FIELD.TYPE_MESSAGE,
)
#: message -> (field, number, type, repeated, message type)
_MESSAGES: dict[str, tuple[tuple[str, int, Any, bool, str], ...]] = {
    "Argument": (
        ("name", 1, _STRING, False, ""),
        ("f", 2, _FLOAT, False, ""),
        ("i", 3, _INT, False, ""),
        ("s", 4, _BYTES, False, ""),
        ("floats", 5, _FLOAT, True, ""),
        ("ints", 6, _INT, True, ""),
        ("strings", 7, _BYTES, True, ""),
    ),
    "OperatorDef": (
        ("input", 1, _STRING, True, ""),
        ("output", 2, _STRING, True, ""),
        ("name", 3, _STRING, False, ""),
        ("type", 4, _STRING, False, ""),
        ("arg", 5, _MESSAGE, True, "Argument"),
        ("engine", 7, _STRING, False, ""),
    ),
    "NetDef": (
        ("name", 1, _STRING, False, ""),
        ("op", 2, _MESSAGE, True, "OperatorDef"),
        ("type", 3, _STRING, False, ""),
        ("arg", 6, _MESSAGE, True, "Argument"),
        ("external_input", 7, _STRING, True, ""),
        ("external_output", 8, _STRING, True, ""),
    ),
}


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="glow_caffe2.proto", package="glow.caffe2", syntax="proto2"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated, inner in fields:
            label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
            descriptor = message.field.add(name=field, number=number, type=kind, label=label)
            if inner:
                descriptor.type_name = f".glow.caffe2.{inner}"
    pool = descriptor_pool.DescriptorPool()
    described = pool.Add(file) or pool.FindFileByName(file.name)
    return {
        name: message_factory.GetMessageClass(described.message_types_by_name[name]) for name in _MESSAGES
    }


_MADE = _classes()
Argument: Any = _MADE["Argument"]
OperatorDef: Any = _MADE["OperatorDef"]
NetDef: Any = _MADE["NetDef"]
